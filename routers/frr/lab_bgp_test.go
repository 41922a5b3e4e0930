package frr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// bgpLab is a core and one node with BGP between them.
func bgpLab(t testing.TB, o Options) (*bench, *lab.FRR, *lab.Node) {
	return bgpLabOf(t, lab.FRRHost, o)
}

// bgpLabOf has the node run a release.
func bgpLabOf(t testing.TB, release lab.Release, o Options) (*bench, *lab.FRR, *lab.Node) {
	net := lab.Open(t, release)
	core, err := net.Node("core")
	check(t, err)
	node, err := net.Node("apu01")
	check(t, err)
	check(t, net.Link(core, "eth1", []string{"10.0.1.1/30", "2001:db8:1::1/64"}, node, "eth0", []string{"10.0.1.2/30", "2001:db8:1::2/64"}))
	coreFRR, err := core.FRR(t.Context(), `router bgp 65000
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor 10.0.1.2 remote-as 65001
 neighbor 10.0.1.2 timers connect 1
 address-family ipv6 unicast
  neighbor 10.0.1.2 activate
`, "bgpd", "staticd")
	check(t, err)
	nodeFRR, err := node.FRRFrom(t.Context(), release, `router bgp 65001
 bgp router-id 10.0.1.2
 no bgp ebgp-requires-policy
 neighbor 10.0.1.1 remote-as 65000
 neighbor 10.0.1.1 timers connect 1
 address-family ipv4 unicast
  redistribute static
 address-family ipv6 unicast
  neighbor 10.0.1.1 activate
  redistribute static
`, "bgpd", "staticd")
	check(t, err)
	o.SocketDir, o.Timeout = nodeFRR.SocketDir(), cmp.Or(o.Timeout, unhurried)
	return &bench{t, node, nodeFRR, New(o)}, coreFRR, core
}

var node1 = netip.MustParseAddr("10.0.1.2")

func TestLabNetwork(t *testing.T) {
	for _, via := range []string{ViaSocket, ViaCommand} {
		t.Run(via, func(t *testing.T) {
			b, coreFRR, core := bgpLab(t, Options{Method: MethodNetwork, Via: via})
			ps := []netip.Prefix{p4, p6}
			b.await(routers.Absent, ps...)
			b.apply(withdraw(ps...)...) // not there: no error
			b.apply(announce(ps...)...)
			b.await(routers.Configured, ps...)
			b.awaitDetail("import-check", ps[0])
			for _, p := range ps {
				check(t, b.node.Address(t.Context(), "add", p.String(), "lo"))
			}
			b.await(routers.Advertised, ps...)
			b.hops(core, p4, node1, true)
			b.apply(announce(ps...)...)
			b.await(routers.Advertised, ps...)
			start := time.Now()
			b.apply(withdraw(ps...)...)
			b.await(routers.Absent, ps...)
			verified := time.Since(start)
			b.hops(core, p4, node1, false)
			t.Logf("verified after %v, the core without the next hop after %v", verified, time.Since(start))

			// A path that the core sends is not ours.
			for _, p := range ps {
				check(t, b.node.Address(t.Context(), "del", p.String(), "lo"))
			}
			_, err := coreFRR.Vtysh(t.Context(), "configure terminal", "ip route 10.53.53.53/32 Null0", "router bgp 65000", "address-family ipv4 unicast", "network 10.53.53.53/32")
			check(t, err)
			b.awaitDetail("learned from 10.0.1.1", p4)
			b.await(routers.Absent, p4)
		})
	}
}

