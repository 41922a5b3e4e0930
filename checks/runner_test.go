package checks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

func TestRoundSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, time.Second, nil,
			Probe{Checker: &fake{check: takes(100*ms, nil)}},
			Probe{Checker: &fake{check: takes(300*ms, errBad)}},
			Probe{Checker: &fake{check: takes(5*time.Second, nil)}, Timeout: 400 * ms})
		b.until(1900 * ms)
		b.want(t, seen{0, 400 * ms, "ok* failed* failed*"}, seen{1000 * ms, 400 * ms, "ok* failed* failed*"})
		if r := b.rounds[0].Results[2]; r.Reason() != ReasonTimeout || r.Took != 400*ms || !r.Start.Equal(b.start) {
			t.Errorf("the slow one: %+v", r)
		}
		if b.rounds[0].Seq != 1 || b.rounds[1].Seq != 2 {
			t.Errorf("numbers %d, %d", b.rounds[0].Seq, b.rounds[1].Seq)
		}
		b.stop(t)
	})
}

func TestCadenceDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{check: takes(900*ms, nil)}
		b := run(t, time.Second, nil, Probe{Checker: f})
		b.until(3600 * time.Second)
		b.stop(t)
		if n := len(b.seen); n != 3600 {
			t.Errorf("%d rounds in an hour", n)
		}
		for i, s := range b.seen {
			if s.At != time.Duration(i)*time.Second {
				t.Fatalf("round %d at %s", i, s.At)
			}
		}
	})
}

// A round that overran is followed at once, by one round, from which the cadence goes on.
func TestMissedTicksAreNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{check: func(ctx context.Context, n int64) error {
			if n == 2 {
				return takes(3500*ms, nil)(ctx, n)
			}
			return nil
		}}
		b := run(t, time.Second, nil, Probe{Checker: f, Timeout: 4 * time.Second})
		b.until(6600 * ms)
		b.want(t, seen{0, 0, "ok*"}, seen{1000 * ms, 3500 * ms, "ok*"}, seen{4500 * ms, 0, "ok*"},
			seen{5500 * ms, 0, "ok*"}, seen{6500 * ms, 0, "ok*"})
		b.stop(t)
	})
}

func TestReportStallIsNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := func(r Round) time.Duration {
			if r.Seq == 1 {
				time.Sleep(900 * ms)
			}
			return 200 * ms
		}
		b := runAt(t, 10*time.Second, delay, nil, Probe{Checker: &fake{}})
		b.until(1350 * ms)
		b.want(t, seen{0, 0, "ok*"}, seen{900 * ms, 0, "ok*"}, seen{1100 * ms, 0, "ok*"}, seen{1300 * ms, 0, "ok*"})
		b.stop(t)
	})
}

func TestReportCannotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := runAt(t, time.Second, func(Round) time.Duration { return -1 }, nil, Probe{Checker: &fake{}})
		b.until(100 * ms)
		if n := len(b.seen); n != 11 {
			t.Errorf("%d rounds in 100 ms, want one each 10 ms", n)
		}
		b.stop(t)
	})
}

func TestFastRoundsRunAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := func(r Round) time.Duration {
			if r.Seq == 5 || r.Seq == 6 {
				return 200 * ms
			}
			return time.Second
		}
		b := runAt(t, time.Second, delay, nil, Probe{Checker: &fake{}}, Probe{Checker: &fake{}, Interval: 3 * time.Second})
		b.until(8500 * ms)
		b.want(t,
			seen{0, 0, "ok* ok*"}, seen{1000 * ms, 0, "ok* ok"}, seen{2000 * ms, 0, "ok* ok"},
			seen{3000 * ms, 0, "ok* ok*"}, seen{4000 * ms, 0, "ok* ok"},
			seen{4200 * ms, 0, "ok* ok*"}, seen{4400 * ms, 0, "ok* ok*"},
			seen{5400 * ms, 0, "ok* ok"}, seen{6400 * ms, 0, "ok* ok"}, seen{7400 * ms, 0, "ok* ok*"}, seen{8400 * ms, 0, "ok* ok"})
		b.stop(t)
	})
}

// A slow probe keeps its own pace, also when its interval is no multiple of the rounds', and its last
// result stands between its runs.
func TestSlowProbeStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &fake{check: func(_ context.Context, n int64) error {
			if n == 2 {
				return errBad
			}
			return nil
		}}
		b := run(t, time.Second, nil, Probe{Checker: &fake{}}, Probe{Checker: slow, Interval: 2500 * ms})
		b.until(7500 * ms)
		b.want(t, seen{0, 0, "ok* ok*"}, seen{1000 * ms, 0, "ok* ok"}, seen{2000 * ms, 0, "ok* ok"},
			seen{3000 * ms, 0, "ok* failed*"}, seen{4000 * ms, 0, "ok* failed"}, seen{5000 * ms, 0, "ok* failed"},
			seen{6000 * ms, 0, "ok* ok*"}, seen{7000 * ms, 0, "ok* ok"})
		b.stop(t)
	})
}

