package frr

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a redistribution does to the prefixes, by its route-map.
func TestRedistributes(t *testing.T) {
	f := parseFilters(filtersText + `route-map OURS permit 10
 match source-protocol static
 match ip address prefix-list PLAIN
exit
route-map WORSE permit 5
 match tag 66
exit
route-map WORSE deny 10
 match tag untagged
exit
route-map THEIRS permit 10
 match source-protocol kernel
exit
route-map NOLIST permit 10
 match ip address prefix-list NEVER
exit
route-map NOACCESS permit 10
 match ip address NEVER
exit
`)
	const through = "redistributes static routes through route-map "
	for name, c := range map[string]struct {
		p    netip.Prefix
		want string
	}{
		"OURS":     {p4n, "ok bgpd: " + through + "OURS"},
		"ALL":      {p4, "ok bgpd: " + through + "ALL"},
		"THEIRS":   {p4, "fail bgpd: " + through + "THEIRS, which does not permit 10.53.53.53/32: not announced > have route-map THEIRS permit it, in the prefix-list that it matches"},
		"NOLIST":   {p4, "fail bgpd: " + through + "NOLIST, which does not permit 10.53.53.53/32: there is no prefix-list NEVER: not announced > have route-map NOLIST permit it, in the prefix-list that it matches"},
		"NOACCESS": {p4, "fail bgpd: " + through + "NOACCESS, which does not permit 10.53.53.53/32: there is no access-list NEVER: not announced > have route-map NOACCESS permit it, in the prefix-list that it matches"},
		"NOSUCH":   {p4, "fail bgpd: " + through + "NOSUCH, which does not exist, so that none is announced > configure route-map NOSUCH, or take it out of the redistribution"},
		"MAYBE":    {p4, "note bgpd: " + through + "MAYBE; whether that permits 10.53.53.53/32 cannot be told from here > look at the protocol's table once it is announced"},
		"WORSE":    {p4, "fail bgpd: " + through + "WORSE, which does not permit 10.53.53.53/32: not announced > have route-map WORSE permit it, in the prefix-list that it matches"},
		"SIX":      {p6, "ok bgpd: " + through + "SIX"},
	} {
		o := Options{Method: MethodStatic, Degraded: Degraded{Tag: 66}}
		c4, c6 := redistribution{}, redistribution{"static": "ALL"}
		afi := map[bool]redistribution{true: c4, false: c6}[isIPv4(c.p)]
		afi.add([]string{"redistribute", "static", "metric", "5", "route-map", name})
		got := told(o.redistributesEither(bgpConfig{redistribute: map[string]redistribution{"ipv4": c4, "ipv6": c6}}, f, []netip.Prefix{c.p}))
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	both := told(Options{Method: MethodStatic}.redistributesEither(bgpConfig{redistribute: map[string]redistribution{"ipv4": {"static": ""}, "ipv6": {}}}, f, []netip.Prefix{p4, p6}))
	if diff := cmp.Diff([]string{"fail bgpd: does not redistribute static routes, so that none is announced > configure `redistribute static`"}, both); diff != "" {
		t.Error(diff)
	}
}

// A prefix on an interface has a route there that wins, by the names of both releases.
func TestOutdone(t *testing.T) {
	lo := []nexthop{{Interface: "lo"}}
	for _, c := range []struct {
		routes []route
		o      Options
		want   int
	}{
		{[]route{{Protocol: "kernel", Nexthops: []nexthop{{Blackhole: true}}}, {Protocol: "connected", Selected: true, Nexthops: lo}}, Options{Method: MethodStatic}, 1},
		{[]route{{Protocol: "local", Selected: true, Nexthops: lo}, {Protocol: "connected", Nexthops: lo}}, Options{Method: MethodStatic}, 1},
		{[]route{{Protocol: "static", Selected: true, Nexthops: lo}}, Options{Method: MethodStatic}, 0},
		{[]route{{Protocol: "connected", Selected: true, Nexthops: lo}}, Options{Method: MethodNetwork}, 0},
		{nil, Options{Method: MethodStatic}, 0},
	} {
		got := reading{routes: map[netip.Prefix][]route{s4: c.routes}}.outdone(c.o, []netip.Prefix{s4, s6})
		if len(got) != c.want {
			t.Errorf("%+v: %v", c.routes, told(got))
		}
	}
}