// awaitDetail waits for a text.
func (b *bench) awaitDetail(part string, p netip.Prefix) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	err := lab.Wait(ctx, fmt.Sprintf("%s to be %q", p, part), 5*time.Millisecond, func() (bool, error) {
		os, err := b.observe(p)
		return err == nil && strings.Contains(os[0].Detail, part), err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// The operator has the network statement; the address alone comes and goes.
func TestLabAddressBGP(t *testing.T) {
	b, _, core := bgpLab(t, Options{Protocol: ProtocolBGP})
	_, err := b.frr.Vtysh(t.Context(), "configure terminal", "router bgp 65001", "address-family ipv4 unicast", "network 10.53.53.53/32")
	check(t, err)
	b.await(routers.Absent, p4)
	b.apply(announce(p4)...)
	b.await(routers.Advertised, p4)
	b.hops(core, p4, node1, true)
	start := time.Now()
	b.apply(withdraw(p4)...)
	b.await(routers.Absent, p4)
	verified := time.Since(start)
	b.hops(core, p4, node1, false)
	t.Logf("verified after %v, the core without the next hop after %v", verified, time.Since(start))
}

func TestLabNetworkFaults(t *testing.T) {
	b, coreFRR, _ := bgpLab(t, Options{Method: MethodNetwork, Via: ViaSocket, Timeout: time.Second})
	check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
	b.apply(announce(p4)...)
	b.await(routers.Advertised, p4)
	check(t, coreFRR.StopDaemon("bgpd"))
	b.await(routers.Selected, p4)
	check(t, coreFRR.StartDaemon(t.Context(), "bgpd"))
	b.await(routers.Advertised, p4)

	check(t, b.frr.Signal("bgpd", syscall.SIGSTOP))
	b.unavailable("does not answer within 1s (hung?)", p4)
	if err := b.r.Apply(t.Context(), withdraw(p4)); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("withdraw from a hung daemon: %v", err)
	}
	check(t, b.frr.Signal("bgpd", syscall.SIGCONT))
	b.await(routers.Advertised, p4)

	// The statement was never saved, so a restart forgets it.
	check(t, b.frr.Kill("bgpd"))
	b.unavailable("bgpd is not running", p4)
	check(t, b.frr.StartDaemon(t.Context(), "bgpd"))
	b.await(routers.Absent, p4)
	b.apply(announce(p4)...)
	b.await(routers.Advertised, p4)

	_, err := b.frr.Vtysh(t.Context(), "configure terminal", "no router bgp 65001")
	check(t, err)
	b.unavailable("not configured yet", p4)
	if err := b.r.Apply(t.Context(), announce(p4)); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "there is no router bgp") {
		t.Errorf("announce without router bgp: %v", err)
	}
	text, err := b.frr.Vtysh(t.Context(), "show running-config")
	if err != nil || strings.Contains(text, "router bgp") {
		t.Errorf("%v: the driver made a BGP of its own:\n%s", err, text)
	}
}

// A thousand prefixes are one session.
func TestLabThousand(t *testing.T) {
	b, _, core := bgpLab(t, Options{Method: MethodNetwork, Timeout: 5 * time.Second})
	_, err := b.frr.Vtysh(t.Context(), "configure terminal", "router bgp 65001", "no bgp network import-check")
	check(t, err)
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
}

func TestLabStaticBGP(t *testing.T) {
	b, _, core := bgpLab(t, Options{Method: MethodStatic, Protocol: ProtocolBGP})
	checkStatic(b, core, node1)
}

func TestLabStaticOSPF(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{
		IPv6: true, Daemons: []string{"staticd"}, NodeOSPF: " redistribute static\n", NodeConfig: "router ospf6\n redistribute static\n",
	}, Options{Method: MethodStatic})
	checkStatic(b, l.Core, l.Nodes[0].Via)
}

func checkStatic(b *bench, core *lab.Node, via netip.Addr) {
	b.Helper()
	ps := []netip.Prefix{s4, s6}
	b.await(routers.Absent, ps...)
	b.apply(withdraw(ps...)...)
	b.apply(announce(ps...)...)
	b.await(routers.Advertised, ps...)
	b.hops(core, s4, via, true)
	b.apply(announce(ps...)...)
	b.await(routers.Advertised, ps...)
	start := time.Now()
	b.apply(withdraw(ps...)...)
	b.await(routers.Absent, ps...)
	verified := time.Since(start)
	b.hops(core, s4, via, false)
	b.Logf("verified after %v, the core without the next hop after %v", verified, time.Since(start))

	// Somebody else's static route is neither taken away nor joined.
	foreign := netip.MustParsePrefix("10.53.54.7/32")
	_, err := b.frr.Vtysh(b.Context(), "configure terminal", "ip route 10.53.54.7/32 10.0.1.1")
	check(b, err)
	b.awaitDetail("not ours and stays", foreign)
	err = b.r.Apply(b.Context(), announce(foreign))
	if !errors.Is(err, routers.ErrRefused) {
		b.Errorf("announce over another's: %v", err)
	}
	b.apply(withdraw(foreign)...)
	text, err := b.frr.Vtysh(b.Context(), "show running-config")
	if err != nil || !strings.Contains(text, "ip route 10.53.54.7/32 10.0.1.1") || strings.Contains(text, "blackhole") {
		b.Errorf("%v: the configuration is now\n%s", err, text)
	}

	// The address hides the route.
	b.apply(announce(s4)...)
	b.await(routers.Advertised, s4)
	check(b, b.node.Address(b.Context(), "add", s4.String(), "lo"))
	b.awaitDetail("the connected route for it wins", s4)
	check(b, b.node.Address(b.Context(), "del", s4.String(), "lo"))
	b.await(routers.Advertised, s4)

	// staticd alone forgets what was never saved.
	check(b, b.frr.Signal("staticd", syscall.SIGSTOP))
	b.unavailable("staticd", netip.MustParsePrefix("10.53.54.9/32"))
	check(b, b.frr.Signal("staticd", syscall.SIGCONT))
	check(b, b.frr.RestartDaemon(b.Context(), "staticd"))
	b.await(routers.Absent, s4)
	b.apply(announce(s4)...)
	b.await(routers.Advertised, s4)
}
