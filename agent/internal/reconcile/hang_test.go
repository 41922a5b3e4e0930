package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"vouch/routers"
)

func TestCascadeBesideAHungReading(t *testing.T) {
	up, stages := Desired{}, stages{}
	for n := range 10 {
		up[pfx(n)], stages[pfx(n)] = announced, routers.Advertised
	}
	run(t, Options{Timeout: 5 * time.Second, ApplyTimeout: 5 * time.Second}, stages, func(r *rig) {
		r.loop.Want(up)
		r.until(time.Second, "synced", synced)
		r.f.do(func() { // an Apply that changes at once, and then lingers
			r.f.readTake, r.f.applyTake = time.Hour, time.Minute
			r.f.applyErr = func(cs []routers.Change) error {
				for _, c := range cs {
					r.f.stages[c.Prefix] = routers.Absent
				}
				return nil
			}
		})
		r.loop.Wake()
		for n := range 10 {
			down := maps.Clone(up)
			for m := range n + 1 {
				down[pfx(m)] = withdrawn
			}
			r.loop.Want(down)
			r.pass(500 * time.Millisecond)
		}
		left := 0
		r.f.do(func() {
			for _, s := range r.f.stages {
				if s != routers.Absent {
					left++
				}
			}
		})
		if left > 2 {
			t.Errorf("%d of 10 are still there: %v", left, r.applied())
		}
	})
}

// TestWithdrawIsReadBeforeAnAnnounceThatHangs: the announce which the withdraw has broken off hangs again, and what
// has become of the withdraw is told before that.
func TestWithdrawIsReadBeforeAnAnnounceThatHangs(t *testing.T) {
	run(t, Options{Timeout: time.Second, ApplyTimeout: 4 * time.Second}, stages{b: routers.Advertised}, func(r *rig) {
		r.loop.Want(Desired{a: withdrawn, b: announced})
		r.until(time.Second, "synced", synced)
		r.f.do(func() {
			r.f.applyErr = func(cs []routers.Change) error {
				r.f.applyTake = 0
				if cs[len(cs)-1].Prefix == a {
					r.f.applyTake = time.Minute
				}
				return nil
			}
		})
		r.loop.Want(Desired{a: announced, b: announced})
		r.pass(time.Second)
		r.loop.Want(Desired{a: announced, b: withdrawn})
		r.until(200*time.Millisecond, "withdrawn", reads(b, routers.Absent))
		r.pass(time.Second)
		if out := r.report().Outstanding; len(out) != 1 || out[a].Doing != Announcing {
			t.Errorf("outstanding: %+v", out)
		}
	})
}

func TestPutBackWhileUnconfirmed(t *testing.T) {
	hung := fmt.Errorf("ospfd: %w", routers.ErrUnavailable)
	for _, tc := range []struct {
		apply   error
		repeats bool
	}{{nil, true}, {routers.ErrRefused, false}} {
		run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
			settledUp(r)
			r.f.do(func() {
				r.f.readErr = func() error { return hung }
				r.f.applyErr = func([]routers.Change) error { return tc.apply }
			})
			r.loop.Want(Desired{a: withdrawn, b: withdrawn})
			r.pass(4 * time.Second)
			before, _ := r.made()
			for range 5 {
				r.drift(a, routers.Configured)
				r.loop.Wake()
				r.pass(150 * time.Millisecond)
			}
			if after, _ := r.made(); after-before >= 5 != tc.repeats || !tc.repeats && after-before > 2 {
				t.Errorf("apply error %v: asked %d times after it was put back five times", tc.apply, after-before)
			}
		})
	}
}

// TestBusyIsNotToldOfAnUnknown: nothing is asked for what cannot be read, so nobody hears of the end of what it waited for.
func TestBusyIsNotToldOfAnUnknown(t *testing.T) {
	run(t, Options{}, stages{}, func(r *rig) {
		r.f.do(func() {
			r.f.applyErr = func([]routers.Change) error { return routers.Errorf(routers.ErrBusy, "fake: locked by pid 7") }
		})
		r.loop.Want(Desired{a: announced})
		r.until(time.Second, "busy", func(rep Report) bool { return errors.Is(rep.Outstanding[a].Err, routers.ErrBusy) })
		r.f.do(func() { r.f.readErr = func() error { return errAway } })
		r.until(10*time.Second, "unknown", reads(a, routers.Unknown))
		if o := r.report().Outstanding[a]; o.Doing != Waiting || o.Err != nil {
			t.Errorf("it tells %+v", o)
		}
	})
}
