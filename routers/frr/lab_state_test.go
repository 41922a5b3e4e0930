package frr

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/lab"
)

// While somebody holds FRR 10's configuration, it is busy; then it is not.
func TestLabLocked(t *testing.T) {
	b, _, core := bgpLabOf(t, lab.FRR10, Options{Method: MethodStatic, Protocol: ProtocolBGP})
	static, owner := b.r, New(Options{Owner: OwnerFRR, SocketDir: b.frr.SocketDir(), Timeout: unhurried})
	b.apply(announce(s4)...)
	b.await(routers.Advertised, s4)
	check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
	conn, err := vty.Dial(t.Context(), b.frr.SocketDir(), "mgmtd")
	check(t, err)
	holder := vty.New(conn, unhurried)
	replies, err := holder.Do(t.Context(), "enable", "configure terminal file-lock")
	check(t, err)
	check(t, replies[1].Refused("configure terminal file-lock"))
	for name, c := range map[string]struct {
		r  *Router
		cs []routers.Change
	}{"static": {static, withdraw(s4)}, "address": {owner, withdraw(p4)}} {
		var err error
		check(t, b.node.Do(func() error { err = c.r.Apply(t.Context(), c.cs); return nil }))
		if !errors.Is(err, routers.ErrBusy) || errors.Is(err, routers.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// However long it lasts: what is tried again and again is told in the same words, and nothing changes.
	said := map[string]bool{}
	for range 20 {
		err := b.node.Do(func() error { return static.Apply(t.Context(), withdraw(s4)) })
		if !errors.Is(err, routers.ErrBusy) {
			t.Fatalf("while it is held: %v", err)
		}
		said[err.Error()] = true
		b.await(routers.Advertised, s4)
	}
	if len(said) != 1 {
		t.Errorf("said %v", said)
	}
	check(t, holder.Close())
	b.apply(withdraw(s4)...)
	b.await(routers.Absent, s4)
	b.hops(core, s4, node1, false)
}

// Without router bgp yet, nothing is announced, and it is when that is there (F25).
func TestLabConfiguredLater(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		net := lab.Open(t, release)
		node, err := net.Node("apu01")
		check(t, err)
		f, err := node.FRRFrom(t.Context(), release, "", "bgpd", "staticd")
		check(t, err)
		b := &bench{t, node, f, New(Options{Method: MethodNetwork, SocketDir: f.SocketDir(), Timeout: unhurried})}
		b.unavailable("not configured yet", p4)
		if err := b.r.Apply(t.Context(), announce(p4)); !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("announce: %v", err)
		}
		_, err = f.Vtysh(t.Context(), "configure terminal", "router bgp 65001", "bgp router-id 10.0.1.2")
		check(t, err)
		check(t, node.Address(t.Context(), "add", p4.String(), "lo"))
		b.await(routers.Absent, p4)
		b.apply(announce(p4)...)
		b.await(routers.Selected, p4)
		b.examined("there is no neighbour to announce to", p4)
	})
}

// Every peer that does not get the prefix is told with the reason.
func TestLabPeers(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, _ := bgpLabOf(t, release, Options{Method: MethodNetwork})
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		b.apply(announce(p4)...)
		b.await(routers.Advertised, p4)
		configure := func(lines ...string) {
			_, err := b.frr.Vtysh(t.Context(), append([]string{"configure terminal"}, lines...)...)
			check(t, err)
		}
		peer := func(stage routers.Stage, part string) {
			b.until(part, p4, nil, func(o routers.Observation) bool {
				return len(o.Peers) == 1 && o.Peers[0].Name == "10.0.1.1" && o.Peers[0].Stage == stage && strings.Contains(o.Peers[0].Detail, part)
			})
		}
		configure("ip prefix-list NONE deny any", "router bgp 65001", "address-family ipv4 unicast", "neighbor 10.0.1.1 prefix-list NONE out")
		peer(routers.Selected, "established, but not sent: prefix-list NONE, or not yet")
		configure("router bgp 65001", "address-family ipv4 unicast", "no neighbor 10.0.1.1 prefix-list NONE out")
		peer(routers.Advertised, "")
		configure("router bgp 65001", "neighbor 10.0.1.1 shutdown")
		peer(routers.Selected, "the session is not established (Idle (Admin))")
		configure("router bgp 65001", "bgp ebgp-requires-policy", "no neighbor 10.0.1.1 shutdown")
		peer(routers.Selected, "bgp ebgp-requires-policy")
		b.examined("nothing is sent to it", p4)
	})
}

