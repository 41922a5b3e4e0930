package reconcile

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"vouch/routers"
)

// Times between readings while a change is being read back: they double up to pollMax, and where nothing moves for long go on
// to grow, as a twentieth of that time, up to pollSlow. Some drivers run programs for each.
const (
	pollMin  = time.Millisecond
	pollMax  = 50 * time.Millisecond
	pollSlow = time.Second
)

// Options are the rules of one Loop. A field that is zero has the default.
type Options struct {
	Timeout        time.Duration  // of one reading; default 1s
	ApplyTimeout   time.Duration  // of one batch of changes; default Timeout
	Deadline       time.Duration  // from a change that was taken to reading it as wanted; default 3s
	VerifyInterval time.Duration  // between readings in steady state, a tenth more or less; default 5s
	RetryMin       time.Duration  // first wait after a change that did not take; default 200ms
	RetryMax       time.Duration  // the cap of the doubling, a quarter of it for a withdraw and half to degrade; default 10s
	Rand           func() float64 // from 0 to below 1, for jitter; default math/rand/v2
	Beat           func()         // called at least once a second while the loop makes progress; must be cheap
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Timeout, time.Second}, {&o.ApplyTimeout, o.Timeout}, {&o.ApplyTimeout, time.Second}, {&o.Deadline, 3 * time.Second},
		{&o.VerifyInterval, 5 * time.Second}, {&o.RetryMin, 200 * time.Millisecond}, {&o.RetryMax, 10 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Beat == nil {
		o.Beat = func() {}
	}
	return o
}

// What is being done about a prefix that is not as it ought to be.
const (
	Withdrawing = "withdrawing"
	Degrading   = "degrading"
	Announcing  = "announcing"
	Waiting     = "waiting for the daemon" // nothing is announced for an unknown
)

// Outstanding is one prefix that is not, or not surely, as it ought to be.
type Outstanding struct {
	Since    time.Time // when what ought to be or what is became so
	Doing    string    // Withdrawing, Degrading, Announcing or Waiting
	Attempts int       // how often it was asked for
	Next     time.Time // of the next attempt; zero: it was asked for and is being read back, or waits for the daemon
	Err      error     // why the last attempt that failed did; nil: none did
}

// A Report is what a reading found and what is still to be done. Its slices and maps are the
// receiver's own, but Desired must not be changed.
type Report struct {
	Desired      Desired               // what it is measured against; a later Want may not be in it yet
	Router       string                // what the router called itself after the reading
	Goal         routers.Stage         // at which an announced prefix has arrived, after the reading
	Time         time.Time             // when the reading ended
	Took         time.Duration         // how long it took
	Observations []routers.Observation // one for each managed prefix, sorted, also beside ReadErr
	ReadErr      error                 // why not everything could be read
	Outstanding  map[netip.Prefix]Outstanding
	Synced       bool   // all was read, and all is as it ought to be
	WatchErr     error  // why hints are lost, until they are back for a second
	Readings     uint64 // since Run started
	Applies      uint64 // batches of changes asked for since Run started
}

// A Loop is the only one that reads and changes one router. It is level-triggered: each step reads,
// compares and asks for what differs, whatever was asked before, for ever.
//
// Withdraws come first. One that becomes wanted is asked for on the strength of the last reading,
// ahead of the next; it breaks off a reading or an Apply under way. Then comes what is to be degraded:
// where it is announced, that is asked for ahead of the next reading too, but breaks none off.
type Loop struct {
	router routers.Router
	opt    Options
	report func(Report)

	changed, hint chan struct{} // something was given; something may have happened

	mu       sync.Mutex
	given    Desired // the latest but for amended; nil: none yet. It is replaced, never changed
	amended  Desired
	givenAt  time.Time
	watchErr error

	// The rest belongs to Run.
	led               *ledger
	pace              pace
	poll              time.Duration // to the next reading while polling; 0: that one is the first
	moved             time.Time     // when a reading was last another than the one before
	verify            time.Duration // to the next reading in any case
	reread            backoff       // after a failed reading
	retry             time.Duration // the wait that it chose
	lasted            time.Duration // the last reading
	name              string        // of the router, after it
	hinted            bool          // a hint has not been followed yet
	now               bool          // the next reading is due now
	broken            bool          // the last Apply was broken off: read before the next one
	alone             bool          // one was, for withdraws that are not read to have come about yet
	lastBreak         time.Time
	readings, applies uint64
}

