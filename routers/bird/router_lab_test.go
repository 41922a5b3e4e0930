package bird

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

var (
	four = netip.MustParsePrefix("10.53.53.53/32")
	six  = netip.MustParsePrefix("2001:db8:53::53/128")
	both = []netip.Prefix{four, six}
)

// What makes the routes, and what lets them pass to the core, by method and style. What is worse
// has a community.
var ways = map[string]struct{ origin, pass string }{
	MethodProtocol: {`4: protocol static dns { disabled; ipv4; route 10.53.53.53/32 blackhole; }
4: protocol static dns_worse { disabled; ipv4; route 10.53.53.53/32 blackhole { bgp_community.add((65001,666)); }; }
6: protocol static dns6 { disabled; ipv6; route 2001:db8:53::53/128 blackhole; }
6: protocol static dns_worse6 { disabled; ipv6; route 2001:db8:53::53/128 blackhole { bgp_community.add((65001,666)); }; }
`, `if source = RTS_STATIC then accept;`},
	StyleSwitch: {`include "vouch.conf";
4: protocol static anycast4 { disabled DNS_OFF; ipv4; route 10.53.53.53/32 blackhole; }
4: protocol static worse4 { disabled DNS_WORSE_OFF; ipv4; route 10.53.53.53/32 blackhole { bgp_community.add((65001,666)); }; }
6: protocol static anycast6 { disabled DNS_OFF; ipv6; route 2001:db8:53::53/128 blackhole; }
6: protocol static worse6 { disabled DNS_WORSE_OFF; ipv6; route 2001:db8:53::53/128 blackhole { bgp_community.add((65001,666)); }; }
`, `if source = RTS_STATIC then accept;`},
	StyleRoutes: {`include "vouch.conf";
`, `if source = RTS_STATIC then accept;`},
	StyleList: {`include "vouch.conf";
4: protocol static anycast4 { ipv4; route 10.53.53.53/32 blackhole; }
6: protocol static anycast6 { ipv6; route 2001:db8:53::53/128 blackhole; }
`, `if net ~ PFX4 then accept; if net ~ WORSE4 then { bgp_community.add((65001,666)); accept; }`},
	StyleFunction: {`include "vouch.conf";
4: protocol static anycast4 { ipv4; route 10.53.53.53/32 blackhole; }
6: protocol static anycast6 { ipv6; route 2001:db8:53::53/128 blackhole; }
`, `if match_route() then accept; if match_worse() then { bgp_community.add((65001,666)); accept; }`},
	MethodAddress: {`4: protocol direct lo4 { ipv4; interface "lo"; }
6: protocol direct lo6 { ipv6; interface "lo"; }
`, `if source = RTS_DEVICE then accept;`},
}

const pairNode = `
router id 10.0.1.2;
protocol device { }
4: filter out4 { F4 reject; }
6: filter out6 { F6 reject; }
4: protocol bgp core4 { local 10.0.1.2 as 65001; neighbor 10.0.1.1 as 65000; ipv4 { import all; export filter out4; }; # BGP }
6: protocol bgp core6 { local 2001:db8:1::2 as 65001; neighbor 2001:db8:1::1 as 65000; ipv6 { import all; export filter out6; }; # BGP }
`

// A pair is a node and its core, with BIRD of one release, and the driver of the node.
type pair struct {
	node       *lab.Node
	birds      []*lab.BIRD // the node's: one, or BIRD 1's two
	cores      []*lab.BIRD
	router     *Router
	options    Options
	degradable bool
}

func pairOptions(kind string) Options {
	o := Options{Via: ViaSocket, Timeout: unhurried, Symbol: "dns", Symbol6: "dns6"}
	d := &o.Degraded
	switch kind {
	case MethodProtocol:
		o.Method, d.Symbol = kind, "dns_worse"
	case MethodAddress:
		o.Method = kind
	default:
		o.Method, o.Style = MethodInclude, kind
		o.Symbol, o.Symbol6 = "", ""
		switch kind {
		case StyleSwitch:
			d.Symbol = "{SERVICE}_WORSE_OFF"
		case StyleRoutes:
			*d = Degraded{MED: 500, Community: []string{"65001:666", "65001:0:666"}, Prepend: []uint32{65001}, Metric2: 70}
		case StyleList:
			o.Symbol, o.Symbol6, d.Symbol, d.Symbol6 = "PFX4", "PFX6", "WORSE4", "WORSE6"
		case StyleFunction:
			d.Symbol = "match_worse"
		}
	}
	return o
}

