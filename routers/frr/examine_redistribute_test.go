package frr

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// take begins the way out of a redistribution that is missing.
const take = " > configure `redistribute "

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
	const open = ", which lets everything through, so that every static route is announced > have each entry of route-map "
	for name, c := range map[string]struct {
		p    netip.Prefix
		want string
	}{
		"OURS":     {p4n, "ok bgpd: " + through + "OURS"},
		"ALL":      {p4, "warn bgpd: ipv4: " + through + "ALL" + open + "ALL that permits say `match ip address prefix-list LIST`, with a prefix-list of what is to be announced"},
		"THEIRS":   {p4, "fail bgpd: ipv4: " + through + "THEIRS, which does not permit 10.53.53.53/32: not announced > have route-map THEIRS permit it, in the prefix-list that it matches"},
		"NOLIST":   {p4, "fail bgpd: ipv4: " + through + "NOLIST, which does not permit 10.53.53.53/32: there is no prefix-list NEVER: not announced > have route-map NOLIST permit it, in the prefix-list that it matches"},
		"NOACCESS": {p4, "fail bgpd: ipv4: " + through + "NOACCESS, which does not permit 10.53.53.53/32: there is no access-list NEVER: not announced > have route-map NOACCESS permit it, in the prefix-list that it matches"},
		"NOSUCH":   {p4, "fail bgpd: ipv4: " + through + "NOSUCH, which does not exist, so that none is announced > configure route-map NOSUCH, or take it out of the redistribution"},
		"MAYBE":    {p4, "note bgpd: ipv4: " + through + "MAYBE; whether that permits 10.53.53.53/32 cannot be told from here > look at the protocol's table once it is announced"},
		"WORSE":    {p4, "fail bgpd: ipv4: " + through + "WORSE, which does not permit 10.53.53.53/32: not announced > have route-map WORSE permit it, in the prefix-list that it matches"},
		"SIX":      {p6, "warn bgpd: ipv6: " + through + "SIX" + open + "SIX that permits say `match ipv6 address prefix-list LIST`, with a prefix-list of what is to be announced"},
	} {
		o := Options{Method: MethodStatic, Degraded: Degraded{Tag: 66}}
		c4, c6 := redistribution{}, redistribution{"static": "ALL"}
		afi := map[bool]redistribution{true: c4, false: c6}[isIPv4(c.p)]
		afi.add([]string{"redistribute", "static", "metric", "5", "route-map", name})
		got := told(o.redistributesEach(bgpConfig{redistribute: map[string]redistribution{"ipv4": c4, "ipv6": c6}}, f, nil, []netip.Prefix{c.p}))
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	both := told(Options{Method: MethodStatic}.redistributesEach(bgpConfig{redistribute: map[string]redistribution{"ipv4": {"static": ""}, "ipv6": {}}}, f, nil, []netip.Prefix{p4, p6}))
	if diff := cmp.Diff([]string{"ok bgpd: redistributes static routes",
		"fail bgpd: ipv6: does not redistribute static routes, so that none is announced" + take + "static route-map NAME`, with a prefix-list of what is to be announced"}, both); diff != "" {
		t.Error(diff)
	}
}

// A redistribution of everything is told, unless the filters before all neighbours let no more than something through.
func TestRedistributesEverything(t *testing.T) {
	f := parseFilters(filtersText + `route-map TAGGED permit 10
 match tag 7
exit
route-map TAGGED permit 20
exit
route-map OURS permit 10
 match ip address prefix-list PLAIN
exit
route-map WIDE permit 10
 match ip address prefix-list ANYTHING
exit
ip prefix-list ANYTHING seq 5 permit 0.0.0.0/0 le 32
`)
	peer := func(family string, n bgpFamily) bgpNeighbor {
		return bgpNeighbor{Families: map[string]bgpFamily{family: n}}
	}
	sifted, bare, six := peer("ipv4Unicast", bgpFamily{PrefixList: "RANGE"}), peer("ipv4Unicast", bgpFamily{}), peer("ipv6Unicast", bgpFamily{})
	for _, c := range []struct {
		source, routeMap string
		neighbors        map[string]bgpNeighbor
		want             string
	}{
		{SourceKernel, "ALL", map[string]bgpNeighbor{"a": bare}, "warn bgpd: ipv4: redistributes kernel routes through route-map ALL, which lets everything through, so that whatever anybody puts into the kernel is announced"},
		{SourceKernel, "TAGGED", nil, "warn bgpd: ipv4: redistributes kernel routes through route-map TAGGED, which lets everything"},
		{SourceStatic, "WIDE", nil, "warn bgpd: ipv4: redistributes static routes through route-map WIDE, which lets everything"},
		{SourceKernel, "OURS", map[string]bgpNeighbor{"a": bare}, "ok "},
		{SourceKernel, "", map[string]bgpNeighbor{"a": sifted, "b": bare}, "warn bgpd: ipv4: redistributes kernel routes without"},
		{SourceKernel, "", map[string]bgpNeighbor{"a": sifted, "b": six}, "note bgpd: ipv4: redistributes kernel routes without"},
		{SourceKernel, "ALL", map[string]bgpNeighbor{"a": sifted}, "note bgpd: ipv4: redistributes kernel routes through route-map ALL"},
	} {
		o := Options{Method: MethodStatic, source: c.source}
		got := told(o.redistributesEach(bgpConfig{redistribute: map[string]redistribution{"ipv4": {c.source: c.routeMap}}}, f, c.neighbors, []netip.Prefix{p4n}))
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s %s: %q, want %q", c.source, c.routeMap, got, c.want)
		}
	}
}

