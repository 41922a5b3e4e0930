package rtnl

import (
	"fmt"
	"testing"
)

// fill adds n routes of a family to the main table.
func fill(tb testing.TB, family Family, n int) {
	tb.Helper()
	lines := make([]string, n)
	for i := range lines {
		if family == IPv4 {
			lines[i] = fmt.Sprintf("route add %d.%d.%d.0/24 via 10.0.1.1", 11+i>>16, i>>8&255, i&255)
		} else {
			lines[i] = fmt.Sprintf("route add 2001:%x:%x::/48 via fd00:1::1", i>>16, i&0xffff)
		}
	}
	ip(tb, lines...)
}

func BenchmarkDefaultRoute(b *testing.B) {
	for _, n := range []int{10, 100000} {
		for _, family := range []Family{IPv4, IPv6} {
			for _, present := range []bool{true, false} {
				b.Run(fmt.Sprintf("%s/routes=%d/present=%t", family, n, present), func(b *testing.B) {
					twoPairs(b)
					fill(b, family, n)
					if present {
						ip(b, map[Family]string{IPv4: "route add default via 10.0.1.1", IPv6: "route add ::/0 via fd00:1::1"}[family])
					}
					for b.Loop() {
						if d := defaultRoute(b, family, MainTable); d.Usable != present {
							b.Fatalf("%+v", d)
						}
					}
				})
			}
		}
	}
}

func BenchmarkAddresses(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			twoPairs(b)
			lines := make([]string, n)
			for i := range lines {
				lines[i] = fmt.Sprintf("addr add 10.53.%d.%d/32 dev lo", i>>8, i&255)
			}
			ip(b, lines...)
			for b.Loop() {
				addresses(b)
			}
		})
	}
}
