package kernel

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
	"vouch/routers/rtnl"
	"vouch/routers/rtnl/rtnltest"
)

var (
	vip4  = netip.MustParsePrefix("10.53.53.53/32")
	vip6  = netip.MustParsePrefix("fd53::53/128")
	other = netip.MustParsePrefix("10.53.53.54/32")
)

// unhurried is for exchanges with the kernel of a busy machine, which otherwise have a second.
func unhurried(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("ip %s: %v\n%s", strings.Join(lines, "; ip "), err, out)
	}
}

func TestApplyAndObserve(t *testing.T) {
	rtnltest.New(t)
	ip(t, "link set lo up", "addr add 10.53.53.1/24 dev lo", "addr add fd53::1/64 dev lo nodad")
	r := New("lo")
	before := addresses(t)
	for _, want := range []routers.Want{routers.Announced, routers.Announced, routers.Withdrawn, routers.Withdrawn} {
		if err := r.Apply(unhurried(t), []routers.Change{{Prefix: vip4, Want: want}, {Prefix: vip6, Want: want}}); err != nil {
			t.Fatal(err)
		}
		stage := map[routers.Want]routers.Stage{routers.Announced: r.Goal(), routers.Withdrawn: routers.Absent}[want]
		wantStages(t, r, stage, vip4, vip6)
	}
	if diff := cmp.Diff(before, addresses(t), compareAddresses); diff != "" {
		t.Errorf("addresses that were not asked for (-before +after):\n%s", diff)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestForeignAddressesStay has the prefixes' addresses in every place but the one that is managed.
func TestForeignAddressesStay(t *testing.T) {
	rtnltest.New(t)
	ip(t, "link set lo up", "link add eth0 type veth peer name peer0", "link set eth0 up",
		"addr add 10.53.53.53/24 dev lo", "addr add 10.53.53.53 peer 10.9.9.9/32 dev lo", "addr add fd53::53/64 dev lo nodad",
		"addr add 10.53.53.53/32 dev eth0", "addr add fd53::53/128 dev eth0 nodad")
	r := New("lo")
	before := addresses(t)
	os := observe(t, r, vip4, vip6)
	for i, names := range [][]string{
		{`10.53.53.53/24 on interface "lo"`, `10.53.53.53 with peer 10.9.9.9/32`, `10.53.53.53/32 on interface "eth0"`, "stays"},
		{`fd53::53/64 on interface "lo"`, `fd53::53/128 on interface "eth0"`, "stays"},
	} {
		if os[i].Stage != routers.Absent {
			t.Errorf("%s: stage %s, want absent", os[i].Prefix, os[i].Stage)
		}
		for _, name := range names {
			if !strings.Contains(os[i].Detail, name) {
				t.Errorf("%s: detail %q does not name %q", os[i].Prefix, os[i].Detail, name)
			}
		}
	}
	if err := r.Apply(unhurried(t), []routers.Change{{Prefix: vip4, Want: routers.Withdrawn}, {Prefix: vip6, Want: routers.Withdrawn}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, addresses(t), compareAddresses); diff != "" {
		t.Errorf("foreign addresses (-before +after):\n%s", diff)
	}
}

func TestApplyGoesOnAfterFailure(t *testing.T) {
	rtnltest.New(t)
	ip(t, "link set lo up", "addr add 10.53.53.54/32 dev lo")
	r := New("lo")
	err := r.Apply(unhurried(t), []routers.Change{
		{Prefix: netip.MustParsePrefix("10.53.53.0/24"), Want: routers.Withdrawn},
		{Prefix: netip.MustParsePrefix("fd53::/64"), Want: routers.Announced},
		{Prefix: netip.Prefix{}, Want: routers.Announced},
		{Prefix: netip.MustParsePrefix("::ffff:10.53.53.53/128"), Want: routers.Announced},
		{Prefix: vip4, Want: routers.Degraded},
		{Prefix: vip4, Want: routers.Announced},
		{Prefix: other, Want: routers.Withdrawn},
	})
	if !errors.Is(err, routers.ErrRefused) {
		t.Fatalf("Apply of prefixes that are not host prefixes: %v, want it refused", err)
	}
	for _, name := range []string{"10.53.53.0/24", "fd53::/64", "invalid Prefix", "::ffff:10.53.53.53/128", "not degraded", "/32", "/128", `"lo"`} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name %q", err, name)
		}
	}
	wantStages(t, r, routers.Selected, vip4)
	wantStages(t, r, routers.Absent, other)
}

// TestApplyWithdrawsFirst follows the kernel's messages: the order of the changes is the reverse.
func TestApplyWithdrawsFirst(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link set lo up", "addr add 10.53.53.54/32 dev lo")
	r := New("lo")
	monitor := exec.Command("ip", "-o", "monitor", "address")
	out, err := monitor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := monitor.Start(); err != nil {
		t.Fatal(err)
	}
	var seen atomic.Value
	seen.Store("")
	ns.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := out.Read(b)
			if err != nil {
				return
			}
			seen.Store(seen.Load().(string) + string(b[:n]))
		}
	})
	defer func() { _ = monitor.Process.Kill(); _ = monitor.Wait() }()
	ns.Wait("the monitor listens", func() bool {
		ip(t, "addr replace 10.53.53.99/32 dev lo")
		return strings.Contains(seen.Load().(string), "10.53.53.99")
	})
	if err := r.Apply(unhurried(t), []routers.Change{{Prefix: vip4, Want: routers.Announced}, {Prefix: other, Want: routers.Withdrawn}}); err != nil {
		t.Fatal(err)
	}
	ns.Wait("both changes are told", func() bool {
		s := seen.Load().(string)
		return strings.Contains(s, vip4.String()) && strings.Contains(s, other.String())
	})
	if s := seen.Load().(string); strings.Index(s, other.String()) > strings.Index(s, vip4.String()) {
		t.Errorf("the announce came first:\n%s", s)
	}
}

