package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// settledUp starts with a announced and b withdrawn.
func settledUp(r *rig) {
	r.t.Helper()
	r.loop.Want(Desired{a: announced, b: withdrawn})
	r.until(time.Second, "synced", synced)
}

// TestFaultWhileGoingDown: whatever goes wrong when a service goes down, its prefix is withdrawn by
// itself, as soon as the cause has gone.
func TestFaultWhileGoingDown(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault func(f *fake)
		limit time.Duration
	}{
		{"no fault", func(*fake) {}, 5 * time.Millisecond},
		{"the change fails once", func(f *fake) { f.applyErr = failingApply(1, errOdd) }, 250 * time.Millisecond},
		{"the change is refused once", func(f *fake) { f.applyErr = failingApply(1, fmt.Errorf("x: %w", routers.ErrRefused)) }, 250 * time.Millisecond},
		{"locked for a second", func(f *fake) { f.applyErr = failingApply(3, routers.ErrBusy) }, 800 * time.Millisecond},
		{"away for four attempts", func(f *fake) { f.applyErr = failingApply(4, errAway) }, 3100 * time.Millisecond},
		{"the table cannot be read", func(f *fake) { f.readErr = failing(3, errAway) }, time.Second},
		{"taken with no effect", func(f *fake) {
			n := 0
			f.ignore = func(netip.Prefix) bool { n++; return n <= 1 }
		}, 3300 * time.Millisecond},
		{"hangs once", func(f *fake) {
			n := 0
			f.applyErr = func([]routers.Change) error {
				if n++; n == 1 {
					f.applyTake = time.Hour
				} else {
					f.applyTake = 0
				}
				return nil
			}
		}, 1300 * time.Millisecond},
		{"the driver panics", func(f *fake) {
			n := 0
			f.applyErr = func([]routers.Change) error {
				if n++; n == 1 {
					panic("index out of range")
				}
				return nil
			}
		}, 250 * time.Millisecond},
		{"slow", func(f *fake) { f.applyTake = 400 * time.Millisecond }, 450 * time.Millisecond},
		{"slow to take effect", func(f *fake) { f.settle = 2500 * time.Millisecond }, 2700 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
				settledUp(r)
				r.f.do(func() { tc.fault(r.f) })
				r.loop.Want(Desired{a: withdrawn, b: withdrawn})
				r.pass(0)
				r.until(tc.limit, "withdrawn", func(rep Report) bool { return rep.Synced && reads(a, routers.Absent)(rep) })
			})
		})
	}
}

func TestAwayForTenMinutes(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() {
			r.f.readErr = func() error { return errAway }
			r.f.applyErr = func([]routers.Change) error { return errAway }
		})
		r.loop.Want(Desired{a: withdrawn, b: announced})
		r.pass(10 * time.Minute)
		n, reads := r.made()
		if n < 200 || n > 340 || reads > 700 {
			t.Errorf("asked %d and read %d times in ten minutes", n, reads)
		}
		for _, ap := range r.applied() {
			for _, c := range ap.cs {
				if c.Want == announced {
					t.Fatal("something was announced for an unknown")
				}
			}
		}
		r.f.do(func() { r.f.readErr, r.f.applyErr = nil, nil })
		r.until(2600*time.Millisecond, "as wanted", synced)
	})
}

func TestDaemonBackIsUsedAtOnce(t *testing.T) {
	run(t, Options{RetryMax: time.Minute}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() {
			r.f.readErr = func() error { return errAway }
			r.f.applyErr = func([]routers.Change) error { return errAway }
		})
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		r.pass(5 * time.Minute)
		r.f.do(func() { r.f.readErr, r.f.applyErr = nil, nil })
		r.loop.Wake()
		r.until(10*time.Millisecond, "withdrawn", synced)
	})
}

