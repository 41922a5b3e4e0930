package reconcile

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

var (
	a = pfx(1)
	b = pfx(2)
	c = pfx(3)
)

type stages = map[netip.Prefix]routers.Stage

func TestAdoptsWhatIsRightAndRepairsWhatIsNot(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised, b: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced, b: withdrawn, c: announced})
		if took := r.until(time.Second, "synced", synced); took > 5*time.Millisecond {
			t.Errorf("took %s", took)
		}
		want := []routers.Change{{Prefix: b, Want: withdrawn}, {Prefix: c, Want: announced}}
		if len(r.applied()) != 1 || !slices.Equal(r.applied()[0].cs, want) {
			t.Errorf("asked for %v, want once %v", r.applied(), want)
		}
	})
}

// What is amended is asked for as at once as all that is wanted anew, and leaves the others as they were to be.
func TestAmend(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{b: routers.Advertised}, func(r *rig) {
		all := Desired{a: announced, b: announced}
		r.loop.Want(all)
		r.until(time.Second, "synced", synced)
		some := Desired{b: withdrawn}
		at := time.Now()
		r.loop.Amend(some)
		some[b] = announced // it is the caller's again
		synctest.Wait()
		last := r.applied()[len(r.applied())-1]
		if want := []routers.Change{{Prefix: b, Want: withdrawn}}; !last.at.Equal(at) || !slices.Equal(last.cs, want) {
			t.Errorf("asked for %v %s after, want %v at once", last.cs, last.at.Sub(at), want)
		}
		r.loop.Amend(Desired{c: announced})
		r.loop.Amend(Desired{b: announced})
		r.until(time.Second, "amended", synced)
		if want := (Desired{a: announced, b: announced, c: announced}); !maps.Equal(r.report().Desired, want) {
			t.Errorf("measured against %v, want %v", r.report().Desired, want)
		}
		r.loop.Amend(Desired{a: withdrawn})
		r.loop.Want(all)
		r.until(time.Second, "wanted anew", synced)
		if !maps.Equal(r.report().Desired, all) {
			t.Errorf("measured against %v, want %v", r.report().Desired, all)
		}
	})
}

// Nothing is read before the first call of either.
func TestAmendFirst(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.loop.Amend(Desired{a: announced})
		r.until(time.Second, "announced", reads(a, routers.Advertised))
	})
}

// A withdraw that is amended breaks off a reading as any other one does.
func TestAmendBreaksOffAReading(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour, Timeout: 5 * time.Second}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		r.f.do(func() { r.f.readTake = 3 * time.Second })
		r.loop.Wake()
		r.pass(100 * time.Millisecond)
		began := time.Now()
		r.loop.Amend(Desired{a: withdrawn})
		r.until(10*time.Second, "asked", func(Report) bool { n, _ := r.made(); return n == 1 })
		if waited := r.applied()[0].at.Sub(began); waited > 100*time.Millisecond {
			t.Errorf("asked after %s", waited)
		}
	})
}

func TestKeepIsReadAndLeftAlone(t *testing.T) {
	run(t, Options{}, stages{a: routers.Configured}, func(r *rig) {
		r.loop.Want(Desired{a: keep, b: keep})
		r.until(time.Second, "synced", synced)
		r.drift(a, routers.Absent)
		r.loop.Wake()
		r.until(time.Second, "read absent", reads(a, routers.Absent))
		if n, _ := r.made(); n != 0 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestNothingBeforeTheFirstWant(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.loop.Wake()
		r.pass(time.Minute)
		if applies, reads := r.made(); applies+reads+r.count > 0 {
			t.Errorf("%d changes, %d readings, %d reports", applies, reads, r.count)
		}
		r.loop.Want(Desired{})
		r.until(time.Second, "reported", synced)
	})
}

func TestSteadyStateSendsNothing(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.until(time.Second, "synced", synced)
		_, before := r.made()
		r.pass(1000 * time.Second)
		_, after := r.made()
		if n := after - before; n < 180 || n > 225 {
			t.Errorf("%d readings in 1000s, want about 200", n)
		}
		for range 1000 {
			r.loop.Wake()
			r.loop.Want(Desired{b: withdrawn, a: announced})
			r.pass(7 * time.Millisecond)
		}
		if applies, _ := r.made(); applies != 0 {
			t.Errorf("asked %d times: %v", applies, r.applied())
		}
	})
}

