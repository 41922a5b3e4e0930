package routertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/kernel"
	"vouch/routers/lab"
	"vouch/routers/routertest"
)

// readingFRR is what a request to FRR is like that changes nothing.
var readingFRR = regexp.MustCompile(`^(enable|show .*)$`)

// daemonsFRR treats a node's FRR.
func daemonsFRR(f *lab.FRR, names []string) *routertest.Daemon {
	each := func(do func(name string) error) error {
		var errs []error
		for _, n := range names {
			errs = append(errs, do(n))
		}
		return errors.Join(errs...)
	}
	return &routertest.Daemon{
		Restart: f.Restart,
		Kill:    func() error { return each(f.Kill) },
		Start:   f.Start,
		Signal:  func(s syscall.Signal) error { return each(func(n string) error { return f.Signal(n, s) }) },
	}
}

// drive makes a subject's router, and the one that goes through a proxy.
func drive(f *lab.FRR, names []string, o frr.Options) (routers.Router, *routertest.Wire) {
	o.SocketDir = f.SocketDir()
	w := &routertest.Wire{Reading: readingFRR, Through: func(dir string) routers.Router {
		o := o
		o.SocketDir, o.Via = dir, frr.ViaSocket
		return frr.New(o)
	}}
	for _, n := range names {
		w.Sockets = append(w.Sockets, filepath.Join(f.SocketDir(), n+".vty"))
	}
	return frr.New(o), w
}

