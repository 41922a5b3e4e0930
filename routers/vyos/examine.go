package vyos

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"vouch/routers"
)

// Examine says what in VyOS and its FRR would keep the prefixes from being announced or withdrawn, what would
// announce them at a boot, and what of this process, or of vouch.service, would make a commit dangerous. It changes
// nothing and opens no session.
func (r *Router) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	found := []routers.Finding{examineRelease(r.system.release())}
	if r.options.Method == MethodStatic {
		found = append(found, r.examineCommits()...)
		found = append(found, r.examineNodes(ctx, ps)...)
	} else {
		found = append(found, r.examineOther(ctx, ps)...)
	}
	found = append(found, r.system.examineLife(r.system.unit(ctx), r.options.Method)...)
	found = append(found, r.system.examineSaved(ps)...)
	found = append(found, examineDelivery(ctx, ps)...)
	for _, f := range r.source.Examine(ctx, ps) {
		found = append(found, inVyOS(f, r.options))
	}
	return found
}

func examineRelease(version string) routers.Finding {
	f := routers.Finding{Subject: "vyos " + version, Text: "this is VyOS"}
	switch {
	case version == "":
		return routers.Finding{Severity: routers.Warning, Subject: "vyos", Text: "there is no version of it to be found: is this VyOS?", WayOut: "name the daemon of this node in [router] daemon"}
	case !strings.HasPrefix(version, "1.3") && !strings.HasPrefix(version, "1.4") && !strings.HasPrefix(version, "1.5"):
		f.Severity, f.Text = routers.Notice, "1.3, 1.4 and 1.5 are the releases that this was made for"
	}
	return f
}

// examineCommits looks at what a commit depends on.
func (r *Router) examineCommits() []routers.Finding {
	s := r.system
	var found []routers.Finding
	if _, err := s.readyForAgent(); err != nil {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: "commit", Text: err.Error()})
	} else {
		found = append(found, routers.Finding{Subject: "commit", Text: "the boot is done, " + s.path("dev/fuse") + " is there, and group " + groupName + " too"})
	}
	if why := s.unsettled(); why != "" {
		found = append(found, routers.Finding{Severity: routers.Warning, Subject: "commit-confirm", Text: why + "; until then nothing new is announced", WayOut: "run `confirm` in configuration mode"})
	}
	if pid, err := s.holder(); err == nil && pid != 0 {
		found = append(found, routers.Finding{Severity: routers.Notice, Subject: s.path(lockFile), Text: "somebody commits just now (" + nameOf(pid) + ")"})
	}
	if r.options.Save {
		found = append(found, routers.Finding{Severity: routers.Warning, Subject: "save", Text: "the whole configuration is saved after each commit: what others have not saved goes along, and at a boot the prefixes are announced whether their service answers or not", WayOut: "leave save out of [router]"})
	}
	found = append(found, s.examineSessions()...)
	return append(found, s.examineOwner()...)
}

// readyForAgent is ready as the agent finds it, whose rights its process and its unit tell; without an agent it is this
// process that is to be ready.
func (s system) readyForAgent() (group uint32, err error) {
	if s.agent() == 0 {
		return s.ready()
	}
	return s.view().whole()
}

// examineSessions finds sessions of which nobody is left.
func (s system) examineSessions() []routers.Finding {
	dead := s.dead()
	if len(dead) == 0 {
		return nil
	}
	return []routers.Finding{{Severity: routers.Notice, Subject: s.path(sessionsDir), Text: "configuration sessions of processes that are gone: " + strings.Join(dead, ", "),
		WayOut: "umount new_config_N there, if it is mounted, and remove new_config_N, changes_only_N and tmp_N"}}
}

