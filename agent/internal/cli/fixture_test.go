package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// late is what a dns check says of a server that is silent.
const late = "timeout after 500ms (sent from 127.0.0.1, 0 of 1 replies)"

// noon is the moment at which the golden files look.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// snapshots are the situations, as seen at now.
var snapshots = map[string]func(now time.Time) *state.Snapshot{
	"up": situation, "down": down, "drained": drained, "drained-down": drainedDown, "diverged": diverged,
	"starting": starting, "router-away": routerAway, "hostile": hostile, "empty": empty, "flapping": flapping,
	"restarted": restarted, "restored": restored, "taken": taken, "degraded": degraded, "degraded-restored": degradedRestored,
	"degrading": degrading, "drifted": drifted, "peers": someLack, "hung": hung, "broken": broken, "unread": unread,
}

func situations() []string { return slices.Sorted(maps.Keys(snapshots)) }

// situation is a node where all is well: one service with two prefixes.
func situation(now time.Time) *state.Snapshot {
	start := now.Add(-3*time.Hour - 12*time.Minute)
	snap := &state.Snapshot{
		Time: now.Add(-200 * time.Millisecond), Version: "1.2.3", Node: "apu01", PID: 4242, Started: start, Ready: true,
		Config:   state.Config{File: "/etc/vouch/vouch.toml", Loaded: start},
		Router:   state.Router{Name: "frr (address on lo, ospf)", Goal: routers.Advertised, OK: true, Since: start, Read: now.Add(-400 * time.Millisecond)},
		Problems: []string{}, Warnings: []string{},
		Services: []state.Service{{
			Name: "resolver", Verdict: health.Up, Since: start.Add(3 * time.Second), Good: 11517, Rise: 3, Fall: 3, Rounds: 11520,
			LastRound: now.Add(-600 * time.Millisecond),
			Checks: []state.Check{
				{Name: "dns", Type: "dns", Target: "udp 127.0.0.1:53 example.com. A", OnFail: "withdraw", Status: checks.OK, Since: start, Last: now.Add(-600 * time.Millisecond), Took: 1234 * time.Microsecond},
				{Name: "route", Type: "route", Target: "default route ipv4 table 254", OnFail: "withdraw", Status: checks.OK, Since: start, Last: now.Add(-600 * time.Millisecond), Took: 81 * time.Microsecond},
				{Name: "tcp", Type: "tcp", Target: "tcp 127.0.0.1:53", OnFail: "warn", Status: checks.OK, Since: start, Last: now.Add(-600 * time.Millisecond), Took: 210 * time.Microsecond},
			},
			Prefixes: []state.Prefix{
				{Prefix: "10.53.53.53/32", Want: routers.Announced, Stage: routers.Advertised, Read: now.Add(-400 * time.Millisecond), Since: start.Add(4 * time.Second)},
				{Prefix: "fd00:53::53/128", Want: routers.Announced, Stage: routers.Advertised, Peers: []routers.Peer{{Name: "10.0.1.1", Stage: routers.Advertised}, {Name: "10.0.2.1", Stage: routers.Advertised}}, Read: now.Add(-400 * time.Millisecond), Since: start.Add(4 * time.Second)},
			},
		}},
	}
	decided(&snap.Services[0], decide.Input{}, now)
	return snap
}

// decided puts in what package decide says of the service, given what the snapshot does not tell.
func decided(v *state.Service, in decide.Input, now time.Time) {
	in.Drain, in.Rules = v.Drain, health.Settings{Rise: v.Rise, Fall: v.Fall}
	in.Hard.State = health.State{Verdict: v.Verdict, Since: v.Since, Good: v.Good, Bad: v.Bad, HoldUntil: v.HoldUntil}
	if v.Verdict == health.Degraded {
		in.Hard.State.Verdict = health.Up
	}
	if f := v.Soft; f != nil {
		in.Soft.State = health.State{Verdict: f.Verdict, Since: f.Since, Good: f.Good, Bad: f.Bad, HoldUntil: f.HoldUntil}
	}
	sides := map[string]*decide.Side{"withdraw": &in.Hard, "degrade": &in.Soft, "warn": {}}
	for i := range v.Checks {
		switch k, side := &v.Checks[i], sides[v.Checks[i].OnFail]; k.Status {
		case checks.Failed:
			side.Failing = append(side.Failing, k.Name+" failed: "+k.Text())
		case checks.Unknown:
			side.Unknown = append(side.Unknown, k.Name+" unknown: "+k.Text())
		}
	}
	v.Decision = decide.Decide(in, now)
}

