package checks

import (
	"context"
	"slices"
	"time"
)

// A round is the one in flight.
type round struct {
	tick    time.Time // when it ought to have started, from which the next one is counted
	start   time.Time
	results []Result
	ran     []bool
	await   []bool // still to end in this round
}

// set counts a result of this round.
func (o *round) set(i int, res Result) {
	o.results[i], o.ran[i], o.await[i] = res, true, false
}

// begin starts a round. fresh, if not nil, is the task whose new result asked for it.
func (r *Runner) begin(ctx context.Context, now time.Time, fresh *task) {
	n := len(r.tasks)
	o := &round{tick: r.next, start: now, results: make([]Result, n), ran: make([]bool, n), await: make([]bool, n)}
	if fresh != nil || now.Sub(o.tick) > r.slack {
		o.tick = now // missed ticks are gone, and a round between two ticks begins a new cadence
	}
	r.round = o
	r.seq++
	for i, t := range r.tasks {
		switch {
		case t == fresh:
			o.set(i, t.last)
		case t.hung:
			t.last = t.stuck(now)
			o.set(i, t.last)
		case t.running: // begun earlier, and it counts where it ends
			o.await[i] = true
		case r.fast || fresh != nil && t.Interval <= r.interval || !o.tick.Before(t.due):
			r.launch(ctx, t, now, false)
			t.due = o.tick.Add(t.Interval) // by the tick, so that late timers do not add up
			o.await[i] = true
		default:
			o.results[i] = t.last
		}
	}
}

// conclude reports the round in flight if all have ended, or if the others can change nothing.
func (r *Runner) conclude(ctx context.Context) {
	o := r.round
	if o == nil || slices.Contains(o.await, true) && (r.settled == nil || !r.settled(slices.Clone(o.results))) {
		return
	}
	for i, t := range r.tasks {
		if o.results[i].Reason() != ReasonPending {
			t.counted = o.results[i].Status()
		}
	}
	delay := r.report(ctx, Round{Seq: r.seq, Start: o.start, Took: time.Since(o.start), Results: o.results, Ran: o.ran})
	r.fast = delay < r.interval
	delay = max(delay, spacing)
	r.next, r.slack = o.tick.Add(delay), delay/10
	r.round = nil
}
