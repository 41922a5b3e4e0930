package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/detect"
)

const (
	// lookPatience bounds the search for daemons, of which any may hang.
	lookPatience = 5 * time.Second
	// checkupPatience bounds what the driver looks at.
	checkupPatience = 15 * time.Second
)

// doctor looks at the daemons, the driver and the managed prefixes. It changes nothing, and runs beside a
// running agent.
func doctor(ctx context.Context, o cli.DoctorOptions) *cli.DoctorReport {
	who, from := whoRuns(o)
	r := &cli.DoctorReport{Time: time.Now(), File: o.ConfigPath, User: who.Name, UserFrom: from}
	rc, asked := config.Router{}, ""
	if o.Config != nil {
		rc, asked = o.Config.Router, o.Config.Router.Daemon
	} else if o.Problem != nil {
		r.Problems = strings.Split(o.Problem.Error(), "\n")
	}
	r.Daemons = lookFor(ctx, rc)
	kept := keptDaemon(rc, r.Daemons, o.Agent)
	if closed := barriers(r.Daemons, who); kept != "" {
		r.Findings = surveyKept(r.Daemons, kept, closed, who)
	} else {
		r.Findings = survey(r.Daemons, asked, detectOptions(rc).Only, closed, who)
	}
	if o.Config != nil {
		r.Findings = append(r.Findings, misplaced(ctx, rc, r.Daemons)...)
		examine(ctx, o, kept, r)
		r.Findings = append(r.Findings, files(rc, who)...)
		r.Findings = append(r.Findings, powers(rc, who)...)
		r.DropEcho()
	}
	r.Findings = append(r.Findings, agentSays(o, r.Findings)...)
	r.Sort()
	return r
}

// misplaced tells of a daemon that does not answer where the configuration has it, and does at a usual place.
func misplaced(ctx context.Context, rc config.Router, fs []detect.Found) []routers.Finding {
	set := map[string]string{"bird": cmp.Or(rc.Socket, rc.Socket6), "frr": rc.SocketDir}
	usual := rc
	usual.Socket, usual.Socket6, usual.SocketDir = "", "", ""
	var all []routers.Finding
	for _, f := range fs {
		if f.Running || set[f.Daemon] == "" || rc.Daemon != f.Daemon && rc.Daemon != "auto" {
			continue
		}
		for _, u := range lookFor(ctx, usual) {
			if u.Daemon == f.Daemon && u.Running {
				all = append(all, routers.Finding{Severity: routers.Notice, Subject: u.By,
					Text:   fmt.Sprintf("%s answers there, and not at %s as [router] has it", u.Name(), set[f.Daemon]),
					WayOut: "correct " + map[string]string{"bird": "socket", "frr": "socket_dir"}[f.Daemon] + " in [router], or take it out: the usual places are found"})
			}
		}
	}
	return all
}

// lookFor looks for every daemon, also for those that are not to be driven; on VyOS, whose image has all, for its own.
func lookFor(ctx context.Context, rc config.Router) []detect.Found {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	o := detectOptions(rc)
	o.Only = nil
	return slices.DeleteFunc(detect.Look(ctx, o), func(f detect.Found) bool { return rc.Daemon == "vyos" && f.Daemon != "frr" })
}

// keptDaemon names the daemon that the running agent drives though auto could not choose it now, as another one has
// come; mostly none.
func keptDaemon(rc config.Router, fs []detect.Found, snap *state.Snapshot) string {
	if rc.Daemon != "auto" || detectOptions(rc).Only != nil {
		return ""
	}
	var running []string
	for _, f := range fs {
		if f.Running {
			running = append(running, f.Daemon)
		}
	}
	if len(running) < 2 {
		return ""
	}
	return driven(snap, running...)
}

// openRouter makes the driver; kept is the daemon that auto is to mean.
func openRouter(rc config.Router, kept string) (routers.Router, error) {
	if kept == "" {
		return NewRouter(rc)
	}
	o := detectOptions(rc)
	o.Only = []string{kept}
	return detect.New(o), nil
}

// examine has the driver read the managed prefixes and look for what would get into its way.
func examine(ctx context.Context, o cli.DoctorOptions, kept string, r *cli.DoctorReport) {
	cfg := o.Config
	router, err := openRouter(cfg.Router, kept)
	if err != nil {
		r.Router = &cli.DoctorRouter{Error: err.Error()}
		return
	}
	defer func() { _ = router.Close() }()
	labels := cfg.Labels()
	if l, ok := router.(routers.Labeled); ok {
		l.SetLabels(labels)
	}
	var ps []netip.Prefix
	for _, s := range cfg.Services {
		ps = append(ps, s.Prefixes...)
	}
	reading, cancel := context.WithTimeout(ctx, max(cfg.Router.Deadline, cfg.Router.Timeout))
	defer cancel()
	os, err := router.Observe(reading, ps)
	r.Router = &cli.DoctorRouter{Name: router.String(), OK: err == nil}
	if err != nil {
		r.Router.Error = state.Clean(err.Error())
		r.Findings = append(r.Findings, routers.Finding{Severity: routers.Failing, Subject: "router", Text: err.Error()})
	}
	if cfg.Router.Daemon == "program" && len(cfg.Router.Read) == 0 && o.Agent != nil {
		os = asTheAgent(o.Agent, os)
	}
	for _, ob := range os {
		r.Prefixes = append(r.Prefixes, cli.DoctorPrefix{Prefix: ob.Prefix.String(), Service: labels[ob.Prefix].Service, Stage: ob.Stage,
			Degraded: ob.Degraded, Peers: ob.Peers, Detail: ob.Detail})
		if f, ok := judge(ob, router.Goal()); ok && !(ob.Stage == routers.Unknown && r.Router.Says(ob.Detail)) {
			r.Findings = append(r.Findings, f)
		}
	}
	// Where auto has chosen none, the examination would only tell the error once more.
	if e, ok := router.(routers.Examiner); ok && (r.Router.OK || cfg.Router.Daemon != "auto") {
		looking, cancel := context.WithTimeout(ctx, checkupPatience)
		defer cancel()
		r.Findings = append(r.Findings, e.Examine(looking, ps)...)
	}
}

// judge says what a reading means that is not merely a stage on the way.
func judge(o routers.Observation, goal routers.Stage) (routers.Finding, bool) {
	f := routers.Finding{Subject: o.Prefix.String(), Text: o.Detail}
	switch reached := o.Reached(); {
	case o.Stage == routers.Unknown:
		f.Severity, f.Text = routers.Failing, "cannot be read: "+o.Detail
	case o.Broken && o.Stage == routers.Absent: // it comes with the first change, and the driver tells of the file
		return f, false
	case o.Broken && goal <= routers.Configured:
		f.Severity = routers.Notice
	case o.Broken:
		f.Severity, f.Text = routers.Warning, fmt.Sprintf("%s, but not as it ought to be: %s", o.Stage, o.Detail)
	case o.Stage == routers.Advertised && len(reached) > 0:
		f.Text = "advertised to " + strings.Join(reached, ", ")
	default:
		return f, false
	}
	return f, true
}
