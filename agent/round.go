package agent

import (
	"fmt"
	"slices"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
)

// degradable says whether the service has checks that can only degrade it.
func degradable(cfg *config.Service) bool {
	return slices.ContainsFunc(cfg.Checks, config.Check.Degrades)
}

// evaluate says what the checks that can withdraw the service come to, given the status of each.
func evaluate(cfg *config.Service, status func(i int) checks.Status) health.Outcome {
	return health.Evaluate(cfg.Require, cfg.Groups, members(cfg, config.Check.Counts, status))
}

// evaluateSoft says what the checks that can only degrade the service come to: all of them, and all
// groups of them, must be good. Without any it is good.
func evaluateSoft(cfg *config.Service, status func(i int) checks.Status) health.Outcome {
	if !degradable(cfg) {
		return health.Good
	}
	return health.Evaluate(health.Require{}, cfg.Groups, members(cfg, config.Check.Degrades, status))
}

func members(cfg *config.Service, counts func(config.Check) bool, status func(i int) checks.Status) []health.Member {
	ms := make([]health.Member, len(cfg.Checks))
	for i, c := range cfg.Checks {
		ms[i] = health.Member{Group: c.Group, Status: status(i), Counts: counts(c)}
	}
	return ms
}

// settledBy gives what a runner asks: whether a round can be reported without the results that are
// still pending. Those that can withdraw must be settled. Those that can only degrade are waited for
// too, but for no longer than a fast round takes: a slow one must not hold up a withdraw. It counts as
// it was last then.
func settledBy(cfg *config.Service) func([]checks.Result) bool {
	return func(rs []checks.Result) bool {
		status := func(i int) checks.Status { return rs[i].Status() }
		switch evaluate(cfg, status) {
		case health.Undecided:
			return false
		case health.Bad:
			return true
		}
		var began time.Time
		for _, r := range rs {
			if r.Start.After(began) {
				began = r.Start
			}
		}
		return evaluateSoft(cfg, status) != health.Undecided || time.Since(began) >= cfg.Health.Fast
	}
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
	old := s.verdict()
	next := s.count(r)
	if s.verdict() != old {
		c.onVerdict(s, old)
	}
	c.settleOne(s, time.Now())
	return next
}

// count lets a round count for the verdict, and gives the time to the next one: the shorter one of
// what either kind of checks asks for.
func (s *service) count(r checks.Round) time.Duration {
	rules, old, decided := s.cfg.Health, s.st, r.Start.Add(r.Took)
	hard := evaluate(&s.cfg, func(i int) checks.Status { return r.Results[i].Status() })
	s.st = rules.Step(old, decided, hard)
	next := rules.Next(s.st, hard)
	soft := health.Good
	if degradable(&s.cfg) {
		soft = evaluateSoft(&s.cfg, func(i int) checks.Status { return s.checks[i].Status })
		s.countSoft(old, decided, soft)
		next = min(next, rules.Next(s.soft, soft))
	}
	s.confirm(old, decided, hard, soft)
	if s.unconfirmed {
		next = min(next, rules.Fast)
	}
	return next
}

// countSoft does the same for the checks that can only degrade. A service that goes up before they have
// risen is degraded until they have: it must not be announced as usual on no proof.
func (s *service) countSoft(hard health.State, decided time.Time, o health.Outcome) {
	old := s.soft
	s.soft = s.cfg.Health.Step(old, decided, o)
	switch rose := s.st.Verdict == health.Up && hard.Verdict != health.Up; {
	case s.soft.Verdict == health.Unknown && rose:
		s.soft.Verdict, s.soft.Since = health.Down, decided
	case s.soft.Verdict == health.Up && old.Verdict == health.Unknown:
		s.soft.Since = s.st.Since // it was not degraded before either
	}
}

// confirm ends what is special about the time before this run's own rounds decide. Only rounds that
// were counted confirm, and for a service that is to be announced as usual only those in which nothing
// speaks for degrading it.
func (s *service) confirm(old health.State, decided time.Time, hard, soft health.Outcome) {
	switch {
	case hard == health.Bad:
		s.confirms = 0
	case hard == health.Good && s.st.LastCounted.Equal(decided) && (soft != health.Bad || s.soft.Verdict == health.Down):
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
	level, in, now := "warn", s.input(), s.verdict()
	var why string
	switch {
	case now == health.Down:
		why = fell(in.Hard)
	case now == health.Degraded && old == health.Up:
		why = fell(in.Soft)
	case now == health.Degraded:
		why = rounds(s.st.Good, "good") + ", but not of the checks that degrade it" + complaints(in.Soft)
	case old == health.Degraded:
		level, why = "info", rounds(s.soft.Good, "good")
	default:
		level, why = "info", rounds(s.st.Good, "good")
	}
	c.event(state.Event{Level: level, Kind: state.KindVerdict, Service: s.name, Text: fmt.Sprintf("%s (was %s): %s", now, old, why)})
}

// fell says what brought one side down.
func fell(side decide.Side) string {
	why := rounds(side.State.Bad, "bad")
	if since := side.State.UnknownSince; !since.IsZero() {
		why = "undecided for " + side.State.LastRound.Sub(since).Round(time.Millisecond).String()
	}
	return why + complaints(side)
}

// complaints lists what the checks of one side complain of.
func complaints(side decide.Side) (text string) {
	for _, f := range slices.Concat(side.Failing, side.Unknown) {
		text += "; " + f
	}
	return text
}

func rounds(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " round"
	}
	return fmt.Sprintf("%d %s rounds in a row", n, kind)
}
