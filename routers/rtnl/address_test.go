package rtnl

import (
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/rtnl/rtnltest"
)

var (
	vip4 = netip.MustParsePrefix("10.53.53.53/32")
	vip6 = netip.MustParsePrefix("fd53::53/128")
)

func TestAddAndDelAddress(t *testing.T) {
	twoPairs(t)
	for _, p := range []netip.Prefix{vip4, vip6} {
		for _, iface := range []string{"lo", "eth0"} {
			before := addresses(t)
			for range 2 { // the second is idempotent
				if err := addAddress(iface, p); err != nil {
					t.Fatal(err)
				}
			}
			added := slices.DeleteFunc(addresses(t), func(a Address) bool { return slices.Contains(before, a) })
			if diff := cmp.Diff([]Address{{Prefix: p, Interface: iface}}, added, compareAddresses); diff != "" {
				t.Errorf("after adding %s to %s (-want +got):\n%s", p, iface, diff)
			}
			for range 2 {
				if err := delAddress(iface, p); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, addresses(t), compareAddresses); diff != "" {
				t.Errorf("after deleting %s from %s (-want +got):\n%s", p, iface, diff)
			}
		}
	}
}

func TestDelAddressLeavesOtherLengthsAndPeers(t *testing.T) {
	twoPairs(t)
	ip(t, "addr add 10.53.53.53/24 dev lo", "addr add 10.53.53.53 peer 10.9.9.9/32 dev lo",
		"addr add 10.53.53.53/32 dev eth0", "addr add fd53::53/64 dev lo nodad")
	before := addresses(t)
	for _, p := range []netip.Prefix{vip4, vip6} {
		if err := delAddress("lo", p); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, addresses(t), compareAddresses); diff != "" {
		t.Errorf("addresses that were not named (-want +got):\n%s", diff)
	}
}

func TestAddAddressBesideOtherLength(t *testing.T) {
	twoPairs(t)
	ip(t, "addr add 10.53.53.53/24 dev lo", "addr add fd53::53/64 dev lo nodad")
	if err := addAddress("lo", vip4); err != nil {
		t.Errorf("IPv4 has the same address with two lengths: %v", err)
	}
	err := addAddress("lo", vip6)
	wantError(t, err, routers.ErrRefused, `address fd53::53/128 on interface "lo"`, "fd53::53/64", "take that one away")
}

func TestAddressRefusals(t *testing.T) {
	rtnltest.New(t)
	err := addAddress("nosuch0", vip4)
	wantError(t, err, routers.ErrUnavailable, `address 10.53.53.53/32 on interface "nosuch0": no such interface (yet): create it`)
	if errors.Is(err, routers.ErrRefused) || !errors.Is(err, unix.ENODEV) {
		t.Errorf("error %v: an interface may be made later", err)
	}
	if err := ChangeAddresses(unhurried(t), "nosuch0", []routers.Change{{Prefix: vip4, Want: routers.Withdrawn}}); err != nil {
		t.Errorf("withdrawn from where it cannot be: %v", err)
	}
	dropCapabilities(t)
	for _, change := range []func(string, netip.Prefix) error{addAddress, delAddress} {
		wantError(t, change("lo", vip4), routers.ErrRefused, "10.53.53.53/32", `"lo"`, "CAP_NET_ADMIN")
	}
}

func TestAddressFlags(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link add eth0 type veth peer name peer0", "link set eth0 up", // no carrier: detection never begins
		"addr add fd53::53/128 dev eth0", "addr add fd53::54/128 dev eth0 nodad preferred_lft 0",
		"addr add 10.53.53.53 peer 10.9.9.9/30 dev eth0")
	ns.Wait("the addresses are there", func() bool { return len(addresses(t)) >= 3 })
	want := []Address{
		{Prefix: vip4, Interface: "eth0", peer: netip.MustParsePrefix("10.9.9.9/30")},
		{Prefix: netip.MustParsePrefix("fd53::54/128"), Interface: "eth0"},
		{Prefix: vip6, Interface: "eth0", tentative: true},
	}
	got := slices.DeleteFunc(addresses(t), func(a Address) bool { return a.Prefix.Addr().IsLinkLocalUnicast() })
	slices.SortFunc(got, func(a, b Address) int { return -strings.Compare(a.Prefix.String(), b.Prefix.String()) })
	slices.SortFunc(want, func(a, b Address) int { return -strings.Compare(a.Prefix.String(), b.Prefix.String()) })
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// TestAddressOfDownInterface asks the kernel itself whether it takes packets to the address. Of IPv6 it
// does so a moment after the address was added.
func TestAddressOfDownInterface(t *testing.T) {
	ns := twoPairs(t)
	ip(t, "link set eth1 down")
	for _, p := range []netip.Prefix{vip4, vip6} {
		if err := addAddress("eth1", p); err != nil {
			t.Fatal(err)
		}
		os, err := ObserveAddresses(unhurried(t), "eth1", []netip.Prefix{p})
		if err != nil || os[0].Stage != routers.Selected {
			t.Errorf("observed %+v, %v", os, err)
		}
		ns.Wait("the kernel takes "+p.String(), func() bool {
			out, _ := exec.Command("ip", "route", "get", p.Addr().String()).CombinedOutput()
			return strings.HasPrefix(string(out), "local ")
		})
	}
}

// TestDADFailedIsReplaced has the same address at both ends of a link: detection fails at the second.
func TestDADFailedIsReplaced(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link add eth0 type veth peer name peer0", "link set eth0 up", "link set peer0 up",
		"addr add fd53::53/128 dev peer0 nodad", "addr add fd53::53/128 dev eth0")
	state := func() (a Address) {
		for _, found := range addresses(t) {
			if found.Prefix == vip6 && found.Interface == "eth0" {
				a = found
			}
		}
		return a
	}
	ns.Wait("duplicate address detection fails", func() bool { return state().dadFailed })
	os, err := ObserveAddresses(unhurried(t), "eth0", []netip.Prefix{vip6})
	if err != nil || os[0].Stage != routers.Configured || !strings.Contains(os[0].Detail, "another host") {
		t.Errorf("observed %+v, %v; want configured, and why", os, err)
	}
	if err := addAddress("eth0", vip6); err != nil {
		t.Fatal(err)
	}
	if got := state(); !got.Usable() || !got.Prefix.IsValid() {
		t.Errorf("after addAddress: %+v, want it usable", got)
	}
}

func addresses(tb testing.TB) []Address {
	tb.Helper()
	found, err := Addresses(unhurried(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

var compareAddresses = cmp.Comparer(func(a, b Address) bool { return a == b })

// wantError checks the class of an error, and that its text names what it must.
func wantError(tb testing.TB, err, class error, names ...string) {
	tb.Helper()
	if !errors.Is(err, class) {
		tb.Errorf("error %v is not of class %q", err, class)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			tb.Errorf("error %q does not name %q", err, name)
		}
	}
}
