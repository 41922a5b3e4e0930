package routertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"vouch/routers/lab"
	"vouch/routers/routertest"
)

// Prefixes of a subject: the number says which service, of both families.
func service(number int) []netip.Prefix {
	return []netip.Prefix{host("10.53.53.%d", number), host("2001:db8:53::%x", number)}
}

// another is service in a range of which no address is on lo.
func another(number int) []netip.Prefix {
	return []netip.Prefix{host("10.53.54.%d", number), host("2001:db8:54::%x", number)}
}

// third is a third range.
func third(number int) []netip.Prefix {
	return []netip.Prefix{host("10.53.55.%d", number), host("2001:db8:55::%x", number)}
}

func host(format string, args ...any) netip.Prefix {
	a := netip.MustParseAddr(fmt.Sprintf(format, args...))
	return netip.PrefixFrom(a, a.BitLen())
}

// many are so many prefixes, some of them of IPv6.
func many(n, six int) []netip.Prefix {
	ps := make([]netip.Prefix, 0, n)
	for i := range n {
		if i < six {
			ps = append(ps, host("2001:db8:60::%x", i))
		} else {
			ps = append(ps, host("10.60.%d.%d", i>>8, i&255))
		}
	}
	return ps
}

// hops are the addresses by which the core reaches the first node, in every network.
func hops() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("fe80::1:2")}
}

// byHand has somebody change addresses on a node's lo.
func byHand(nd *lab.Node, action string) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		var errs []error
		for _, p := range ps {
			errs = append(errs, nd.Address(ctx, action, p.String(), "lo"))
		}
		return errors.Join(errs...)
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// play runs subjects one after the other.
func play(t *testing.T, subjects ...*routertest.Subject) {
	for _, s := range subjects {
		t.Run(s.Name, func(t *testing.T) { routertest.Run(t, s) })
	}
}
