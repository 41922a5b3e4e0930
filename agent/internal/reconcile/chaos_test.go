package reconcile

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"vouch/routers"
)

// chaos makes one thing happen.
func (r *rig) chaos(rnd *rand.Rand) {
	p := pfx(rnd.IntN(5))
	faults := []error{nil, nil, errAway, errOdd, routers.ErrBusy, routers.ErrRefused}
	err := faults[rnd.IntN(len(faults))]
	pause := []time.Duration{0, 0, 5 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second}[rnd.IntN(5)]
	switch rnd.IntN(10) {
	case 0, 1:
		d := Desired{}
		for n := range 5 {
			if rnd.IntN(6) > 0 {
				d[pfx(n)] = routers.Want(rnd.IntN(4))
			}
		}
		r.loop.Want(d)
	case 2:
		r.drift(p, routers.Stage(1+rnd.IntN(4)))
	case 3:
		r.loop.Wake()
	case 4:
		r.f.do(func() { r.f.readErr = func() error { return err } })
	case 5:
		r.f.do(func() { r.f.applyErr = func([]routers.Change) error { return err } })
	case 6:
		r.f.do(func() { r.f.readTake = pause })
	case 7:
		r.f.do(func() { r.f.applyTake, r.f.settle = pause, pause/4 })
	case 8:
		r.f.do(func() { r.f.worse[p] = !r.f.worse[p] })
	case 9:
		r.f.do(func() { r.f.ignore = func(q netip.Prefix) bool { return q == p && pause > 0 } })
	}
}

// TestChaos: whatever happens, nothing is asked for that was never to be, and once it is over the
// table becomes as wanted by itself.
func TestChaos(t *testing.T) {
	for seed := range uint64(150) {
		run(t, Options{}, nil, func(r *rig) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			up, asked := Desired{}, map[routers.Change]bool{}
			for range 60 {
				r.chaos(rnd)
				for p, w := range r.loop.latest() {
					asked[routers.Change{Prefix: p, Want: w}] = true
				}
				r.pass(time.Duration(rnd.ExpFloat64() * float64(200*time.Millisecond)))
			}
			for _, ap := range r.applied() {
				for _, c := range ap.cs {
					if c.Want == keep || !asked[c] {
						t.Fatalf("seed %d: asked for %v", seed, c)
					}
				}
			}
			r.f.do(func() {
				r.f.readErr, r.f.applyErr, r.f.ignore = nil, nil, nil
				r.f.readTake, r.f.applyTake, r.f.settle = 0, 0, 0
			})
			for n := range 5 {
				up[pfx(n)] = []routers.Want{withdrawn, degraded, announced}[rnd.IntN(3)]
			}
			r.loop.Want(up)
			r.until(75*time.Second, "synced", synced) // an announce that was refused waits that long
			r.pass(7 * time.Second)                   // what was asked for long ago may take effect now, and is drift
			r.f.do(func() {
				for p, w := range up {
					if s := r.f.stages[p]; !asWanted(w, routers.Observation{Stage: max(s, routers.Absent), Degraded: r.f.worse[p]}, routers.Advertised) {
						t.Errorf("seed %d: %s is %s (degraded %t), wanted %s", seed, p, s, r.f.worse[p], w)
					}
				}
			})
		})
	}
}