func down(now time.Time) *state.Snapshot {
	s := situation(now)
	v, at := &s.Services[0], now.Add(-12*time.Second)
	v.Verdict, v.Since, v.Good, v.Bad, v.HoldUntil = health.Down, at, 0, 62, now.Add(48*time.Second)
	k := &v.Checks[0]
	k.Status, k.Reason, k.Detail, k.Since, k.Took = checks.Failed, checks.ReasonTimeout, late, at, 500*time.Millisecond
	decided(v, decide.Input{}, now)
	withdraw(v, at)
	return s
}

func withdraw(v *state.Service, at time.Time) {
	for i := range v.Prefixes {
		p := &v.Prefixes[i]
		p.Want, p.Stage, p.Degraded, p.Since, p.Peers = routers.Withdrawn, routers.Absent, false, at.Add(20*time.Millisecond), nil
	}
}

func drained(now time.Time) *state.Snapshot {
	s := situation(now)
	drain(&s.Services[0], now)
	return s
}

func drain(v *state.Service, now time.Time) {
	at := now.Add(-90 * time.Second)
	v.Drain = &decide.Drain{Since: at, Until: now.Add(28*time.Minute + 30*time.Second), By: "alice", Reason: "kernel upgrade"}
	decided(v, decide.Input{}, now)
	withdraw(v, at)
}

func drainedDown(now time.Time) *state.Snapshot {
	s := down(now)
	drain(&s.Services[0], now)
	s.Services[0].Drain.Until = time.Time{}
	decided(&s.Services[0], decide.Input{}, now)
	return s
}

func diverged(now time.Time) *state.Snapshot {
	s := situation(now)
	p := &s.Services[0].Prefixes[0]
	p.Stage, p.Since, p.Diverged, p.Doing, p.Attempts = routers.Configured, now.Add(-4*time.Second), now.Add(-4*time.Second), "announcing", 3
	p.Next, p.Error, p.Detail = now.Add(800*time.Millisecond), "ospfd: unavailable: connection refused", "not in the router LSA"
	s.Config.Error = "/etc/vouch/vouch.toml:12:8: service.resolver.fall: must be at least 1 (got 0), leave it out for 3\n/etc/vouch/vouch.toml:14:1: service.resolver.rize: unknown key, did you mean rise?"
	s.Problems = []string{"state file /run/vouch/state.json: no space left on device"}
	return s
}

func starting(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Ready, s.Started, s.Config.Loaded = false, now.Add(-300*time.Millisecond), now.Add(-300*time.Millisecond)
	s.Router = state.Router{Name: s.Router.Name, Goal: routers.Advertised}
	v := &s.Services[0]
	*v = state.Service{Name: v.Name, Rise: 3, Fall: 3, Good: 1, Rounds: 1, LastRound: now.Add(-100 * time.Millisecond), Checks: v.Checks, Prefixes: v.Prefixes}
	v.Checks[1] = state.Check{Name: "route", Type: "route", Target: "default route ipv4 table 254", OnFail: "withdraw", Reason: checks.ReasonPending}
	for i := range v.Prefixes {
		v.Prefixes[i] = state.Prefix{Prefix: v.Prefixes[i].Prefix, Want: routers.Withdrawn}
	}
	decided(v, decide.Input{Unrisen: true}, now)
	return s
}

// restarted has no verdict, and leaves things as they are.
func restarted(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Started = now.Add(-time.Second)
	v := &s.Services[0]
	v.Verdict, v.Since, v.Good, v.Rounds = health.Unknown, time.Time{}, 1, 1
	v.Prefixes[0].Want, v.Prefixes[1].Want = routers.Keep, routers.Keep
	v.Prefixes[0].Stage = routers.Absent
	decided(v, decide.Input{}, now)
	return s
}

