package lab_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// Both nodes announce what is on their lo, and one withdraws it, in every kind of network.
func TestTopologies(t *testing.T) {
	t.Parallel()
	for _, bgp := range []bool{false, true} {
		for _, pair := range pairs() {
			name := map[bool]string{false: "ospf", true: "bgp"}[bgp] + "/" + pair[0].String() + "-" + pair[1].String()
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				l := lab.OpenAnycast(t, lab.AnycastOptions{BGP: bgp, IPv6: true, NoUnbound: true, Core: pair[0], Nodes: pair[1]})
				t.Logf("stood after %s", time.Since(began))
				spreads(t, l, lab.Service, [2]netip.Addr{l.Nodes[0].Via, l.Nodes[1].Via})
				via6 := [2]netip.Addr{l.Nodes[0].Via6, l.Nodes[1].Via6}
				if !bgp && l.CoreFRR != nil {
					// FRR's ospf6d keeps both next hops when one of two nodes withdraws (8.4.4 and 10.3).
					comesAndGoes(t, l, lab.Service6, via6[0])
					return
				}
				spreads(t, l, lab.Service6, via6)
			})
		}
	}
}

// pairs are the releases of core and nodes: each is a core once, and all meet the FRR of this machine.
func pairs() [][2]lab.Release {
	var all [][2]lab.Release
	for _, r := range slices.Concat(lab.FRRs, lab.BIRDs) {
		all = append(all, [2]lab.Release{lab.FRRHost, r})
		if r != lab.FRRHost {
			all = append(all, [2]lab.Release{r, r})
		}
	}
	return append(all, [2]lab.Release{lab.BIRDHost, lab.FRRHost}, [2]lab.Release{lab.FRR10, lab.BIRD3})
}

func spreads(t *testing.T, l *lab.AnycastLab, p netip.Prefix, via [2]netip.Addr) {
	t.Helper()
	f := follow(t, l, p)
	becomes(t, f, time.Now())
	began := time.Now()
	for _, nd := range l.Nodes {
		address(t, nd, "add", p)
	}
	t.Logf("%s: both next hops after %s", p, becomes(t, f, began, via[0], via[1]).Time.Sub(began))
	quiet(t, l, l.Nodes[0])
	began = time.Now()
	address(t, l.Nodes[0], "del", p)
	t.Logf("%s: one next hop after %s", p, becomes(t, f, began, via[1]).Time.Sub(began))
}

func comesAndGoes(t *testing.T, l *lab.AnycastLab, p netip.Prefix, via netip.Addr) {
	t.Helper()
	f := follow(t, l, p)
	becomes(t, f, time.Now())
	address(t, l.Nodes[0], "add", p)
	becomes(t, f, time.Now(), via)
	quiet(t, l, l.Nodes[0])
	began := time.Now()
	address(t, l.Nodes[0], "del", p)
	t.Logf("%s: no next hop after %s", p, becomes(t, f, began).Time.Sub(began))
}

func quiet(t *testing.T, l *lab.AnycastLab, nd *lab.AnycastNode) {
	t.Helper()
	if err := l.Quiet(within(t, time.Minute), nd); err != nil {
		t.Fatal(err)
	}
}

// The ways of BIRD that have static routes make them external in OSPF.
func TestWaysOverOSPF(t *testing.T) {
	t.Parallel()
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			goes(t, lab.OpenAnycast(t, lab.AnycastOptions{IPv6: true, Nodes: r, Way: lab.Switch, NoUnbound: true}), lab.Switch)
		})
	}
}

func TestNodesAreAdjustable(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{
		BGP: true, Nodes: lab.BIRDHost, Core: lab.BIRDHost, Way: lab.Switch, NoUnbound: true,
		Services:   []lab.NamedService{{Name: "web", Prefixes: []netip.Prefix{lab.Service}}},
		Files:      map[string]string{lab.IncludeFile: "define WEB_OFF = 0;\ndefine WEB_DEGRADED_OFF = 1;\ninclude \"more.conf\";\n", "more.conf": "define MORE = 42;\n"},
		NodeBIRD:   "protocol static more { ipv4; }\n",
		CoreConfig: "define CORE = 43;\n",
	})
	nd := l.Nodes[1]
	becomes(t, follow(t, l, lab.Service), time.Now(), l.Nodes[0].Via, nd.Via)
	for b, eval := range map[*lab.BIRD]string{nd.BIRD: "eval MORE", l.CoreBIRD: "eval CORE"} {
		if got, err := b.Show(t.Context(), eval); err != nil || !strings.Contains(got, " 4") {
			t.Errorf("%s gave %q (%v)", eval, got, err)
		}
	}
	if _, err := nd.BIRD.Show(t.Context(), "show protocols more"); err != nil {
		t.Error(err)
	}
	if on, err := nd.Addresses("lo"); err != nil || !slices.Equal(on, []netip.Addr{lab.Service.Addr()}) {
		t.Errorf("on lo there are %v (%v)", on, err)
	}
	conf, err := nd.BIRD.Config()
	if err != nil {
		t.Fatal(err)
	}
	if err := nd.BIRD.WriteConfig(strings.Replace(conf, "disabled WEB_OFF", "disabled", 1)); err != nil {
		t.Fatal(err)
	}
	if err := nd.BIRD.Configure(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	becomes(t, follow(t, l, lab.Service), time.Now(), l.Nodes[0].Via)
}
