package checks

import (
	"context"
	"iter"
	"sync"
	"time"
)

// maxTrace bounds what is kept of one check's trace, in bytes of text and signs.
const maxTrace = 256 << 10

// A Look is what Once does besides running the probes. The zero Look does nothing.
type Look struct {
	Trace bool // keep what each check tells of its run
	// Ended, if set, is told of each probe whose result is there, in the goroutine that called Once.
	Ended func(probe int)
}

// A Run is one run of a probe, and what the check told meanwhile.
type Run struct {
	Result
	Trace []Line // in the order in which it was told; nil unless the Look asked for it
}

// A Line is one text of a trace. It may have several lines, and hold anything that the target sent.
type Line struct {
	At        time.Duration // since the check began
	Direction Direction
	Text      string
}

// Once runs each probe one time, all side by side, and gives their runs in order. A probe that does not
// stop soon after its timeout is left behind and counts as failed; what it still tells is not heard.
func Once(ctx context.Context, probes []Probe, look Look) []Run {
	start := time.Now()
	o := &occasion{start: start, pauses: pauses{due: start}, probes: probes, look: look, runs: make([]Run, len(probes)), left: len(probes),
		logs: make([]tracer, len(probes)), ends: make(chan message, len(probes))}
	for i, p := range probes {
		o.logs[i].start = start
		go func() {
			ctx, cancel := context.WithTimeout(ctx, p.Timeout)
			if look.Trace {
				ctx = WithTrace(ctx, o.logs[i].hear)
			}
			guard(func() error { return p.Checker.Check(ctx) }, func(err error) {
				cancel()
				o.ends <- message{task: i, took: time.Since(start), err: err}
			})
		}()
	}
	for o.left > 0 {
		o.pauses.look()
		o.pauses.due = o.wakeup(time.Now())
		select {
		case m := <-o.ends:
			o.pauses.look()
			o.take(m)
		case <-time.After(time.Until(o.pauses.due)):
			o.pauses.look()
			o.giveUp()
		}
	}
	return o.runs
}

// An occasion is one call of Once. Its goroutine alone touches it, but for logs and ends.
type occasion struct {
	start  time.Time
	probes []Probe
	look   Look
	runs   []Run // of a probe that is still running, zero
	left   int   // of those
	pauses pauses
	logs   []tracer
	ends   chan message // has room for all, so no sender waits
}

// running gives a task for each probe whose result is not there, by its place.
func (o *occasion) running() iter.Seq2[int, *task] {
	return func(yield func(int, *task) bool) {
		for i, p := range o.probes {
			if o.runs[i].Start.IsZero() && !yield(i, &task{Probe: p, start: o.start}) {
				return
			}
		}
	}
}

// wakeup gives the next time at which there is something to do or to look at.
func (o *occasion) wakeup(now time.Time) time.Time {
	at := now.Add(pulse)
	for _, t := range o.running() {
		for _, sooner := range []time.Time{t.overdue(o.pauses.total), now.Add(stride(t.Timeout))} {
			if sooner.Before(at) {
				at = sooner
			}
		}
	}
	return at
}

// giveUp leaves those behind that are past their time, and have not ended by now.
func (o *occasion) giveUp() {
	for len(o.ends) > 0 {
		o.take(<-o.ends)
	}
	now := time.Now()
	for i, t := range o.running() {
		if !now.Before(t.overdue(o.pauses.total)) {
			o.set(i, t.stuck(now))
		}
	}
}

func (o *occasion) take(m message) {
	if !o.runs[m.task].Start.IsZero() {
		return
	}
	res, timeout := Result{Start: o.start, Took: m.took, Err: m.err}, o.probes[m.task].Timeout
	if broken(res, o.pauses.total, timeout, false) {
		res = nothingKnown(res, o.pauses.total, timeout)
	}
	o.set(m.task, res)
}

func (o *occasion) set(i int, res Result) {
	o.runs[i] = Run{res, o.logs[i].end()}
	o.left--
	if o.look.Ended != nil {
		o.look.Ended(i)
	}
}

// A tracer keeps what a check tells until it is ended. It may be used concurrently, also after that, as a
// check that was left behind does.
type tracer struct {
	start time.Time

	mu    sync.Mutex
	lines []Line
	size  int
	ended bool
}

func (t *tracer) hear(d Direction, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.size > maxTrace {
		return
	}
	if t.size += len(text) + 1; t.size > maxTrace {
		d, text = Note, "the check tells more than is kept"
	}
	t.lines = append(t.lines, Line{At: time.Since(t.start), Direction: d, Text: text})
}

// end gives what was told. Nothing is kept any more.
func (t *tracer) end() []Line {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return t.lines
}
