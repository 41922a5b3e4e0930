package reconcile

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"vouch/routers"
)

// preparing has something to make for its daemon.
type preparing struct {
	*fake
	asked [][]netip.Prefix
	err   error
}

func (p *preparing) Prepare(_ context.Context, ps []netip.Prefix) error {
	defer p.enter()()
	p.do(func() { p.asked = append(p.asked, ps) })
	return p.err
}

// What a daemon that is away needs is made after each reading that fails, and after no other. That it cannot be
// made is told.
func TestPrepares(t *testing.T) {
	p := &preparing{err: errors.New("no place")}
	asked := func() (n int) { p.do(func() { n = len(p.asked) }); return n }
	runRouter(t, Options{}, stages{a: routers.Advertised}, func(f *fake) routers.Router { p.fake = f; return p }, func(r *rig) {
		settledUp(r)
		if n := asked(); n > 0 {
			t.Errorf("asked %d times while the daemon is there", n)
		}
		r.f.do(func() { r.f.readErr = func() error { return errAway } })
		r.loop.Wake()
		r.until(time.Minute, "the failure to be told", func(rep Report) bool { return errors.Is(rep.ReadErr, p.err) })
		var first []netip.Prefix
		p.do(func() { first = p.asked[0] })
		if !slices.Contains(first, a) {
			t.Errorf("asked for %v", first)
		}
	})
}
