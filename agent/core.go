package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// saveEvery bounds how old the counters in the state file get while nothing else changes.
const saveEvery = 30 * time.Second

// A core owns all state of the agent: rounds, readings and orders come in as method calls, each of
// which works to its end under one lock and publishes one Snapshot. It acts on nothing itself: what
// ought to be goes to want, or what of it has changed to amend, what is to be kept to save, what is to be
// looked at to examine, what happened to log, none of which block or keep what they are given.
type core struct {
	want    func(reconcile.Desired)
	amend   func(reconcile.Desired)
	save    func()
	examine func()
	log     func(state.Event)
	store   *state.Store

	mu       sync.Mutex
	cfg      *config.Config
	head     state.Snapshot // the parts that are not computed anew
	services map[string]*service
	seen     map[netip.Prefix]*prefix
	desired  reconcile.Desired
	labels   map[netip.Prefix]routers.Label // of all managed prefixes
	problems map[string]string              // by what they are about
	found    map[string]routers.Severity    // the findings that were told and still stand
	untold   int                            // how many more there are
	left     map[netip.Prefix]bool          // what an earlier run left in another place
	renamed  map[netip.Prefix]string        // what goes by another symbol than in an earlier run, and what that means
	current  bool                           // the last reading is measured against what is wanted now
	dirty    bool                           // the state file lacks something
	saved    time.Time
}

// newCore gives a core for cfg. It does nothing until start.
func newCore(cfg *config.Config, head state.Snapshot, store *state.Store) *core {
	c := &core{examine: func() {}, cfg: cfg, head: head, store: store, services: map[string]*service{}, seen: map[netip.Prefix]*prefix{},
		labels: cfg.Labels(), problems: map[string]string{}, found: map[string]routers.Severity{}, left: map[netip.Prefix]bool{}, renamed: map[netip.Prefix]string{}}
	for _, sc := range cfg.Services {
		c.services[sc.Name] = newService(sc)
	}
	return c
}

// start takes up what an earlier run left, or err when that cannot be read, and decides for the
// first time. The sinks must be set by then.
func (c *core) start(l state.Loaded, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restore(l)
	c.event(state.Event{Level: "info", Kind: state.KindStart, Text: fmt.Sprintf("vouch %s starts on %s", c.head.Version, c.head.Node)})
	c.noteLoaded(l, err)
	c.notePlace(l)
	c.inherit(l)
	c.rename(l)
	c.settle(time.Now())
}

// tick lets time pass: drains end, unknowns grow old. It is called once a second.
func (c *core) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(time.Now())
}

// settle computes what follows from the present state for all services, and sends it out.
func (c *core) settle(now time.Time) {
	desired := reconcile.Desired{}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		c.settleInto(desired, c.services[name], now)
	}
	if c.desired == nil || !maps.Equal(c.desired, desired) {
		c.desire(desired, now)
	}
	c.keep(now)
	c.store.Touch()
}

// settleOne does the same for one service that had a round. With a thousand services there are a
// thousand of these a second, so it looks at nothing else.
func (c *core) settleOne(s *service, now time.Time) {
	own := reconcile.Desired{}
	c.settleInto(own, s, now)
	maps.DeleteFunc(own, func(p netip.Prefix, w routers.Want) bool { return c.desired[p] == w })
	if len(own) > 0 {
		maps.Copy(c.desired, own)
		c.expect(own, now)
		c.amend(own)
	}
	c.keep(now)
}

// settleInto decides one service and puts what its prefixes ought to be into desired.
func (c *core) settleInto(desired reconcile.Desired, s *service, now time.Time) {
	c.endDrain(s, now)
	c.decide(s, now)
	for _, p := range s.managed() {
		desired[p] = s.wants(p, c.last(p))
	}
}

// desire sends out what all prefixes ought to be.
func (c *core) desire(desired reconcile.Desired, now time.Time) {
	c.expect(desired, now)
	for p := range c.seen {
		if _, ok := desired[p]; !ok {
			delete(c.seen, p)
		}
	}
	c.desired = desired
	c.want(desired)
}

