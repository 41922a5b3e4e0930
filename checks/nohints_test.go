package checks

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A Watch that has nothing to hear of is asked again now and then, and nobody is told.
func TestNoHintsIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		tries, woken := 0, false
		k.watch = func(ctx context.Context, wake func()) error {
			if tries++; tries < 4 {
				return fmt.Errorf("192.0.2.1 is not on this node: %w", ErrNoHints)
			}
			woken = true
			wake()
			<-ctx.Done()
			return nil
		}
		rounds := 0
		r := NewRunner("s", []Probe{{Checker: k, Timeout: time.Second}}, time.Second, nil,
			func(context.Context, Round) time.Duration { rounds++; return time.Second })
		r.Lost = func(_ int, err error) { t.Errorf("told of %v", err) }
		ctx, cancel := context.WithTimeout(t.Context(), 89*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil || tries != 3 || rounds < 88 {
			t.Errorf("%v, %d tries, %d rounds", err, tries, rounds)
		}
		if woken {
			t.Error("tried too often")
		}
	})
}
