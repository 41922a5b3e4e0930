package routertest_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/lab"
	"vouch/routers/routertest"
	"vouch/routers/vyos"
	"vouch/routers/vyos/vyostest"
)

// redistributing has bgpd take up kernel routes beside the static ones, and tells it which are worse. Without
// it each would have its metric for a MED.
const redistributing = ` address-family ipv4 unicast
  redistribute kernel route-map KERNEL
 exit-address-family
 address-family ipv6 unicast
  redistribute kernel route-map KERNEL
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
route-map KERNEL permit 5
 match metric 666
exit
route-map KERNEL permit 10
 set metric 0
exit
ip route 10.53.56.99/32 blackhole
ipv6 route 2001:db8:56::99/128 blackhole
`

// fewVyOS is how many prefixes a VyOS is asked for at once: it starts a process for each.
const fewVyOS = 40

func vyosBGP(t *testing.T, r lab.Release) []*routertest.Subject {
	l := lab.OpenAnycast(t, lab.AnycastOptions{BGP: true, IPv6: true, NoUnbound: true, Nodes: r, CoreConfig: coreFRR, NodeConfig: redistributing})
	f := nodeFRR(l, r, "bgpd")
	common := base(l)
	common.Worse, common.One, common.Two, common.Foreign = worseBGP(l.CoreFRR), inRange(56, 1), inRange(56, 2), inRange(56, 99)
	subjects := []*routertest.Subject{f.vyosKernel(t, common, r.String()+" vyos kernel bgp")}
	if r != lab.FRRHost { // the stand-in runs vtysh of this machine
		return subjects
	}
	for _, s := range []struct{ via, style string }{
		{vyos.ViaConfig, vyostest.Incremental}, {vyos.ViaConfig, vyostest.RerenderStatic}, {vyos.ViaVbash, vyostest.RerenderStatic},
		{vyos.ViaConfig, vyostest.RerenderLate}, // the last one: it changes FRR when the next one may have begun
	} {
		if *all || s.via == vyos.ViaConfig && s.style == vyostest.RerenderStatic { // each takes a minute
			subjects = append(subjects, f.vyosStatic(t, common, s.via, s.style))
		}
	}
	return subjects
}

// vyos makes a subject of a VyOS over the node's FRR.
func (f frrNode) vyos(common routertest.Subject, name string, o vyos.Options) *routertest.Subject {
	o.SocketDir, o.Timeout, o.Degraded = f.SocketDir(), unhurried, vyos.Degraded{Tag: 666, Metric: 666}
	s := f.subject(common, name, frr.Options{})
	s.Router = vyos.New(o)
	s.Wire.Through = func(dir string) routers.Router {
		o := o
		o.SocketDir = dir
		return vyos.New(o)
	}
	return s
}

func (f frrNode) vyosKernel(t *testing.T, common routertest.Subject, name string) *routertest.Subject {
	s := f.vyos(common, name, vyos.Options{Root: t.TempDir()}) // VyOS itself has no part in it
	s.Undo, s.Redo = kernelRoutes(s.Node, "del", vyos.Protocol), kernelRoutes(s.Node, "add", vyos.Protocol)
	in := []netip.Prefix{s.Two[0]}
	s.Refuse = func(ctx context.Context) (routertest.Refusal, error) {
		return routertest.Refusal{Change: routers.Change{Prefix: in[0], Want: routers.Announced}, Anyway: true, Restore: func(ctx context.Context) error {
			return kernelRoutes(s.Node, "del", 77)(ctx, in)
		}}, kernelRoutes(s.Node, "add", 77)(ctx, in)
	}
	return s
}

// kernelRoutes has somebody change blackhole routes in a node's kernel, of the metric that the driver makes them with.
func kernelRoutes(nd *lab.Node, action string, protocol int) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		return each(ps, func(p netip.Prefix) error {
			_, err := nd.Run(ctx, "ip", "route", action, "blackhole", p.String(), "metric", "10", "proto", fmt.Sprint(protocol))
			return err
		})
	}
}

func (f frrNode) vyosStatic(t *testing.T, common routertest.Subject, via, style string) *routertest.Subject {
	active := []string{"interfaces dummy dum0 address 198.51.100.1/32", "protocols bgp system-as 65001", "system host-name r1"}
	for _, p := range common.Foreign {
		active = append(active, staticNode(p)+" blackhole")
	}
	system := vyostest.New(t, vyostest.Options{SocketDir: f.SocketDir(), Style: style, Active: active})
	s := f.vyos(common, fmt.Sprintf("frr vyos static via %s bgp, %s", via, style), vyos.Options{Method: vyos.MethodStatic, Via: via, Root: system.Root()})
	s.Many = many(fewVyOS, fewVyOS/2)
	without(s, "VyOS takes a static route away and puts it back when its tag changes", "degrade")
	s.Undo, s.Redo = f.configure(blackhole("no ")), f.configure(blackhole(""))
	s.Refuse = func(context.Context) (routertest.Refusal, error) {
		system.OperatorCommit("set " + staticNode(s.Two[0]) + " next-hop 10.0.1.1")
		return routertest.Refusal{Change: routers.Change{Prefix: s.Two[0], Want: routers.Announced}, Anyway: true, Restore: func(context.Context) error {
			system.OperatorCommit("delete " + staticNode(s.Two[0]))
			return nil
		}}, nil
	}
	return s
}

func staticNode(p netip.Prefix) string {
	return "protocols static " + map[bool]string{true: "route ", false: "route6 "}[p.Addr().Is4()] + p.String()
}