// New gives a Loop for r which does nothing until Run. It calls report after every reading, and when
// changes are being asked for, from Run's goroutine, which waits for it; report may call Want and
// Wake. The first report comes with the first reading.
func New(r routers.Router, opt Options, report func(Report)) *Loop {
	opt = opt.withDefaults()
	return &Loop{router: r, opt: opt, report: report, led: newLedger(opt),
		changed: make(chan struct{}, 1), hint: make(chan struct{}, 1)}
}

// Want says what ought to be from now on; the latest call wins. A Desired that equals the last one
// does nothing. Want does not block, keeps no reference to d and may be called from anywhere.
func (l *Loop) Want(d Desired) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fold()
	if l.given != nil && maps.Equal(l.given, d) {
		return
	}
	l.given, l.givenAt = Desired{}, time.Now()
	maps.Copy(l.given, d)
	signal(l.changed)
}

// Amend is Want for some prefixes, where the others ought to be what they were to be. It costs no more than
// these: a thousand of its calls may come before the loop has taken a step.
func (l *Loop) Amend(some Desired) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.amended == nil {
		l.amended = Desired{}
	}
	maps.Copy(l.amended, some)
	l.givenAt = time.Now()
	signal(l.changed)
}

// fold is called with the lock held.
func (l *Loop) fold() {
	if len(l.amended) == 0 {
		return
	}
	next := make(Desired, len(l.given)+len(l.amended))
	maps.Copy(next, l.given)
	maps.Copy(next, l.amended)
	l.given, l.amended = next, nil
}

// Wake says that the router's tables may have changed. It does not block and may be called from
// anywhere; many calls in a short time lead to few readings.
func (l *Loop) Wake() { signal(l.hint) }

// signal leaves a token in c, which holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns nil once the router's methods have returned. It reads
// nothing before the first call of Want or Amend.
func (l *Loop) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	if w, ok := l.router.(routers.Watcher); ok {
		watching.Go(func() { l.watch(ctx, w) })
	}
	for ctx.Err() == nil {
		l.opt.Beat()
		if l.latest() != nil {
			l.step(ctx)
		}
		l.rest(ctx)
	}
	return nil
}

// latest gives what ought to be by the latest call of Want. It must not be changed.
func (l *Loop) latest() Desired {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fold()
	return l.given
}

// adopt takes in what ought to be by now and says whether that is something new.
func (l *Loop) adopt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fold()
	if maps.Equal(l.led.want, l.given) {
		return false
	}
	l.led.desire(l.given, l.givenAt)
	return true
}

// step reads, compares and asks for changes, once. What an Apply was broken off for is asked for alone, and read to
// have come about before the rest is taken up again, which may take as long as it did.
func (l *Loop) step(ctx context.Context) {
	if l.adopt() && !l.broken {
		if cs := l.led.urgent(time.Now()); len(cs) > 0 && !l.apply(ctx, cs) {
			return
		}
	}
	if l.hinted {
		l.repeat(ctx)
	}
	if !l.read(ctx) {
		return
	}
	if l.adopt() {
		l.now = true // there may be prefixes that were not read
	}
	cs := l.led.due(time.Now())
	if first := l.led.urgent(time.Now()); l.alone && (len(first) > 0 || l.led.withdrawing()) {
		cs = first
	} else {
		l.alone = false
	}
	if len(cs) > 0 {
		l.apply(ctx, cs)
	}
}

// read reads all managed prefixes and reports. It is false when the reading was broken off.
func (l *Loop) read(ctx context.Context) bool {
	l.takeHint()
	ps := l.led.want.prefixes()
	var have []routers.Observation
	var goal routers.Stage
	var name string
	began := time.Now()
	broken, err := l.call(ctx, job{what: "reading", bound: l.opt.Timeout,
		worth: func(next Desired) bool { return asksAnew(l.led.want, next, routers.Withdrawn) },
		do: func(ctx context.Context) (err error) {
			defer func() { goal, name = l.router.Goal(), l.router.String() }() // which a reading may have found out
			have, err = l.router.Observe(ctx, slices.Clone(ps))
			if p, ok := l.router.(routers.Preparer); ok && err != nil {
				err = routers.Join(err, p.Prepare(ctx, slices.Clone(ps)))
			}
			return err
		}})
	if broken || ctx.Err() != nil {
		l.now, l.broken = true, false // a daemon that hangs must not make every new withdraw wait for a reading
		return false
	}
	l.readings++
	l.name = name
	l.took(complete(ps, have), err, goal)
	l.lasted = l.pace.last.Sub(began)
	l.tell()
	return true
}

