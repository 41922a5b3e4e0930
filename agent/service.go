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

	st     health.State // of the checks that can withdraw
	soft   health.State // of those that can only degrade; zero without any
	rounds uint64
	checks []state.Check
	drain  *decide.Drain

	decision decide.Decision
}

func newService(cfg config.Service) *service {
	return &service{name: cfg.Name, cfg: cfg, checks: checkRecords(cfg)}
}

// find gives the configuration of a service that is known to be in cfg.
func find(cfg *config.Config, name string) *config.Service {
	i := slices.IndexFunc(cfg.Services, func(s config.Service) bool { return s.Name == name })
	return &cfg.Services[i]
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
	if !degradable(&cfg) {
		s.soft = health.State{}
	}
}

// verdict is what is shown of the service: degraded when it is up but for the checks that degrade it.
func (s *service) verdict() health.Verdict { return s.st.Verdict.With(s.soft.Verdict) }

// since tells when the verdict became so.
func (s *service) since() time.Time {
	if s.st.Verdict == health.Up && s.soft.Since.After(s.st.Since) {
		return s.soft.Since
	}
	return s.st.Since
}

// managed gives all prefixes that are this service's, those that are leaving too.
func (s *service) managed() []netip.Prefix {
	if s.removed {
		return s.leaving
	}
	return slices.Concat(s.cfg.Prefixes, s.leaving)
}

// wants says what one prefix ought to be, given what it was last read and wanted to be. An up verdict
// that is not confirmed keeps what is announced, but announces nothing anew, nor as usual what is
// degraded: the service may have died while vouch was away, or while an operator worked on it. A
// withdraw that was begun is not given up because the prefix has come to a service of which nothing is
// known yet.
func (s *service) wants(p netip.Prefix, last prefix) routers.Want {
	w := s.decision.Want
	announces, there := w == routers.Announced || w == routers.Degraded, last.Stage >= routers.Configured && !last.Broken
	switch {
	case slices.Contains(s.leaving, p):
		return routers.Withdrawn
	case s.unconfirmed && announces && !there, s.unconfirmed && w == routers.Announced && last.Degraded:
		return routers.Keep
	case w == routers.Keep && last.want == routers.Withdrawn && !last.gone():
		return routers.Withdrawn
	}
	return w
}

// input gives all that the decision rests on.
func (s *service) input() decide.Input {
	in := decide.Input{Hard: decide.Side{State: s.st}, Soft: decide.Side{State: s.soft}, Rules: s.cfg.Health, Stopping: s.stopping,
		Removed: s.removed, Unrisen: s.unrisen, Unconfirmed: s.unconfirmed, Drain: s.drain}
	for i, c := range s.checks {
		switch {
		case s.cfg.Checks[i].Counts():
			complain(&in.Hard, c)
		case s.cfg.Checks[i].Degrades():
			complain(&in.Soft, c)
		}
	}
	return in
}

// complain enters a check that is not ok.
func complain(side *decide.Side, c state.Check) {
	switch c.Status {
	case checks.Failed:
		side.Failing = append(side.Failing, c.Name+" failed: "+c.Text())
	case checks.Unknown:
		side.Unknown = append(side.Unknown, c.Name+" unknown: "+c.Text())
	}
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
		e.Level, e.Text = "warn", fmt.Sprintf("%s: %s", k.Status, k.Line())
	}
	c.event(e)
}
