package checks

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A fake is a Checker whose runs take as long and end as its function says.
type fake struct {
	check func(ctx context.Context, run int64) error
	runs  atomic.Int64
	now   atomic.Int64
	twice atomic.Bool
}

func (f *fake) Check(ctx context.Context) error {
	if f.now.Add(1) > 1 {
		f.twice.Store(true)
	}
	defer f.now.Add(-1)
	n := f.runs.Add(1)
	if f.check == nil {
		return nil
	}
	return f.check(ctx, n)
}

func (f *fake) String() string { return "fake" }

// takes sleeps like a check that heeds its context.
func takes(d time.Duration, err error) func(context.Context, int64) error {
	return func(ctx context.Context, _ int64) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errBad = &Failure{Reason: ReasonRefused}

// A seen is a Round in a form that compares and reads well.
type seen struct {
	At, Took time.Duration
	Found    string // such as "ok failed*": a star marks what ran in this round
}

func word(r Result) string {
	if r.Reason() == ReasonPending {
		return "pending"
	}
	return r.Status().String()
}

// A bench runs a Runner inside a bubble and remembers what it said.
type bench struct {
	*Runner
	start  time.Time
	seen   []seen
	rounds []Round
	notes  []string
	cancel context.CancelFunc
	ended  chan error
}

// run starts the rounds and lets the bubble's clock run until the first of them.
func run(t *testing.T, interval time.Duration, settled func([]Result) bool, probes ...Probe) *bench {
	t.Helper()
	return runAt(t, interval, func(Round) time.Duration { return interval }, settled, probes...)
}

func runAt(t *testing.T, interval time.Duration, delay func(Round) time.Duration, settled func([]Result) bool, probes ...Probe) *bench {
	t.Helper()
	b := &bench{ended: make(chan error, 1)}
	for i, p := range probes {
		probes[i].Name = fmt.Sprintf("c%d", i)
		if p.Timeout == 0 {
			probes[i].Timeout = interval
		}
	}
	b.Runner = NewRunner("resolver", probes, interval, settled, func(_ context.Context, r Round) time.Duration {
		var words []string
		for i, res := range r.Results {
			words = append(words, word(res)+map[bool]string{true: "*"}[r.Ran[i]])
		}
		b.rounds = append(b.rounds, r)
		b.seen = append(b.seen, seen{r.Start.Sub(b.start), r.Took, strings.Join(words, " ")})
		return delay(r)
	})
	b.Note = func(i int, res Result) {
		b.notes = append(b.notes, fmt.Sprintf("%s c%d %s", time.Since(b.start), i, word(res)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.cancel = cancel
	b.start = time.Now().Add(offset("resolver", interval))
	go func() { b.ended <- b.Run(ctx) }()
	time.Sleep(time.Until(b.start)) // the bubble's clock
	return b
}

// stop ends the rounds and checks that nothing is left of them.
func (b *bench) stop(t *testing.T) {
	t.Helper()
	b.cancel()
	if err := <-b.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	synctest.Wait()
}

// until lets the bubble's clock run to d after the first round's start, and a little further.
func (b *bench) until(d time.Duration) {
	time.Sleep(time.Until(b.start.Add(d)) + time.Microsecond)
	synctest.Wait()
}

func (b *bench) want(t *testing.T, want ...seen) {
	t.Helper()
	if d := cmp.Diff(want, b.seen); d != "" {
		t.Errorf("rounds (-want +got):\n%s", d)
	}
}