func TestTheSameWantDoesNothing(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		d := Desired{a: announced}
		r.loop.Want(d)
		d[b] = announced // Want keeps no reference
		r.until(time.Second, "synced", synced)
		_, before := r.made()
		for range 100 {
			r.loop.Want(Desired{a: announced})
			synctest.Wait()
		}
		if _, after := r.made(); after != before {
			t.Errorf("%d readings for the same want", after-before)
		}
	})
}

func TestManyAtOnceAreOneApply(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		up, down := Desired{}, Desired{}
		for n := range 12 {
			up[pfx(n)], down[pfx(n)] = announced, withdrawn
		}
		r.loop.Want(up)
		r.until(time.Second, "synced", synced)
		r.loop.Want(down)
		r.until(time.Second, "withdrawn", reads(pfx(11), routers.Absent))
		r.until(time.Second, "synced", synced)
		if applies, _ := r.made(); applies != 2 || len(r.applied()[0].cs) != 12 || len(r.applied()[1].cs) != 12 {
			t.Errorf("asked %d times: %v", applies, r.applied())
		}
	})
}

func TestDriftIsRepairedAtOnce(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.until(time.Second, "synced", synced)
		for _, drift := range []struct {
			p        netip.Prefix
			to, back routers.Stage
		}{{a, routers.Absent, routers.Advertised}, {b, routers.Advertised, routers.Absent}} {
			r.pass(time.Minute)
			r.drift(drift.p, drift.to)
			at := time.Now()
			r.loop.Wake()
			synctest.Wait()
			last := r.applied()[len(r.applied())-1]
			if !last.at.Equal(at) {
				t.Errorf("%s: repaired %s after the hint", drift.p, last.at.Sub(at))
			}
			if took := r.until(time.Second, "synced", synced); took > 5*time.Millisecond {
				t.Errorf("%s: verified after %s", drift.p, took)
			}
		}
	})
}

func TestDriftWithoutHintIsRepairedByVerifying(t *testing.T) {
	run(t, Options{VerifyInterval: 10 * time.Second}, stages{a: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		r.drift(a, routers.Selected)
		r.until(11*time.Second, "repaired", func(Report) bool { n, _ := r.made(); return n == 1 })
	})
}

// TestAFightIsPaced: somebody puts the prefix back each time that it is withdrawn.
func TestAFightIsPaced(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.loop.Want(Desired{a: withdrawn})
		r.until(time.Second, "synced", synced)
		for range 6000 {
			r.drift(a, routers.Advertised)
			r.loop.Wake()
			r.pass(10 * time.Millisecond)
		}
		if n, _ := r.made(); n < 60 || n > 70 {
			t.Errorf("asked %d times in a minute, want about one a second", n)
		}
		r.until(10*time.Second, "synced", synced)
	})
}

func TestStormOfHints(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, nil, func(r *rig) {
		r.loop.Want(Desired{a: withdrawn})
		r.until(time.Second, "synced", synced)
		r.pass(time.Second)
		_, before := r.made()
		for range 7000 {
			r.loop.Wake()
			r.pass(100 * time.Microsecond)
		}
		_, after := r.made()
		if n := after - before; n < 7 || n > 14 {
			t.Errorf("%d readings in 0.7s of storm, want about ten", n)
		}
		for i, ts := before+1, r.readings(); i < len(ts); i++ {
			if gap := ts[i].Sub(ts[i-1]); gap < paceMin {
				t.Errorf("readings %s apart", gap)
			}
		}
		r.pass(time.Second)
		at := time.Now()
		r.loop.Wake()
		synctest.Wait()
		if last := r.readings()[len(r.readings())-1]; !last.Equal(at) {
			t.Errorf("after the storm a hint waits %s", last.Sub(at))
		}
	})
}

func TestPrefixesThatLeaveAreLeftAlone(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.loop.Want(Desired{a: announced, b: announced})
		r.until(time.Second, "synced", synced)
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "one prefix", func(rep Report) bool { return len(rep.Observations) == 1 && rep.Synced })
		r.drift(b, routers.Absent)
		r.loop.Wake()
		r.pass(time.Minute)
		if n, _ := r.made(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestAPrefixThatLeavesIsNoLongerOutstanding(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.f.do(func() { r.f.applyErr = failingApply(1000, routers.ErrRefused) })
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.pass(time.Second)
		r.loop.Want(Desired{b: withdrawn})
		r.until(time.Second, "synced", func(rep Report) bool { return rep.Synced && len(rep.Outstanding) == 0 })
	})
}

