package vyos

import (
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
	_, err = nd.Run(t.Context(), "ip", "route", "replace", "blackhole", one.String(), "metric", "20", "proto", "77")
	b.must(err)
	b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, one.String(), "not ours")
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