// An address of another length is not the one that was asked for, and told (F28): OSPF announces that of lo
// as a host all the same, and the network of any other interface.
func TestLabWrongLength(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{Nodes: release}, Options{})
		check(t, b.node.Address(t.Context(), "add", "10.53.53.53/24", "lo"))
		b.until("of another length", lab.Service, nil, func(o routers.Observation) bool {
			return broken(o) && strings.Contains(o.Detail, "lo has 10.53.53.53/24, which somebody else put there") && !strings.Contains(o.Detail, "restart")
		})
		check(t, b.node.Address(t.Context(), "del", "10.53.53.53/24", "lo"))
		b.await(routers.Absent, lab.Service)
		b.bridge("anyc")
		check(t, b.node.Address(t.Context(), "add", "10.53.53.54/24", "anyc"))
		b.awaitDetail("OSPF holds 10.53.53.0/24, but not 10.53.53.53/32", lab.Service)
		check(t, b.node.Address(t.Context(), "add", "10.53.53.7/32", "lo"))
		b.examined("announces what else is on lo too: 10.53.53.7/32", lab.Service)
	})
}

// Another IPv6 address on the interface goes along, as ospf6d itself shows (F27).
func TestLabExposed6(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{Nodes: release, IPv6: true}, Options{})
		other := netip.MustParsePrefix("2001:db8:77::1/128")
		check(t, b.node.Address(t.Context(), "add", other.String(), "lo"))
		b.await(routers.Advertised, other)
		b.hops(l.Core, other, l.Nodes[0].Via6, true)
		b.examined("note ospf6d: announces what else is on lo too: 2001:db8:77::1/128", lab.Service6)
	})
}

// bridge makes an interface that is up.
func (b *bench) bridge(name string) {
	b.Helper()
	for _, args := range [][]string{{"ip", "link", "add", name, "type", "bridge"}, {"ip", "link", "set", name, "up"}} {
		_, err := b.node.Run(b.Context(), args...)
		check(b, err)
	}
}

// An interface that comes late gets its address then, and FRR no configuration of one that is not there (F29).
func TestLabLateInterface(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{Nodes: release}, Options{Interface: "anyc", Owner: OwnerFRR})
		b.until("without an interface", lab.Service, nil, func(o routers.Observation) bool {
			return o.Stage == routers.Absent && strings.Contains(o.Detail, "does not exist (yet)")
		})
		err := b.node.Do(func() error { return b.r.Apply(b.Context(), announce(lab.Service)) })
		if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), `interface "anyc" does not exist (yet)`) {
			t.Errorf("error %v", err)
		}
		if text := b.config(b.r.options.configurer("zebra")); strings.Contains(text, "anyc") {
			t.Errorf("FRR was told of an interface that is not there:\n%s", text)
		}
		b.bridge("anyc")
		b.apply(announce(lab.Service)...)
		b.await(routers.Advertised, lab.Service)
		b.apply(withdraw(lab.Service)...)
		b.await(routers.Absent, lab.Service)
	})
}

// A thousand static routes are committed in a few goes, also by mgmtd.
func TestLabThousandStatics(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, core := bgpLabOf(t, release, Options{Method: MethodStatic, Protocol: ProtocolBGP, Timeout: 5 * time.Second})
		ps := make([]netip.Prefix, 1000)
		for i := range ps {
			ps[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(i >> 8), byte(i)}), 32)
		}
		start := time.Now()
		b.apply(announce(ps...)...)
		applied := time.Since(start)
		b.await(routers.Advertised, ps...)
		t.Logf("announced in %v, seen in %v", applied, time.Since(start))
		b.hops(core, ps[999], node1, true)
		start = time.Now()
		b.apply(withdraw(ps...)...)
		applied = time.Since(start)
		b.await(routers.Absent, ps...)
		t.Logf("withdrawn in %v, seen in %v", applied, time.Since(start))
		b.hops(core, ps[999], node1, false)
	})
}
