package checks

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A host that has run out of descriptors has found out nothing about the service.
func TestStarvedIsUnknown(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", e)}
		if f := NetFailure(t.Context(), "late", err); f.Reason != ReasonUnknown {
			t.Errorf("%v: %s, want unknown", e, f.Reason)
		}
		if !Starved(fmt.Errorf("start: %w", e)) {
			t.Errorf("%v is not starved", e)
		}
	}
	for _, e := range []error{syscall.ECONNREFUSED, syscall.EPERM, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		if Starved(e) {
			t.Errorf("%v is starved", e)
		}
	}
}

// pausedRound gives the result of the first round of a check that takes so long, whatever its context says, in a
// process that does not get to run for two seconds meanwhile.
func pausedRound(t *testing.T, takes time.Duration) (first Result) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		check := &fake{check: func(_ context.Context, n int64) error {
			if n == 1 {
				close(started)
				time.Sleep(takes)
			}
			return nil
		}}
		var once sync.Once
		r := NewRunner("s", []Probe{{Checker: check, Timeout: time.Second}}, time.Minute, nil, func(_ context.Context, round Round) time.Duration {
			once.Do(func() { first = round.Results[0] })
			cancel()
			return time.Minute
		})
		paused := false
		r.Beat = func() {
			select {
			case <-started:
				if !paused {
					paused = true
					time.Sleep(2 * time.Second)
				}
			default:
			}
		}
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return first
}

// A pause of this process is no fault of what it checks: neither of a check that ended in it, nor of one that ends
// as much later as the pause took. One that takes longer still is.
func TestPauseIsNoFailure(t *testing.T) {
	for takes, want := range map[time.Duration]Status{500 * time.Millisecond: OK, 3 * time.Second: OK, 4 * time.Second: Failed} {
		if got := pausedRound(t, takes); got.Status() != want {
			t.Errorf("a check of %s: %s (%v), want %s", takes, got.Status(), got.Err, want)
		}
	}
}
