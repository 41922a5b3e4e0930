package checks

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

const (
	// grace is how far past its timeout a check may be before it counts as hung.
	grace = 250 * time.Millisecond
	// spacing is the least time between two starts of rounds, and between two runs of one probe
	// that hints asked for. It bounds what a storm of events costs.
	spacing = 10 * time.Millisecond
	// pulse is how often Beat is called at least.
	pulse = 500 * time.Millisecond
	// patience is how long Run waits at its end for checks that ignore their context.
	patience = time.Second
)

// A Probe is one check of a service.
type Probe struct {
	Name     string
	Checker  Checker
	Interval time.Duration // between runs, in steady rounds; 0 or less than the rounds': every round
	Timeout  time.Duration // of one run; above 0
}

// A Round is one look at all probes of a service. Its slices are by probe and belong to the receiver.
type Round struct {
	Seq   uint64        // from 1
	Start time.Time     // with a monotonic reading
	Took  time.Duration // until it was decided
	// Results holds what each probe found. Of a probe that was not due it is the last result; of one
	// still running in a round that was decided without it, the zero Result, which is pending.
	Results []Result
	Ran     []bool // whose results are of this round
}

// A Runner runs the rounds of one service: all probes side by side, none of them twice at once, at a
// fixed cadence and at once when a Watcher's target changed. Its fields are set before Run; the
// functions are called from Run's goroutine only, one at a time, and hold up the rounds until they
// return.
type Runner struct {
	// Note, if set, gets the results that came outside a round: of a probe which a round did not
	// wait for, and of a hint that changed nothing.
	Note func(probe int, r Result)
	// Lost, if set, is told each time a probe's source of hints is lost, and with nil when hints come
	// again. It is tried again by itself.
	Lost func(probe int, err error)
	// Beat, if set, is called at least once a second while the rounds make progress.
	Beat func()

	name     string
	interval time.Duration
	settled  func([]Result) bool
	report   func(context.Context, Round) time.Duration

	tasks []*task
	msgs  chan message  // has room for all that can be under way, so no sender ever waits
	hints chan struct{} // some task's hinted is set
	open  int           // checks and watches that have not sent their message

	pauses pauses
	seq    uint64
	round  *round        // in flight, or nil
	next   time.Time     // start of the next round, while none is in flight
	slack  time.Duration // how late it may be without moving the cadence
	fast   bool          // the next round comes early, so every probe runs in it
}

// NewRunner prepares the rounds of the named service: interval is their normal spacing, above 0.
// settled, which may be nil, says whether the pending results can no longer change what the others
// came to; then the round is reported without them. report gets each round and returns the time from
// its start to the start of the next, at least 10 ms; if that has passed already the next round
// starts at once, and the cadence goes on from there. After a delay shorter than interval every
// probe runs, whatever its own Interval.
func NewRunner(name string, probes []Probe, interval time.Duration, settled func([]Result) bool,
	report func(context.Context, Round) time.Duration) *Runner {
	r := &Runner{
		name: name, interval: interval, settled: settled, report: report,
		msgs:  make(chan message, 2*len(probes)), // the end of a check, and of a watch
		hints: make(chan struct{}, 1),
	}
	for i, p := range probes {
		r.tasks = append(r.tasks, &task{Probe: p, index: i})
	}
	return r
}

// Run runs rounds until ctx ends, then waits for all it started. The first round comes within half a
// second, at a place given by the service's name, so that not all services probe in the same instant.
// The error, if any, names the checks that were still running a second after ctx ended. A Runner
// runs once.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also when a callback panics
	for _, t := range r.tasks {
		if _, ok := t.Checker.(Watcher); ok {
			r.listen(ctx, t, time.Now())
		}
	}
	r.next, r.slack = time.Now().Add(offset(r.name, r.interval)), r.interval/10
	timer := time.NewTimer(0)
	defer timer.Stop()
	r.pauses.due = time.Now()
	for ctx.Err() == nil {
		if r.Beat != nil {
			r.Beat()
		}
		r.pauses.look()
		r.advance(ctx, time.Now())
		r.pauses.look()
		r.pauses.due = r.wakeup(time.Now())
		timer.Reset(time.Until(r.pauses.due))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case m := <-r.msgs:
			r.pauses.look()
			r.receive(ctx, m)
		case <-r.hints:
			r.pauses.look()
			r.heed()
		}
	}
	return r.wait()
}

