package agent

import (
	"context"
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
	wg     sync.WaitGroup
}

// start runs t until ctx ends.
func (ts *tasks) start(ctx context.Context, t Task) {
	ts.wg.Go(func() {
		rest := restMin
		for {
			began := time.Now()
			err := t.Run(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = fmt.Errorf("ended by itself")
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
			rest = min(2*rest, restMax)
		}
	})
}
