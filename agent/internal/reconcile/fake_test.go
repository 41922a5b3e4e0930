package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// A fake is a router whose table is a map. Its faults are set by tests, through do.
type fake struct {
	mu      sync.Mutex
	stages  map[netip.Prefix]routers.Stage
	worse   map[netip.Prefix]bool // what is there is there in the worse way
	broken  map[netip.Prefix]bool // and stands on nothing
	epoch   uint64
	inUse   bool
	applies []applied
	reads   []time.Time

	readErr   func() error                 // asked at each reading; nil: none
	applyErr  func([]routers.Change) error // asked at each Apply, before anything is done; nil: none
	ignore    func(netip.Prefix) bool      // changes that are taken with no effect
	readTake  time.Duration                // how long a reading takes
	applyTake time.Duration                // how long each change of an Apply takes
	settle    time.Duration                // from an Apply to its effect
	deaf      chan struct{}                // not nil: methods do not heed their ctx, and end when it is closed
	watch     func(context.Context) error  // nil: until ctx ends
	wake      func()                       // of the watch under way
}

// An applied is one call of Apply.
type applied struct {
	at   time.Time
	took time.Duration
	cs   []routers.Change
	err  error
}

func (f *fake) String() string      { return "fake" }
func (f *fake) Close() error        { return nil }
func (f *fake) Goal() routers.Stage { return routers.Advertised }

// do runs g with the fake's lock held.
func (f *fake) do(g func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g()
}

// enter finds out about concurrent calls.
func (f *fake) enter() func() {
	f.do(func() {
		if f.inUse {
			panic("called concurrently")
		}
		f.inUse = true
	})
	return func() { f.do(func() { f.inUse = false }) }
}

// spend lets d pass, or less when ctx ends.
func (f *fake) spend(ctx context.Context, d time.Duration) error {
	var deaf chan struct{}
	f.do(func() { deaf = f.deaf })
	if deaf != nil {
		<-deaf
		return nil
	}
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (f *fake) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	defer f.enter()()
	var take time.Duration
	var err error
	f.do(func() {
		f.reads = append(f.reads, time.Now())
		take = f.readTake
		if f.readErr != nil {
			err = f.readErr()
		}
	})
	if e := f.spend(ctx, take); e != nil {
		return nil, e
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var have []routers.Observation
	for _, p := range ps {
		o := routers.Observation{Prefix: p, Stage: f.stages[p], Degraded: f.worse[p] && f.stages[p] > routers.Absent, Broken: f.broken[p], Epoch: f.epoch}
		if o.Stage == routers.Unknown {
			o.Stage = routers.Absent
		}
		if err != nil {
			o.Stage, o.Degraded = routers.Unknown, false
		}
		have = append(have, o)
	}
	return have, err
}

func (f *fake) Apply(ctx context.Context, cs []routers.Change) (err error) {
	defer f.enter()()
	at := time.Now()
	defer func() {
		f.do(func() { f.applies = append(f.applies, applied{at, time.Since(at), slices.Clone(cs), err}) })
	}()
	var refuse error
	f.do(func() {
		if f.applyErr != nil {
			refuse = f.applyErr(cs)
		}
	})
	if refuse != nil {
		return refuse
	}
	for _, c := range cs {
		if err := f.spend(ctx, f.applyTake); err != nil {
			return err
		}
		f.change(c)
	}
	return nil
}

func (f *fake) change(c routers.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stage := routers.Absent
	if c.Want != routers.Withdrawn {
		stage = routers.Advertised
	}
	put := func() {
		f.stages[c.Prefix], f.worse[c.Prefix], f.broken[c.Prefix] = stage, c.Want == routers.Degraded, false
	}
	switch {
	case f.ignore != nil && f.ignore(c.Prefix):
	case f.settle > 0:
		time.AfterFunc(f.settle, func() { f.do(put) })
	default:
		put()
	}
}

// A watcher is a fake that gives hints.
type watcher struct{ *fake }

func (w watcher) Watch(ctx context.Context, wake func()) error {
	var watch func(context.Context) error
	w.do(func() { w.wake, watch = wake, w.watch })
	if watch != nil {
		return watch(ctx)
	}
	<-ctx.Done()
	return ctx.Err()
}

// A rig is a loop that runs over a fake.
type rig struct {
	t    *testing.T
	f    *fake
	loop *Loop
	stop func() // ends Run and waits for it

	mu     sync.Mutex
	last   Report
	count  int
	beats  int
	onTell func(Report)
}

// run runs test in a bubble of its own time, with a loop over a fake whose table is stages.
func run(t *testing.T, opt Options, stages map[netip.Prefix]routers.Stage, test func(r *rig)) {
	t.Helper()
	runRouter(t, opt, stages, func(f *fake) routers.Router { return f }, test)
}

func runRouter(t *testing.T, opt Options, stages map[netip.Prefix]routers.Stage, of func(*fake) routers.Router, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, f: &fake{stages: map[netip.Prefix]routers.Stage{}, worse: map[netip.Prefix]bool{}, broken: map[netip.Prefix]bool{}}}
		for p, s := range stages {
			r.f.stages[p] = s
		}
		opt.Beat = func() { r.mu.Lock(); r.beats++; r.mu.Unlock() }
		r.loop = New(of(r.f), opt, r.told)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.loop.Run(ctx) }()
		r.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		defer r.stop()
		test(r)
	})
}