func TestWithdrawDoesNotWaitForASlowAnnounce(t *testing.T) {
	run(t, Options{ApplyTimeout: time.Minute}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.applyTake = time.Second })
		up := Desired{a: announced, b: announced, c: announced, pfx(4): announced}
		r.loop.Want(up)
		r.pass(100 * time.Millisecond)
		r.f.do(func() { r.f.applyTake = 0 })
		at := time.Now()
		up[a] = withdrawn
		r.loop.Want(up)
		synctest.Wait()
		if took := r.until(time.Second, "withdrawn", reads(a, routers.Absent)); took > time.Millisecond {
			t.Errorf("withdrawn after %s", took)
		}
		if !errors.Is(r.applied()[0].err, context.Canceled) || r.applied()[1].cs[0] != (routers.Change{Prefix: a, Want: withdrawn}) {
			t.Errorf("asked for %v since %s", r.applied(), at)
		}
		r.until(5*time.Millisecond, "synced", synced) // what was broken off has not failed
	})
}

func TestWithdrawIsNotBrokenOffForAnAnnounce(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.applyTake = 500 * time.Millisecond })
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		r.pass(100 * time.Millisecond)
		r.loop.Want(Desired{a: withdrawn, b: announced})
		r.until(2*time.Second, "synced", synced)
		if n, _ := r.made(); n != 2 || r.applied()[0].err != nil {
			t.Errorf("asked for %v", r.applied())
		}
	})
}

func TestWithdrawDoesNotWaitForAHungReading(t *testing.T) {
	run(t, Options{Timeout: 5 * time.Second}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.readTake = time.Hour })
		r.loop.Wake()
		r.pass(time.Second)
		at := time.Now()
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		synctest.Wait()
		if n, _ := r.made(); n != 1 || !r.applied()[0].at.Equal(at) {
			t.Errorf("asked for %v, want at %s", r.applied(), at)
		}
	})
}

// TestCascadeBesideAHungReading: services fail one after the other, faster than a reading of the hung
// daemon ends, and each withdraw is asked for all the same.
// TestPutBackWhileUnconfirmed: what undoes a withdraw that cannot be read back is itself undone at once,
// and a refused one is still not hammered.
// TestChangesOfMindThatDoNotEnd: an Apply gets somewhere although it is broken off again and again.
func TestChangesOfMindThatDoNotEnd(t *testing.T) {
	run(t, Options{ApplyTimeout: time.Minute}, nil, func(r *rig) {
		up := Desired{}
		for n := range 200 {
			up[pfx(n)] = announced
		}
		r.loop.Want(up)
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.applyTake = 10 * time.Millisecond })
		for n := range 200 {
			up[pfx(n)] = withdrawn
			r.loop.Want(up)
			r.pass(2 * time.Millisecond)
		}
		// Broken off every 50 ms, an Apply makes four or five changes of 10 ms each time, and the next
		// one goes on where it ended.
		left := 0
		r.f.do(func() {
			for _, s := range r.f.stages {
				if s != routers.Absent {
					left++
				}
			}
		})
		if n, _ := r.made(); left > 172 || n > 10 {
			t.Errorf("%d of 200 prefixes left after 400ms and %d calls", left, n)
		}
		r.until(2*time.Second, "synced", synced)
	})
}

// TestBackAndForth: when a change that is under way is no longer wanted, what the table still says
// is not taken for its end.
func TestBackAndForth(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.settle = 20 * time.Millisecond })
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		r.pass(5 * time.Millisecond)
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.pass(time.Second)
		if rep := r.report(); !rep.Synced || !reads(a, routers.Advertised)(rep) {
			t.Errorf("%s", describe(rep))
		}
		var is routers.Stage
		if r.f.do(func() { is = r.f.stages[a] }); is != routers.Advertised {
			t.Errorf("%s is %s, and nobody has noticed", a, is)
		}
	})
}

func TestRefusedIsNotHammered(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.f.do(func() { r.f.applyErr = func([]routers.Change) error { return fmt.Errorf("x: %w", routers.ErrRefused) } })
		r.loop.Want(Desired{a: announced, b: withdrawn})
		for range 300 {
			r.pass(time.Second)
			r.loop.Wake()
		}
		applies, before := r.made()
		if applies < 6 || applies > 8 {
			t.Errorf("asked %d times in five minutes, want at 0, 5, 15, 35, 75, 155 s", applies)
		}
		r.pass(100 * time.Second)
		if _, after := r.made(); after-before < 17 {
			t.Errorf("%d readings in 100s", after-before)
		}
		r.f.do(func() { r.f.applyErr = nil })
		r.loop.Want(Desired{a: withdrawn, b: announced})
		r.until(10*time.Millisecond, "synced", synced)
	})
}