// restored is up by a verdict that is not confirmed; what is absent is not announced by that.
func restored(now time.Time) *state.Snapshot {
	s := situation(now)
	p := &s.Services[0].Prefixes[0]
	p.Want, p.Stage = routers.Keep, routers.Absent
	decided(&s.Services[0], decide.Input{Unconfirmed: true}, now)
	return s
}

// taken is up while somebody took its prefix away, and has no route.
func taken(now time.Time) *state.Snapshot {
	s := situation(now)
	v := &s.Services[0]
	p, k := &v.Prefixes[0], &v.Checks[1]
	p.Stage, p.Since, p.Diverged, p.Doing, p.Attempts = routers.Absent, now.Add(-time.Second), now.Add(-time.Second), "announcing", 1
	v.Good, v.Bad, v.Fall = 0, 1, 2
	k.Status, k.Reason, k.Detail, k.Since = checks.Failed, checks.ReasonAbsent, "no default route for IPv4 in table main (254)", now.Add(-time.Second)
	decided(v, decide.Input{}, now)
	return s
}

func routerAway(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Router.OK, s.Router.Since, s.Router.Read = false, now.Add(-3*time.Minute), now.Add(-3*time.Minute-2*time.Second)
	s.Router.Error = "frr: unavailable: dial unix /run/frr/ospfd.vty: connect: connection refused"
	for i := range s.Services[0].Prefixes {
		p := &s.Services[0].Prefixes[i]
		p.Stage, p.Since, p.Peers, p.Detail = routers.Unknown, s.Router.Since, nil, "ospfd does not answer"
	}
	return s
}

// flapping is up with a bad round, and with a check that only warns failing.
func flapping(now time.Time) *state.Snapshot {
	s := situation(now)
	v := &s.Services[0]
	v.Good, v.Bad = 0, 2
	v.Checks[0].Status, v.Checks[0].Reason, v.Checks[0].Detail, v.Checks[0].Since = checks.Failed, checks.ReasonStatus, `rcode REFUSED is not among those accepted, ["NOERROR"]`, now.Add(-400*time.Millisecond)
	v.Checks[2].Status, v.Checks[2].Reason, v.Checks[2].Detail, v.Checks[2].Since = checks.Failed, checks.ReasonRefused, "connect: connection refused", now.Add(-50*time.Hour)
	decided(v, decide.Input{}, now)
	return s
}

// withSoft gives the service a check that can only degrade it, and that is well.
func withSoft(now time.Time) (*state.Snapshot, *state.Service) {
	s := situation(now)
	v := &s.Services[0]
	v.Checks = append(v.Checks, state.Check{Name: "upstream", Type: "dns", Target: "udp 192.0.2.1:53 example.com. A", OnFail: "degrade", Status: checks.OK,
		Since: v.Since, Last: now.Add(-600 * time.Millisecond), Took: 4321 * time.Microsecond})
	v.Soft = &state.Soft{Verdict: health.Up, Since: v.Since, Good: 11517}
	decided(v, decide.Input{}, now)
	return s, v
}

// degraded is up but for a check that degrades it, and is announced so.
func degraded(now time.Time) *state.Snapshot {
	s, v := withSoft(now)
	at, k := now.Add(-40*time.Second), &v.Checks[3]
	k.Status, k.Reason, k.Detail, k.Since = checks.Failed, checks.ReasonTimeout, "timeout after 500ms (sent from 192.0.2.7, 0 of 1 replies)", at
	v.Verdict, v.Since = health.Degraded, at
	*v.Soft = state.Soft{Verdict: health.Down, Since: at, Bad: 200, HoldUntil: now.Add(20 * time.Second)}
	for i := range v.Prefixes {
		p := &v.Prefixes[i]
		p.Want, p.Degraded, p.Since = routers.Degraded, true, at.Add(15*time.Millisecond)
	}
	decided(v, decide.Input{}, now)
	return s
}

// degradedRestored is degraded by a verdict that is not confirmed; what is absent is not announced by that.
func degradedRestored(now time.Time) *state.Snapshot {
	s := degraded(now)
	v := &s.Services[0]
	p := &v.Prefixes[0]
	p.Want, p.Stage, p.Degraded = routers.Keep, routers.Absent, false
	v.Soft.Good, v.Soft.Bad, v.Soft.HoldUntil = 1, 0, time.Time{}
	v.Checks[3].Status, v.Checks[3].Reason, v.Checks[3].Detail = checks.OK, "", ""
	decided(v, decide.Input{Unconfirmed: true}, now)
	return s
}