func (r *rig) told(rep Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = rep
	r.count++
	if r.onTell != nil {
		r.onTell(rep)
	}
}

func (r *rig) report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// pass lets the bubble's time go by.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// until waits for a report on what was last wanted for which ok is true, and fails the test when
// that takes longer than limit. It gives the time that it took.
func (r *rig) until(limit time.Duration, what string, ok func(Report) bool) time.Duration {
	r.t.Helper()
	for began := time.Now(); ; r.pass(time.Millisecond) {
		rep := r.report()
		if maps.Equal(rep.Desired, r.loop.latest()) && ok(rep) {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			r.t.Fatalf("not %s after %s: %s", what, limit, describe(rep))
		}
	}
}

func describe(rep Report) string {
	s := fmt.Sprintf("synced %t, read error %v", rep.Synced, rep.ReadErr)
	for _, o := range rep.Observations {
		s += fmt.Sprintf("; %s %s", o.Prefix, o.Stage)
		if out, ok := rep.Outstanding[o.Prefix]; ok {
			s += fmt.Sprintf(" (%s, %d attempts, %v)", out.Doing, out.Attempts, out.Err)
		}
	}
	return s
}

// reads says that p was read at stage s.
func reads(p netip.Prefix, s routers.Stage) func(Report) bool {
	return func(rep Report) bool {
		return slices.ContainsFunc(rep.Observations, func(o routers.Observation) bool { return o.Prefix == p && o.Stage == s })
	}
}

// readsWay says that p was read advertised, in the worse way or not.
func readsWay(p netip.Prefix, worse bool) func(Report) bool {
	return func(rep Report) bool {
		return slices.ContainsFunc(rep.Observations, func(o routers.Observation) bool {
			return o.Prefix == p && o.Stage == routers.Advertised && o.Degraded == worse
		})
	}
}

func synced(rep Report) bool { return rep.Synced }

// made gives how many times Apply and Observe were called.
func (r *rig) made() (applies, reads int) {
	r.f.do(func() { applies, reads = len(r.f.applies), len(r.f.reads) })
	return applies, reads
}

// applied gives the calls of Apply so far, and readings when Observe was called.
func (r *rig) applied() (as []applied) {
	r.f.do(func() { as = slices.Clone(r.f.applies) })
	return as
}

func (r *rig) readings() (ts []time.Time) {
	r.f.do(func() { ts = slices.Clone(r.f.reads) })
	return ts
}

// drift is somebody else's change of the table.
func (r *rig) drift(p netip.Prefix, s routers.Stage) {
	r.f.do(func() { r.f.stages[p] = s })
}

var errAway = fmt.Errorf("fake: %w", routers.ErrUnavailable)

// failing gives an error n times.
func failing(n int, err error) func() error {
	return func() error {
		if n--; n < 0 {
			return nil
		}
		return err
	}
}

func failingApply(n int, err error) func([]routers.Change) error {
	next := failing(n, err)
	return func([]routers.Change) error { return next() }
}

var errOdd = errors.New("fake: something odd")
