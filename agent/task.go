package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long a task that failed rests before it is started again.
const (
	restMin = time.Second
	restMax = 30 * time.Second
)

// A Task is one of the loops the agent is made of. Run works until ctx ends, and waits for all that
// it started. Ready is closed once the task does its work; the agent is ready when every task is.
type Task interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	fmt.Stringer
}

// A loop is a Task made of a func.
type loop struct {
	name  string
	run   func(ctx context.Context) error
	ready <-chan struct{} // nil: ready as soon as it was started
}

// Run runs the func.
func (l loop) Run(ctx context.Context) error { return l.run(ctx) }

// Ready is closed from the start unless the loop has a channel of its own.
func (l loop) Ready() <-chan struct{} {
	if l.ready != nil {
		return l.ready
	}
	return closed
}

// String names the loop.
func (l loop) String() string { return l.name }

var closed = func() <-chan struct{} { ch := make(chan struct{}); close(ch); return ch }()

// tasks runs Tasks side by side and starts again what fails.
type tasks struct {
	failed func(name string, err error) // told each time one fails
	works  func(name string)            // told when one that failed has worked for a while
	wg     sync.WaitGroup
	all    []Task
}

// start runs t until ctx ends.
func (ts *tasks) start(ctx context.Context, t Task) {
	ts.all = append(ts.all, t)
	ts.wg.Go(func() {
		for rest, first := restMin, true; ; rest, first = min(2*rest, restMax), false {
			began := time.Now()
			err := ts.once(ctx, t, !first)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("ended by itself")
			}
			ts.failed(t.String(), err)
			if time.Since(began) > restMax {
				rest = restMin
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
		}
	})
}

// once runs t to its end, and tells when it works again after a failure.
func (ts *tasks) once(ctx context.Context, t Task, again bool) error {
	if again {
		fine := time.AfterFunc(restMin, func() { ts.works(t.String()) })
		defer fine.Stop()
	}
	return t.Run(ctx)
}

// ready gives a channel that is closed once every task is ready.
func (ts *tasks) ready(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{})
	ts.wg.Go(func() {
		for _, t := range ts.all {
			select {
			case <-ctx.Done():
				return
			case <-t.Ready():
			}
		}
		close(ch)
	})
	return ch
}
