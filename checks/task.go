package checks

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// A task is a Probe and how it stands. Only the Runner's loop touches it, but for hinted.
type task struct {
	Probe
	index   int
	running bool
	event   bool      // the run in flight was asked for by a hint
	hung    bool      // the run in flight is past its time, and was counted as failed
	start   time.Time // of the run in flight, or of the last one
	due     time.Time // no steady round runs it before
	again   bool      // a hint waits to be followed
	reread  time.Time // when a hint was last followed
	last    Result    // of the last run, if any
	counted Status    // in the last round that had a result of it
	deaf    bool      // its source of hints was lost, and none has come since
	hinted  atomic.Bool
}

// A message comes from a goroutine of a task.
type message struct {
	task  int
	watch bool // of the watch, not of the check
	last  bool // the goroutine ends with it
	took  time.Duration
	err   error
}

func (t *task) overdue() time.Time { return t.start.Add(t.Timeout + grace) }

// stuck is the result of a run that did not come back.
func (t *task) stuck(now time.Time) Result {
	return Result{Start: t.start, Took: now.Sub(t.start), Err: &Failure{Reason: ReasonTimeout,
		Detail: fmt.Sprintf("did not stop after its timeout of %s, running for %s",
			t.Timeout, now.Sub(t.start).Round(time.Millisecond))}}
}

// launch starts a run of a task that is not running.
func (r *Runner) launch(ctx context.Context, t *task, now time.Time, event bool) {
	t.running, t.event, t.start = true, event, now
	t.again = false // this run follows any hint that came before it
	t.hinted.Store(false)
	r.open++
	go func() {
		ctx, cancel := context.WithTimeout(ctx, t.Timeout)
		defer cancel()
		err := guard(func() error { return t.Checker.Check(ctx) })
		r.msgs <- message{task: t.index, last: true, took: time.Since(now), err: err}
	}()
}

// guard calls f and makes a Failure of a panic. runtime.Goexit, which nothing can undo, is seen too:
// f runs in a goroutine of its own.
func guard(f func() error) (err error) {
	done := make(chan error, 1)
	go func() {
		err := error(&Failure{Reason: ReasonPanic, Detail: "the goroutine was ended by runtime.Goexit"})
		defer func() {
			if v := recover(); v != nil {
				err = &Failure{Reason: ReasonPanic, Detail: fmt.Sprintf("%v (%s)", v, stack())}
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
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

// watch keeps the hints of a task coming until ctx ends.
func (r *Runner) watch(ctx context.Context, t *task, w Watcher) {
	defer func() { r.msgs <- message{task: t.index, watch: true, last: true} }()
	wake := func() {
		t.hinted.Store(true)
		select {
		case r.hints <- struct{}{}:
		default: // the loop has one to come, and looks at all tasks then
		}
	}
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		start := time.Now()
		err := guard(func() error { return w.Watch(ctx, wake) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the watch ended by itself")
		}
		if time.Since(start) > backoffMax {
			backoff = backoffMin
		}
		if errors.Is(err, ErrNoHints) {
			backoff = backoffMax // it is asked again, for the target may become one that can be watched
		} else if !r.tell(ctx, message{task: t.index, watch: true, err: err}) {
			return
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
	}
}

// tell sends a message of a goroutine that goes on; it is false when ctx ended first.
func (r *Runner) tell(ctx context.Context, m message) bool {
	select {
	case r.msgs <- m:
		return true
	case <-ctx.Done():
		return false
	}
}
