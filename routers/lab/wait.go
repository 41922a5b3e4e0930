package lab

import (
	"context"
	"fmt"
	"time"
)

// Wait asks ok, at once and then every so often, until it says yes or ctx ends. An error of ok is
// only "not yet"; the last one is part of what Wait returns when ctx ends first.
func Wait(ctx context.Context, what string, every time.Duration, ok func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		yes, err := ok()
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("lab: waiting for %s: %w (last: %w)", what, context.Cause(ctx), err)
			}
			return fmt.Errorf("lab: waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