// took notes a finished reading and the waits that follow from it.
func (l *Loop) took(have []routers.Observation, err error, goal routers.Stage) {
	now, random := time.Now(), l.opt.Rand()
	changed := (err == nil) != (l.led.err == nil) || !slices.EqualFunc(have, l.led.have, sameObservation)
	l.pace.read(now, l.hinted, changed)
	l.hinted, l.now, l.broken = false, false, false
	l.led.observe(have, err, goal, now, random)
	if changed {
		l.moved = now
	}
	still := now.Sub(later(l.moved, l.led.newest()))
	l.poll = min(max(2*l.poll, pollMin), max(pollMax, min(still/20, pollSlow)))
	if !l.led.polls() {
		l.poll = 0
	}
	l.verify = time.Duration(float64(l.opt.VerifyInterval) * (0.9 + 0.2*random))
	if err != nil {
		l.reread.grow(classOf(err), l.opt, l.led.first())
		l.retry = l.reread.jittered(random)
	} else {
		l.reread = backoff{}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// complete gives one Observation for each of ps from what a driver gave, which may be too little.
func complete(ps []netip.Prefix, have []routers.Observation) []routers.Observation {
	all := make([]routers.Observation, len(ps))
	for i, p := range ps {
		all[i].Prefix = p
	}
	for _, o := range have {
		if at := find(all, o.Prefix); at != nil {
			*at = o
		}
	}
	return all
}

func sameObservation(a, b routers.Observation) bool {
	return a.Prefix == b.Prefix && a.Stage == b.Stage && a.Degraded == b.Degraded && a.Broken == b.Broken && a.Detail == b.Detail && slices.Equal(a.Peers, b.Peers)
}

// apply asks for cs. It is false when that was broken off. Its outcome is told with the reading that
// follows at once, because only that decides.
func (l *Loop) apply(ctx context.Context, cs []routers.Change) bool {
	l.led.ask(cs, time.Now())
	l.applies++
	broken, err := l.call(ctx, job{what: "changing", bound: l.opt.ApplyTimeout,
		worth:     func(next Desired) bool { return interrupts(cs, l.led.want, next) },
		do:        func(ctx context.Context) error { return l.router.Apply(ctx, slices.Clone(cs)) },
		meanwhile: l.tell})
	l.broken, l.alone, l.now, l.poll = broken, l.alone || broken, true, 0
	switch now, random := time.Now(), l.opt.Rand(); {
	case broken: // as if not asked: due at once
	case err != nil:
		for _, c := range cs {
			if about := routers.About(err, c.Prefix); about != nil {
				l.led.failed(c.Prefix, about, now, random)
			} else {
				l.led.taken([]routers.Change{c}, now)
			}
		}
	default:
		l.led.taken(cs, now)
	}
	return !broken
}

// repeat asks again for the withdraws which are not read to have come about, because what the hint is
// of may have undone them: an address put back while the daemon hangs, say. It is no attempt of its own.
func (l *Loop) repeat(ctx context.Context) {
	cs := l.led.undone(time.Now())
	if len(cs) == 0 {
		return
	}
	l.applies++
	broken, err := l.call(ctx, job{what: "changing", bound: l.opt.ApplyTimeout,
		worth:     func(next Desired) bool { return interrupts(cs, l.led.want, next) },
		do:        func(ctx context.Context) error { return l.router.Apply(ctx, slices.Clone(cs)) },
		meanwhile: l.tell})
	l.now = true
	now, random := time.Now(), l.opt.Rand()
	for _, c := range cs { // it may be what an earlier attempt came to
		if about := routers.About(err, c.Prefix); !broken && about != nil && classOf(about) != busy {
			l.led.failed(c.Prefix, about, now, random)
		}
	}
}

// tell reports.
func (l *Loop) tell() {
	have := slices.Clone(l.led.have)
	for i := range have {
		have[i].Peers = slices.Clone(have[i].Peers)
	}
	l.mu.Lock()
	watchErr := l.watchErr
	l.mu.Unlock()
	l.report(Report{Desired: l.led.want, Router: l.name, Goal: l.led.goal, Time: l.pace.last, Took: l.lasted, Observations: have, ReadErr: l.led.err, Outstanding: l.led.outstanding(),
		Synced: len(l.led.entries) == 0 && l.led.err == nil, WatchErr: watchErr, Readings: l.readings, Applies: l.applies})
}
