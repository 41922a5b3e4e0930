package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vouch/routers"
)

var errRefused = fmt.Errorf("fake: %w", routers.ErrRefused)

func refuseAll([]routers.Change) error { return errRefused }

// waiting has a read as it was, and what ought to become of it refused for so long that the next attempt is
// minutes away.
func waiting(r *rig, was routers.Stage, want routers.Want) {
	r.t.Helper()
	r.drift(a, was)
	r.f.do(func() { r.f.applyErr = refuseAll })
	r.loop.Want(Desired{a: want})
	r.until(20*time.Minute, "waiting for minutes", func(rep Report) bool { return time.Until(rep.Outstanding[a].Next) > 100*time.Second })
}

// slowly are rules by which every class of errors has long waits.
var slowly = Options{RetryMax: time.Hour}

// TestChangedWhileItWaits: who disabled a protocol, after which the withdraw was refused, and then loads the
// configuration again has undone that; the withdraw does not wait for its turn.
func TestChangedWhileItWaits(t *testing.T) {
	for _, tc := range []struct {
		want      routers.Want
		was, is   routers.Stage
		wasWorse  bool
		wasBroken bool
	}{
		{withdrawn, routers.Configured, routers.Advertised, false, false},
		{withdrawn, routers.Advertised, routers.Advertised, true, false},
		{degraded, routers.Absent, routers.Advertised, false, false},
		{announced, routers.Selected, routers.Absent, false, false},
		{announced, routers.Absent, routers.Configured, false, false},
		{announced, routers.Selected, routers.Selected, false, true},
	} {
		run(t, slowly, stages{a: routers.Advertised}, func(r *rig) {
			r.f.do(func() { r.f.worse[a], r.f.broken[a] = tc.wasWorse, tc.wasBroken })
			waiting(r, tc.was, tc.want)
			r.f.do(func() { r.f.applyErr, r.f.worse[a], r.f.broken[a] = nil, false, false })
			r.drift(a, tc.is)
			r.loop.Wake()
			r.until(20*time.Millisecond, fmt.Sprintf("%s, when %s became %s", tc.want, tc.was, tc.is), synced)
		})
	}
}

// TestFallsWhileItWaits: a withdraw has nothing in what draws less traffic.
func TestFallsWhileItWaits(t *testing.T) {
	run(t, slowly, stages{a: routers.Advertised}, func(r *rig) {
		waiting(r, routers.Advertised, withdrawn)
		n, _ := r.made()
		r.drift(a, routers.Configured)
		r.loop.Wake()
		r.until(time.Second, "read", reads(a, routers.Configured))
		r.pass(time.Second)
		if after, _ := r.made(); after != n {
			t.Errorf("asked for %v", r.applied()[n:])
		}
	})
}

// TestChangesWithoutEndAreNoHammering: what changes again and again is asked for no more often than it would be
// repaired.
func TestChangesWithoutEndAreNoHammering(t *testing.T) {
	run(t, slowly, stages{a: routers.Advertised}, func(r *rig) {
		waiting(r, routers.Configured, withdrawn)
		before, _ := r.made()
		for range 600 {
			for _, s := range []routers.Stage{routers.Advertised, routers.Configured} {
				r.drift(a, s)
				r.loop.Wake()
				r.pass(50 * time.Millisecond)
			}
		}
		if after, _ := r.made(); after-before < 50 || after-before > 60+2*burst {
			t.Errorf("asked %d times in a minute", after-before)
		}
		r.drift(a, routers.Configured)
		r.loop.Wake()
		r.pass(10 * time.Second)
		r.f.do(func() { r.f.applyErr = nil })
		r.drift(a, routers.Advertised)
		r.loop.Wake()
		r.until(20*time.Millisecond, "withdrawn, with nothing owed", synced)
	})
}

// TestFailedWithdrawIsNotForgotten: an announce was taken, and nothing of it can be read yet. The withdraw
// after it must be taken too: that nothing can be read proves nothing.
func TestFailedWithdrawIsNotForgotten(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.f.do(func() { r.f.settle = time.Hour })
		r.loop.Want(Desired{a: announced})
		r.pass(100 * time.Millisecond)
		r.f.do(func() { r.f.settle, r.f.applyErr = 0, func([]routers.Change) error { return errOdd } })
		r.loop.Want(Desired{a: withdrawn})
		r.pass(10 * time.Second)
		n, _ := r.made()
		if out := r.report().Outstanding[a]; out.Err != errOdd || out.Doing != Withdrawing || n < 6 {
			t.Errorf("asked %d times, outstanding: %+v", n, out)
		}
		for range 100 {
			r.loop.Wake()
			r.pass(10 * time.Millisecond)
		}
		if after, _ := r.made(); after-n > 2 {
			t.Errorf("asked %d times within a second because of hints, and it is read absent", after-n)
		}
		r.f.do(func() { r.f.applyErr = nil })
		r.until(3*time.Second, "synced", synced)
		if as := r.applied(); as[len(as)-1].err != nil || as[len(as)-1].cs[0].Want != withdrawn {
			t.Errorf("asked for %v", as)
		}
	})
}

