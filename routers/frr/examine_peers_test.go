package frr

import (
	"encoding/json"
	"net/netip"
	"testing"

	"vouch/routers/frr/vty"

	"github.com/google/go-cmp/cmp"
)

// A neighbour that is sent nothing may be meant so as long as another one is.
func TestExaminePeers(t *testing.T) {
	const up = "Established"
	f := parseFilters(filtersText)
	peer := func(state string, family bgpFamily) bgpNeighbor {
		return bgpNeighbor{State: state, Families: map[string]bgpFamily{"ipv4Unicast": family}}
	}
	best := func(sent ...string) map[netip.Prefix]bgpEntry {
		e := bgpEntry{Paths: []bgpPath{{Valid: true, Local: true, BestPath: true}}, AdvertisedTo: map[string]json.RawMessage{}}
		for _, name := range sent {
			e.AdvertisedTo[name] = nil
		}
		return map[netip.Prefix]bgpEntry{p4: e}
	}
	none, all := bgpFamily{PrefixList: "NONE"}, bgpFamily{RouteMap: "ALL"}
	const way = " > let it through, unless it is meant so"
	for name, c := range map[string]struct {
		table map[netip.Prefix]bgpEntry
		all   map[string]bgpNeighbor
		least int
		want  []string
	}{
		"both": {nil, map[string]bgpNeighbor{"a": peer(up, none), "b": peer(up, none)}, 1, []string{
			"fail neighbor a: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it" + way,
			"fail neighbor b: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it" + way}},
		"one": {nil, map[string]bgpNeighbor{"a": peer(up, none), "b": peer(up, all)}, 1, []string{
			"note neighbor a: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it" + way, "ok neighbor b: established, ipv4 through route-map ALL"}},
		"one, and two are wanted": {nil, map[string]bgpNeighbor{"a": peer(up, none), "b": peer(up, all)}, 2, []string{
			"fail neighbor a: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it" + way, "ok neighbor b: established, ipv4 through route-map ALL"}},
		"the other is away": {nil, map[string]bgpNeighbor{"a": peer(up, none), "b": peer("Active", all)}, 1, []string{
			"note neighbor a: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it" + way, "warn neighbor b: the session is not established: Active"}},
		"the other is away, and it is sent to nobody": {best(), map[string]bgpNeighbor{"a": peer(up, none), "b": peer("Active", all)}, 1, []string{
			"fail neighbor a: established, ipv4: it is not sent 10.53.53.53/32: prefix-list NONE denies it" + way, "warn neighbor b: the session is not established: Active"}},
		"sent whatever the filters say": {best("a"), map[string]bgpNeighbor{"a": peer(up, none)}, 1, []string{"ok neighbor a: established, ipv4 through prefix-list NONE"}},
		"not sent whatever they say": {best(), map[string]bgpNeighbor{"a": peer(up, all)}, 1, []string{
			"fail neighbor a: established, ipv4: it is not sent 10.53.53.53/32, with route-map ALL before it" + way}},
		"not sent without any": {best(), map[string]bgpNeighbor{"a": peer(up, bgpFamily{})}, 1, []string{
			"fail neighbor a: established, ipv4: it is not sent 10.53.53.53/32, though no filter is before it (the path's communities? suppressed by an aggregate? or not yet)" + way}},
		"not to be told": {nil, map[string]bgpNeighbor{"a": peer(up, bgpFamily{RouteMap: "MAYBE"})}, 1, []string{
			"note neighbor a: established, ipv4: 10.53.53.53/32: whether route-map MAYBE lets it through cannot be told from here > look with `show bgp neighbors a advertised-routes` once it is announced"}},
	} {
		got := told(reading{table: c.table}.peers(c.all, f, Options{MinPeers: c.least}, []netip.Prefix{p4}))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// A family of the prefixes that no neighbour has, and a neighbour that has none, are told with what to configure.
func TestExaminePeersFamilies(t *testing.T) {
	has := func(state string, families ...string) bgpNeighbor {
		n := bgpNeighbor{State: state, Families: map[string]bgpFamily{}}
		for _, f := range families {
			n.Families[f] = bgpFamily{}
		}
		return n
	}
	const none = ": there is no neighbour with this address-family, so that none of its prefixes is announced > configure "
	const bare = ": the session is not established: Idle, as no address-family is activated for it > configure "
	four := func(name string) string { return "`address-family ipv4 unicast`, `neighbor " + name + " activate`" }
	six := func(name string) string { return "`address-family ipv6 unicast`, `neighbor " + name + " activate`" }
	for _, c := range []struct {
		all  map[string]bgpNeighbor
		ps   []netip.Prefix
		want []string
	}{
		{map[string]bgpNeighbor{"10.0.1.1": has("Established", "ipv4Unicast")}, []netip.Prefix{p4, p6}, []string{
			"ok neighbor 10.0.1.1: established, ipv4 without an outbound filter", "fail bgpd: ipv6" + none + six("NEIGHBOR")}},
		{map[string]bgpNeighbor{"10.0.1.1": has("Established", "ipv4Unicast"), "2001:db8::1": has("Idle")}, []netip.Prefix{p4, p6}, []string{
			"ok neighbor 10.0.1.1: established, ipv4 without an outbound filter", "warn neighbor 2001:db8::1" + bare + six("2001:db8::1"), "fail bgpd: ipv6" + none + six("NEIGHBOR")}},
		{map[string]bgpNeighbor{"10.0.1.1": has("Active", "ipv4Unicast"), "eth0": has("Idle")}, []netip.Prefix{p4}, []string{
			"warn neighbor 10.0.1.1: the session is not established: Active", "warn neighbor eth0" + bare + four("eth0")}},
		{map[string]bgpNeighbor{"10.0.1.1": has("Established", "ipv6Unicast")}, []netip.Prefix{p4, p6}, []string{
			"ok neighbor 10.0.1.1: established, ipv6 without an outbound filter", "fail bgpd: ipv4" + none + four("NEIGHBOR")}},
	} {
		got := told(reading{}.peers(c.all, filters{}, Options{MinPeers: 1}, c.ps))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// What import-check wants: a route that is not from BGP, unless bgpd has found one.
func TestUnrouted(t *testing.T) {
	o := Options{Method: MethodNetwork}
	by := func(protocol string) map[netip.Prefix][]route {
		return map[netip.Prefix][]route{p4: {{Protocol: protocol, Selected: true}}}
	}
	valid := map[netip.Prefix]bgpEntry{p4: {Paths: []bgpPath{{Valid: true, Local: true}}}}
	for name, c := range map[string]struct {
		rd   reading
		o    Options
		want int
	}{
		"none":              {reading{routes: map[netip.Prefix][]route{}}, o, 1},
		"from bgp":          {reading{routes: by("bgp")}, o, 1},
		"connected":         {reading{routes: by("connected")}, o, 0},
		"found":             {reading{routes: map[netip.Prefix][]route{}, table: valid}, o, 0},
		"not read":          {reading{}, o, 0},
		"of another method": {reading{routes: map[netip.Prefix][]route{}}, Options{Method: MethodAddress}, 0},
	} {
		if got := c.rd.unrouted(c.o, []netip.Prefix{p4}); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	replies := []vty.Reply{{Text: "{}"}, {Text: "cut"}}
	if got := parseAll(replies, []netip.Prefix{p4, p6}, parseRoutes); got != nil {
		t.Errorf("one that cannot be read: %v", got)
	}
}
