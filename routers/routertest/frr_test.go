package routertest_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/detect"
	"vouch/routers/frr"
	"vouch/routers/kernel"
	"vouch/routers/lab"
	"vouch/routers/routertest"
)

// readingFRR is what a request to FRR is like that changes nothing.
var readingFRR = regexp.MustCompile(`^(enable|show .*)$`)

// coreFRR: routes with nexthop objects share what the kernel last looked up, so that it answers for the wrong
// one when it is asked for an IPv6 route (Linux 6.18).
const coreFRR = "exit\nno zebra nexthop kernel enable\n"

const (
	// fewOSPF6 is how many IPv6 addresses of an interface ospf6d 8.4.4 can be relied on to carry: of 200
	// taken away at once the last one stayed in its own LSA for ever, and nothing but another change of the
	// interface's addresses helped.
	fewOSPF6 = 50
	// fewLSAs is how many LSAs of a burst get through: of 950 external ones, many were sent again every
	// 5 s, and it took more than 40 s until all were acknowledged.
	fewLSAs = 100
)

// An frrNode is a node's FRR with the daemons that a driver may speak to.
type frrNode struct {
	*lab.FRR
	daemons []string
}

func nodeFRR(l *lab.AnycastLab, r lab.Release, daemons ...string) frrNode {
	if r == lab.FRR10 {
		daemons = append(daemons, "mgmtd")
	}
	return frrNode{l.Nodes[0].FRR, append(daemons, "zebra", "staticd")}
}

// subject makes one of a driver's options.
func (f frrNode) subject(s routertest.Subject, name string, o frr.Options) *routertest.Subject {
	s.Name = name
	o.SocketDir, o.Timeout = f.SocketDir(), unhurried
	s.Router = frr.New(o)
	s.Daemon = &routertest.Daemon{
		Restart: f.Restart,
		Kill:    func() error { return each(f.daemons, f.Kill) },
		Start:   f.Start,
		Signal: func(sig syscall.Signal) error {
			return each(f.daemons, func(d string) error { return f.Signal(d, sig) })
		},
	}
	s.Wire = &routertest.Wire{Reading: readingFRR, Through: func(dir string) routers.Router {
		o := o
		o.SocketDir, o.Via = dir, frr.ViaSocket
		return frr.New(o)
	}}
	for _, d := range f.daemons {
		s.Wire.Sockets = append(s.Wire.Sockets, filepath.Join(f.SocketDir(), d+".vty"))
	}
	return &s
}

// configure has somebody give commands for each prefix.
func (f frrNode) configure(commands func(p netip.Prefix) []string) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		return each(ps, func(p netip.Prefix) error {
			_, err := f.Vtysh(ctx, append([]string{"configure terminal"}, commands(p)...)...)
			return err
		})
	}
}

// blackhole enters, or with "no " removes, a static route like ours.
func blackhole(no string) func(p netip.Prefix) []string {
	return func(p netip.Prefix) []string { return []string{fmt.Sprintf("%s%s route %s blackhole", no, ip(p), p)} }
}

// onLo enters, or removes, an address in FRR's configuration.
func onLo(no string) func(p netip.Prefix) []string {
	return func(p netip.Prefix) []string {
		return []string{"interface lo", fmt.Sprintf("%s%s address %s", no, ip(p), p)}
	}
}

// state enters, or removes, a network statement.
func state(no string) func(p netip.Prefix) []string {
	return func(p netip.Prefix) []string {
		return []string{"router bgp 65001", "address-family " + map[bool]string{true: "ipv4", false: "ipv6"}[p.Addr().Is4()] + " unicast", no + "network " + p.String()}
	}
}

// anothersRoute has a static route of somebody else's in the way.
func (f frrNode) anothersRoute(p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	route := func(no string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := f.Vtysh(ctx, "configure terminal", no+"ip route "+p.String()+" 10.0.1.1")
			return err
		}
	}
	return func(ctx context.Context) (routertest.Refusal, error) {
		return routertest.Refusal{Change: routers.Change{Prefix: p, Want: routers.Announced}, Anyway: true, Restore: route("no ")}, route("")(ctx)
	}
}

// without adds to why scenarios do not apply.
func without(s *routertest.Subject, why string, scenarios ...string) {
	all := map[string]string{}
	for k, v := range s.Without {
		all[k] = v
	}
	for _, name := range scenarios {
		all[name] = why
	}
	s.Without = all
}

// aborts: zebra 8.4.4 ends with "process_subq_route(): assertion (dest) failed" when an address has gone again
// before it came to look at it.
const aborts = "zebra 8.4.4 aborts when an address has come and gone before it looks"