// vtysh runs configuration commands on a node, those of one prefix after those that lead there.
func vtysh(f *lab.FRR, commands func(p netip.Prefix) []string) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		var errs []error
		for _, p := range ps {
			_, err := f.Vtysh(ctx, append([]string{"configure terminal"}, commands(p)...)...)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

func ip(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ipv6"
}

// sameAddress has the kernel refuse an IPv6 address: it is there with another length.
func sameAddress(nd *lab.Node, p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	other := netip.PrefixFrom(p.Addr(), p.Bits()-1)
	return func(ctx context.Context) (routertest.Refusal, error) {
		return routertest.Refusal{
			Change:  routers.Change{Prefix: p, Want: routers.Announced},
			Restore: func(ctx context.Context) error { return nd.Address(ctx, "del", other.String(), "lo") },
		}, nd.Address(ctx, "add", other.String(), "lo")
	}
}

// fewOSPF6 is how many IPv6 addresses of an interface ospf6d 8.4.4 can be relied on to carry: of 200 taken
// away at once the last one stayed in its own LSA for ever, and nothing but another change of the interface's
// addresses helped.
const fewOSPF6 = 50

// fewLSAs is how many LSAs of a burst get through: of 950 external ones, many were sent again every 5 s, and
// it took more than 40 s until all were acknowledged.
const fewLSAs = 100

// blinkOSPF6: when one of a node's OSPFv3 prefixes changes, FRR 8.4.4 as the core deletes and adds the routes to
// all of them, for 0.1 ms each, or more when there are hundreds.
const blinkOSPF6 = 500 * time.Millisecond

// ospfLab is a network with OSPF whose core takes every change at once, however many came before.
func ospfLab(t *testing.T) *lab.AnycastLab {
	l := lab.OpenAnycast(t, lab.AnycastOptions{
		IPv6: true, NoUnbound: true, NoMinArrival: true, Daemons: []string{"staticd"},
		NodeOSPF:   " network 10.60.0.0/16 area 0\n redistribute static\n",
		NodeConfig: "router ospf6\n redistribute static\nip route 10.53.54.99/32 blackhole\nipv6 route 2001:db8:54::63/128 blackhole\n",
	})
	for _, router := range []string{"router ospf", "router ospf6"} {
		_, err := l.CoreFRR.Vtysh(t.Context(), "configure terminal", router, "timers throttle spf 0 10 10")
		check(t, err)
	}
	return l
}

func TestOSPF(t *testing.T) {
	t.Parallel()
	l := ospfLab(t)
	nd := l.Nodes[0]
	check(t, byHand(nd.Node, "add")(t.Context(), service(99)))
	names := []string{"zebra", "ospfd", "ospf6d", "staticd"}
	address := routertest.Subject{
		Node: nd.Node, Core: l.Core, Hops: hops(), One: service(1), Two: service(2), Many: many(1000, fewOSPF6), Foreign: service(99),
		Blink: blinkOSPF6,
		Undo:  byHand(nd.Node, "del"), Redo: byHand(nd.Node, "add"), Refuse: sameAddress(nd.Node, service(2)[1]),
		Without: map[string]string{"degrade": "no degraded way is set"},
	}

	alone := address
	alone.Name, alone.Router = "kernel", kernel.New("lo")
	alone.Without = map[string]string{"degrade": "an interface has no worse way", "steady": "nothing is spoken to but the kernel",
		"cut reading": "the kernel cuts no reply", "cut change": "the kernel cuts no reply",
		"hang": "the kernel does not hang", "restart": "there is no daemon", "kill": "there is no daemon"}

	ospf := address
	ospf.Name, ospf.Daemon = "frr address ospf", daemonsFRR(nd.FRR, names)
	ospf.Router, ospf.Wire = drive(nd.FRR, names, frr.Options{Unpaced: true})

	static := address
	static.Name, static.Daemon = "frr static ospf", daemonsFRR(nd.FRR, names)
	static.Router, static.Wire = drive(nd.FRR, names, frr.Options{Method: frr.MethodStatic, Unpaced: true})
	static.One, static.Two, static.Foreign, static.Many = another(1), another(2), another(99), many(fewLSAs, fewLSAs/2)
	static.Undo = vtysh(nd.FRR, func(p netip.Prefix) []string { return []string{"no " + ip(p) + " route " + p.String() + " blackhole"} })
	static.Redo = vtysh(nd.FRR, func(p netip.Prefix) []string { return []string{ip(p) + " route " + p.String() + " blackhole"} })
	static.Refuse = anothersRoute(nd.FRR, another(2)[0])
	play(t, &alone, &ospf, &static)
}

// anothersRoute has a static route of somebody else's in the way.
func anothersRoute(f *lab.FRR, p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	route := func(no string) func(p netip.Prefix) []string {
		return func(p netip.Prefix) []string { return []string{no + "ip route " + p.String() + " 10.0.1.1"} }
	}
	return func(ctx context.Context) (routertest.Refusal, error) {
		return routertest.Refusal{
			Change:  routers.Change{Prefix: p, Want: routers.Announced},
			Restore: func(ctx context.Context) error { return vtysh(f, route("no "))(ctx, []netip.Prefix{p}) },
		}, vtysh(f, route(""))(ctx, []netip.Prefix{p})
	}
}

// bgpLab is a core and a node with BGP between them, which find each other within a second.
func bgpLab(t *testing.T) (core *lab.Node, node *lab.Node, f *lab.FRR) {
	net := lab.Open(t)
	core, err := net.Node("core")
	check(t, err)
	node, err = net.Node("apu01")
	check(t, err)
	check(t, net.Link(core, "eth1", []string{"10.0.1.1/30", "2001:db8:1::1/64", "fe80::1:1/64"}, node, "eth0", []string{"10.0.1.2/30", "2001:db8:1::2/64", "fe80::1:2/64"}))
	const common = ` no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 1 3
 neighbor %[1]s remote-as %[2]d
 neighbor %[1]s timers connect 1
 address-family ipv6 unicast
  neighbor %[1]s activate
`
	_, err = core.FRR(t.Context(), "router bgp 65000\n bgp router-id 10.0.0.1\n"+fmt.Sprintf(common, "10.0.1.2", 65001), "bgpd")
	check(t, err)
	f, err = node.FRR(t.Context(), "router bgp 65001\n bgp router-id 10.0.1.2\n"+fmt.Sprintf(common, "10.0.1.1", 65000)+
		`  network 2001:db8:54::63/128
  redistribute connected
  redistribute static
 address-family ipv4 unicast
  network 10.53.54.99/32
  redistribute connected
  redistribute static
ip route 10.53.55.99/32 blackhole
ipv6 route 2001:db8:55::63/128 blackhole
`, "bgpd", "staticd")
	check(t, err)
	return core, node, f
}

func TestBGP(t *testing.T) {
	t.Parallel()
	core, nd, f := bgpLab(t)
	check(t, byHand(nd, "add")(t.Context(), service(99)))
	names := []string{"zebra", "bgpd", "staticd"}
	base := routertest.Subject{Node: nd, Core: core, Hops: hops(), Many: many(1000, 500), Daemon: daemonsFRR(f, names),
		Without: map[string]string{"degrade": "no degraded way is set"}}

	address := base
	address.Name = "frr address bgp"
	address.Router, address.Wire = drive(f, names, frr.Options{Protocol: frr.ProtocolBGP})
	address.One, address.Two, address.Foreign = service(1), service(2), service(99)
	address.Undo, address.Redo, address.Refuse = byHand(nd, "del"), byHand(nd, "add"), sameAddress(nd, service(2)[1])

	network := base
	network.Name = "frr network bgp"
	network.Router, network.Wire = drive(f, names, frr.Options{Method: frr.MethodNetwork})
	network.One, network.Two, network.Foreign = another(1), another(2), another(99)
	state := func(no string) func(p netip.Prefix) []string {
		return func(p netip.Prefix) []string {
			return []string{"router bgp 65001", "address-family " + strings.Replace(ip(p)+"v4", "v6v4", "v6", 1) + " unicast", no + "network " + p.String()}
		}
	}
	network.Undo, network.Redo = vtysh(f, state("no ")), vtysh(f, state(""))
	network.Without = map[string]string{"degrade": "no degraded way is set", "refused": "bgpd takes every network statement"}

	static := base
	static.Name = "frr static bgp"
	static.Router, static.Wire = drive(f, names, frr.Options{Method: frr.MethodStatic, Protocol: frr.ProtocolBGP})
	static.One, static.Two, static.Foreign = third(1), third(2), third(99)
	static.Undo = vtysh(f, func(p netip.Prefix) []string { return []string{"no " + ip(p) + " route " + p.String() + " blackhole"} })
	static.Redo = vtysh(f, func(p netip.Prefix) []string { return []string{ip(p) + " route " + p.String() + " blackhole"} })
	static.Refuse = anothersRoute(f, third(2)[0])
	play(t, &address, &network, &static)
}
