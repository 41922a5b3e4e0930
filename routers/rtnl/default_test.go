package rtnl

import (
	"context"
	"sync/atomic"
	"testing"

	"vouch/routers/rtnl/rtnltest"
)

// faces are the ip commands that make each face of a default route, and how it reads; table 0 is the main table.
var faces = []struct {
	name   string
	lines  []string
	family Family
	table  uint32
	want   Way
}{
	{"none", nil, IPv4, 0, Way{}},
	{"none6", nil, IPv6, 0, Way{}},
	{"no such table", nil, IPv4, 999, Way{}},
	{"no such table6", nil, IPv6, 999, Way{}},
	{"two halves", []string{"route add 0.0.0.0/1 via 10.0.1.1", "route add 128.0.0.0/1 via 10.0.1.1"}, IPv4, 0,
		Way{}},
	{"two halves6", []string{"route add ::/1 via fd00:1::1", "route add 8000::/1 via fd00:1::1"}, IPv6, 0,
		Way{}},
	{"single", []string{"route add default via 10.0.1.1"}, IPv4, 0, good("via 10.0.1.1 dev eth0")},
	{"single6", []string{"route add ::/0 via fd00:1::1"}, IPv6, 0, good("via fd00:1::1 dev eth0")},
	{"on link", []string{"route add default dev eth0"}, IPv4, 0, good("dev eth0")},
	{"onlink", []string{"route add default via 192.0.2.1 dev eth0 onlink"}, IPv4, 0, good("via 192.0.2.1 dev eth0")},
	{"via6", []string{"route add 0.0.0.0/0 via inet6 fd00:1::1 dev eth0"}, IPv4, 0, good("via fd00:1::1 dev eth0")},
	{"multipath", []string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1"}, IPv4, 0,
		good("via 10.0.1.1 dev eth0, via 10.0.2.1 dev eth1")},
	{"multipath6", []string{"route add ::/0 nexthop via fd00:1::1 nexthop via fd00:2::1"}, IPv6, 0,
		good("via fd00:1::1 dev eth0, via fd00:2::1 dev eth1")},
	{"lo", []string{"route add default dev lo"}, IPv4, 0, bad("default dev lo: leads back to this host")},
	{"blackhole", []string{"route add blackhole default"}, IPv4, 0, bad("blackhole default")},
	{"unreachable", []string{"route add unreachable default"}, IPv4, 0, bad("unreachable default")},
	{"prohibit", []string{"route add prohibit default"}, IPv4, 0, bad("prohibit default")},
	{"throw", []string{"route add throw default"}, IPv4, 0, bad("throw default")},
	{"blackhole6", []string{"route add blackhole ::/0"}, IPv6, 0, bad("blackhole default metric 1024")},
	{"unreachable6", []string{"route add unreachable ::/0"}, IPv6, 0, bad("unreachable default metric 1024")},
	{"prohibit6", []string{"route add prohibit ::/0"}, IPv6, 0, bad("prohibit default metric 1024")},
	{"throw6", []string{"route add throw ::/0"}, IPv6, 0, bad("throw default metric 1024")},
	{"local", []string{"route add local default dev lo table 100"}, IPv4, 100, bad("local default")},
	{"hidden", []string{"route add default via 10.0.1.1 metric 20", "route add unreachable default metric 10"}, IPv4, 0,
		bad("unreachable default metric 10")},
	{"hidden6", []string{"route add ::/0 via fd00:1::1 metric 20", "route add unreachable ::/0 metric 10"}, IPv6, 0,
		bad("unreachable default metric 10")},
	{"hiding", []string{"route add default via 10.0.1.1 metric 10", "route add unreachable default metric 20"}, IPv4, 0,
		good("via 10.0.1.1 dev eth0")},
	{"hiding6", []string{"route add ::/0 via fd00:1::1 metric 10", "route add unreachable ::/0 metric 20"}, IPv6, 0,
		good("via fd00:1::1 dev eth0")},
	{"tos only", []string{"route add default via 10.0.1.1 tos 0x10"}, IPv4, 0, Way{}},
	{"tos beside", []string{"route add default via 10.0.1.1 tos 0x10", "route add blackhole default"}, IPv4, 0, bad("blackhole default")},
	{"source only6", []string{"route add ::/0 from fd53::/64 via fd00:1::1"}, IPv6, 0, Way{}},
	{"other table", []string{"route add default via 10.0.1.1 table 77"}, IPv4, 0, Way{}},
	{"other table6", []string{"route add ::/0 via fd00:1::1 table 77"}, IPv6, 0, Way{}},
	{"that table", []string{"route add default via 10.0.1.1 table 1077"}, IPv4, 1077, good("via 10.0.1.1 dev eth0")},
	{"that table6", []string{"route add ::/0 via fd00:1::1 table 1077"}, IPv6, 1077, good("via fd00:1::1 dev eth0")},
	{"no carrier", []string{"route add default via 10.0.1.1", "link set peer0 down"}, IPv4, 0, bad("default via 10.0.1.1 dev eth0: link has no carrier")},
	{"no carrier6", []string{"route add ::/0 via fd00:1::1", "link set peer0 down"}, IPv6, 0, bad("default via fd00:1::1 dev eth0: link has no carrier")},
	{"link down", []string{"route add default via 10.0.1.1", "link set eth0 down"}, IPv4, 0, Way{}},
	{"one leg down", []string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1", "link set eth0 down"}, IPv4, 0, good("via 10.0.2.1 dev eth1")},
	{"one leg without carrier", []string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1", "link set peer1 down"}, IPv4, 0, good("via 10.0.1.1 dev eth0")},
	{"one leg without carrier6", []string{"route add ::/0 nexthop via fd00:1::1 nexthop via fd00:2::1", "link set peer1 down"}, IPv6, 0, good("via fd00:1::1 dev eth0")},
	{"no leg has a carrier", []string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1", "link set peer0 down", "link set peer1 down"}, IPv4, 0,
		bad("default via 10.0.1.1 dev eth0: link has no carrier; via 10.0.2.1 dev eth1: link has no carrier")},
}

// TestDefaultRouteInKernel has the real kernel show each face of a default route.
func TestDefaultRouteInKernel(t *testing.T) {
	for _, c := range faces {
		t.Run(c.name, func(t *testing.T) {
			ns := twoPairs(t)
			ip(t, append([]string{"link set lo up"}, c.lines...)...)
			if c.table == 0 {
				c.table = MainTable
			}
			wantDefault(t, ns, c.family, c.table, c.want)
		})
	}
}

// TestDefaultRouteByNexthopObject has the faces that nexthop objects give a route, told by the kernel
// with next hops (compat) and without.
func TestDefaultRouteByNexthopObject(t *testing.T) {
	two := []string{"nexthop add id 1 via 10.0.1.1 dev eth0", "nexthop add id 2 via 10.0.2.1 dev eth1", "nexthop add id 3 group 1/2"}
	two6 := []string{"nexthop add id 1 via fd00:1::1 dev eth0", "nexthop add id 2 via fd00:2::1 dev eth1", "nexthop add id 3 group 1/2"}
	for _, c := range []struct {
		name   string
		lines  []string
		family Family
		want   Way
	}{
		{"one", append(two, "route add default nhid 1"), IPv4, good("via 10.0.1.1 dev eth0")},
		{"one6", append(two6, "route add ::/0 nhid 1"), IPv6, good("via fd00:1::1 dev eth0")},
		{"via6", append(two6, "route add default nhid 1"), IPv4, good("via fd00:1::1 dev eth0")},
		{"group", append(two, "route add default nhid 3"), IPv4, good("via 10.0.1.1 dev eth0, via 10.0.2.1 dev eth1")},
		{"group6", append(two6, "route add ::/0 nhid 3"), IPv6, good("via fd00:1::1 dev eth0, via fd00:2::1 dev eth1")},
		{"shrunk", append(two, "route add default nhid 3", "nexthop del id 1"), IPv4, good("via 10.0.2.1 dev eth1")},
		{"without carrier", append(two, "route add default nhid 3", "link set peer0 down"), IPv4, good("via 10.0.2.1 dev eth1")},
		{"blackhole", []string{"nexthop add id 9 blackhole", "route add default nhid 9"}, IPv4, bad("blackhole default")},
		{"blackhole group", []string{"nexthop add id 9 blackhole", "nexthop add id 10 group 9", "route add default nhid 10"}, IPv4, bad("blackhole default")},
		{"lo", []string{"nexthop add id 9 dev lo", "route add default nhid 9"}, IPv4, bad("default dev lo: leads back to this host")},
		{"deleted", append(two, "route add default nhid 1", "nexthop del id 1"), IPv4, Way{}},
		{"deleted6", append(two6, "route add ::/0 nhid 1", "nexthop del id 1"), IPv6, Way{}},
		{"flushed", append(two, "route add default nhid 3", "nexthop flush"), IPv4, Way{}},
		{"link down", append(two, "route add default nhid 1", "link set eth0 down"), IPv4, Way{}},
	} {
		for _, compat := range []string{"1", "0"} {
			t.Run(c.name+" compat "+compat, func(t *testing.T) {
				ns := twoPairs(t)
				sysctl(t, "net/ipv4/nexthop_compat_mode", compat)
				ip(t, c.lines...)
				wantDefault(t, ns, c.family, MainTable, c.want)
			})
		}
	}
}

// TestDeadLinkIsPassedOver has the kernel told to leave routes over links without a carrier.
func TestDeadLinkIsPassedOver(t *testing.T) {
	for _, c := range []struct {
		ignore string
		want   Way
	}{
		{"1", good("via 10.0.2.1 dev eth1")},
		{"0", bad("default via 10.0.1.1 dev eth0: link has no carrier")},
	} {
		t.Run("ignore_routes_with_linkdown="+c.ignore, func(t *testing.T) {
			ns := twoPairs(t)
			sysctl(t, "net/ipv4/conf/eth0/ignore_routes_with_linkdown", c.ignore)
			ip(t, "route add default via 10.0.1.1 metric 10", "route add default via 10.0.2.1 metric 20", "link set peer0 down")
			wantDefault(t, ns, IPv4, MainTable, c.want)
		})
	}
}

// TestWatchAndRead is what the route check lives by: of each fault comes a hint, and the reading that
// the hint asks for says unusable. Nothing is read but on a hint.
func TestWatchAndRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  []string
		fault  string
		family Family
	}{
		{"route deleted", []string{"route add default via 10.0.1.1"}, "route del default", IPv4},
		{"route deleted6", []string{"route add ::/0 via fd00:1::1"}, "route del ::/0 via fd00:1::1", IPv6},
		{"object deleted", []string{"nexthop add id 1 via 10.0.1.1 dev eth0", "route add default nhid 1"}, "nexthop del id 1", IPv4},
		{"object deleted6", []string{"nexthop add id 1 via fd00:1::1 dev eth0", "route add ::/0 nhid 1"}, "nexthop del id 1", IPv6},
		{"objects flushed", []string{"nexthop add id 1 via 10.0.1.1 dev eth0", "nexthop add id 3 group 1", "route add default nhid 3"}, "nexthop flush", IPv4},
		{"link down", []string{"nexthop add id 1 via 10.0.1.1 dev eth0", "route add default nhid 1"}, "link set eth0 down", IPv4},
		{"link down6", []string{"route add ::/0 via fd00:1::1"}, "link set eth0 down", IPv6},
		{"carrier lost", []string{"route add default via 10.0.1.1"}, "link set peer0 down", IPv4},
		{"carrier lost, object", []string{"nexthop add id 1 via 10.0.1.1 dev eth0", "route add default nhid 1"}, "link set peer0 down", IPv4},
		{"carrier lost6", []string{"route add ::/0 via fd00:1::1"}, "link set peer0 down", IPv6},
		{"hidden", []string{"route add default via 10.0.1.1 metric 20"}, "route add unreachable default metric 10", IPv4},
	} {
		for _, compat := range []string{"1", "0"} {
			t.Run(c.name+" compat "+compat, func(t *testing.T) {
				ns := twoPairs(t)
				sysctl(t, "net/ipv4/nexthop_compat_mode", compat)
				if c.family == IPv4 { // whose messages would cover for those of IPv4
					sysctl(t, "net/ipv6/conf/all/disable_ipv6", "1")
				}
				ip(t, c.setup...)
				var last atomic.Pointer[Way]
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ns.Go(func() {
					_ = Watch(ctx, func() {
						if d, err := DefaultRoute(ctx, c.family, MainTable); err == nil {
							last.Store(&d)
						}
					})
				})
				ns.Wait("the route is usable", func() bool { d := last.Load(); return d != nil && d.Usable })
				ip(t, c.fault)
				ns.Wait("the route is not usable after "+c.fault, func() bool { return !last.Load().Usable })
			})
		}
	}
}

func good(legs string) Way { return Way{Found: true, Usable: true, Text: "default " + legs} }
func bad(text string) Way  { return Way{Found: true, Text: text} }

func defaultRoute(tb testing.TB, family Family, table uint32) Way {
	tb.Helper()
	d, err := DefaultRoute(unhurried(tb), family, table)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// wantDefault waits for the wanted reading: the kernel takes its time to tell of a lost carrier.
func wantDefault(t *testing.T, ns *rtnltest.Namespace, family Family, table uint32, want Way) {
	t.Helper()
	var got Way
	defer func() {
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}()
	ns.Wait("the default route reads as wanted", func() bool {
		got = defaultRoute(t, family, table)
		return got == want
	})
}