// degrading is still up, with a bad round of the checks that degrade it.
func degrading(now time.Time) *state.Snapshot {
	s, v := withSoft(now)
	k := &v.Checks[3]
	k.Status, k.Reason, k.Detail, k.Since = checks.Failed, checks.ReasonTimeout, "timeout after 500ms (sent from 192.0.2.7, 0 of 1 replies)", now.Add(-time.Second)
	v.Soft.Good, v.Soft.Bad = 0, 1
	decided(v, decide.Input{}, now)
	return s
}

// drifted is degraded, and somebody announces a prefix of it as usual.
func drifted(now time.Time) *state.Snapshot {
	s := degraded(now)
	p := &s.Services[0].Prefixes[0]
	p.Degraded, p.Since, p.Diverged, p.Doing, p.Attempts = false, now.Add(-2*time.Second), now.Add(-2*time.Second), "degrading", 1
	return s
}

// hung is down, and its daemons do not answer, which comes up in every text.
func hung(now time.Time) *state.Snapshot {
	s := down(now)
	const why = "bird: /run/bird/bird.ctl does not answer within 1s"
	s.Router.OK, s.Router.Since, s.Router.Error = false, now.Add(-12*time.Second), why+"; bird6: /run/bird/bird6.ctl does not answer within 1s"
	for i := range s.Services[0].Prefixes {
		p := &s.Services[0].Prefixes[i]
		p.Stage, p.Since, p.Diverged, p.Doing, p.Attempts = routers.Unknown, now.Add(-12*time.Second), now.Add(-12*time.Second), "withdrawing", 6
		p.Error, p.Detail = "bird: write of /var/lib/vouch/vouch.conf: "+why+"; "+why, why
	}
	v := s.Services[0]
	v.Name, v.Prefixes = "web", slices.Clone(v.Prefixes[:1])
	v.Prefixes[0].Prefix, v.Prefixes[0].Error = "10.53.53.80/32", why
	s.Services = append(s.Services, v)
	return s
}

// broken is withdrawn, and would not be any more after a restart of the daemon.
func broken(now time.Time) *state.Snapshot {
	s := down(now)
	p := &s.Services[0].Prefixes[0]
	p.Broken, p.Diverged, p.Doing, p.Detail = true, now.Add(-time.Second), "withdrawing", "/var/lib/vouch/vouch.conf says RESOLVER_OFF = 0"
	return s
}

// unread is well as far as its commands say, which nothing reads back.
func unread(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Router.Name, s.Router.Goal = "program (/usr/local/sbin/anycast, not read back)", routers.Configured
	for i := range s.Services[0].Prefixes {
		s.Services[0].Prefixes[i].Stage, s.Services[0].Prefixes[i].Peers = routers.Configured, nil
	}
	return s
}

// someLack is up, with a prefix that not every peer has, and a warning.
func someLack(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Warnings = []string{"/etc/frr/frr.conf: announces 10.53.53.53/32 at boot; remove it there"}
	s.Services[0].Prefixes[1].Peers = []routers.Peer{{Name: "core1", Stage: routers.Advertised}, {Name: "core2", Stage: routers.Selected, Detail: "not established"},
		{Name: "core3", Stage: routers.Selected}, {Name: "core4", Stage: routers.Selected, Detail: "not established"}}
	return s
}

// hostile holds texts from outside that try to rule the terminal.
func hostile(now time.Time) *state.Snapshot {
	s := down(now)
	s.Services[0].Checks[0].Detail = "evil \x1b[2J\r\nresolver  up\x00 \xff"
	s.Services[0].Prefixes[0].Detail = "\x1b]0;title\x07"
	drain(&s.Services[0], now)
	s.Services[0].Drain.Reason = "two\nlines"
	decided(&s.Services[0], decide.Input{}, now)
	s.Router.OK, s.Router.Error = false, "garbage \x1b[31m"
	return s
}

func empty(now time.Time) *state.Snapshot {
	s := situation(now)
	s.Services = nil
	return s
}

