package agent

import (
	"fmt"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/detect"
)

// barriers gives, by its path, what keeps who from each socket.
func barriers(fs []detect.Found, who detect.User) map[string][]detect.Barrier {
	all := map[string][]detect.Barrier{}
	for _, f := range fs {
		for _, s := range f.Sockets {
			if bs := detect.Barriers(s.Path, who); len(bs) > 0 {
				all[s.Path] = bs
			}
		}
	}
	return all
}

// survey says what is to be thought of the daemons that were found, where asked is the daemon that the
// configuration names (empty: there is none), and only are those that auto may choose.
func survey(fs []detect.Found, asked string, only []string, closed map[string][]detect.Barrier, who detect.User) []routers.Finding {
	if asked == "vyos" {
		return surveyVyOS(fs, closed, who)
	}
	candidates := slices.DeleteFunc(slices.Clone(fs), func(f detect.Found) bool { return len(only) > 0 && !slices.Contains(only, f.Daemon) })
	chosen, err := detect.Choose(candidates)
	switch {
	case asked == "auto" && err != nil: // the router's own error tells it
		chosen = detect.Found{}
	case asked == "" && err != nil:
		return append([]routers.Finding{{Severity: routers.Warning, Subject: "auto", Text: err.Error()}}, bystanders(fs, "", closed, who)...)
	case asked != "" && asked != "auto":
		chosen = detect.Found{}
		if at := slices.IndexFunc(fs, func(f detect.Found) bool { return f.Daemon == asked }); at >= 0 {
			chosen = fs[at]
		}
	}
	return append(choice(chosen, reason(asked, only), closed, who), bystanders(fs, chosen.Daemon, closed, who)...)
}

// surveyKept is survey where the running agent drives a daemon that auto could not choose now: another one has come,
// and only the agent still knows which is meant.
func surveyKept(fs []detect.Found, kept string, closed map[string][]detect.Barrier, who detect.User) []routers.Finding {
	var all []routers.Finding
	for _, f := range fs {
		switch {
		case f.Daemon == kept:
			all = append(all, choice(f, "the running agent has chosen it", closed, who)...)
		case f.Running:
			all = append(all, detect.Beside(kept, f))
		}
	}
	return all
}

// surveyVyOS is survey where the daemon is VyOS's FRR, which VyOS configures and starts. Its image has other daemons
// too, which nobody there means to drive.
func surveyVyOS(fs []detect.Found, closed map[string][]detect.Barrier, who detect.User) []routers.Finding {
	at := slices.IndexFunc(fs, func(f detect.Found) bool { return f.Daemon == "frr" })
	if at < 0 {
		return nil
	}
	frr := fs[at]
	frr.Unclear = "" // that it is VyOS's is what was asked for
	found := choice(frr, `daemon = "vyos" in [router], which it is a part of`, closed, who)
	for i, f := range found {
		if !frr.Running || strings.Contains(f.WayOut, "/etc/frr/daemons") {
			found[i].WayOut = "VyOS starts it: see journalctl -u frr"
		}
	}
	return found
}

// reason says why a daemon is driven.
func reason(asked string, only []string) string {
	switch {
	case asked == "":
		return `the only one that runs here: daemon = "auto" would choose it`
	case asked != "auto":
		return fmt.Sprintf("daemon = %q in [router]", asked)
	case len(only) > 0:
		return "the only one that runs here and has this method"
	}
	return "the only one that runs here"
}

// choice says that the daemon is driven, for why, and whether it can be.
func choice(f detect.Found, why string, closed map[string][]detect.Barrier, who detect.User) []routers.Finding {
	if f.Daemon == "" {
		return nil
	}
	if !f.Running {
		return []routers.Finding{{Severity: routers.Failing, Subject: f.Daemon, Text: "does not run, and is to be driven: " + why, WayOut: firstWayOut(f)}}
	}
	found := []routers.Finding{{Subject: f.Daemon, Text: fmt.Sprintf("%s is driven, found by %s: %s", f.Name(), f.By, why)}}
	if f.Unclear != "" {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: f.Daemon, Text: f.Unclear})
	}
	for _, s := range f.Sockets {
		if s.State != detect.Missing {
			found = append(found, socketFinding(s, closed[s.Path], who))
		}
	}
	return found
}

// firstWayOut is what would have the daemon found.
func firstWayOut(f detect.Found) string {
	for _, s := range f.Sockets {
		if s.WayOut != "" {
			return s.WayOut
		}
	}
	return ""
}

// socketFinding judges one socket of the daemon that is driven, for the user that vouch runs as.
func socketFinding(s detect.Socket, closed []detect.Barrier, who detect.User) routers.Finding {
	f := routers.Finding{Subject: s.Path, Text: s.Problem, WayOut: s.WayOut}
	switch {
	case len(closed) > 0:
		texts := make([]string, len(closed))
		for i, b := range closed {
			texts[i] = b.String()
		}
		f.Severity, f.Text = routers.Failing, fmt.Sprintf("%s may not connect: closed by %s", who.Name, strings.Join(texts, " and "))
		f.WayOut = detect.Passage(closed, who)
	case s.State == detect.Answers:
		f.Text = fmt.Sprintf("answers, and %s may connect", who.Name)
	case s.State == detect.Denied:
		f.Severity, f.Text, f.WayOut = routers.Notice, fmt.Sprintf("%s may connect, but not the user who runs this command, so that it was not asked", who.Name), "run vouch doctor as root"
	case s.State == detect.Stale:
		f.Severity = routers.Warning
	default:
		f.Severity = routers.Failing
	}
	return f
}

// bystanders tells of the daemons that are not driven.
func bystanders(fs []detect.Found, chosen string, closed map[string][]detect.Barrier, who detect.User) []routers.Finding {
	var found []routers.Finding
	for _, f := range fs {
		n := routers.Finding{Severity: routers.Notice, Subject: f.Daemon}
		switch {
		case f.Daemon == chosen:
			continue
		case f.Running:
			n.Text = fmt.Sprintf("%s runs too (%s), and is not driven", f.Name(), f.By)
			if bs := closed[f.By]; len(bs) > 0 {
				n.Text += "; " + who.Name + " may not connect to it"
			}
			n.WayOut = fmt.Sprintf("set daemon = %q in [router] if it is the one that is meant", f.Daemon)
		case len(f.Programs) > 0:
			n.Text = "does not run, though it is installed: " + strings.Join(f.Programs, ", ")
		default:
			continue
		}
		found = append(found, n)
	}
	return found
}
