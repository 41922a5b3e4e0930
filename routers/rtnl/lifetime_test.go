package rtnl

import (
	"net/netip"
	"testing"
	"time"
)

// left gives a route what its lifetime has left.
func left(d time.Duration, r route) route {
	r.left = d
	return r
}

// A route whose lifetime has ended is passed over, whatever its metric, and told of if there is no other.
func TestLifetime(t *testing.T) {
	const ended, minute = -time.Second, time.Minute
	within := func(d time.Duration, w Way) Way { w.Left = d; return w }
	for _, c := range []struct {
		name   string
		routes []route
		want   Way
	}{
		{"ended", []route{left(ended, unicast(1, over(eth0)))}, bad("default via 10.0.1.1 dev eth0: its lifetime has ended")},
		{"ended, by object", []route{left(ended, by(1))}, bad("default via 10.0.1.1 dev eth0: its lifetime has ended")},
		{"ended blackhole", []route{left(ended, by(5)), unicast(9, over(eth0))}, good("via 10.0.1.1 dev eth0")},
		{"still", []route{left(minute, unicast(1, over(eth0)))}, within(minute, good("via 10.0.1.1 dev eth0"))},
		{"still, no carrier", []route{left(minute, unicast(1, over(dark)))}, within(minute, bad("default via 10.0.1.1 dev dark: link has no carrier"))},
		{"passed over", []route{left(ended, unicast(1, over(eth0))), unicast(2, over(eth1))}, good("via 10.0.1.1 dev eth1")},
		{"passed over at one metric", []route{unicast(1, over(dark)), left(ended, unicast(1, over(eth0))), unicast(1, over(eth1))}, good("via 10.0.1.1 dev eth1")},
		{"ended, none of use", []route{left(ended, unicast(1, over(eth0))), unicast(2, over(dark))}, bad("default via 10.0.1.1 dev dark: link has no carrier")},
		{"of two the sooner", []route{left(2*minute, unicast(1, over(eth0))), left(minute, unicast(1, over(eth1)))},
			within(minute, good("via 10.0.1.1 dev eth0, via 10.0.1.1 dev eth1"))},
		{"one of two", []route{left(minute, unicast(1, over(eth0))), unicast(1, over(eth1))}, within(minute, good("via 10.0.1.1 dev eth0, via 10.0.1.1 dev eth1"))},
	} {
		if got := (picture{c.routes, testObjects, testLinks}).judge(IPv6, nil); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// The kernel (6.18) keeps a route whose lifetime has ended for half a minute, and takes it no more: no default route, no way to
// an address, and no route to a prefix.
func TestLifetimeInKernel(t *testing.T) {
	ns := twoPairs(t)
	ip(t, "route add ::/0 via fd00:1::1 expires 5")
	to := netip.MustParseAddr("2001:db8::1")
	if d := defaultRoute(t, IPv6, MainTable); !d.Usable || d.Left <= 0 || d.Left > 5*time.Second {
		t.Errorf("at first: %+v", d)
	}
	if w, err := Look(unhurried(t), Lookup{To: to}); err != nil || !w.Usable || w.Left <= 0 {
		t.Errorf("at first: %+v, %v", w, err)
	}
	if w, err := Halves(unhurried(t), IPv6, MainTable); err != nil || !w.Usable || w.Left <= 0 {
		t.Errorf("halves, at first: %+v, %v", w, err)
	}
	wantDefault(t, ns, IPv6, MainTable, bad("default via fd00:1::1 dev eth0: its lifetime has ended"))
	if w, err := RouteTo(unhurried(t), netip.PrefixFrom(to, 128), MainTable); err != nil || w != bad("default via fd00:1::1 dev eth0: its lifetime has ended") {
		t.Errorf("to a prefix: %+v, %v", w, err)
	}
	if w, err := Look(unhurried(t), Lookup{To: to}); err != nil || w.Usable {
		t.Errorf("to an address: %+v, %v", w, err)
	}
	ip(t, "route add ::/0 via fd00:2::1 metric 2048")
	wantDefault(t, ns, IPv6, MainTable, good("via fd00:2::1 dev eth1"))
}