// events are of all levels, over an hour.
func events(now time.Time) []state.Event {
	return []state.Event{
		{Time: now.Add(-time.Hour), Level: "info", Kind: state.KindStart, Text: "vouch 1.2.3 starts on apu01"},
		{Time: now.Add(-time.Minute), Level: "warn", Kind: state.KindCheck, Service: "resolver", Check: "dns", Reason: "timeout", Text: "failed: dns udp 127.0.0.1:53 example.com. A: " + late},
		{Time: now.Add(-59 * time.Second), Level: "info", Kind: state.KindStage, Service: "resolver", Prefix: "10.53.53.53/32", Text: "absent (was advertised)"},
		{Time: now.Add(-time.Second), Level: "error", Kind: state.KindRouter, Text: "frr cannot be read:\n\x1b[31mrefused"},
	}
}

// reports are what a check can come to.
var reports = map[string]func() *CheckReport{
	"healthy": func() *CheckReport { return reportOf(situation(noon), health.Good) },
	"unhealthy": func() *CheckReport {
		r := reportOf(down(noon), health.Bad)
		r.Services[0].Checks[0].Detail = "a | in the text"
		return r
	},
	"degraded": func() *CheckReport {
		r := reportOf(degraded(noon), health.Good)
		r.Services[0].Soft = health.Bad
		return r
	},
	"soft-undecided": func() *CheckReport {
		r := reportOf(degrading(noon), health.Good)
		k := &r.Services[0].Checks[3]
		k.Status, k.Reason, k.Detail = checks.Unknown, checks.ReasonUnknown, "cut short"
		r.Services[0].Soft = health.Undecided
		return r
	},
	"only":         func() *CheckReport { return onlyOf(tracedOf(down(noon))) },
	"only-well":    func() *CheckReport { return onlyOf(reportOf(situation(noon), health.Good)) },
	"traced":       func() *CheckReport { return tracedOf(situation(noon)) },
	"undecided":    func() *CheckReport { return reportOf(starting(noon), health.Undecided) },
	"router-error": func() *CheckReport { return reportOf(routerAway(noon), health.Good) },
	"several": func() *CheckReport {
		r := reportOf(down(noon), health.Bad)
		for i := range 4 {
			s := reportOf(situation(noon), health.Good).Services[0]
			s.Name, s.Prefixes = fmt.Sprintf("web%d", i), s.Prefixes[:1]
			r.Services = append(r.Services, s)
		}
		return r
	},
}

func reportOf(s *state.Snapshot, o health.Outcome) *CheckReport {
	v := s.Services[0]
	out := CheckedService{Name: v.Name, Outcome: o, Soft: health.Good, Prefixes: v.Prefixes}
	for i := range out.Prefixes {
		out.Prefixes[i].Want = routers.Keep
	}
	for _, k := range v.Checks {
		out.Checks = append(out.Checks, CheckedCheck{Check: k, Timeout: 500 * time.Millisecond})
	}
	return &CheckReport{Time: noon, Node: s.Node, File: s.Config.File, Router: s.Router, Services: []CheckedService{out}}
}

// onlyOf is a report of the first two checks alone.
func onlyOf(r *CheckReport) *CheckReport {
	s := &r.Services[0]
	r.Only, r.Router, s.Prefixes, s.Checks = true, state.Router{}, nil, s.Checks[:2]
	if s.Checks[0].Status != checks.OK {
		s.Outcome = health.Bad
	}
	return r
}

// tracedOf shows what was sent and what came, from a target that tries to rule the terminal and to look like
// performance data.
func tracedOf(s *state.Snapshot) *CheckReport {
	r := reportOf(s, health.Good)
	r.Services[0].Checks[0].Trace = []TraceLine{
		{200 * time.Microsecond, checks.Note, "from 127.0.0.1"},
		{300 * time.Microsecond, checks.Sent, ";; QUESTION\n;example.com.  IN  A"},
		{1100 * time.Microsecond, checks.Got, "evil \x1b[2J\r | x=1\n\nVOUCH OK"},
		{500 * time.Millisecond, checks.Note, "an answer to another question"},
	}
	r.Services[0].Checks[1].Trace = []TraceLine{}
	return r
}