func frrOSPF(t *testing.T, r lab.Release) []*routertest.Subject {
	l := lab.OpenAnycast(t, lab.AnycastOptions{
		IPv6: true, NoUnbound: true, NoMinArrival: true, Nodes: r, Daemons: []string{"staticd"}, CoreConfig: coreFRR,
		NodeOSPF: " network 10.60.0.0/16 area 0\n redistribute static route-map STATIC\n",
		NodeConfig: ` redistribute static route-map STATIC
exit
route-map STATIC permit 5
 match tag 666
 set metric 666
route-map STATIC permit 10
exit
ip route 10.53.54.99/32 blackhole
ipv6 route 2001:db8:54::99/128 blackhole
`,
	})
	for _, router := range []string{"router ospf", "router ospf6"} { // however many changes came before
		_, err := l.CoreFRR.Vtysh(t.Context(), "configure terminal", router, "timers throttle spf 0 10 10")
		check(t, err)
	}
	nd := l.Nodes[0]
	check(t, byHand(nd.Node, "add")(t.Context(), service(99)))
	f := nodeFRR(l, r, "ospfd", "ospf6d")
	common := base(l)
	common.Many, common.Worse = many(1000, fewOSPF6), worseOSPF(l.CoreFRR, 666)
	cost := frr.Degraded{Cost: 666}

	alone := common
	alone.Name, alone.Router, alone.Worse = "kernel", kernel.New("lo"), nil
	without(&alone, "an interface has no worse way", "degrade")
	without(&alone, "nothing is spoken to but the kernel", "steady", "cut reading", "cut change")
	without(&alone, "there is no daemon", "hang", "late announce", "restart", "kill")

	address := f.subject(common, r.String()+" address ospf", frr.Options{Unpaced: true, Degraded: cost})
	owned := f.subject(common, r.String()+" address ospf, owned by frr", frr.Options{Owner: frr.OwnerFRR, Unpaced: true, Degraded: cost})
	owned.Undo, owned.Redo, owned.Refuse = f.configure(onLo("no ")), f.configure(onLo("")), nil
	without(owned, "FRR takes every address; what became of it is read", "refused")

	if r == lab.FRRHost {
		without(address, aborts, "late announce")
	}
	static := f.subject(common, r.String()+" static ospf", frr.Options{Method: frr.MethodStatic, Unpaced: true, Degraded: frr.Degraded{Tag: 666}})
	static.One, static.Two, static.Foreign, static.Many = inRange(54, 1), inRange(54, 2), inRange(54, 99), many(fewLSAs, fewLSAs/2)
	static.Undo, static.Redo, static.Refuse = f.configure(blackhole("no ")), f.configure(blackhole("")), f.anothersRoute(static.Two[0])

	subjects := []*routertest.Subject{address, owned, static}
	if r == lab.FRRHost {
		subjects = append(subjects, &alone)
	}
	return subjects
}

func frrBGP(t *testing.T, r lab.Release) []*routertest.Subject {
	l := lab.OpenAnycast(t, lab.AnycastOptions{
		BGP: true, IPv6: true, NoUnbound: true, Nodes: r, CoreConfig: coreFRR,
		NodeConfig: ` no bgp network import-check
 address-family ipv4 unicast
  network 10.53.54.99/32
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:54::99/128
 exit-address-family
exit
ip prefix-list ANYCAST permit 10.0.0.0/8 ge 32
ipv6 prefix-list ANYCAST permit 2001:db8::/32 ge 128
route-map ANYCAST4 permit 5
 match tag 666
 set metric 666
exit
route-map ANYCAST6 permit 5
 match tag 666
 set metric 666
exit
route-map WORSE permit 10
 set metric 666
exit
ip route 10.53.55.99/32 blackhole
ipv6 route 2001:db8:55::99/128 blackhole
`})
	nd := l.Nodes[0]
	check(t, byHand(nd.Node, "add")(t.Context(), service(99)))
	f := nodeFRR(l, r, "bgpd")
	common := base(l)

	address := f.subject(common, r.String()+" address bgp", frr.Options{Protocol: frr.ProtocolBGP})
	without(address, "the method has no worse way with BGP", "degrade")
	if r == lab.FRRHost {
		without(address, aborts, "late announce")
	}

	common.Worse = worseBGP(l.CoreFRR)
	network := f.subject(common, r.String()+" network bgp", frr.Options{Method: frr.MethodNetwork, Degraded: frr.Degraded{RouteMap: "WORSE"}})
	network.One, network.Two, network.Foreign = inRange(54, 1), inRange(54, 2), inRange(54, 99)
	network.Undo, network.Redo, network.Refuse = f.configure(state("no ")), f.configure(state("")), f.noRouteMap(network.Two[0])
	network.Thorough = own(r)

	static := f.subject(common, r.String()+" static bgp", frr.Options{Method: frr.MethodStatic, Protocol: frr.ProtocolBGP, Degraded: frr.Degraded{Tag: 666}})
	static.One, static.Two, static.Foreign = inRange(55, 1), inRange(55, 2), inRange(55, 99)
	static.Undo, static.Redo, static.Refuse = f.configure(blackhole("no ")), f.configure(blackhole("")), f.anothersRoute(static.Two[0])

	auto := *address
	auto.Name = r.String() + " auto, address bgp"
	none := filepath.Join(nd.Dir(), "none.ctl")
	auto.Router = detect.New(among(frr.Options{SocketDir: f.SocketDir()}, none, none))
	auto.Wire = &routertest.Wire{Reading: readingFRR, Sockets: auto.Wire.Sockets, Through: func(dir string) routers.Router {
		return detect.New(among(frr.Options{SocketDir: dir}, none, none))
	}}
	if !own(r) {
		return []*routertest.Subject{address, network, static}
	}
	return []*routertest.Subject{address, network, static, &auto}
}

// among are the options of auto-detection, with BIRD's sockets nowhere.
func among(o frr.Options, none, none6 string) detect.Options {
	o.Timeout = unhurried
	return detect.Options{FRR: o, BIRD: bird.Options{Socket: none, Socket6: none6}}
}

// noRouteMap takes the route-map away that a degraded statement needs.
func (f frrNode) noRouteMap(p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	return func(ctx context.Context) (routertest.Refusal, error) {
		_, err := f.Vtysh(ctx, "configure terminal", "no route-map WORSE")
		return routertest.Refusal{Change: routers.Change{Prefix: p, Want: routers.Degraded}, Names: "WORSE", Restore: func(ctx context.Context) error {
			_, err := f.Vtysh(ctx, "configure terminal", "route-map WORSE permit 10", "set metric 666")
			return err
		}}, err
	}
}
