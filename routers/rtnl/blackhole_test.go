package rtnl

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
)

const ownProtocol = 200

func blackholes(tb testing.TB, family Family) map[netip.Prefix][]uint32 {
	tb.Helper()
	all, err := Blackholes(unhurried(tb), family, ownProtocol)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestBlackholeComesAndGoes(t *testing.T) {
	twoPairs(t)
	for _, p := range []netip.Prefix{
		netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("0.0.0.0/0"),
		netip.MustParsePrefix("2001:db8::53/128"), netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("::/0"),
	} {
		family := familyOf(p.Addr())
		for _, metric := range []uint32{20, 666} {
			b := Blackhole{p, ownProtocol, metric}
			for _, do := range []struct {
				change func() error
				want   bool
			}{
				{func() error { return DeleteBlackhole(unhurried(t), b) }, false},
				{func() error { return AddBlackhole(unhurried(t), b) }, true},
				{func() error { return AddBlackhole(unhurried(t), b) }, true},
				{func() error { return DeleteBlackhole(unhurried(t), b) }, false},
				{func() error { return AddBlackhole(unhurried(t), b) }, true},
			} {
				if err := do.change(); err != nil {
					t.Fatalf("%s metric %d: %v", p, metric, err)
				}
				if got := slices.Contains(blackholes(t, family)[p], metric); got != do.want {
					t.Fatalf("%s metric %d is there: %v", p, metric, got)
				}
			}
		}
		if got := blackholes(t, family)[p]; len(got) != 2 {
			t.Errorf("%s has the metrics %v, not both", p, got)
		}
	}
}

// What somebody else made is neither seen, nor taken away, nor taken for ours.
func TestBlackholeOfAnotherStays(t *testing.T) {
	twoPairs(t)
	for _, s := range []string{"192.0.2.53/32", "2001:db8::53/128"} {
		p := netip.MustParsePrefix(s)
		via := "via 10.0.1.1"
		if p.Addr().Is6() {
			via = "via fd00:1::1"
		}
		for _, other := range []string{"blackhole " + s + " metric 20 proto 201", s + " " + via + " metric 20 proto 200", "blackhole " + s + " metric 20 proto 200 table 77"} {
			ip(t, "route add "+other)
			if got := blackholes(t, familyOf(p.Addr()))[p]; len(got) != 0 {
				t.Errorf("%s is taken for ours: %v", other, got)
			}
			b := Blackhole{p, ownProtocol, 20}
			if !strings.Contains(other, "table") {
				wantError(t, AddBlackhole(unhurried(t), b), routers.ErrRefused, s, "not ours")
			}
			if !strings.Contains(other, via) { // the kernel tells ours from others by number alone
				if err := DeleteBlackhole(unhurried(t), b); err != nil {
					t.Error(err)
				}
				family := map[bool]string{true: "-4", false: "-6"}[p.Addr().Is4()]
				out, err := exec.Command("ip", family, "route", "show", "table", "all", "type", "blackhole").CombinedOutput()
				if err != nil || !strings.Contains(string(out), p.Addr().String()) {
					t.Errorf("%s is gone: %v\n%s", other, err, out)
				}
			}
			ip(t, "route del "+other)
		}
	}
}

func TestBlackholeWithoutPermission(t *testing.T) {
	twoPairs(t)
	dropCapabilities(t)
	b := Blackhole{netip.MustParsePrefix("192.0.2.53/32"), ownProtocol, 20}
	wantError(t, AddBlackhole(unhurried(t), b), routers.ErrRefused, "192.0.2.53/32", "CAP_NET_ADMIN")
	wantError(t, DeleteBlackhole(unhurried(t), b), routers.ErrRefused, "192.0.2.53/32", "CAP_NET_ADMIN")
}

func BenchmarkBlackholes(b *testing.B) {
	twoPairs(b)
	fill(b, IPv4, 100000)
	for b.Loop() {
		blackholes(b, IPv4)
	}
}
