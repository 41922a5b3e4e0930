package lab_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// A topology is a network, and how a node in it announces and withdraws the services.
func topologies() map[string]lab.AnycastOptions {
	all := map[string]lab.AnycastOptions{}
	for _, bgp := range []bool{false, true} {
		kind := map[bool]string{false: "ospf", true: "bgp"}[bgp]
		for _, core := range []lab.Release{lab.FRRHost, lab.BIRDHost} {
			for _, nodes := range slices.Concat(lab.FRRs, lab.BIRDs) {
				all[fmt.Sprintf("%s %s core %s nodes", kind, core, nodes)] = lab.AnycastOptions{BGP: bgp, IPv6: true, NoUnbound: true, Core: core, Nodes: nodes}
			}
		}
		for _, core := range []lab.Release{lab.FRR10, lab.BIRD1, lab.BIRD217, lab.BIRD3} {
			all[fmt.Sprintf("%s %s core", kind, core)] = lab.AnycastOptions{BGP: bgp, IPv6: true, NoUnbound: true, Core: core, Nodes: core}
		}
	}
	return all
}

var _ = netip.Prefix{}
var _ = strings.ToUpper
var _ = time.Now

func TestTopologies(t *testing.T) {
	t.Parallel()
	for name, o := range topologies() {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			lab.Require(t, o.Core, o.Nodes)
			began := time.Now()
			l := lab.OpenAnycast(t, o)
			t.Logf("stood after %s", time.Since(began))
			one, two := l.Nodes[0], l.Nodes[1]
			for p, via := range map[netip.Prefix][2]netip.Addr{lab.Service: {one.Via, two.Via}, lab.Service6: {one.Via6, two.Via6}} {
				f := follow(t, l, p)
				becomes(t, f, time.Now())
				began := time.Now()
				address(t, one, "add", p)
				address(t, two, "add", p)
				t.Logf("%s: both next hops after %s", p, becomes(t, f, began, via[0], via[1]).Time.Sub(began))
				if err := l.Quiet(within(t, 15*time.Second), one); err != nil {
					t.Fatal(err)
				}
				began = time.Now()
				address(t, one, "del", p)
				t.Logf("%s: one next hop after %s", p, becomes(t, f, began, via[1]).Time.Sub(began))
			}
		})
	}
}
