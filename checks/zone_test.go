package checks

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestZoneProblems(t *testing.T) {
	for _, c := range []struct {
		origin       Origin
		target, want string
	}{
		{Origin{}, "fe80::b%va", ""},
		{Origin{Device: "va"}, "fe80::b", ""},
		{Origin{Source: "fe80::a"}, "fe80::b%va", ""},
		{Origin{Source: "fe80::a%va"}, "fe80::b%va", ""},
		{Origin{Source: "fe80::a%va"}, "2001:db8::1", ""},
		{Origin{Source: "fe80::a", Device: "va"}, "2001:db8::1", ""},
		{Origin{Device: "va"}, "fe80::b%va", ""},
		{Origin{Device: "vrf1"}, "2001:db8::1", ""},
		{Origin{Device: "vb"}, "fe80::b%va", "device: is not the interface that the address fe80::b%va is of, which alone counts"},
		{Origin{Device: "vb", Source: "fe80::a%va"}, "2001:db8::1", "device: is not the interface that the address fe80::a%va is of, which alone counts"},
		{Origin{Source: "fe80::a"}, "", ""},
		{Origin{Source: "169.254.0.1"}, "169.254.0.2", ""},
		{Origin{}, "fe80::b", "device: is missing: the address that is probed, fe80::b, is link-local, and there is one of these on each interface"},
		{Origin{Source: "2001:db8::1"}, "fe80::b", "device: is missing: the address that is probed, fe80::b, is link-local, and there is one of these on each interface"},
		{Origin{Source: "fe80::a"}, "2001:db8::1", "source: is link-local, and there is one of these on each interface"},
		{Origin{Source: "fe80::a%vb"}, "fe80::b%va", "source: must be of the same interface as the address that is probed, fe80::b%va"},
		{Origin{}, "2001:db8::1%va", ": the address that is probed, 2001:db8::1%va, has a zone, which only link-local addresses have"},
		{Origin{Source: "2001:db8::1%va"}, "2001:db8::2", "source: has a zone, which only link-local addresses have"},
		{Origin{Source: "::1"}, "127.0.0.1", "source: must be of the same family as the address that is probed, 127.0.0.1"},
	} {
		target, _ := netip.ParseAddr(c.target)
		var got []string
		for _, p := range c.origin.Problems(target) {
			got = append(got, p.Key+": "+p.What)
			if p.WayOut == "" {
				t.Errorf("%+v, %s: no way out", c.origin, c.target)
			}
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%+v, %s: %q, want %q", c.origin, c.target, s, c.want)
		}
	}
}

func TestMissingZones(t *testing.T) {
	var targets []netip.Addr
	for _, a := range []string{"127.0.0.1", "::1", "fe80::1%lo", "fe80::1%1", "fe80::1%nosuch0", "fe80::1%999999999", "fe80::1%far-too-long-for-a-name"} {
		targets = append(targets, netip.MustParseAddr(a))
	}
	var got []string
	for _, p := range MissingZones(targets) {
		got = append(got, p.What)
	}
	const want = "there is no interface nosuch0, which the address fe80::1%nosuch0 is of|" +
		"there is no interface 999999999, which the address fe80::1%999999999 is of|" +
		"there is no interface far-too-long-for-a-name, which the address fe80::1%far-too-long-for-a-name is of"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("%q", s)
	}
}

// The number of a zone cannot be taken for the name of an interface, and asking for it leaves nothing open.
func TestNumbered(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	for range 200 {
		for _, a := range []string{"fe80::1%lo", "fe80::1%1"} {
			if got, err := numbered(netip.MustParseAddr(a)); err != nil || got.String() != "fe80::1%0000000000000001" {
				t.Fatalf("%s: %s, %v", a, got, err)
			}
		}
		if _, err := numbered(netip.MustParseAddr("fe80::1%nosuch0")); err == nil || err.Error() != "unreachable: there is no interface nosuch0" {
			t.Fatal(err)
		}
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if _, err := numbered(netip.MustParseAddr("fe80::1")); err == nil || err.Error() != "unreachable: fe80::1 is link-local, and no interface is given" {
		t.Error(err)
	}
}

// What bind says that nothing else is known of is told in its own words; a shortage is no fault.
func TestSourceMissing(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var got []string
	for range 2 {
		got = append(got, Origin{}.sourceMissing(fd, netip.MustParseAddr("127.0.0.1")))
	}
	if s := strings.Join(got, "|"); s != "|the address cannot be asked from: invalid argument" {
		t.Errorf("bound twice: %q", s)
	}
}