func TestWantDuringAReading(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.readTake = 100 * time.Millisecond })
		r.loop.Wake()
		r.pass(50 * time.Millisecond)
		r.loop.Want(Desired{a: announced, b: withdrawn, c: announced})
		r.until(time.Second, "synced", synced)
		if n, _ := r.made(); n != 1 || r.applied()[0].cs[0].Prefix != c {
			t.Errorf("asked for %v", r.applied())
		}
	})
}

func TestVerifyIsJittered(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 9 * time.Second, 0.5: 10 * time.Second} {
		run(t, Options{VerifyInterval: 10 * time.Second, Rand: func() float64 { return random }}, nil, func(r *rig) {
			r.loop.Want(Desired{a: withdrawn})
			r.pass(time.Minute)
			ts := r.readings()
			if got := ts[2].Sub(ts[1]); got != want {
				t.Errorf("readings %s apart, want %s", got, want)
			}
		})
	}
}

func TestANewPrefixIsReadFirst(t *testing.T) {
	run(t, Options{}, stages{b: routers.Advertised, c: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: withdrawn})
		r.until(time.Second, "synced", synced)
		r.loop.Want(Desired{a: withdrawn, b: announced, pfx(4): withdrawn})
		r.until(time.Second, "synced", func(rep Report) bool { return rep.Synced && len(rep.Observations) == 3 })
		if n, _ := r.made(); n != 0 {
			t.Errorf("asked for %v", r.applied())
		}
	})
}

func TestReadsUntilSettled(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.f.do(func() { r.f.settle = 300 * time.Millisecond })
		r.loop.Want(Desired{a: announced})
		took := r.until(time.Second, "synced", synced)
		if took < 300*time.Millisecond || took > 405*time.Millisecond {
			t.Errorf("took %s, want 300ms and two readings", took)
		}
		applies, reads := r.made()
		if applies != 1 || reads < 8 || reads > 16 {
			t.Errorf("asked %d times and read %d times", applies, reads)
		}
		asked := r.applied()[0].at
		if first, second := r.readings()[1].Sub(asked), r.readings()[2].Sub(asked); first != 0 || second != pollMin {
			t.Errorf("first reading after %s, second after %s; want at once, and after %s", first, second, pollMin)
		}
	})
}

// TestOneReadingIsNotEnough: the first reading after a change is as wanted, the next one is not.
func TestOneReadingIsNotEnough(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		r.mu.Lock()
		r.onTell = func(Report) {
			if applies, reads := r.made(); applies == 1 && reads == 2 {
				r.drift(a, routers.Configured)
			}
		}
		r.mu.Unlock()
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "synced", synced)
		if n, _ := r.made(); n != 2 {
			t.Errorf("asked %d times, want twice", n)
		}
	})
}

func TestSinceWhenItDiverged(t *testing.T) {
	run(t, Options{VerifyInterval: time.Hour}, nil, func(r *rig) {
		r.f.do(func() { r.f.ignore = func(p netip.Prefix) bool { return p == a } })
		wanted := time.Now()
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.pass(30 * time.Second)
		rep := r.report()
		out := rep.Outstanding[a]
		if !out.Since.Equal(wanted) || out.Doing != Announcing || out.Attempts < 4 || out.Err == nil || rep.Synced || len(rep.Outstanding) != 1 {
			t.Errorf("%+v", rep)
		}
		r.f.do(func() { r.f.readErr = func() error { return errAway } })
		drifted := time.Now()
		r.loop.Wake()
		r.until(time.Second, "unreadable", func(rep Report) bool { return rep.ReadErr != nil })
		rep = r.report()
		since := rep.Outstanding[b].Since.Sub(drifted)
		if rep.Outstanding[a].Doing != Waiting || rep.Outstanding[b].Doing != Withdrawing || since < 0 || since > paceMax {
			t.Errorf("%+v", rep.Outstanding)
		}
	})
}
