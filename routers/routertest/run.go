package routertest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
)

// A scenario is a column of the table. It begins with everything withdrawn.
type scenario struct {
	name     string
	needs    func(s *Subject) bool // nil: nothing but what every subject has
	disturbs bool                  // neighbours may take the daemon for dead, and what is foreign with it
	run      func(w *world)
}

// scenarios is the table, the ones that tell most of a driver's mistakes first.
var scenarios = []scenario{
	{name: "life", run: life},
	{name: "degrade", run: degrade, needs: func(s *Subject) bool { return s.Worse != nil }},
	{name: "twice", run: twice},
	{name: "side by side", run: sideBySide},
	{name: "nonsense", run: nonsense},
	{name: "refused", run: refused, needs: func(s *Subject) bool { return s.Refuse != nil }},
	{name: "undo", run: undo, needs: func(s *Subject) bool { return s.Undo != nil && s.Redo != nil }},
	{name: "steady", run: steady, needs: wired},
	{name: "cut reading", run: cutReading, needs: wired},
	{name: "cut change", run: cutChange, needs: wired},
	{name: "hang", run: hang, needs: hasDaemon, disturbs: true},
	{name: "late announce", run: lateAnnounce, needs: hasDaemon, disturbs: true},
	{name: "many", run: many, needs: func(s *Subject) bool { return len(s.Many) > 0 }},
	{name: "restart", run: restart, needs: hasDaemon, disturbs: true},
	{name: "kill", run: kill, needs: hasDaemon, disturbs: true},
}

func wired(s *Subject) bool { return s.Wire != nil }

func hasDaemon(s *Subject) bool { return s.Daemon != nil }

// A Result is one field of the table.
type Result struct {
	Subject, Scenario string
	Why               string // it does not apply, and this is why
	Took              time.Duration
	Notes             []string
	Err               error
}

// Run runs the table for one subject, a subtest for each scenario, and closes its router.
func Run(t *testing.T, s *Subject) []Result {
	t.Helper()
	var results []Result
	for _, sc := range scenarios {
		if n := len(results); n > 0 && errors.Is(results[n-1].Err, errStuck) {
			t.Fatalf("%s: the scenarios from %s on were not played", s.Name, sc.name)
		}
		t.Run(strings.ReplaceAll(sc.name, " ", "-"), func(t *testing.T) {
			r := Play(t.Context(), s, sc.name)
			results = append(results, r)
			if r.Err != nil {
				t.Error(r.Err)
			}
			for _, n := range r.Notes {
				t.Log(n)
			}
		})
	}
	if err := s.Router.Close(); err != nil {
		t.Errorf("%s: close: %v", s.Name, err)
	}
	return results
}

// errStuck: there is no use in playing on.
var errStuck = errors.New("everything withdrawn, and what is foreign announced: this cannot be had")

// Play plays one scenario with a subject, from everything withdrawn to everything withdrawn. A scenario
// that the subject cannot play must be named in its Without.
func Play(ctx context.Context, s *Subject, name string) Result {
	i := slices.IndexFunc(scenarios, func(sc scenario) bool { return sc.name == name })
	if i < 0 {
		return Result{Subject: s.Name, Scenario: name, Err: fmt.Errorf("%s: there is no scenario %q", s.Name, name)}
	}
	sc := scenarios[i]
	r := Result{Subject: s.Name, Scenario: name, Why: s.Without[name]}
	if sc.needs != nil && !sc.needs(s) && r.Why == "" {
		r.Err = fmt.Errorf("%s: %s: the subject lacks what it needs, and does not say why", s.Name, name)
	}
	if r.Err != nil || r.Why != "" {
		return r
	}
	start := time.Now()
	w := &world{Subject: s, ctx: ctx, r: &contract{router: s.named(s.Router), node: s.Node}, scenario: name}
	w.play(sc)
	r.Err, r.Notes, r.Took = w.err, w.notes, time.Since(start)
	return r
}

// play runs a scenario, and sees to it that what is foreign stays and what was promised is kept.
func (w *world) play(sc scenario) {
	w.step("before")
	w.core(true, w.Foreign)
	w.settle(routers.Withdrawn, w.all())
	if w.err != nil {
		w.err = errors.Join(errStuck, w.err)
		return
	}
	if sc.disturbs {
		sc.run(w)
	} else {
		w.throughout(w.Foreign, func() { sc.run(w) })
	}
	w.step("after")
	w.settle(routers.Withdrawn, w.all())
	w.core(true, w.Foreign)
	if w.r.fault != nil {
		w.step("at some time")
		w.fail("something was not as promised")
	}
	if w.err != nil { // leave nothing behind for the next scenario
		after := &world{Subject: w.Subject, ctx: w.ctx, r: &contract{router: w.Router, node: w.Node}}
		after.settle(routers.Withdrawn, slices.Concat(w.all(), w.Many))
		if after.err != nil {
			w.err = errors.Join(w.err, errStuck, after.err)
		}
	}
}

func (w *world) all() []netip.Prefix { return slices.Concat(w.One, w.Two) }
