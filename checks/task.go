package checks

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A task is a Probe and how it stands. Only the Runner's loop touches it, but for hinted.
type task struct {
	Probe
	index   int
	running bool
	event   bool          // the run in flight was asked for by a hint
	hung    bool          // the run in flight is past its time, and was counted as failed
	start   time.Time     // of the run in flight, or of the last one
	paused  time.Duration // all pauses before that
	anew    bool          // the run in flight takes the place of one that a pause has broken
	excused int           // ends in a row that pauses have broken
	due     time.Time     // no steady round runs it before
	again   bool          // a hint waits to be followed
	reread  time.Time     // when a hint was last followed
	last    Result        // of the last run, if any
	counted Status        // in the last round that had a result of it
	hinted  atomic.Bool
	watch   watch
}

// A watch is how a task comes by hints. Only the Runner's loop touches it.
type watch struct {
	running bool
	start   time.Time     // of the watch in flight, or of the last one
	again   time.Time     // while none is in flight, when the next one starts; zero: there is none at all
	backoff time.Duration // before the next one but one
	deaf    bool          // the last one was lost, and no hint has come since
}

// due says whether another watch is to start, at the time that again gives.
func (w *watch) due() bool { return !w.running && !w.again.IsZero() }

// A message is the last that comes of a check or of a watch.
type message struct {
	task  int
	watch bool // of the watch, not of the check
	took  time.Duration
	err   error
}

// overdue gives the time at which the run in flight counts as hung. Pauses since it began do not count against it.
func (t *task) overdue(paused time.Duration) time.Time {
	return t.start.Add(t.Timeout + grace + paused - t.paused)
}

// stuck is the result of a run that did not come back.
func (t *task) stuck(now time.Time) Result {
	return Result{Start: t.start, Took: now.Sub(t.start), Err: &Failure{Reason: ReasonTimeout,
		Detail: fmt.Sprintf("did not stop after its timeout of %s, running for %s",
			t.Timeout, now.Sub(t.start).Round(time.Millisecond))}}
}

// launch starts a run of a task that is not running.
func (r *Runner) launch(ctx context.Context, t *task, now time.Time, event bool) {
	t.running, t.event, t.start, t.paused, t.anew = true, event, now, r.pauses.total, false
	t.again = false // this run follows any hint that came before it
	t.hinted.Store(false)
	r.open++
	go func() {
		ctx, cancel := context.WithTimeout(ctx, t.Timeout)
		guard(func() error { return t.Checker.Check(ctx) }, func(err error) {
			cancel()
			r.msgs <- message{task: t.index, took: time.Since(now), err: err}
		})
	}()
}

// guard calls f and then done with its error, and makes a Failure of a panic. It may be all that its
// goroutine does: of runtime.Goexit, which nothing can undo, done is told too, but guard does not return.
func guard(f func() error, done func(error)) {
	var err error
	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			err = &Failure{Reason: ReasonPanic, Detail: fmt.Sprintf("%v (%s)", v, stack())}
		case !returned:
			err = &Failure{Reason: ReasonPanic, Detail: "the goroutine was ended by runtime.Goexit"}
		}
		done(err)
	}()
	err = f()
	returned = true
}

// stack names the innermost functions of a panic, called from the deferred function that recovers.
func stack() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var names []string
	for more := true; more && len(names) < 4; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || strings.HasPrefix(f.Function, "runtime.") {
			continue
		}
		names = append(names, fmt.Sprintf("%s %s:%d", path.Base(f.Function), path.Base(f.File), f.Line))
	}
	return strings.Join(names, " < ")
}

const (
	backoffMin = time.Second
	backoffMax = 30 * time.Second
)

// listen starts the watch of a task that has none in flight.
func (r *Runner) listen(ctx context.Context, t *task, now time.Time) {
	t.watch.running, t.watch.start = true, now
	r.open++
	wake := func() {
		t.hinted.Store(true)
		select {
		case r.hints <- struct{}{}:
		default: // the loop has one to come, and looks at all tasks then
		}
	}
	over := func(err error) { r.msgs <- message{task: t.index, watch: true, err: err} }
	if s, ok := t.Checker.(Subscriber); ok {
		go subscribe(ctx, s, wake, over)
		return
	}
	w := t.Checker.(Watcher)
	go guard(func() error { return w.Watch(ctx, wake) }, over)
}

// subscribe ends long before the watch does, unless it panics.
func subscribe(ctx context.Context, s Subscriber, wake func(), over func(error)) {
	var once sync.Once
	tell := func(err error) { once.Do(func() { over(err) }) }
	guard(func() error {
		s.Subscribe(ctx, wake, tell)
		return nil
	}, func(err error) {
		if err != nil {
			tell(err)
		}
	})
}

// unheard takes in that a watch has ended, and says when the next one starts.
func (r *Runner) unheard(ctx context.Context, t *task, err error) {
	r.heed() // what it woke for before
	w := &t.watch
	w.running = false
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the watch ended by itself")
	}
	now := time.Now()
	if w.backoff == 0 || now.Sub(w.start) > backoffMax {
		w.backoff = backoffMin
	}
	if errors.Is(err, ErrNoHints) {
		w.backoff = backoffMax // it is asked again, for the target may become one that can be watched
	} else {
		w.deaf = true
		r.lost(t, err)
	}
	w.again, w.backoff = now.Add(w.backoff), min(2*w.backoff, backoffMax)
}