func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, time.Second, nil,
			Probe{Checker: &fake{check: func(context.Context, int64) error { panic("kaboom") }}},
			Probe{Checker: &fake{check: func(context.Context, int64) error { runtime.Goexit(); return nil }}},
			Probe{Checker: &fake{check: func(context.Context, int64) error { return (*fake)(nil).Check(t.Context()) }}},
			Probe{Checker: &fake{}})
		b.until(1500 * ms)
		b.want(t, seen{0, 0, "failed* failed* failed* ok*"}, seen{1000 * ms, 0, "failed* failed* failed* ok*"})
		for i, text := range []string{"kaboom", "Goexit", "nil pointer", ""} {
			r := b.rounds[1].Results[i]
			if text == "" {
				continue
			}
			if r.Reason() != ReasonPanic || !strings.Contains(r.Err.Error(), text) {
				t.Errorf("result %d: %v, want a panic with %q", i, r.Err, text)
			}
		}
		if s := b.rounds[0].Results[0].Err.Error(); !strings.Contains(s, "TestPanicIsAFailure") || len(s) > 500 {
			t.Errorf("no short stack in %q", s)
		}
		b.stop(t)
	})
}

func TestHangingCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		hang := &fake{check: func(_ context.Context, n int64) error {
			if n == 2 {
				<-free
			}
			return nil
		}}
		good := &fake{}
		b := run(t, time.Second, nil, Probe{Checker: hang, Timeout: 500 * ms}, Probe{Checker: good})
		b.until(3500 * ms)
		b.want(t, seen{0, 0, "ok* ok*"}, seen{1000 * ms, 750 * ms, "failed* ok*"},
			seen{2000 * ms, 0, "failed* ok*"}, seen{3000 * ms, 0, "failed* ok*"})
		r := b.rounds[3].Results[0]
		if r.Reason() != ReasonTimeout || !strings.Contains(r.Err.Error(), "did not stop") || r.Took != 2000*ms {
			t.Errorf("result of the hanging check: %+v", r)
		}
		if hang.runs.Load() != 2 || hang.twice.Load() {
			t.Errorf("the hanging check was started %d times", hang.runs.Load())
		}
		close(free) // that its answer comes at last does not make it good
		b.until(4500 * ms)
		if got := b.seen[4]; got != (seen{4000 * ms, 0, "ok* ok*"}) || b.notes != nil || len(b.seen) != 5 {
			t.Errorf("after it came back: %+v, notes %q", b.seen[4:], b.notes)
		}
		b.stop(t)
	})
}

// A check that is slower than the rounds counts where it ends, and is never run twice at once.
func TestSlowCheckCountsWhereItEnds(t *testing.T) {
	settled := func(rs []Result) bool { return rs[0].Status() == Failed }
	synctest.Test(t, func(t *testing.T) {
		slow := &fake{check: takes(1500*ms, nil)}
		bad := &fake{check: func(_ context.Context, n int64) error {
			if n == 1 {
				return errBad
			}
			return nil
		}}
		b := run(t, time.Second, settled, Probe{Checker: bad}, Probe{Checker: slow, Timeout: 2 * time.Second})
		b.until(1600 * ms)
		b.want(t, seen{0, 0, "failed* pending"}, seen{1000 * ms, 500 * ms, "ok* ok*"})
		if got := b.rounds[1].Results[1]; got.Took != 1500*ms || !got.Start.Equal(b.start) {
			t.Errorf("the slow result: %+v", got)
		}
		if slow.runs.Load() != 1 {
			t.Errorf("run %d times", slow.runs.Load())
		}
		b.stop(t)
		if slow.twice.Load() {
			t.Error("run twice at once")
		}
	})
}

// A slow check does not hide that what another one asked has died since: that runs again beside it, at its own pace.
func TestSlowCheckHidesNoDeath(t *testing.T) {
	settled := func(rs []Result) bool {
		return slices.ContainsFunc(rs, func(r Result) bool { return r.Status() == Failed })
	}
	synctest.Test(t, func(t *testing.T) {
		quick := &fake{check: func(_ context.Context, n int64) error {
			if n > 3 {
				return errBad
			}
			return nil
		}}
		rare := new(fake)
		slow := &fake{check: takes(15*time.Second, nil)}
		b := run(t, time.Second, settled, Probe{Checker: quick}, Probe{Checker: rare, Interval: 2500 * ms},
			Probe{Checker: slow, Timeout: 20 * time.Second})
		b.until(4500 * ms)
		b.want(t, seen{0, 3000 * ms, "failed* ok* pending"}, seen{3000 * ms, 0, "failed* ok pending"}, seen{4000 * ms, 0, "failed* ok pending"})
		if quick.runs.Load() != 6 || rare.runs.Load() != 2 || slow.runs.Load() != 1 {
			t.Errorf("runs: %d, %d, %d", quick.runs.Load(), rare.runs.Load(), slow.runs.Load())
		}
		b.stop(t)
	})
}

