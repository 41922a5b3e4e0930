package frr

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// A network statement: announced, degraded and back, with no moment of absence and the session untouched
// (F23); withdrawn; and after a restart with the statement saved (F19).
func TestLabDegradedNetwork(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, coreFRR, core := bgpLabOf(t, release, Options{})
		ps := []netip.Prefix{p4, p6}
		for _, p := range ps {
			check(t, b.node.Address(t.Context(), "add", p.String(), "lo"))
		}
		commands := b.counted(Options{Method: MethodNetwork, Degraded: Degraded{RouteMap: "WORSE"}})
		var err error
		check(t, b.node.Do(func() error { err = b.r.Apply(t.Context(), degrade(ps...)); return nil }))
		if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "no route-map WORSE") {
			t.Errorf("without a route-map: %v", err)
		}
		b.await(routers.Absent, ps...)
		_, err = b.frr.Vtysh(t.Context(), "configure terminal", "route-map WORSE permit 10", "set metric 777")
		check(t, err)
		b.apply(announce(ps...)...)
		b.is(false, ps...)
		b.hops(core, p4, node1, true)
		b.steady(commands, routers.Announced, ps...)
		session := b.session()
		b.watched(core, p4, node1, func() {
			b.apply(degrade(ps...)...)
			b.is(true, ps...)
			b.metric(coreFRR, 777)
			b.steady(commands, routers.Degraded, ps...)
			b.apply(announce(ps...)...)
			b.is(false, ps...)
			b.metric(coreFRR, 0)
		})
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.hops(core, p4, node1, false)
		b.apply(degrade(ps...)...)
		b.is(true, ps...)
		b.metric(coreFRR, 777)
		b.apply(withdraw(ps...)...)
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.steady(commands, routers.Withdrawn, ps...)
		if now := b.session(); now != session {
			t.Errorf("the session was %s and is %s", session, now)
		}

		b.saved("router bgp 65001\n address-family ipv4 unicast\n  network 10.53.53.53/32\n")
		check(t, b.frr.Restart(t.Context()))
		b.await(routers.Advertised, p4)
		b.hops(core, p4, node1, true)
		b.apply(withdraw(p4)...)
		b.await(routers.Absent, p4)
		b.hops(core, p4, node1, false)
	})
}

// session tells how often the session with the core was made and lost.
func (b *bench) session() string {
	b.Helper()
	text, err := b.frr.Show(b.Context(), "bgpd", "show bgp ipv4 unicast summary json")
	check(b, err)
	var s struct {
		Peers map[string]struct {
			Made int `json:"connectionsEstablished"`
			Lost int `json:"connectionsDropped"`
		} `json:"peers"`
	}
	check(b, json.Unmarshal([]byte(text), &s))
	out, err := json.Marshal(s.Peers["10.0.1.1"])
	check(b, err)
	return string(out)
}

// metric waits until the core has the path of the node with a MED.
func (b *bench) metric(core *lab.FRR, med int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	check(b, lab.Wait(ctx, "the core's path", 5*time.Millisecond, func() (bool, error) {
		text, err := core.Show(ctx, "bgpd", "show bgp ipv4 unicast 10.53.53.53/32 json")
		var e struct {
			Paths []struct {
				Metric int `json:"metric"`
			} `json:"paths"`
		}
		return err == nil && json.Unmarshal([]byte(text), &e) == nil && len(e.Paths) == 1 && e.Paths[0].Metric == med, err
	}))
}

// A static route, tagged and not, by both protocols.
func TestLabDegradedStatic(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		const byTag = "route-map TAG permit 10\n match tag 66\n set metric 999\nroute-map TAG permit 20\n"
		ps := []netip.Prefix{s4, s6}
		o := Options{Method: MethodStatic, Degraded: Degraded{Tag: 66}}
		t.Run("ospf", func(t *testing.T) {
			l, b := ospfLab(t, lab.AnycastOptions{
				IPv6: true, Daemons: []string{"staticd"}, Nodes: release, NodeOSPF: " redistribute static route-map TAG\n",
				NodeConfig: "router ospf6\n redistribute static route-map TAG\n" + byTag,
			}, o)
			b.static(b.counted(o), l.Core, l.Nodes[0].Via, ps)
			b.apply(degrade(s4)...)
			if o := b.until("degraded", s4, nil, func(o routers.Observation) bool { return whole(o) && o.Degraded }); !strings.Contains(o.Detail, "cost 999") {
				b.awaitDetail("cost 999", s4)
			}
		})
		t.Run("bgp", func(t *testing.T) {
			o.Protocol = ProtocolBGP
			b, _, core := bgpLabOf(t, release, o)
			b.static(b.counted(o), core, node1, ps)
			b.saved("exit\nip route 10.53.54.1/32 blackhole\n")
			check(t, b.frr.Restart(t.Context()))
			b.await(routers.Advertised, s4)
			b.examined("announces 10.53.54.1/32 when FRR starts", s4)
			b.apply(withdraw(s4)...)
			b.await(routers.Absent, s4)
			b.hops(core, s4, node1, false)
		})
	})
}

func (b *bench) static(commands *atomic.Int64, core *lab.Node, via netip.Addr, ps []netip.Prefix) {
	b.Helper()
	b.await(routers.Absent, ps...)
	b.apply(announce(ps...)...)
	b.is(false, ps...)
	b.hops(core, s4, via, true)
	b.steady(commands, routers.Announced, ps...)
	b.watched(core, s4, via, func() {
		b.apply(degrade(ps...)...)
		b.is(true, ps...)
		b.steady(commands, routers.Degraded, ps...)
		b.apply(announce(ps...)...)
		b.is(false, ps...)
	})
	b.apply(degrade(ps...)...)
	b.is(true, ps...)
	b.apply(withdraw(ps...)...)
	b.apply(withdraw(ps...)...)
	b.await(routers.Absent, ps...)
	b.hops(core, s4, via, false)
	b.steady(commands, routers.Withdrawn, ps...)

	// Somebody else's blackhole stays.
	_, err := b.frr.Vtysh(b.Context(), "configure terminal", "ip route 10.53.54.1/32 blackhole 200")
	check(b, err)
	b.awaitDetail("not ours and stays", s4)
	if err := b.r.Apply(b.Context(), withdraw(s4)); !errors.Is(err, routers.ErrRefused) {
		b.Errorf("another's blackhole: %v", err)
	}
	if text := b.config(b.r.options.configurer("staticd")); !strings.Contains(text, "ip route 10.53.54.1/32 blackhole 200") {
		b.Errorf("another's blackhole is gone:\n%s", text)
	}
	_, err = b.frr.Vtysh(b.Context(), "configure terminal", "no ip route 10.53.54.1/32 blackhole 200")
	check(b, err)
	b.await(routers.Absent, s4)
}
