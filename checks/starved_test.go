package checks

import (
	"context"
	"fmt"
	"net"
	"os"
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

// pausedRound gives the first round of a check with a timeout of a second, in a process that does not get to run for so
// long during each of its runs: in the first one from its first stride on.
func pausedRound(t *testing.T, check func(context.Context, int64) error, pauses ...time.Duration) (first Round) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fake{check: check}
		r := NewRunner("s", []Probe{{Checker: f, Timeout: time.Second}}, time.Minute, nil, func(_ context.Context, round Round) time.Duration {
			if round.Seq == 1 {
				first = round
			}
			cancel()
			return time.Minute
		})
		r.Beat = func() {
			synctest.Wait() // a run that was begun is on its way
			if n := int(f.runs.Load()); n > 0 && n <= len(pauses) {
				time.Sleep(pauses[n-1])
				pauses[n-1] = 0
			}
		}
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return first
}

// nth takes so long in its runs in turn, and heeds its context.
func nth(err error, each ...time.Duration) func(context.Context, int64) error {
	return func(ctx context.Context, n int64) error { return takes(each[n-1], err)(ctx, n) }
}

// deaf takes so long in its first run, whatever its context says.
func deaf(d time.Duration) func(context.Context, int64) error {
	return func(_ context.Context, n int64) error {
		if n == 1 {
			time.Sleep(d)
		}
		return nil
	}
}

// A pause of this process is no fault of what it checks: what did not answer in time is asked again at once. A pause in
// that run too leaves it unknown, unless it answers.
func TestPauseSaysNothing(t *testing.T) {
	const long, never = 2 * time.Second, time.Hour
	for name, c := range map[string]struct {
		check  func(context.Context, int64) error
		pauses []time.Duration
		want   Reason
		took   time.Duration
	}{
		"answers when asked again":       {nth(nil, 1500*ms, 100*ms), []time.Duration{long}, "", 2225 * ms},
		"answered before the pause":      {nth(nil, 200*ms, never), []time.Duration{long}, "", 2125 * ms},
		"refuses when asked again":       {nth(errBad, 1500*ms, 100*ms), []time.Duration{long}, ReasonRefused, 2225 * ms},
		"never answers":                  {nth(nil, never, never), []time.Duration{long}, ReasonTimeout, 3125 * ms},
		"never answers, paused again":    {nth(nil, never, never), []time.Duration{long, long}, ReasonUnknown, 4125 * ms},
		"answers although paused again":  {nth(nil, never, 100*ms), []time.Duration{long, long}, "", 4125 * ms},
		"refuses, paused again":          {nth(errBad, never, 100*ms), []time.Duration{long, 990 * ms}, ReasonRefused, 3115 * ms},
		"refuses, paused for all":        {nth(errBad, never, 100*ms), []time.Duration{long, 1000 * ms}, ReasonUnknown, 3125 * ms},
		"silent, paused for half":        {nth(nil, never, never), []time.Duration{long, 500 * ms}, ReasonUnknown, 3125 * ms},
		"silent, paused for less":        {nth(nil, never, never), []time.Duration{long, 490 * ms}, ReasonTimeout, 3125 * ms},
		"never answers, a little paused": {nth(nil, never), []time.Duration{240 * ms}, ReasonTimeout, 1000 * ms},
		"deaf for as long as the pause":  {deaf(3 * time.Second), []time.Duration{long}, "", 3000 * ms},
		"deaf for longer":                {deaf(4 * time.Second), []time.Duration{long}, ReasonTimeout, 3250 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			got := pausedRound(t, c.check, c.pauses...)
			if res := got.Results[0]; res.Reason() != c.want || got.Took != c.took {
				t.Errorf("%q (%v) after %s, want %q after %s", res.Reason(), res.Err, got.Took, c.want, c.took)
			}
		})
	}
	text := "unknown: vouch was stopped, or had no CPU, for 2s of a run that may take 1s: context deadline exceeded"
	if err := pausedRound(t, nth(nil, never, never), long, long).Results[0].Err; err.Error() != text {
		t.Errorf("got  %v\nwant %s", err, text)
	}
}

// A machine that never has enough time excuses nothing for ever.
func TestExcusesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var found []Status
		r := NewRunner("s", []Probe{{Checker: &fake{check: takes(time.Hour, nil)}, Timeout: time.Second}}, time.Second, nil,
			func(_ context.Context, round Round) time.Duration {
				if found = append(found, round.Results[0].Status()); round.Seq == 10 {
					cancel()
				}
				return time.Second
			})
		r.Beat = func() { time.Sleep(250 * ms) }
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		for i, s := range found {
			if (s == Unknown) != (i < excuses/2) {
				t.Errorf("round %d: %s", i, s)
			}
		}
	})
}

// Pauses that go on for ever hold nothing for ever: what does not answer is failed as soon as a run had its time.
func TestLittlePausesExcuseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		found := map[Status]int{}
		r := NewRunner("s", []Probe{{Checker: &fake{check: takes(time.Hour, nil)}, Timeout: time.Second}}, time.Second, nil,
			func(_ context.Context, round Round) time.Duration {
				if found[round.Results[0].Status()]++; round.Seq == 20 {
					cancel()
				}
				return time.Second
			})
		r.Beat = func() { time.Sleep(20 * ms) }
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if found[Failed] != 20 {
			t.Errorf("found %v, want 20 failed", found)
		}
	})
}

// Once asks one time only, and says what it was.
func TestOncePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := Once(t.Context(), []Probe{
			{Timeout: time.Second, Checker: once(func(context.Context) error { return nil })},
			{Timeout: time.Second, Checker: once(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })},
			{Timeout: 20 * time.Second, Checker: once(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })},
		}, Look{Ended: func(i int) {
			if i == 0 {
				time.Sleep(3 * time.Second)
			}
		}})
		for i, want := range []Reason{"", ReasonUnknown, ReasonTimeout} {
			if r := got[i].Reason(); r != want {
				t.Errorf("result %d is %q (%v), want %q", i, r, got[i].Err, want)
			}
		}
	})
}