// What a distribute-list of ospfd leaves of a redistribution.
func TestListed(t *testing.T) {
	const lists = `access-list SOME seq 5 deny 10.54.0.0/16
access-list SOME seq 10 permit 10.53.53.53/32 exact-match
access-list EXTENDED seq 5 permit ip any any
access-list BARE remark nothing
route-map ALL permit 10
exit
`
	const plain = " redistribute static\n redistribute kernel\n"
	const through, out = "ospfd: redistributes static routes through distribute-list ", " > have access-list SOME permit it, or take `distribute-list SOME out static` away"
	const look = "; whether that permits 10.53.53.53/32 cannot be told from here > look at the protocol's table once it is announced"
	for name, c := range map[string]struct {
		source, lines string
		p             netip.Prefix
		want          string
	}{
		"permitted":                  {SourceStatic, plain + " distribute-list SOME out static\n", p4, "ok ospfd: redistributes static routes"},
		"denied":                     {SourceStatic, plain + " distribute-list SOME out static\n", s4, "fail " + through + "SOME, which does not permit 10.53.54.1/32: not announced" + out},
		"behind a route-map":         {SourceStatic, " redistribute static route-map ALL\n distribute-list SOME out static\n", s4, "fail " + through + "SOME, which does not permit 10.53.54.1/32: not announced" + out},
		"of another source":          {SourceStatic, plain + " distribute-list SOME out kernel\n", s4, "ok ospfd: redistributes static routes"},
		"not there":                  {SourceStatic, plain + " distribute-list NOSUCH out static\n", s4, "ok ospfd: redistributes static routes"},
		"extended":                   {SourceStatic, plain + " distribute-list EXTENDED out static\n", p4, "note " + through + "EXTENDED" + look},
		"without an entry":           {SourceStatic, plain + " distribute-list BARE out static\n", p4, "note " + through + "BARE" + look},
		"not taken":                  {SourceStatic, " distribute-list SOME out static\n", s4, "fail ospfd: does not redistribute static routes, so that none is announced" + take + "static route-map NAME`, with a prefix-list of what is to be announced"},
		"kernel":                     {SourceKernel, plain + " distribute-list SOME out kernel\n", p4, "ok ospfd: redistributes kernel routes through distribute-list SOME"},
		"kernel, behind a route-map": {SourceKernel, " redistribute kernel route-map ALL\n distribute-list SOME out kernel\n", p4, "ok ospfd: redistributes kernel routes through distribute-list SOME"},
		"kernel, not taken":          {SourceKernel, " distribute-list SOME out kernel\n", p4, "fail ospfd: does not redistribute kernel routes, so that none is announced" + take + "kernel route-map NAME`, with a prefix-list of what is to be announced"},
		"kernel, no such list":       {SourceKernel, plain + " distribute-list NOSUCH out kernel\n", p4, "warn ospfd: redistributes kernel routes without a route-map, so that whatever anybody puts into the kernel is announced > configure `redistribute kernel route-map NAME`, with a prefix-list of what is to be announced"},
	} {
		o := Options{Method: MethodStatic, Protocol: ProtocolOSPF, source: c.source}
		rd := reading{configs: map[string]string{"ospfd": "router ospf\n" + c.lines + "exit\n" + lists}}
		if diff := cmp.Diff([]string{c.want}, told(rd.ospf(o, []netip.Prefix{c.p}))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
