package state

import (
	"context"
	"time"
)

// How long a Keeper waits after a write that failed.
const (
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// A Keeper writes the state file in the background: what is written is the state at the time of
// writing, a failed write is tried again until it succeeds, and nobody waits for the disk.
type Keeper struct {
	write  func() error
	report func(error) // called when writing began to fail, and with nil when it succeeds again
	wake   chan struct{}
}

// NewKeeper gives a Keeper that writes the present state with write. It does nothing until Run.
func NewKeeper(write func() error, report func(error)) *Keeper {
	return &Keeper{write: write, report: report, wake: make(chan struct{}, 1)}
}

// Save asks for the state to be written soon. It never blocks.
func (k *Keeper) Save() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run writes when asked until ctx ends, and then once more.
func (k *Keeper) Run(ctx context.Context) error {
	var wait time.Duration
	var again <-chan time.Time // set while the last write has failed
	for {
		select {
		case <-ctx.Done():
			k.try(wait)
			return nil
		case <-k.wake:
			if again != nil {
				continue // the pending try writes this too
			}
		case <-again:
			again = nil
		}
		if wait = k.try(wait); wait > 0 {
			again = time.After(wait)
		}
	}
}

// try writes and gives the wait before the next try; 0 after a success.
func (k *Keeper) try(waited time.Duration) time.Duration {
	err := k.write()
	switch {
	case err == nil && waited > 0:
		k.report(nil)
	case err != nil && waited == 0:
		k.report(err)
	}
	if err == nil {
		return 0
	}
	return min(max(2*waited, retryMin), retryMax)
}