// expect remembers since when prefixes ought to be so.
func (c *core) expect(some reconcile.Desired, now time.Time) {
	for p, w := range some {
		if ps := c.prefix(p); ps.want != w || ps.wantSince.IsZero() {
			ps.want, ps.wantSince, ps.drifted, ps.unheard = w, now, time.Time{}, false
			if ps.told != nil {
				ps.told = map[string]bool{} // of what it was to be before
			}
			if ps.arrived = !ps.since.IsZero() && c.met(ps); !ps.arrived {
				ps.right = time.Time{}
			}
		}
	}
	c.current = false
}

// keep has the state file written when it lacks something.
func (c *core) keep(now time.Time) {
	if c.dirty || now.Sub(c.saved) >= saveEvery {
		c.dirty, c.saved = false, now
		c.save()
	}
}

// decide computes one service's decision and tells when it became another one.
func (c *core) decide(s *service, now time.Time) {
	old := s.decision
	s.decision = decide.Decide(s.input(), now)
	if old.Reasons != nil && old.Want == s.decision.Want {
		return
	}
	c.event(state.Event{Level: "info", Kind: state.KindDecision, Service: s.name, Reason: decidingRule(s.decision),
		Text: fmt.Sprintf("%s: %s", s.decision.Want, decidingText(s.decision))})
}

// endDrain forgets a drain whose end has come.
func (c *core) endDrain(s *service, now time.Time) {
	if d := s.drain; d != nil && !d.Until.IsZero() && !now.Before(d.Until) {
		s.drain = nil
		s.doubt()
		c.event(state.Event{Level: "info", Kind: state.KindDrain, Service: s.name, Text: "the drain by " + d.By + " has ended"})
	}
}

// event records what happened, now.
func (c *core) event(e state.Event) {
	e.Time = time.Now()
	if e.Prefix != "" || e.Kind == state.KindRouter || e.Kind == state.KindFinding {
		e.Router = c.head.Router.Name
	}
	c.log(c.store.Add(e))
	c.dirty = true
}

// problem records a lasting condition that needs attention, or with an empty text its end.
func (c *core) problem(about, text string) {
	if text == "" {
		delete(c.problems, about)
		return
	}
	c.problems[about] = text
}

// toSave gives what is to go over a restart.
func (c *core) toSave() state.Saved {
	c.mu.Lock()
	defer c.mu.Unlock()
	router, _ := json.Marshal(c.cfg.Router) // of plain fields, which always can be
	s := state.Saved{Place: place(c.cfg.Router), Router: router, Services: map[string]state.SavedService{}, Events: c.store.Events(0)}
	for name, sv := range c.services {
		s.Services[name] = state.SavedService{Prefixes: slices.Clone(sv.managed()), Symbols: c.symbolsOf(sv), State: sv.st, Soft: sv.soft,
			Unrisen: sv.unrisen, Drain: sv.drain}
	}
	return s
}

// prefix gives the record of p, making it when it is new.
func (c *core) prefix(p netip.Prefix) *prefix {
	ps := c.seen[p]
	if ps == nil {
		ps = &prefix{Observation: routers.Observation{Prefix: p}}
		c.seen[p] = ps
	}
	return ps
}

// last gives what is known of p; nothing, when it is new.
func (c *core) last(p netip.Prefix) prefix {
	if ps := c.seen[p]; ps != nil {
		return *ps
	}
	return prefix{}
}

func decidingRule(d decide.Decision) string {
	return deciding(d).Rule
}

func decidingText(d decide.Decision) string {
	return deciding(d).Text
}

// deciding gives the reason that decided.
func deciding(d decide.Decision) decide.Reason {
	for _, r := range d.Reasons {
		if r.Decides {
			return r
		}
	}
	return decide.Reason{}
}