// offset spreads the first rounds over half an interval, of which at most a second counts.
func offset(name string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(name))
	span := min(interval, time.Second) / 2
	return time.Duration(h.Sum64() % uint64(max(span, 1)))
}

// wakeup gives the next time at which something has to be done without being told.
func (r *Runner) wakeup(now time.Time) time.Time {
	at := now.Add(pulse)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if r.round == nil {
		sooner(r.next)
	}
	for _, t := range r.tasks {
		switch {
		case t.running && !t.hung:
			sooner(t.overdue(r.pauses.total))
			sooner(now.Add(stride(t.Timeout)))
		case !t.running && t.again:
			sooner(t.reread.Add(spacing))
		case r.round != nil:
			sooner(r.rerun(t))
		}
		if t.watch.due() {
			sooner(t.watch.again)
		}
	}
	return at
}

// rerun gives the time at which a probe that has ended runs again although the round still waits for others: a slow
// probe beside it must not hide that what it asked has died since.
func (r *Runner) rerun(t *task) time.Time { return t.start.Add(max(t.Interval, r.interval)) }

// advance does all that is due.
func (r *Runner) advance(ctx context.Context, now time.Time) {
	r.conclude(ctx)
	for _, t := range r.tasks {
		switch {
		case t.running && !t.hung && !now.Before(t.overdue(r.pauses.total)):
			t.hung = true
			r.take(ctx, t, t.stuck(now), t.event)
		case !t.running && t.again && !now.Before(t.reread.Add(spacing)):
			t.reread = now
			r.launch(ctx, t, now, true)
		case r.round != nil && !t.running && !now.Before(r.rerun(t)):
			r.launch(ctx, t, now, false)
			t.due = now.Add(t.Interval)
		}
		if t.watch.due() && !now.Before(t.watch.again) {
			r.listen(ctx, t, now)
		}
	}
	if r.round == nil && !now.Before(r.next) {
		r.begin(ctx, now, nil)
	}
	r.conclude(ctx)
}

// receive takes the end of a check or of a watch.
func (r *Runner) receive(ctx context.Context, m message) {
	t := r.tasks[m.task]
	r.open--
	switch {
	case m.watch:
		r.unheard(ctx, t, m.err)
		return
	case t.hung, ctx.Err() != nil: // counted as failed already; or broken off, which says nothing
		t.running, t.hung = false, false
		return
	}
	t.running = false
	res := Result{Start: t.start, Took: m.took, Err: m.err}
	switch paused := r.pauses.total - t.paused; {
	case !broken(res, paused, t.Timeout, t.anew):
		t.excused = 0
	case t.excused == excuses:
	case !t.anew:
		t.excused++
		r.launch(ctx, t, time.Now(), t.event)
		t.anew = true
		return
	default:
		t.excused++
		res = nothingKnown(res, paused, t.Timeout)
	}
	r.take(ctx, t, res, t.event)
}

// take counts a fresh result: in the round in flight; or, if a hint led to it and it differs from
// what the last round knew, in a round that it starts.
func (r *Runner) take(ctx context.Context, t *task, res Result, event bool) {
	t.last = res
	switch {
	case r.round != nil:
		r.round.set(t.index, res)
	case event && res.Status() != t.counted:
		r.begin(ctx, time.Now(), t)
	case r.Note != nil:
		r.Note(t.index, res)
	}
}

// heed remembers for each hinted task that it must be read again. Before the first round there is
// nothing to compare with, and the first round reads all.
func (r *Runner) heed() {
	for _, t := range r.tasks {
		if !t.hinted.Swap(false) {
			continue
		}
		if t.watch.deaf {
			t.watch.deaf = false
			r.lost(t, nil)
		}
		t.again = t.again || r.seq > 0 || r.round != nil
	}
}

func (r *Runner) lost(t *task, err error) {
	if r.Lost != nil {
		r.Lost(t.index, err)
	}
}

// wait collects what is still under way, for at most patience.
func (r *Runner) wait() error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for r.open > 0 {
		select {
		case m := <-r.msgs:
			r.open--
			r.tasks[m.task].running = r.tasks[m.task].running && m.watch
		case <-timer.C:
			return fmt.Errorf("service %s: still running after %s: %s", r.name, patience, strings.Join(r.left(), ", "))
		}
	}
	return nil
}

// left names what has not come back.
func (r *Runner) left() (names []string) {
	for _, t := range r.tasks {
		if t.running {
			names = append(names, "check "+t.Name)
		}
	}
	if n := r.open - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d watches", n))
	}
	return slices.Clip(names)
}
