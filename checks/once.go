package checks

import (
	"context"
	"time"
)

// Once runs each probe one time, all side by side, and gives their results in order. A probe that
// does not stop soon after its timeout is left behind and counts as failed.
func Once(ctx context.Context, probes []Probe) []Result {
	start := time.Now()
	results := make([]Result, len(probes))
	ends := make([]chan Result, len(probes))
	for i, p := range probes {
		ends[i] = make(chan Result, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, p.Timeout)
			defer cancel()
			err := guard(func() error { return p.Checker.Check(ctx) })
			ends[i] <- Result{Start: start, Took: time.Since(start), Err: err}
		}()
	}
	for i, p := range probes {
		t := &task{Probe: p, start: start}
		select {
		case results[i] = <-ends[i]:
			continue // whatever the time is by now
		default:
		}
		select {
		case results[i] = <-ends[i]:
		case <-time.After(time.Until(t.overdue())):
			results[i] = t.stuck(time.Now())
		}
	}
	return results
}
