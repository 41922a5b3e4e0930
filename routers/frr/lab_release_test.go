package frr

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/lab"
)

// everyRelease runs a test on each FRR that there is.
func everyRelease(t *testing.T, test func(t *testing.T, release lab.Release)) {
	for _, release := range lab.FRRs {
		t.Run(release.String(), func(t *testing.T) { test(t, release) })
	}
}

// counted has the driver's changes counted: commands in a node that configures.
func (b *bench) counted(o Options) *atomic.Int64 {
	var commands atomic.Int64
	o.SocketDir = b.frr.SocketDir()
	o = o.withDefaults()
	talk := newTalker(o)
	b.r = newRouter(o, func(ctx context.Context, s session) ([]vty.Reply, error) {
		if len(s.enter) > 0 {
			commands.Add(int64(len(s.commands)))
		}
		return talk(ctx, s)
	})
	return &commands
}

// steady wants that ten readings of what is as wanted ask for no change (F22).
func (b *bench) steady(commands *atomic.Int64, want routers.Want, ps ...netip.Prefix) {
	b.Helper()
	before := commands.Load()
	for range 10 {
		os, err := b.observe(ps...)
		for _, o := range os {
			if err != nil || want == routers.Withdrawn && o.Stage != routers.Absent ||
				want != routers.Withdrawn && (o.Stage != routers.Advertised || o.Degraded != (want == routers.Degraded)) {
				b.Errorf("%s is not steadily %s: %v, %+v", o.Prefix, want, err, o)
			}
		}
	}
	if n := commands.Load() - before; n != 0 {
		b.Errorf("%d commands in ten readings", n)
	}
}

// is waits until all prefixes are advertised the one way or the other.
func (b *bench) is(degraded bool, ps ...netip.Prefix) {
	b.Helper()
	for _, p := range ps {
		b.until(map[bool]string{true: "degraded", false: "not degraded"}[degraded], p, nil, func(o routers.Observation) bool { return whole(o) && o.Degraded == degraded })
	}
}

// watched wants that the core always has the next hop while do runs.
func (b *bench) watched(core *lab.Node, p netip.Prefix, via netip.Addr, do func()) {
	b.Helper()
	done, gone := make(chan struct{}), make(chan int)
	go func() {
		misses := 0
		for {
			if found, err := core.NextHops(p); err == nil && !slices.Contains(found, via) {
				misses++
			}
			select {
			case <-done:
				gone <- misses
				return
			default:
			}
		}
	}()
	var once sync.Once
	end := func() { once.Do(func() { close(done) }) }
	defer end()
	do()
	end()
	if n := <-gone; n > 0 {
		b.Errorf("%s was without the next hop %s in %d readings", p, via, n)
	}
}

func (b *bench) config(daemon string) string {
	b.Helper()
	text, err := b.frr.Show(b.Context(), daemon, "show running-config")
	check(b, err)
	return text
}

// The address of both families by OSPF, whoever holds it: announced, degraded and back without a moment
// of absence, degraded from nothing, withdrawn. Nothing of it is left in the configuration.
func TestLabDegradedAddress(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release}, Options{})
		n, ps := l.Nodes[0], []netip.Prefix{lab.Service, lab.Service6}
		before := b.config("ospfd") + b.config("ospf6d")
		for _, owner := range []string{OwnerKernel, OwnerFRR} {
			commands := b.counted(Options{Owner: owner, Degraded: Degraded{Cost: 500}})
			b.await(routers.Absent, ps...)
			b.apply(announce(ps...)...)
			b.is(false, ps...)
			b.hops(l.Core, lab.Service, n.Via, true)
			b.hops(l.Core, lab.Service6, n.Via6, true)
			b.steady(commands, routers.Announced, ps...)
			b.watched(l.Core, lab.Service, n.Via, func() {
				b.apply(degrade(ps...)...)
				b.is(true, ps...)
				b.costs(l.CoreFRR, 510)
				b.steady(commands, routers.Degraded, ps...)
				b.apply(announce(ps...)...)
				b.is(false, ps...)
			})
			b.apply(withdraw(ps...)...)
			b.await(routers.Absent, ps...)
			b.hops(l.Core, lab.Service, n.Via, false)
			b.hops(l.Core, lab.Service6, n.Via6, false)
			start := time.Now()
			b.apply(degrade(ps...)...)
			t.Log("DBG applied", time.Since(start))
			b.is(true, ps...)
			t.Log("DBG own", time.Since(start))
			b.hops(l.Core, lab.Service, n.Via, true)
			t.Log("DBG core4", time.Since(start))
			b.hops(l.Core, lab.Service6, n.Via6, true)
			t.Log("DBG core6", time.Since(start))
			b.costs(l.CoreFRR, 510)
			t.Log("DBG cost", time.Since(start))
			if took := time.Since(start); took > 4*time.Second { // by retransmission it would be five
				t.Errorf("%s: the core was told after %v", owner, took)
			}
			b.apply(withdraw(ps...)...)
			b.apply(withdraw(ps...)...)
			b.await(routers.Absent, ps...)
			b.hops(l.Core, lab.Service6, n.Via6, false)
			b.steady(commands, routers.Withdrawn, ps...)
			if after := b.config("ospfd") + b.config("ospf6d"); after != before {
				t.Errorf("%s: the configuration was\n%s\nand is\n%s", owner, before, after)
			}
		}
	})
}