func openPair(t *testing.T, r lab.Release, kind string) *pair {
	t.Helper()
	net := lab.Open(t, r)
	ctx := sceneWithin(t, time.Minute)
	core, err := net.Node("core")
	fatal(t, err)
	node, err := net.Node("node")
	fatal(t, err)
	fatal(t, net.Link(node, "eth0", []string{"10.0.1.2/29", "2001:db8:1::2/64"}, core, "eth0", []string{"10.0.1.1/29", "2001:db8:1::1/64"}))
	p := &pair{node: node, options: pairOptions(kind), degradable: kind != MethodAddress}
	way := ways[kind]
	text := strings.NewReplacer("F4", way.pass, "F6", strings.ReplaceAll(strings.ReplaceAll(way.pass, "PFX4", "PFX6"), "WORSE4", "WORSE6")).Replace(pairNode)
	families := []string{"4"}
	if r.Split() {
		families = []string{"4", "6"}
	}
	for _, family := range families {
		start := map[string]func(*lab.Node, context.Context, lab.Release, string) (*lab.BIRD, error){"4": (*lab.Node).BIRD, "6": (*lab.Node).BIRD6}[family]
		c, err := start(core, ctx, r, sceneConfig(pairCore, r, family))
		fatal(t, err)
		b, err := start(node, ctx, r, sceneConfig(strings.NewReplacer("F4", "", "F6", "").Replace(pairNode), r, family))
		fatal(t, err)
		p.cores, p.birds = append(p.cores, c), append(p.birds, b)
	}
	p.options.Socket, p.options.Socket6 = p.birds[0].Socket(), p.birds[0].Socket()+".none"
	p.options.Include = p.birds[0].Path("vouch.conf")
	if r.Split() {
		p.options.Socket6, p.options.Include6 = p.birds[1].Socket(), p.birds[1].Path("vouch6.conf")
	}
	p.router = New(p.options)
	t.Cleanup(func() { _ = p.router.Close() })
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
	if p.options.Method == MethodInclude { // writes the file, which nothing includes yet
		fatal(t, p.router.Apply(ctx, changes(routers.Withdrawn)))
	}
	for i, family := range families {
		full := sceneConfig(way.origin+text, r, family)
		if family == "6" {
			full = strings.ReplaceAll(full, "vouch.conf", "vouch6.conf")
		}
		fatal(t, p.birds[i].WriteConfig(full))
		fatal(t, p.birds[i].Configure(ctx))
	}
	return p
}

func changes(want routers.Want) []routers.Change {
	return []routers.Change{{Prefix: four, Want: want}, {Prefix: six, Want: want}}
}

const pairCore = `
router id 10.0.1.1;
protocol device { }
4: protocol bgp n4 { local 10.0.1.1 as 65000; neighbor 10.0.1.2 as 65001; ipv4 { import all; export none; }; # BGP }
6: protocol bgp n6 { local 2001:db8:1::1 as 65000; neighbor 2001:db8:1::2 as 65001; ipv6 { import all; export none; }; # BGP }
`

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// coreHas tells what the core was given of a prefix.
func (p *pair) coreHas(ctx context.Context, q netip.Prefix) string {
	text, _ := p.cores[map[bool]int{true: 0, false: len(p.cores) - 1}[q.Addr().Is4()]].Show(ctx, "show route "+q.String()+" all")
	return text
}

// settle asks until both prefixes are read to be as wanted, and then whether the core agrees.
func (p *pair) settle(t *testing.T, want routers.Want) {
	t.Helper()
	ctx := sceneWithin(t, time.Minute)
	var os []routers.Observation
	var asked, err error
	met := func(o routers.Observation) bool {
		if want == routers.Withdrawn {
			return o.Stage == routers.Absent
		}
		return o.Stage == routers.Advertised && !o.Broken && o.Degraded == (want == routers.Degraded)
	}
	waited := lab.Wait(ctx, "both "+want.String(), 50*time.Millisecond, func() (bool, error) {
		p.inNode(t, func() {
			os, err = p.router.Observe(ctx, both)
			if !met(os[0]) || !met(os[1]) {
				asked = p.router.Apply(ctx, changes(want))
			}
		})
		return err == nil && met(os[0]) && met(os[1]), nil
	})
	if waited != nil {
		t.Fatalf("%v: asked: %v, read: %+v, %v\nlog: %s", waited, asked, os, err, p.birds[0].Log())
	}
	for _, q := range both {
		waited := lab.Wait(ctx, "the core to agree", 20*time.Millisecond, func() (bool, error) {
			has := p.coreHas(ctx, q)
			if err := ctx.Err(); err != nil { // it has nothing to say
				return false, err
			}
			there := strings.Contains(has, q.String())
			// a MED is not looked for: not every BIRD sends that of a static route, see Degraded.arrives
			worse := strings.Contains(strings.ReplaceAll(has, " ", ""), "(65001,666)")
			return there == (want != routers.Withdrawn) && worse == (want == routers.Degraded), nil
		})
		if waited != nil {
			t.Fatalf("%s is read %s, but: %v\n%s", q, want, waited, p.coreHas(t.Context(), q))
		}
	}
}

func (p *pair) inNode(t *testing.T, do func()) {
	t.Helper()
	fatal(t, p.node.Do(func() error { do(); return nil }))
}

// Every method and style, on every release, from absent to announced, degraded and back.
func TestWays(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{MethodAddress, MethodProtocol, StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Announced)
				if p.degradable {
					p.settle(t, routers.Degraded)
					p.settle(t, routers.Announced)
				}
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Withdrawn)
			})
		}
	}
}
