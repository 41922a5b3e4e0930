package reconcile

import (
	"context"
	"errors"
	"time"

	"vouch/routers"
)

// Times of starting a lost watch again.
const (
	watchMin    = time.Second
	watchMax    = 30 * time.Second
	watchSteady = time.Second // a watch that lasts this long is good
)

var errWatchEnded = errors.New("the watch ended")

// watch keeps w's watch going until ctx ends, and returns after the last one has.
func (l *Loop) watch(ctx context.Context, w routers.Watcher) {
	wait := watchMin
	for ctx.Err() == nil {
		began := time.Now()
		err := l.watchOnce(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errWatchEnded
		}
		l.watched(err)
		if time.Since(began) > watchMax {
			wait = watchMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		wait = min(2*wait, watchMax)
	}
}

// watchOnce runs one watch to its end. What happened while none was running has left no hint, so it
// gives one at the start and once the watch has proved good.
func (l *Loop) watchOnce(ctx context.Context, w routers.Watcher) error {
	done := make(chan error, 1)
	go func() { done <- guard(l.router, func() error { return w.Watch(ctx, l.Wake) }) }()
	l.Wake()
	steady := time.NewTimer(watchSteady)
	defer steady.Stop()
	select {
	case err := <-done:
		return err
	case <-steady.C:
		l.watched(nil)
	}
	return <-done
}

// watched notes whether hints are to be had, and has it reported.
func (l *Loop) watched(err error) {
	l.mu.Lock()
	l.watchErr = err
	l.mu.Unlock()
	l.Wake()
}
