package agent

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// A service is the core's record of one service.
type service struct {
	name       string
	cfg        config.Service
	generation int            // grows with each new set of checks; rounds of an older one are ignored
	leaving    []netip.Prefix // no longer configured; withdrawn until read absent
	removed    bool           // no longer configured at all
	stopping   bool           // the agent stops and this service withdraws

	unrisen     bool // no verdict yet since the boot
	unconfirmed bool // up, but not confirmed by rounds since vouch was started or the service resumed
	confirms    int  // good rounds since then, in a row, that counted

	st     health.State
	rounds uint64
	checks []state.Check
	drain  *decide.Drain

	decision decide.Decision
}

func newService(cfg config.Service) *service {
	return &service{name: cfg.Name, cfg: cfg, checks: checkRecords(cfg)}
}

// checkRecords gives an empty record for each check of cfg.
func checkRecords(cfg config.Service) []state.Check {
	cs := make([]state.Check, len(cfg.Checks))
	for i, cc := range cfg.Checks {
		cs[i] = state.Check{Name: cc.Name, Type: cc.Type, OnFail: cc.OnFail, Group: cc.Group}
	}
	return cs
}

// configure gives the service another configuration. The records of checks that probe the same thing
// as before go on.
func (s *service) configure(cfg config.Service) {
	records := checkRecords(cfg)
	for i, cc := range cfg.Checks {
		for j, old := range s.cfg.Checks {
			if old.Name == cc.Name && reflect.DeepEqual(old.Spec, cc.Spec) {
				records[i] = s.checks[j]
				records[i].OnFail, records[i].Group = cc.OnFail, cc.Group
			}
		}
	}
	s.cfg, s.checks = cfg, records
}

// managed gives all prefixes that are this service's, those that are leaving too.
func (s *service) managed() []netip.Prefix {
	if s.removed {
		return s.leaving
	}
	return slices.Concat(s.cfg.Prefixes, s.leaving)
}

// wants says what one prefix ought to be, given what it was last read and wanted to be. An up verdict
// that is not confirmed keeps what is announced, but announces nothing anew: the service may have died
// while vouch was away, or while an operator worked on it. A withdraw that was begun is not given up
// because the prefix has come to a service of which nothing is known yet.
func (s *service) wants(p netip.Prefix, last prefix) routers.Want {
	switch {
	case slices.Contains(s.leaving, p):
		return routers.Withdrawn
	case s.unconfirmed && s.decision.Want == routers.Announced && last.Stage < routers.Configured:
		return routers.Keep
	case s.decision.Want == routers.Keep && last.want == routers.Withdrawn && !last.gone():
		return routers.Withdrawn
	}
	return s.decision.Want
}

// input gives all that the decision rests on.
func (s *service) input() decide.Input {
	in := decide.Input{Verdict: s.st.Verdict, Stopping: s.stopping, Removed: s.removed, Unrisen: s.unrisen, Unconfirmed: s.unconfirmed,
		Drain: s.drain, State: s.st, Rules: s.cfg.Health}
	for i, c := range s.checks {
		switch {
		case !s.cfg.Checks[i].Counts():
		case c.Status == checks.Failed:
			in.Failing = append(in.Failing, c.Name+" failed: "+c.Text())
		case c.Status == checks.Unknown:
			in.Unknown = append(in.Unknown, c.Name+" unknown: "+c.Text())
		}
	}
	return in
}

// evaluate says what results come to for the service.
func evaluate(cfg *config.Service, results []checks.Result) health.Outcome {
	ms := make([]health.Member, len(results))
	for i, r := range results {
		ms[i] = health.Member{Group: cfg.Checks[i].Group, Status: r.Status(), Counts: cfg.Checks[i].Counts()}
	}
	return health.Evaluate(cfg.Require, cfg.Groups, ms)
}

// onRound takes in a round of checks and gives the time to the next one.
func (c *core) onRound(name string, generation int, r checks.Round) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.services[name]
	if s == nil || s.generation != generation {
		return time.Second // of a service that was just replaced; its runner is being stopped
	}
	for i, res := range r.Results {
		c.onResult(s, i, res)
	}
	s.rounds++
	outcome, decided := evaluate(&s.cfg, r.Results), r.Start.Add(r.Took)
	old := s.st
	s.st = s.cfg.Health.Step(old, decided, outcome)
	s.confirm(old, decided, outcome)
	if s.st.Verdict != old.Verdict {
		c.onVerdict(s, old.Verdict)
	}
	next := s.cfg.Health.Next(s.st, outcome)
	if s.unconfirmed {
		next = min(next, s.cfg.Health.Fast)
	}
	c.settleOne(s, time.Now())
	return next
}

// confirm ends what is special about the time before this run's own rounds decide. Only rounds that
// were counted confirm.
func (s *service) confirm(old health.State, decided time.Time, o health.Outcome) {
	switch {
	case o == health.Bad:
		s.confirms = 0
	case o == health.Good && s.st.LastCounted.Equal(decided):
		s.confirms++
	}
	if s.st.Verdict != old.Verdict || s.confirms >= s.cfg.Health.Rise {
		s.unconfirmed = false
	}
	if s.st.Verdict != health.Unknown {
		s.unrisen = false
	}
}

// doubt has an up verdict confirmed anew before it announces anything.
func (s *service) doubt() {
	s.unconfirmed, s.confirms = s.st.Verdict == health.Up, 0
}

func (c *core) onVerdict(s *service, old health.Verdict) {
	level, why := "info", rounds(s.st.Good, "good")
	if s.st.Verdict == health.Down {
		level, why = "warn", rounds(s.st.Bad, "bad")
		if since := s.st.UnknownSince; !since.IsZero() {
			why = "undecided for " + s.st.LastRound.Sub(since).Round(time.Millisecond).String()
		}
		in := s.input()
		for _, f := range slices.Concat(in.Failing, in.Unknown) {
			why += "; " + f
		}
	}
	c.event(state.Event{Level: level, Kind: state.KindVerdict, Service: s.name,
		Text: fmt.Sprintf("%s (was %s): %s", s.st.Verdict, old, why)})
}

func rounds(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " round"
	}
	return fmt.Sprintf("%d %s rounds in a row", n, kind)
}

// onNote takes in a result that belongs to no round.
func (c *core) onNote(name string, generation, i int, r checks.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.services[name]; s != nil && s.generation == generation {
		c.onResult(s, i, r)
	}
}

// onResult updates one check's record and tells when its status changed.
func (c *core) onResult(s *service, i int, r checks.Result) {
	if i >= len(s.checks) || r.Start.IsZero() || r.Start.Equal(s.checks[i].Last) {
		return
	}
	k := &s.checks[i]
	oldStatus, first := k.Status, k.Last.IsZero()
	k.Last, k.Took, k.Status, k.Reason, k.Detail = r.Start, r.Took, r.Status(), r.Reason(), state.DetailOf(r.Err)
	if k.Status == oldStatus && !first {
		return
	}
	before := k.Since
	k.Since = r.Start
	if first && k.Status == checks.OK {
		return
	}
	e := state.Event{Level: "info", Kind: state.KindCheck, Service: s.name, Check: k.Name, Reason: string(k.Reason), Text: "ok"}
	if !before.IsZero() && k.Status == checks.OK {
		e.Text = fmt.Sprintf("ok again after %s %s", r.Start.Sub(before).Round(time.Millisecond), oldStatus)
	}
	if k.Status != checks.OK {
		e.Level, e.Text = "warn", fmt.Sprintf("%s: %s", k.Status, k.Text())
	}
	c.event(e)
}