// examineOwner looks whether the running configuration belongs to those who may configure. A commit of root without
// the group was seen to take it from them.
func (s system) examineOwner() []routers.Finding {
	group, err := s.group()
	if err != nil {
		return nil
	}
	for _, dir := range []string{activeDir, activeDir + "/protocols", activeDir + "/protocols/static"} {
		info, err := os.Stat(s.path(dir))
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Gid != group {
			return []routers.Finding{{Severity: routers.Failing, Subject: s.path(dir), Text: "does not belong to group " + groupName + ", so that nobody but root can configure",
				WayOut: fmt.Sprintf("chgrp -R %s %s", groupName, s.path(activeDir))}}
		}
	}
	return nil
}

// examineNodes looks at the prefixes in the running configuration.
func (r *Router) examineNodes(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	if r.options.Distance == 255 {
		return []routers.Finding{{Severity: routers.Failing, Subject: "distance", Text: "a route of distance 255 is never taken", WayOut: "set distance in [router] to less, or leave it out"}}
	}
	a, err := r.system.readActive(ctx, ps, r.options.leaves())
	if err != nil {
		return []routers.Finding{{Severity: routers.Failing, Subject: "vyos", Text: "the running configuration cannot be read: " + err.Error()}}
	}
	var found []routers.Finding
	for _, p := range ps {
		n, subject := a.nodes[p], fmt.Sprintf("protocols static %s %s", routeNode(p), p)
		switch {
		case n.strange:
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: subject, Text: "is not vouch's, for its " + strings.Join(n.others, ", ") + ": a withdraw takes it out of FRR alone, where VyOS's next commit may bring it back, and it is not announced again",
				WayOut: "remove what is not vouch's, or set distance in [router], or tag in [router.degraded], to it"})
		case n.there && !n.ours():
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: subject, Text: "has children that are not vouch's: " + strings.Join(n.others, ", ") + "; it is withdrawn without them, and not announced again",
				WayOut: "remove them, or use method kernel"})
		case n.blackhole && n.distance != r.options.Distance:
			found = append(found, routers.Finding{Severity: routers.Notice, Subject: subject, Text: fmt.Sprintf("has VyOS's own distance in place of %d; it is left so until it is announced anew", r.options.Distance)})
		}
	}
	return found
}

// examineSaved warns of prefixes that VyOS would announce when it boots, before anybody knows whether their service
// answers.
func (s system) examineSaved(ps []netip.Prefix) []routers.Finding {
	text, err := os.ReadFile(s.path(savedConfig))
	if err != nil {
		return []routers.Finding{{Severity: routers.Notice, Subject: s.path(savedConfig), Text: "cannot be read, so that nobody knows what it announces at a boot: " + err.Error()}}
	}
	var found []routers.Finding
	for _, p := range savedBlackholes(string(text)) {
		if slices.Contains(ps, p) {
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: s.path(savedConfig), Text: fmt.Sprintf("announces %s when VyOS boots, whether its service answers or not: somebody saved while it was announced", p),
				WayOut: fmt.Sprintf("while it is withdrawn, run `save`; or `delete protocols static %s %s`, commit and save", routeNode(p), p)})
		}
	}
	if len(found) == 0 {
		found = append(found, routers.Finding{Subject: s.path(savedConfig), Text: "announces no managed prefix when VyOS boots"})
	}
	return found
}

// savedBlackholes gives the prefixes that a saved configuration has static blackhole routes for.
func savedBlackholes(text string) []netip.Prefix {
	var found []netip.Prefix
	var stack []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		path := append(stack[:len(stack):len(stack)], strings.TrimSpace(strings.TrimSuffix(line, "{")))
		if len(path) == 4 && path[0] == "protocols" && path[1] == "static" && path[3] == "blackhole" {
			words := strings.Fields(path[2])
			if len(words) == 2 && (words[0] == "route" || words[0] == "route6") {
				if p, err := netip.ParsePrefix(strings.Trim(words[1], `"'`)); err == nil {
					found = append(found, p)
				}
			}
		}
		switch {
		case strings.HasSuffix(line, "{"):
			stack = path
		case line == "}" && len(stack) > 0:
			stack = stack[:len(stack)-1]
		}
	}
	return found
}
