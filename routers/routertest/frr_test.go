package routertest_test

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

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

func TestOSPF(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{
		IPv6: true, NoUnbound: true, NoMinArrival: true, Daemons: []string{"staticd"},
		NodeOSPF:   " network 10.60.0.0/16 area 0\n redistribute static\n",
		NodeConfig: "router ospf6\n redistribute static\nip route 10.53.54.99/32 blackhole\nipv6 route 2001:db8:54::63/128 blackhole\n",
	})
	nd := l.Nodes[0]
	check(t, byHand(nd.Node, "add")(t.Context(), service(99)))
	names := []string{"zebra", "ospfd", "ospf6d", "staticd"}
	address := routertest.Subject{
		Node: nd.Node, Core: l.Core, Hops: hops(), One: service(1), Two: service(2), Many: thousand(fewOSPF6), Foreign: service(99),
		Undo: byHand(nd.Node, "del"), Redo: byHand(nd.Node, "add"), Refuse: sameAddress(nd.Node, service(2)[1]),
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
	static.One, static.Two, static.Foreign = another(1), another(2), another(99)
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