func TestObserveTentative(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link add eth0 type veth peer name peer0", "link set eth0 up", "addr add fd53::53/128 dev eth0")
	r := New("eth0")
	ns.Wait("the address is there", func() bool { return observe(t, r, vip6)[0].Stage != routers.Absent })
	if o := observe(t, r, vip6)[0]; o.Stage != routers.Configured || !strings.Contains(o.Detail, "tentative") {
		t.Errorf("observed %+v, want configured and tentative", o)
	}
}

// TestObserveWhileTheInterfaceIsDown: nobody advertises an address of an interface that is set down. The kernel
// takes IPv6 addresses away by itself then.
func TestObserveWhileTheInterfaceIsDown(t *testing.T) {
	rtnltest.New(t)
	ip(t, "link set lo up", "addr add 10.53.53.53/32 dev lo")
	r := New("lo")
	wantStages(t, r, routers.Selected, vip4)
	ip(t, "link set lo down")
	if o := observe(t, r, vip4)[0]; o.Stage != routers.Configured || o.Detail != `interface "lo" is down: ip link set lo up` {
		t.Errorf("observed %+v, want configured, and the way out", o)
	}
	wantStages(t, r, routers.Absent, other)
	ip(t, "link set lo up")
	wantStages(t, r, routers.Selected, vip4)
}

func TestObserveUnreadable(t *testing.T) {
	rtnltest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	os, err := New("lo").Observe(ctx, []netip.Prefix{vip4, vip6})
	if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want unavailable and why", err)
	}
	if len(os) != 2 || os[0].Prefix != vip4 || os[1].Prefix != vip6 {
		t.Fatalf("observations %+v, want one for each prefix", os)
	}
	for _, o := range os {
		if o.Stage != routers.Unknown || o.Detail == "" {
			t.Errorf("observed %+v, want unknown and why", o)
		}
	}
}

func TestApplyToInterfaceThatComesLater(t *testing.T) {
	rtnltest.New(t)
	r := New("later0")
	change := []routers.Change{{Prefix: vip4, Want: routers.Announced}}
	err := r.Apply(unhurried(t), change)
	if !errors.Is(err, routers.ErrUnavailable) || errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), `"later0"`) {
		t.Errorf("error %v, want it unavailable and the interface named", err)
	}
	o := observe(t, r, vip4)[0]
	if want := `not on interface "later0", which does not exist (yet)`; o.Stage != routers.Absent || o.Detail != want {
		t.Errorf("observed %+v, want absent: %s", o, want)
	}
	ip(t, "link add later0 type veth peer name peer0", "link set later0 up")
	if o := observe(t, r, vip4)[0]; o.Stage != routers.Absent || o.Detail != `not on interface "later0"` {
		t.Errorf("with the interface: observed %+v", o)
	}
	if err := r.Apply(unhurried(t), change); err != nil {
		t.Fatal(err)
	}
	wantStages(t, r, routers.Selected, vip4)
}

// TestWatchSeesAddressPutBack reads on hints only.
func TestWatchSeesAddressPutBack(t *testing.T) {
	for _, p := range []netip.Prefix{vip4, vip6} {
		ns := rtnltest.New(t)
		ip(t, "link set lo up")
		r := New("lo")
		var stage atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		ns.Go(func() {
			err := r.Watch(ctx, func() {
				os, _ := r.Observe(ctx, []netip.Prefix{p})
				stage.Store(int32(os[0].Stage))
			})
			if err != nil {
				t.Error(err)
			}
		})
		is := func(s routers.Stage) func() bool { return func() bool { return routers.Stage(stage.Load()) == s } }
		ns.Wait("the first reading", is(routers.Absent))
		ip(t, "addr add "+p.String()+" dev lo")
		ns.Wait("the address put back is seen", is(routers.Selected))
		ip(t, "addr del "+p.String()+" dev lo")
		ns.Wait("the address taken is seen", is(routers.Absent))
		cancel()
	}
}

func TestString(t *testing.T) {
	if got, want := New("lo").String(), "kernel (address on lo)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func observe(tb testing.TB, r *Router, ps ...netip.Prefix) []routers.Observation {
	tb.Helper()
	os, err := r.Observe(unhurried(tb), ps)
	if err != nil {
		tb.Fatal(err)
	}
	return os
}

func wantStages(tb testing.TB, r *Router, want routers.Stage, ps ...netip.Prefix) {
	tb.Helper()
	for _, o := range observe(tb, r, ps...) {
		if o.Stage != want {
			tb.Errorf("%s: stage %s (%s), want %s", o.Prefix, o.Stage, o.Detail, want)
		}
	}
}

func addresses(tb testing.TB) []rtnl.Address {
	tb.Helper()
	found, err := rtnl.Addresses(unhurried(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

var compareAddresses = cmp.Comparer(func(a, b rtnl.Address) bool { return a == b })
