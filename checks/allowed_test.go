package checks

import (
	"context"
	"testing"
	"time"
)

// What is allowed reads as it was configured, although a little of it is gone by when a check begins.
func TestAllowed(t *testing.T) {
	start := time.Now()
	for _, late := range []time.Duration{0, time.Microsecond, 9 * time.Millisecond} {
		for _, d := range []time.Duration{750 * time.Millisecond, time.Second, 1250 * time.Millisecond, 1500 * time.Millisecond,
			2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute} {
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(d))
			if got := Allowed(ctx, start.Add(late)); got != d.String() {
				t.Errorf("%v, begun %v late: %s", d, late, got)
			}
			cancel()
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), start.Add(40*time.Millisecond))
	defer cancel()
	if got := Allowed(ctx, start); got != "40ms" {
		t.Errorf("40ms: %s", got)
	}
	if got := Allowed(context.Background(), start); got != "30s" {
		t.Errorf("without an end: %s", got)
	}
}