func TestSettledEndsRoundEarlyAndLateEndIsNoted(t *testing.T) {
	settled := func(rs []Result) bool {
		return slices.ContainsFunc(rs, func(r Result) bool { return r.Status() == Failed })
	}
	synctest.Test(t, func(t *testing.T) {
		b := run(t, time.Second, settled,
			Probe{Checker: &fake{check: takes(100*ms, nil)}},
			Probe{Checker: &fake{check: takes(200*ms, errBad)}},
			Probe{Checker: &fake{check: takes(600*ms, nil)}})
		b.until(1500 * ms)
		b.want(t, seen{0, 200 * ms, "ok* failed* pending"}, seen{1000 * ms, 200 * ms, "ok* failed* pending"})
		if want := []string{"600ms c2 ok"}; !slices.Equal(b.notes, want) {
			t.Errorf("notes %q, want %q", b.notes, want)
		}
		b.stop(t)
	})
}

func TestFirstRoundIsSpread(t *testing.T) {
	for _, interval := range []time.Duration{time.Nanosecond, 100 * ms, time.Second, time.Minute} {
		var at []time.Duration
		for i := range 1000 {
			at = append(at, offset(fmt.Sprint("service", i), interval))
		}
		slices.Sort(at)
		span := min(interval, time.Second) / 2
		if at[0] < 0 || at[len(at)-1] > max(0, span-1) {
			t.Errorf("interval %s: offsets from %s to %s", interval, at[0], at[len(at)-1])
		}
		if span > 1 && (at[250] < span/6 || at[750] > span*5/6) {
			t.Errorf("interval %s: offsets are not spread: quarters %s, %s of %s", interval, at[250], at[750], span)
		}
	}
}

func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last, longest atomic.Int64 // since begin
		begin := time.Now()
		stuck := make(chan struct{})
		r := NewRunner("s", []Probe{{Checker: &fake{check: takes(50*time.Second, nil)}, Timeout: 55 * time.Second}},
			time.Minute, nil, func(_ context.Context, r Round) time.Duration {
				if r.Seq == 3 {
					<-stuck
				}
				return time.Minute
			})
		r.Beat = func() {
			now := int64(time.Since(begin))
			longest.Store(max(longest.Load(), now-last.Swap(now)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if d := time.Duration(longest.Load()); d > time.Second || d == 0 {
			t.Errorf("%s without a beat", d)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if since := time.Since(begin) - time.Duration(last.Load()); since < 20*time.Second {
			t.Errorf("a beat %s ago, although the report is stuck", since)
		}
		close(stuck)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRunNamesWhatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		hang := &fake{check: func(context.Context, int64) error { <-free; return nil }}
		b := run(t, time.Second, nil, Probe{Checker: &fake{check: takes(900*ms, nil)}}, Probe{Checker: hang})
		b.until(500 * ms)
		start := time.Now()
		b.cancel()
		err := <-b.ended
		if err == nil || !strings.Contains(err.Error(), "still running after 1s: check c1") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %s", took)
		}
		if len(b.seen) != 0 || b.notes != nil {
			t.Errorf("what was broken off was counted: %+v, %q", b.seen, b.notes)
		}
		close(free)
		synctest.Wait() // the goroutine ends although nobody listens any more
	})
}

func TestRunWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, time.Second, nil)
		b.until(1500 * ms)
		b.want(t, seen{0, 0, ""}, seen{1000 * ms, 0, ""})
		b.stop(t)
	})
}

func TestResultClasses(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		r      Result
		status Status
		reason Reason
	}{
		{Result{}, Unknown, ReasonPending},
		{Result{Start: now}, OK, ""},
		{Result{Start: now, Err: errBad}, Failed, ReasonRefused},
		{Result{Start: now, Err: fmt.Errorf("x: %w", errBad)}, Failed, ReasonRefused},
		{Result{Start: now, Err: &Failure{Reason: ReasonUnknown}}, Unknown, ReasonUnknown},
		{Result{Start: now, Err: context.DeadlineExceeded}, Failed, ReasonTimeout},
		{Result{Start: now, Err: errors.New("x")}, Failed, ReasonError},
	} {
		if c.r.Status() != c.status || c.r.Reason() != c.reason {
			t.Errorf("%v: %s %q, want %s %q", c.r.Err, c.r.Status(), c.r.Reason(), c.status, c.reason)
		}
	}
}
