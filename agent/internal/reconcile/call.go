package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vouch/routers"
)

const (
	// overrun is how long a driver may go on after its ctx has ended before the loop counts as stuck.
	overrun = 2 * time.Second
	// breakEvery bounds how often calls are broken off, so that they get somewhere between changes of
	// mind that do not end.
	breakEvery = 50 * time.Millisecond
)

// A job is one call of a method of the router.
type job struct {
	what      string                      // for errors
	bound     time.Duration               // how long it may take
	do        func(context.Context) error // the call itself
	worth     func(Desired) bool          // whether it is to be broken off when this ought to be
	meanwhile func()                      // called while it runs, or nil
}

// call does j and waits for its end whatever happens. It is broken when what ought to be became
// something that was worth breaking it off. A panic is an error. Signs of life go on as long as the
// method keeps to its ctx.
func (l *Loop) call(ctx context.Context, j job) (broken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.bound)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- guard(l.router, func() error { return j.do(ctx) }) }()
	if j.meanwhile != nil {
		j.meanwhile()
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var breakAt <-chan time.Time
	var ended time.Time
	ending := ctx.Done()
	for {
		select {
		case err := <-done:
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && !errors.Is(err, routers.ErrBusy) { // that tells what it waits for
				err = fmt.Errorf("%s: %s is not done after %s: %w", l.router, j.what, j.bound, err)
			}
			return broken && err != nil, err
		case <-l.changed:
			l.now = true
			breakAt = time.After(time.Until(l.lastBreak.Add(breakEvery)))
		case <-breakAt:
			if !broken && ctx.Err() == nil && j.worth(l.latest()) {
				broken, l.lastBreak = true, time.Now()
				cancel()
			}
		case <-ending:
			ended, ending = time.Now(), nil
		case <-beat.C:
			if ending != nil || time.Since(ended) < overrun {
				l.opt.Beat()
			}
		}
	}
}

// guard calls f and turns a panic into an error.
func guard(who fmt.Stringer, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", who, p)
		}
	}()
	return f()
}
