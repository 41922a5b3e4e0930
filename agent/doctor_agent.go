package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// lastingly is how long a prefix must have been other than it ought to be for that to be more than a change under way.
const lastingly = 10 * time.Second

// agentSays is what the running agent itself makes of its state, but for what is found already: it may see what whoever
// runs the doctor does not, such as the files as its unit's sandbox has them.
func agentSays(o cli.DoctorOptions, found []routers.Finding) []routers.Finding {
	if o.Agent == nil {
		return unheard(o.AgentError)
	}
	told := map[string]bool{}
	for _, f := range found {
		told[findingText(f)] = true
	}
	var all []routers.Finding
	add := func(s routers.Severity, text string) {
		if !told[text] {
			told[text] = true
			all = append(all, routers.Finding{Severity: s, Subject: "the agent", Text: text, WayOut: "see vouch status and vouch events"})
		}
	}
	for _, text := range o.Agent.Problems {
		add(routers.Failing, text)
	}
	for _, text := range o.Agent.Warnings {
		add(routers.Warning, text)
	}
	if err := o.Agent.Config.Error; err != "" {
		add(routers.Warning, "goes on with the configuration of before, as the last reload was refused: "+err)
	}
	for _, s := range o.Agent.Services {
		for _, p := range s.Prefixes {
			if f, ok := divergence(p, o.Agent.Time); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// unheard says why the agent could not be asked, where there is one.
func unheard(err error) []routers.Finding {
	if err == nil || errors.Is(err, control.ErrNotRunning) {
		return nil
	}
	return []routers.Finding{{Severity: routers.Notice, Subject: "the agent", Text: "could not be asked: " + err.Error(), WayOut: "run vouch doctor as root"}}
}

// divergence says that the agent does not get a prefix to where it ought to be.
func divergence(p state.Prefix, now time.Time) (routers.Finding, bool) {
	if p.Diverged.IsZero() || now.Sub(p.Diverged) < lastingly {
		return routers.Finding{}, false
	}
	text := fmt.Sprintf("the agent has been trying for %s: it ought to be %s and is %s", now.Sub(p.Diverged).Round(time.Second), p.Want, p.Stage)
	for _, why := range []string{p.Detail, p.Error} {
		if why != "" && !strings.Contains(text, why) {
			text += "; " + why
		}
	}
	return routers.Finding{Severity: routers.Failing, Subject: p.Prefix, Text: text, WayOut: "see vouch explain, and what else is found here"}, true
}

// driven names the daemon of the daemons given that the running agent drives, empty where that cannot be told.
func driven(snap *state.Snapshot, daemons ...string) string {
	if snap == nil {
		return ""
	}
	i := slices.IndexFunc(daemons, func(d string) bool { return strings.HasPrefix(snap.Router.Name, d+" ") })
	if i < 0 {
		return ""
	}
	return daemons[i]
}

// asTheAgent gives what the agent last read, which alone knows what became of commands that it ran.
func asTheAgent(snap *state.Snapshot, os []routers.Observation) []routers.Observation {
	read := map[string]state.Prefix{}
	for _, s := range snap.Services {
		for _, p := range s.Prefixes {
			read[p.Prefix] = p
		}
	}
	os = slices.Clone(os)
	for i, o := range os {
		if p, ok := read[o.Prefix.String()]; ok {
			os[i] = observed(o.Prefix, p)
		}
	}
	return os
}

// observed is a prefix of a snapshot as it was read.
func observed(prefix netip.Prefix, p state.Prefix) routers.Observation {
	return routers.Observation{Prefix: prefix, Stage: p.Stage, Degraded: p.Degraded, Broken: p.Broken, Peers: p.Peers, Detail: p.Detail}
}
