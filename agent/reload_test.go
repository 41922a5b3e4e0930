package agent

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

func TestPrefixesOfARemovedServiceLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip, vip2), resolver(vip))
		b.wanted(t, vip2, routers.Withdrawn)
		b.reads(routers.Advertised)
		b.onReload(&config.Config{})
		b.wanted(t, vip, routers.Withdrawn)
		b.wanted(t, vip2, routers.Withdrawn)
		if !b.Snapshot().Services[0].Removed {
			t.Error("the snapshot does not show it as removed")
		}
		b.reads(routers.Absent)
		if n := len(b.services) + len(b.wants[len(b.wants)-1]); n != 0 {
			t.Errorf("%d services and prefixes are left", n)
		}
	})
}

func TestReloadKeepsHistoryAndMovesPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip, vip2), resolver(vip, vip2))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		changed := resolver(vip)
		changed.Health.Fall = 5
		other := resolver(vip2)
		other.Name = "other"
		stop, start := b.onReload(&config.Config{Services: []config.Service{other, changed}})
		if !slices.Equal(stop, []string{"other", "resolver"}) || len(start) != 2 {
			t.Errorf("stop %v, start %d", stop, len(start))
		}
		b.wanted(t, vip, routers.Announced)
		b.wanted(t, vip2, routers.Keep) // the other service's now, of which nothing is known
		if stop, _ := b.onReload(&config.Config{Services: []config.Service{other, changed}}); len(stop) != 0 {
			t.Errorf("a reload of the same stops %v", stop)
		}
	})
}

func TestReloadGivesUpNoWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(errDown)
		b.round(errDown)
		other := resolver(vip)
		other.Name = "other"
		b.onReload(&config.Config{Services: []config.Service{other}})
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Advertised)
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Absent)
		b.tick()
		b.wanted(t, vip, routers.Keep)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		if err := (orders{b.core}).Drain(t.Context(), "resolver", decide.Drain{By: "root"}); err != nil {
			t.Fatal(err)
		}
		b.reads(routers.Absent)
		renamed := resolver(vip)
		renamed.Name = "renamed"
		b.onReload(&config.Config{Services: []config.Service{renamed}})
		if d := b.services["renamed"].drain; d == nil || d.By != "root" {
			t.Errorf("the drain of the renamed service: %+v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		if err := (orders{b.core}).Drain(t.Context(), "resolver", decide.Drain{By: "root"}); err != nil {
			t.Fatal(err)
		}
		b.onReload(&config.Config{})
		b.onReload(&config.Config{Services: []config.Service{resolver(vip)}})
		if b.services["resolver"].drain == nil {
			t.Error("the drain is lost")
		}
	})
}

func TestRemovedPrefixIsSeenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Absent)
		b.round(nil)
		b.round(nil)
		b.onReload(&config.Config{})
		old := b.reading(routers.Observation{Prefix: vip, Stage: routers.Absent})
		old.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Doing: reconcile.Withdrawing}}
		b.onReport(old)
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Absent)
		if len(b.desired) != 0 {
			t.Errorf("still managed: %v", b.desired)
		}
	})
}

// A stop does not wait for what the router refuses to withdraw of prefixes that are not configured any more.
func TestStopWaitsForNoRefusedLeftover(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reload bool
		waits  bool
	}{
		"refused, and removed": {routers.ErrRefused, true, false}, "refused": {routers.ErrRefused, false, true},
		"removed, and on its way": {nil, true, true}, "removed, and the router is away": {routers.ErrUnavailable, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(loadedUp(true, vip), resolver(vip))
			b.reads(routers.Advertised)
			b.round(errDown)
			b.round(errDown)
			if c.reload {
				b.onReload(&config.Config{})
			}
			reads := func() {
				r := b.reading(routers.Observation{Prefix: vip, Stage: routers.Configured})
				r.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Doing: reconcile.Withdrawing, Err: c.err}}
				b.onReport(r)
			}
			reads()
			told := false
			b.log = func(e state.Event) { told = told || e.Prefix == vip.String() && e.Text == "is not waited for: refused" }
			b.beginStop(false)
			if reads(); told == c.waits {
				t.Errorf("%s: told that it is not waited for: %t", name, told)
			}
			if got := b.unfinished(); len(got) > 0 != c.waits {
				t.Errorf("%s: unfinished: %v", name, got)
			}
		})
	}
}

func TestReloadForgetsTheResultOfAnotherTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := resolver(vip), resolver(vip)
		one.Checks[0].Spec, two.Checks[0].Spec = spec("127.0.0.1"), spec("127.0.0.2")
		b := newBench(loadedUp(true, vip), one)
		b.round(nil)
		changed := resolver(vip)
		changed.Health.Fall, changed.Checks[0].Spec = 7, spec("127.0.0.1")
		b.onReload(&config.Config{Services: []config.Service{changed}})
		if k := b.services["resolver"].checks[0]; k.Status != checks.OK {
			t.Errorf("the same check lost its result: %+v", k)
		}
		b.onReload(&config.Config{Services: []config.Service{two}})
		if k := b.services["resolver"].checks[0]; k.Status != checks.Unknown {
			t.Errorf("another check has the old one's result: %+v", k)
		}
	})
}

// spec is the configuration of a check that is never run.
type spec string

func (spec) Validate() []checks.Problem   { return nil }
func (spec) New() (checks.Checker, error) { return silent{}, nil }
