package vyos

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

func TestKernelLife(t *testing.T) {
	b := open(t, vyostest.Options{})
	r := b.router(Options{})
	b.becomes(r, routers.Absent, false, both...)
	for _, to := range []struct {
		want     routers.Want
		stage    routers.Stage
		degraded bool
	}{
		{routers.Announced, routers.Advertised, false}, {routers.Announced, routers.Advertised, false},
		{routers.Degraded, routers.Advertised, true}, {routers.Announced, routers.Advertised, false},
		{routers.Degraded, routers.Advertised, true}, {routers.Withdrawn, routers.Absent, false},
		{routers.Withdrawn, routers.Absent, false},
	} {
		b.must(b.apply(r, to.want, both...))
		b.becomes(r, to.stage, to.degraded, both...)
		for _, o := range b.observe(r, both...) {
			if to.stage == routers.Advertised && len(o.Reached()) == 0 {
				t.Errorf("%s is advertised to nobody: %+v", o.Prefix, o)
			}
		}
	}
	if calls := b.system.Calls(); len(calls) > 0 {
		t.Errorf("VyOS was asked: %+v", calls)
	}
}

// Routes of others are neither counted nor touched.
func TestKernelOfOthers(t *testing.T) {
	b := open(t, vyostest.Options{})
	r := b.router(Options{})
	nd := b.lab.Nodes[0]
	_, err := nd.Run(t.Context(), "ip", "route", "add", "blackhole", one.String(), "metric", "30", "proto", "77")
	b.must(err)
	b.core(true, one)
	o := b.observe(r, one)[0]
	if o.Stage < routers.Selected || !o.Broken {
		t.Errorf("announced by somebody else: %+v", o)
	}
	b.must(b.apply(r, routers.Announced, one))
	b.becomes(r, routers.Advertised, false, one)
	b.must(b.apply(r, routers.Withdrawn, one))
	b.core(true, one)
	_, err = nd.Run(t.Context(), "ip", "route", "replace", "blackhole", one.String(), "metric", "10", "proto", "77")
	b.must(err)
	b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, one.String(), "not ours")
}

// Two nodes of an anycast network announce the same: each has the other's route, from zebra, in its kernel before its
// own, which comes and goes beside it.
func TestKernelOfTwoNodes(t *testing.T) {
	b := open(t, vyostest.Options{})
	r := b.router(Options{})
	other := New(Options{SocketDir: b.lab.Nodes[1].FRR.SocketDir()})
	there := func(w routers.Want) {
		b.must(b.lab.Nodes[1].Do(func() error {
			return other.Apply(t.Context(), []routers.Change{{Prefix: one, Want: w}, {Prefix: one6, Want: w}})
		}))
	}
	there(routers.Announced)
	b.learned(true)
	for range 2 {
		for _, to := range []struct {
			want     routers.Want
			stage    routers.Stage
			degraded bool
		}{
			{routers.Announced, routers.Advertised, false}, {routers.Degraded, routers.Advertised, true},
			{routers.Announced, routers.Advertised, false}, {routers.Withdrawn, routers.Absent, false},
			{routers.Degraded, routers.Advertised, true}, {routers.Withdrawn, routers.Absent, false},
		} {
			b.must(b.apply(r, to.want, both...))
			b.reads(r, to.stage, to.degraded, both...)
			b.via(to.stage == routers.Advertised && !to.degraded, both...)
			b.learned(to.stage == routers.Absent)
		}
	}
	b.must(b.apply(r, routers.Announced, both...))
	b.via(true, both...)
	there(routers.Withdrawn)
	b.becomes(r, routers.Advertised, false, both...)
	there(routers.Announced)
	b.reads(r, routers.Advertised, false, both...)
	b.must(b.apply(r, routers.Withdrawn, both...))
	b.learned(true)
}

// learned waits until zebra's own routes to the other node are in the kernel, or not.
func (b *bench) learned(want bool) {
	b.Helper()
	b.wait(fmt.Sprintf("the other node's routes in the kernel: %v", want), func() error {
		for _, p := range both {
			family := map[bool]string{true: "-4", false: "-6"}[p.Addr().Is4()]
			out, err := b.lab.Nodes[0].Run(b.Context(), "ip", family, "route", "show", p.String(), "proto", "bgp")
			if err != nil || strings.Contains(out, "metric 20") != want {
				return fmt.Errorf("%s: %q, %v", p, out, err)
			}
		}
		return nil
	})
}

// via waits until the core's way to the prefixes is by this node too, or not.
func (b *bench) via(want bool, ps ...netip.Prefix) {
	b.Helper()
	own := []netip.Addr{b.lab.Nodes[0].Via, b.lab.Nodes[0].Via6}
	b.wait(fmt.Sprintf("the core to come here: %v", want), func() error {
		for _, p := range ps {
			hops, err := b.lab.Core.NextHops(p)
			if err != nil || slices.ContainsFunc(hops, func(a netip.Addr) bool { return slices.Contains(own, a) }) != want {
				return fmt.Errorf("%s: %v, %v", p, hops, err)
			}
		}
		return nil
	})
}

// A degraded route has a metric that nobody else has.
func TestKernelMetricOfDegraded(t *testing.T) {
	for set, want := range map[uint32]uint32{0: 0, 5: 5, 10: 11, 20: 21, 1000: 1000} {
		if got := (Degraded{Metric: set}).metric(); got != want {
			t.Errorf("%d is made %d, want %d", set, got, want)
		}
	}
}

// OSPF tells its neighbours nothing of a kernel route's metric, so a degraded prefix would only be said to be so.
func TestKernelWithOSPFHasNoWorseWay(t *testing.T) {
	worse := routers.Change{Prefix: one, Want: routers.Degraded}
	for protocol, refused := range map[string]bool{ProtocolBGP: false, ProtocolOSPF: true} {
		err := Options{Method: MethodKernel, Protocol: protocol, Degraded: Degraded{Metric: 1000}}.valid(worse)
		if errors.Is(err, routers.ErrRefused) != refused || refused && !strings.Contains(err.Error(), "use method static with tag") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

func TestKernelNotRedistributed(t *testing.T) {
	b := open(t, vyostest.Options{})
	r := b.router(Options{})
	b.vtysh("router bgp 65001", "address-family ipv4 unicast", "no redistribute kernel")
	b.must(b.apply(r, routers.Announced, one))
	b.wait("it to be selected", func() error {
		if o := b.observe(r, one)[0]; o.Stage != routers.Selected || !strings.Contains(o.Detail, "not redistributed") {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	i := slices.IndexFunc(r.Examine(t.Context(), []netip.Prefix{one}), func(f routers.Finding) bool { return f.Severity == routers.Failing })
	if i < 0 {
		t.Errorf("doctor finds nothing: %+v", r.Examine(t.Context(), []netip.Prefix{one}))
	}
}