// TestOneBadPrefixDoesNotHoldUpOthers: while one prefix is waited for, another one is repaired.
func TestOneBadPrefixDoesNotHoldUpOthers(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.f.do(func() { r.f.ignore = func(p netip.Prefix) bool { return p == a } })
		r.loop.Want(Desired{a: announced, b: announced, c: withdrawn})
		for range 50 {
			r.pass(700 * time.Millisecond)
			r.drift(c, routers.Advertised)
			r.loop.Wake()
			r.until(15*time.Millisecond, "repaired", reads(c, routers.Absent))
			r.pass(time.Second)
		}
		out := r.report().Outstanding
		if len(out) != 1 || out[a].Attempts > 15 || !strings.Contains(out[a].Err.Error(), "is still read as absent, 3s after it was asked to be announced") {
			t.Errorf("outstanding: %+v", out)
		}
	})
}

func TestOnlyReadingDecides(t *testing.T) {
	for _, tc := range []struct {
		want Desired
		p    netip.Prefix
		to   routers.Stage
	}{{Desired{a: withdrawn, b: withdrawn}, a, routers.Absent}, {Desired{a: announced, b: announced}, b, routers.Advertised}} {
		run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
			settledUp(r)
			r.f.do(func() { // an error, and yet it is done
				r.f.applyErr = func([]routers.Change) error { r.f.stages[tc.p] = tc.to; return errOdd }
			})
			r.mu.Lock()
			r.onTell = func(rep Report) {
				if err := rep.Outstanding[tc.p].Err; err != nil {
					t.Errorf("%v is reported: %s", err, describe(rep))
				}
			}
			r.mu.Unlock()
			r.loop.Want(tc.want)
			r.until(5*time.Millisecond, "synced", synced)
		})
	}
}

func TestFailedReadingIsTriedAgainSoon(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		r.pass(time.Minute)
		r.f.do(func() { r.f.readErr = failing(3, errAway) })
		r.loop.Wake()
		r.until(time.Second, "unreadable", func(rep Report) bool { return rep.ReadErr != nil && rep.Outstanding[a].Doing == Waiting })
		r.until(1400*time.Millisecond, "synced", synced)
		if n, _ := r.made(); n != 0 {
			t.Errorf("asked for %v", r.applied())
		}
	})
}

func TestRefusedIsNotAskedForBecauseOfOthers(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		refuse := func(cs []routers.Change) error {
			for _, c := range cs {
				if c.Prefix == a {
					return fmt.Errorf("x: %w", routers.ErrRefused)
				}
			}
			return nil
		}
		r.f.do(func() { r.f.applyErr = refuse })
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.pass(time.Second)
		since := r.report().Outstanding[a].Since
		for range 10 {
			r.loop.Want(Desired{a: announced, b: announced})
			r.pass(100 * time.Millisecond)
			r.loop.Want(Desired{a: announced, b: withdrawn})
			r.pass(100 * time.Millisecond)
		}
		if out := r.report().Outstanding[a]; out.Attempts != 1 || !out.Since.Equal(since) || out.Next.IsZero() {
			t.Errorf("%+v, want one attempt, outstanding since %s", out, since)
		}
	})
}

func TestPanicInAReading(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.readErr = func() error { panic("slice bounds out of range") } })
		r.loop.Wake()
		r.until(time.Second, "reported", func(rep Report) bool {
			return rep.ReadErr != nil && strings.Contains(rep.ReadErr.Error(), "fake: panic: slice bounds") && reads(a, routers.Unknown)(rep)
		})
		r.f.do(func() { r.f.readErr = nil })
		r.until(time.Second, "synced", synced)
	})
}