// TestForcedWithdrawIsTriedWhenTheDaemonIsBack: it has failed because the daemon was away, and is read absent.
func TestForcedWithdrawIsTriedWhenTheDaemonIsBack(t *testing.T) {
	run(t, slowly, nil, func(r *rig) {
		r.f.do(func() { r.f.settle = 10 * time.Hour })
		r.loop.Want(Desired{a: announced})
		r.pass(100 * time.Millisecond)
		r.f.do(func() {
			r.f.readErr, r.f.settle = func() error { return errAway }, 0
			r.f.applyErr = func([]routers.Change) error { return errAway }
		})
		r.loop.Want(Desired{a: withdrawn})
		r.until(time.Hour, "waiting for minutes", func(rep Report) bool { return time.Until(rep.Outstanding[a].Next) > 2*time.Minute })
		r.f.do(func() { r.f.readErr, r.f.applyErr = nil, nil })
		r.loop.Wake()
		r.until(50*time.Millisecond, "synced", synced)
	})
}

// TestFallsWhileItIsReadBack: what was taken, and is further away from it a moment later, was undone by somebody else:
// it does not wait for the end of its deadline. What comes about step by step is left alone.
func TestFallsWhileItIsReadBack(t *testing.T) {
	for _, tc := range []struct {
		want    routers.Want
		was, is routers.Stage
		again   bool
	}{
		{withdrawn, routers.Configured, routers.Advertised, true},
		{withdrawn, routers.Advertised, routers.Configured, false},
		{announced, routers.Selected, routers.Configured, true},
		{announced, routers.Configured, routers.Selected, false},
		{degraded, routers.Selected, routers.Absent, true},
	} {
		start := routers.Absent
		if tc.want == withdrawn {
			start = routers.Advertised
		}
		run(t, Options{Deadline: time.Hour}, stages{a: start}, func(r *rig) {
			r.loop.Want(Desired{a: routers.Keep})
			r.until(time.Second, "read", synced)
			r.f.do(func() { r.f.ignore = func(netip.Prefix) bool { return true } })
			r.loop.Want(Desired{a: tc.want})
			r.pass(0)
			r.drift(a, tc.was)
			r.until(time.Second, "read on its way", reads(a, tc.was))
			r.pass(time.Second)
			n, _ := r.made()
			r.f.do(func() { r.f.ignore = nil })
			r.drift(a, tc.is)
			r.pass(time.Second)
			if now, _ := r.made(); (now > n) != tc.again || r.report().Synced != tc.again {
				t.Errorf("%s, when %s became %s: asked %d times, and then %d; %s", tc.want, tc.was, tc.is, n, now, describe(r.report()))
			}
		})
	}
}

// TestStandsOnNothing: what was taken, and is read to stand on nothing, is asked for again at once, also when it was so
// before and at the first reading since; but not without end.
func TestStandsOnNothing(t *testing.T) {
	run(t, Options{Deadline: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		r.f.do(func() { r.f.broken[a] = true })
		undone := 3
		r.f.do(func() { r.f.ignore = func(netip.Prefix) bool { undone--; return undone >= 0 } })
		r.loop.Want(Desired{a: announced})
		r.until(100*time.Millisecond, "as wanted", synced)
		r.f.do(func() { r.f.broken[a], r.f.ignore = true, func(netip.Prefix) bool { return true } })
		before, _ := r.made()
		r.pass(time.Minute)
		if n, _ := r.made(); n-before > 2*burst {
			t.Errorf("asked %d times in a minute", n-before)
		}
	})
}