// costs waits until the core's own routes have the metric.
func (b *bench) costs(core *lab.FRR, metric int) {
	b.Helper()
	for question, p := range map[string]netip.Prefix{"show ip route 10.53.53.53/32 json": lab.Service, "show ipv6 route 2001:db8:53::53/128 json": lab.Service6} {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		err := lab.Wait(ctx, "the core's metric of "+p.String(), 5*time.Millisecond, func() (bool, error) {
			text, err := core.Show(ctx, "zebra", question)
			var table map[string][]struct {
				Metric int `json:"metric"`
			}
			return err == nil && json.Unmarshal([]byte(text), &table) == nil && len(table[p.String()]) > 0 && table[p.String()][0].Metric == metric, err
		})
		cancel()
		check(b, err)
	}
}

// An operator's own costs are not touched; what they forbid is refused.
func TestLabOwnCost(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release, NodeConfig: "exit\ninterface lo\n ip ospf cost 7\n ipv6 ospf6 cost 7\n"}, Options{Degraded: Degraded{Cost: 500}})
		ps := []netip.Prefix{lab.Service, lab.Service6}
		b.apply(announce(ps...)...)
		b.is(false, ps...)
		var err error
		check(t, b.node.Do(func() error { err = b.r.Apply(t.Context(), degrade(ps...)); return nil }))
		if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "not ours and would be lost") {
			t.Errorf("error %v", err)
		}
		b.is(true, lab.Service)
		b.is(false, lab.Service6)
		b.apply(announce(ps...)...)
		b.is(false, ps...)
		if o := b.await(routers.Advertised, lab.Service)[0]; !strings.Contains(o.Detail, "cost 7") {
			t.Errorf("restored: %s", o.Detail)
		}
	})
}

// FRR's own addresses: one that is taken away behind its back comes again; one that is the kernel's alone,
// as when FRR was restarted, is withdrawn all the same; and a saved one is withdrawn after the restart.
func TestLabOwner(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release}, Options{Owner: OwnerFRR})
		n, ps := l.Nodes[0], []netip.Prefix{lab.Service, lab.Service6}
		b.apply(announce(ps...)...)
		b.await(routers.Advertised, ps...)
		for _, p := range ps {
			check(t, b.node.Address(t.Context(), "del", p.String(), "lo"))
		}
		b.await(routers.Configured, ps...)
		b.apply(announce(ps...)...)
		b.await(routers.Advertised, ps...)
		b.hops(l.Core, lab.Service, n.Via, true)

		check(t, b.frr.Restart(t.Context()))
		b.until("the kernel's alone", lab.Service, nil, func(o routers.Observation) bool { return whole(o) && strings.Contains(o.Detail, "the kernel's alone") })
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.hops(l.Core, lab.Service, n.Via, false)
		b.hops(l.Core, lab.Service6, n.Via6, false)

		b.saved("exit\ninterface lo\n ip address 10.53.53.53/32\n ipv6 address 2001:db8:53::53/128\n")
		check(t, b.frr.Restart(t.Context()))
		b.await(routers.Advertised, ps...)
		b.examined("announces 10.53.53.53/32 when FRR starts", ps...)
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.hops(l.Core, lab.Service, n.Via, false)
	})
}

// saved adds to the configuration that the node's daemons read when they start.
func (b *bench) saved(lines string) {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.frr.SocketDir(), "frr.conf"), os.O_APPEND|os.O_WRONLY, 0)
	check(b, err)
	_, err = f.WriteString(lines)
	check(b, errors.Join(err, f.Close()))
}

// examined wants a finding that says so.
func (b *bench) examined(part string, ps ...netip.Prefix) {
	b.Helper()
	o := b.r.options
	o.ConfigDir = o.SocketDir
	var found []routers.Finding
	check(b, b.node.Do(func() error { found = New(o).Examine(b.Context(), ps); return nil }))
	if !slices.ContainsFunc(told(found), func(s string) bool { return strings.Contains(s, part) }) {
		b.Errorf("nothing says %q:\n%s", part, strings.Join(told(found), "\n"))
	}
}

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

// While somebody holds FRR 10's configuration, it is busy; then it is not.
func TestLabLocked(t *testing.T) {
	b, _, core := bgpLabOf(t, lab.FRR10, Options{Method: MethodStatic, Protocol: ProtocolBGP})
	static, owner := b.r, New(Options{Owner: OwnerFRR, SocketDir: b.frr.SocketDir()})
	b.apply(announce(s4)...)
	b.await(routers.Advertised, s4)
	check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
	conn, err := vty.Dial(t.Context(), b.frr.SocketDir(), "mgmtd")
	check(t, err)
	holder := vty.New(conn, time.Second)
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
	b.await(routers.Advertised, s4)
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
		b := &bench{t, node, f, New(Options{Method: MethodNetwork, SocketDir: f.SocketDir()})}
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
		peer(routers.Selected, "an outbound filter")
		configure("router bgp 65001", "address-family ipv4 unicast", "no neighbor 10.0.1.1 prefix-list NONE out")
		peer(routers.Advertised, "")
		configure("router bgp 65001", "neighbor 10.0.1.1 shutdown")
		peer(routers.Selected, "the session is not established (Idle (Admin))")
		configure("router bgp 65001", "bgp ebgp-requires-policy", "no neighbor 10.0.1.1 shutdown")
		peer(routers.Selected, "bgp ebgp-requires-policy")
		b.examined("nothing is sent to it", p4)
	})
}
