package frr

import (
	"net/netip"
	"testing"
)

// filtersText is the running configuration of a bgpd (10.3), shortened, with lists for all cases.
const filtersText = `frr version 10.3
route-map ALL permit 10
exit
!
route-map CALLS permit 10
 call SIX
exit
!
route-map CALLS-NONE permit 10
 call NEVER
exit
!
route-map LOOP permit 10
 call LOOP
exit
!
route-map SIX permit 10
 match ipv6 address prefix-list V6
exit
!
route-map ONWARD permit 10
 on-match next
exit
!
route-map ONWARD deny 20
exit
!
route-map MAYBE permit 10
 match community C
exit
!
route-map EITHER permit 10
 match community C
exit
!
route-map EITHER permit 20
exit
!
route-map BOTH deny 10
 match community C
 match ip address AL
exit
!
route-map BOTH permit 20
exit
!
router bgp 65001
 neighbor 10.0.1.1 prefix-list IN out
exit
!
access-list AL seq 5 deny 10.53.53.53/32
access-list AL seq 10 permit any
access-list EX seq 5 permit 10.53.53.0/24 exact-match
access-list 7 seq 5 permit 10.53.0.0 0.0.255.255
access-list 8 seq 5 permit host 10.53.53.53
access-list 100 seq 5 permit ip 10.53.0.0 0.0.255.255 any
access-list BARE remark nothing yet
ipv6 access-list V6 seq 5 permit 2001:db8:53::/48
ip prefix-list EMPTY description nothing yet
ip prefix-list NONE seq 5 deny any
ip prefix-list RANGE seq 5 deny 10.53.53.0/24 ge 25 le 31
ip prefix-list RANGE seq 10 permit 10.53.53.0/24 ge 25
ip prefix-list PLAIN seq 5 permit 10.53.53.0/24
ip prefix-list V6 seq 5 permit any
ipv6 prefix-list V6 seq 5 permit any
bgp as-path access-list EMPTY seq 5 permit ^$
bgp as-path access-list CORE seq 5 permit _65000_
bgp as-path access-list BAD seq 5 permit (
`

// What each filter does to a prefix of the node's own.
func TestOutbound(t *testing.T) {
	f := parseFilters(filtersText)
	for _, c := range []struct {
		n    bgpFamily
		p    netip.Prefix
		want verdict
		why  string
	}{
		{bgpFamily{}, p4, permit, ""},
		{bgpFamily{PrefixList: "NONE"}, p4, deny, "prefix-list NONE denies it"},
		{bgpFamily{PrefixList: "NONE"}, p6, deny, "there is no prefix-list NONE"},
		{bgpFamily{PrefixList: "EMPTY"}, p4, permit, ""},
		{bgpFamily{PrefixList: "RANGE"}, p4, permit, ""},
		{bgpFamily{PrefixList: "RANGE"}, p4n, deny, "prefix-list RANGE denies it"},
		{bgpFamily{PrefixList: "RANGE"}, netip.MustParsePrefix("10.53.53.0/30"), deny, "prefix-list RANGE denies it"},
		{bgpFamily{PrefixList: "PLAIN"}, p4, deny, "prefix-list PLAIN denies it"},
		{bgpFamily{PrefixList: "PLAIN"}, p4n, permit, ""},
		{bgpFamily{PrefixList: "V6"}, p6, permit, ""},
		{bgpFamily{AccessList: "AL"}, p4, deny, "distribute-list AL denies it"},
		{bgpFamily{AccessList: "AL"}, s4, permit, ""},
		{bgpFamily{AccessList: "EX"}, p4, deny, "distribute-list EX denies it"},
		{bgpFamily{AccessList: "EX"}, p4n, permit, ""},
		{bgpFamily{AccessList: "7"}, p4, permit, ""},
		{bgpFamily{AccessList: "8"}, p4, permit, ""},
		{bgpFamily{AccessList: "8"}, s4, deny, "distribute-list 8 denies it"},
		{bgpFamily{AccessList: "100"}, p4, untold, "whether distribute-list 100 lets it through cannot be told from here"},
		{bgpFamily{AccessList: "BARE"}, p4, deny, "distribute-list BARE denies it"},
		{bgpFamily{AccessList: "V6"}, p6, permit, ""},
		{bgpFamily{AccessList: "NEVER"}, p4, deny, "there is no distribute-list NEVER"},
		{bgpFamily{ASPathList: "EMPTY"}, p4, permit, ""},
		{bgpFamily{ASPathList: "CORE"}, p4, deny, "filter-list CORE denies it"},
		{bgpFamily{ASPathList: "BAD"}, p4, untold, "whether filter-list BAD lets it through cannot be told from here"},
		{bgpFamily{RouteMap: "ALL"}, p4, permit, ""},
		{bgpFamily{RouteMap: "CALLS-NONE"}, p4, permit, ""},
		{bgpFamily{RouteMap: "SIX"}, p4, deny, "route-map SIX denies it"},
		{bgpFamily{RouteMap: "SIX"}, p6, permit, ""},
		{bgpFamily{RouteMap: "CALLS"}, p4, deny, "route-map CALLS denies it"},
		{bgpFamily{RouteMap: "CALLS"}, p6, permit, ""},
		{bgpFamily{RouteMap: "LOOP"}, p4, untold, "whether route-map LOOP lets it through cannot be told from here"},
		{bgpFamily{RouteMap: "ONWARD"}, p4, untold, "whether route-map ONWARD lets it through cannot be told from here"},
		{bgpFamily{RouteMap: "MAYBE"}, p4, untold, "whether route-map MAYBE lets it through cannot be told from here"},
		{bgpFamily{RouteMap: "EITHER"}, p4, permit, ""},
		{bgpFamily{RouteMap: "BOTH"}, p4, permit, ""},
		{bgpFamily{RouteMap: "BOTH"}, s4, untold, "whether route-map BOTH lets it through cannot be told from here"},
		{bgpFamily{PrefixList: "RANGE", RouteMap: "NEVER"}, p4, deny, "there is no route-map NEVER"},
		{bgpFamily{RouteMap: "MAYBE", ASPathList: "CORE"}, p4, deny, "filter-list CORE denies it"},
	} {
		if v, why := f.outbound(c.n, c.p); v != c.want || why != c.why {
			t.Errorf("%+v of %s: %v, %q, want %v, %q", c.n, c.p, v, why, c.want, c.why)
		}
	}
}

// No text makes the parser fall over.
func FuzzFilters(f *testing.F) {
	f.Add(filtersText)
	f.Add("ip prefix-list A seq 5 permit 10.0.0.0/8 ge\nroute-map\nroute-map X permit 10\n match\n call\naccess-list\nbgp as-path access-list A\nip prefix-list A permit\n")
	f.Fuzz(func(t *testing.T, text string) {
		all := parseFilters(text)
		for _, p := range []netip.Prefix{p4, p6} {
			all.outbound(bgpFamily{PrefixList: "A", AccessList: "AL", ASPathList: "A", RouteMap: "X"}, p)
			for name := range all.routeMaps {
				all.routeMap(name, p, depth)
			}
		}
	})
}
