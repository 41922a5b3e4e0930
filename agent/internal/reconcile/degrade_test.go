package reconcile

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// What is announced and is to be degraded is asked for at once, on the strength of the last reading.
func TestDegradeWaitsForNoReading(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.readTake = 300 * time.Millisecond })
		at := time.Now()
		r.loop.Want(Desired{a: degraded, b: degraded})
		synctest.Wait()
		if as := r.applied(); len(as) != 1 || !as[0].at.Equal(at) || !slices.Equal(as[0].cs, []routers.Change{{Prefix: a, Want: degraded}}) {
			t.Errorf("at once: %+v, want only what is announced to be degraded", as)
		}
		r.until(5*time.Second, "synced", synced)
		for _, p := range []netip.Prefix{a, b} {
			if rep := r.report(); !readsWay(p, true)(rep) {
				t.Errorf("%s: %s", p, describe(rep))
			}
		}
		r.loop.Want(Desired{a: announced, b: degraded})
		r.until(5*time.Second, "as usual again", func(rep Report) bool { return synced(rep) && readsWay(a, false)(rep) })
		for _, ap := range r.applied() {
			if slices.ContainsFunc(ap.cs, func(c routers.Change) bool { return c.Want == withdrawn }) {
				t.Errorf("asked for %v on the way", ap.cs)
			}
		}
	})
}

// A reading under way is broken off for a withdraw and for nothing else.
func TestDegradeBreaksOffNoReading(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.readTake = 800 * time.Millisecond })
		r.loop.Wake()
		r.pass(100 * time.Millisecond)
		began := time.Now()
		r.loop.Want(Desired{a: degraded})
		r.until(5*time.Second, "asked", func(Report) bool { n, _ := r.made(); return n == 1 })
		if waited := r.applied()[0].at.Sub(began); waited < 600*time.Millisecond || waited > 750*time.Millisecond {
			t.Errorf("asked after %s, want it at the end of the reading", waited)
		}
	})
}

func TestDegradedDriftIsRepaired(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, nil, func(r *rig) {
		for _, worse := range []bool{true, false} {
			w := map[bool]routers.Want{true: degraded, false: announced}[worse]
			r.loop.Want(Desired{a: w})
			r.until(time.Second, "synced", synced)
			r.pass(time.Minute)
			r.f.do(func() { r.f.worse[a] = !worse })
			at := time.Now()
			r.loop.Wake()
			synctest.Wait()
			last := r.applied()[len(r.applied())-1]
			if !last.at.Equal(at) || last.cs[0].Want != w {
				t.Errorf("to be %s: last asked for %v, %s after the hint", w, last.cs, last.at.Sub(at))
			}
			r.until(time.Second, "synced", func(rep Report) bool { return synced(rep) && readsWay(a, worse)(rep) })
		}
	})
}

// Nothing is degraded for an unknown, and a change that does not take is told in words that fit.
func TestDegradeThatDoesNotTake(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour, RetryMin: time.Second}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.ignore = func(netip.Prefix) bool { return true } })
		r.loop.Want(Desired{a: degraded})
		r.until(10*time.Second, "given up on once", func(rep Report) bool { return rep.Outstanding[a].Err != nil })
		out := r.report().Outstanding[a]
		if want := a.String() + " is still read as advertised, not degraded, 3s after it was asked to be degraded"; out.Err.Error() != want || out.Doing != Degrading {
			t.Errorf("%s: %v, want %q", out.Doing, out.Err, want)
		}
		r.f.do(func() { r.f.readErr = func() error { return errAway } })
		r.loop.Wake()
		r.until(time.Second, "unreadable", func(rep Report) bool { return rep.ReadErr != nil })
		before, _ := r.made()
		r.pass(time.Minute)
		if after, _ := r.made(); after != before || r.report().Outstanding[a].Doing != Waiting {
			t.Errorf("asked %d times while it cannot be read: %s", after-before, describe(r.report()))
		}
	})
}

// A late is a fake that only a reading finds out about.
type late struct{ *fake }

func (l late) read() (yes bool) { l.do(func() { yes = len(l.reads) > 0 }); return yes }

func (l late) String() string {
	if l.read() {
		return "found"
	}
	return "not found yet"
}

func (l late) Goal() routers.Stage {
	if l.read() {
		return routers.Selected
	}
	return routers.Advertised
}

// A report tells the router's name and goal as they are after the reading, which they measure.
func TestReportTellsTheRouter(t *testing.T) {
	runRouter(t, Options{}, stages{a: routers.Selected}, func(f *fake) routers.Router { return late{f} }, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		if rep := r.report(); rep.Router != "found" || rep.Goal != routers.Selected {
			t.Errorf("%q, goal %s", rep.Router, rep.Goal)
		}
		if n, _ := r.made(); n != 0 {
			t.Errorf("asked %d times for what has arrived", n)
		}
	})
}

// A withdraw that was asked for may yet come through, so what is read as degraded then proves nothing.
func TestDegradedAgainAmidAWithdraw(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, nil, func(r *rig) {
		r.loop.Want(Desired{a: degraded})
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.settle = 300 * time.Millisecond })
		r.loop.Want(Desired{a: withdrawn})
		r.pass(50 * time.Millisecond)
		r.loop.Want(Desired{a: degraded})
		r.pass(10 * time.Second)
		if rep := r.report(); !rep.Synced || !readsWay(a, true)(rep) {
			t.Errorf("%s", describe(rep))
		}
		if as := r.applied(); len(as) != 3 || as[2].cs[0].Want != degraded || as[2].at.Sub(as[1].at) > 60*time.Millisecond {
			t.Errorf("asked for %+v, want it degraded again at once", as)
		}
	})
}

// A daemon that cannot be read is tried the more often, the more pressing what is outstanding is.
func TestRereadingIsAsEagerAsWhatIsOutstanding(t *testing.T) {
	for w, want := range map[routers.Want]time.Duration{withdrawn: 2500 * time.Millisecond, degraded: 5 * time.Second, announced: 10 * time.Second, keep: 10 * time.Second} {
		run(t, Options{VerifyInterval: time.Hour, Rand: func() float64 { return 0 }}, nil, func(r *rig) {
			r.f.do(func() { r.f.readErr = func() error { return errAway } })
			r.loop.Want(Desired{a: w, b: keep})
			r.pass(5 * time.Minute)
			var gap time.Duration
			for ts, i := r.readings(), 1; i < len(ts); i++ {
				gap = max(gap, ts[i].Sub(ts[i-1]))
			}
			if gap != want {
				t.Errorf("to be %s: readings up to %s apart, want %s", w, gap, want)
			}
		})
	}
}