// TestRefusedUntilAnEpoch: what the daemon refuses is asked for again as soon as others have changed it, and not
// before its time else.
func TestRefusedUntilAnEpoch(t *testing.T) {
	for _, w := range []routers.Want{withdrawn, announced} {
		for _, first := range []uint64{0, 1} {
			run(t, slowly, stages{a: routers.Selected}, func(r *rig) {
				r.f.do(func() { r.f.epoch = first })
				waiting(r, routers.Selected, w)
				n, _ := r.made()
				r.loop.Wake()
				r.pass(time.Second)
				if now, _ := r.made(); now != n {
					t.Errorf("%s: asked with no change", w)
				}
				r.f.do(func() { r.f.applyErr, r.f.epoch = nil, 2 })
				r.loop.Wake()
				if first > 0 {
					r.until(20*time.Millisecond, "taken", synced)
				} else if r.pass(time.Second); r.report().Synced {
					t.Errorf("%s: asked by an epoch of which nothing was known before", w)
				}
			})
		}
	}
}

// TestOneOfABatchIsRefused: what is refused of one prefix is not told of another that was asked for beside it.
func TestOneOfABatchIsRefused(t *testing.T) {
	run(t, slowly, stages{a: routers.Advertised}, func(r *rig) {
		r.f.do(func() {
			r.f.applyErr = func([]routers.Change) error {
				return routers.Join(&routers.PrefixError{Prefix: a, Err: errRefused})
			}
		})
		r.loop.Want(Desired{a: withdrawn, b: announced})
		r.pass(0)
		r.until(time.Second, "refused", func(rep Report) bool { return rep.Outstanding[a].Err != nil })
		if out := r.report().Outstanding[b]; out.Err != nil || out.Attempts != 1 {
			t.Errorf("the other: %+v", out)
		}
	})
}

// outlasting fails every other time with what is still under way, and else with what an attempt came to: a daemon that
// takes longer over each change than one call waits.
func outlasting(end error) func([]routers.Change) error {
	n := 0
	return func([]routers.Change) error {
		if n++; n%2 == 1 {
			return routers.Errorf(errors.Join(routers.ErrBusy, routers.ErrUnderway), "fake: still at it")
		}
		return end
	}
}

// TestUnderwayIsNoOutcome: what lasts longer than a call is not asked for the oftener, nor what it came to forgotten.
func TestUnderwayIsNoOutcome(t *testing.T) {
	for _, end := range []error{errRefused, errAway} {
		run(t, slowly, stages{}, func(r *rig) {
			r.f.do(func() { r.f.applyErr = outlasting(end) })
			r.loop.Want(Desired{a: announced})
			r.pass(20 * time.Minute)
			if n, _ := r.made(); n > 40 {
				t.Errorf("%v: asked %d times in 20 minutes", end, n)
			}
			if err := r.report().Outstanding[a].Err; !errors.Is(err, end) {
				t.Errorf("told %v, want %v", err, end)
			}
		})
	}
}

// TestHintsDoNotHammer: a withdraw that is repeated because of hints counts what that comes to: one that is refused is
// not repeated by each hint.
func TestHintsDoNotHammer(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		r.f.do(func() { r.f.applyErr = outlasting(errRefused) })
		r.loop.Want(Desired{a: withdrawn})
		for range 600 {
			r.loop.Wake()
			r.pass(50 * time.Millisecond)
		}
		if n, _ := r.made(); n > 60 {
			t.Errorf("asked %d times in 30 seconds", n)
		}
		if err := r.report().Outstanding[a].Err; !errors.Is(err, errRefused) {
			t.Errorf("told %v", err)
		}
	})
}

// TestReadsLessOften: a withdraw that has no effect for long is read back ever less often, but as often as at first once
// anything moves, and each attempt's end is seen in time.
func TestReadsLessOften(t *testing.T) {
	run(t, Options{Deadline: 30 * time.Second, VerifyInterval: 5 * time.Second}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: routers.Keep})
		r.until(time.Second, "read", synced)
		r.f.do(func() { r.f.ignore = func(netip.Prefix) bool { return true } })
		r.loop.Want(Desired{a: withdrawn})
		r.pass(time.Second)
		first := r.report().Readings
		r.pass(5 * time.Minute)
		before := r.report().Readings
		r.pass(time.Minute)
		if n := r.report().Readings - before; first < 15 || n > 120 {
			t.Errorf("%d readings in the first second, and %d in a minute after five", first, n)
		}
		r.drift(a, routers.Selected)
		r.until(2*time.Second, "read on its way", reads(a, routers.Selected))
		before = r.report().Readings
		r.pass(time.Second)
		if n := r.report().Readings - before; n < 15 {
			t.Errorf("%d readings in the second after it moved", n)
		}
	})
}
