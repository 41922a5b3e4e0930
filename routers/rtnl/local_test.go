package rtnl

import (
	"net/netip"
	"slices"
	"testing"
)

// Addresses are there, and what somebody has delivered here without one; what is forwarded or dropped is not.
func TestLocalRoutes(t *testing.T) {
	twoPairs(t)
	ip(t, "route add local 192.0.2.0/24 dev lo", "route add blackhole 198.51.100.0/24", "route add blackhole 198.51.100.1/32 table local",
		"route add local 2001:db8:53::/48 dev lo", "route add blackhole 2001:db8:54::/48")
	for family, want := range map[Family][]string{IPv4: {"10.0.1.2/32", "192.0.2.0/24"}, IPv6: {"fd00:1::2/128", "2001:db8:53::/48"}} {
		got, err := LocalRoutes(unhurried(t), family)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range want {
			if !slices.Contains(got, netip.MustParsePrefix(p)) {
				t.Errorf("%s is not among %v", p, got)
			}
		}
		for _, p := range got {
			if slices.ContainsFunc([]string{"198.51.100.1/32", "198.51.100.0/24", "2001:db8:54::/48", "10.0.1.0/30"}, func(s string) bool { return p == netip.MustParsePrefix(s) }) {
				t.Errorf("%s is among them", p)
			}
		}
	}
}
