package routertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/detect"
	"vouch/routers/frr"
	"vouch/routers/lab"
	"vouch/routers/program"
	"vouch/routers/routertest"
)

// readingBIRD is what a request to BIRD is like that changes nothing.
var readingBIRD = regexp.MustCompile(`^(restrict|show .*|eval .*)$`)

// worseMetric2 is the ospf_metric2 of what is degraded, which the lab's filters give too. What is given none
// has 10000.
const worseMetric2 = 20000

const worseCommunity = "65001:666"

// A birdNode is a node's BIRD: one daemon, or BIRD 1's two.
type birdNode struct {
	*lab.AnycastNode
	birds   []*lab.BIRD
	options bird.Options
}

func birdOptions(l *lab.AnycastLab, way lab.Way) birdNode {
	nd := l.Nodes[0]
	n := birdNode{AnycastNode: nd, birds: []*lab.BIRD{nd.BIRD}}
	o := bird.Options{Via: bird.ViaSocket, Timeout: unhurried, Socket: nd.BIRD.Socket(), Socket6: nd.BIRD.Path("none.ctl"), Include: nd.BIRD.Path(lab.IncludeFile)}
	if nd.BIRD6 != nil {
		n.birds = append(n.birds, nd.BIRD6)
		o.Socket6, o.Include6 = nd.BIRD6.Socket(), nd.BIRD6.Path(lab.IncludeFile6)
	}
	o.Method = bird.MethodInclude
	d := &o.Degraded
	switch way {
	case lab.Direct:
		o.Method = bird.MethodAddress
	case lab.Protocol:
		o.Method, o.Symbol, o.Symbol6 = bird.MethodProtocol, "anycast_{service}", "anycast6_{service}"
		d.Symbol, d.Symbol6 = "anycast_{service}_degraded", "anycast6_{service}_degraded"
	case lab.Switch:
		o.Style, d.Symbol = bird.StyleSwitch, "{SERVICE}_DEGRADED_OFF"
	case lab.Routes:
		o.Style, d.Prepend, d.Metric2 = bird.StyleRoutes, []uint32{65001, 65001}, worseMetric2
		if nd.BIRD.Release().Split() { // BIRD 1 sends a path of its own making, whatever the route has
			d.Prepend, d.Community = nil, []string{worseCommunity}
		}
	case lab.List:
		o.Style, d.Symbol = bird.StyleList, "ANYCAST_DEGRADED"
	case lab.Function:
		o.Style, o.Symbol, d.Symbol = bird.StyleFunction, "anycast_announced", "anycast_degraded"
	}
	n.options = o
	return n
}

// foreigners has the node announce prefixes that are somebody else's, and lets the many pass.
func (n birdNode) foreigners(ctx context.Context, way lab.Way, ps []netip.Prefix) error {
	if way == lab.Direct {
		if err := byHand(n.Node, "add")(ctx, ps); err != nil {
			return err
		}
	}
	return each(n.birds, func(b *lab.BIRD) error {
		c, err := b.Config()
		if err != nil {
			return err
		}
		// Of a thousand addresses that come at once BIRD 3.1.8 misses some until it scans, by default once a minute.
		c = strings.NewReplacer("protocol device { }", "protocol device { scan time 5; }", "\treject;\n}\n", "\tif proto ~ \"foreign*\" then accept;\n\treject;\n}\n",
			"10.53.53.0/24+", "10.53.53.0/24+, 10.60.0.0/16+", "2001:db8:53::/64+", "2001:db8:53::/64+, 2001:db8:60::/64+").Replace(c)
		for i, p := range ps {
			channel := fmt.Sprintf(" ipv%d;", 4+2*i)
			if b.Release().Split() {
				channel = ""
			}
			if way != lab.Direct && (!b.Release().Split() || b == n.birds[i]) {
				c += fmt.Sprintf("protocol static foreign%d {%s route %s blackhole; }\n", 4+2*i, channel, p)
			}
		}
		return errors.Join(b.WriteConfig(c), b.Configure(ctx))
	})
}

// subject makes one of the node's options.
func (n birdNode) subject(s routertest.Subject, name string, way lab.Way) *routertest.Subject {
	s.Name, s.Labels = name, labels(&s)
	s.Router = bird.New(n.options)
	s.Daemon = &routertest.Daemon{
		Restart: func(ctx context.Context) error {
			return each(n.birds, func(b *lab.BIRD) error { return b.Restart(ctx) })
		},
		Kill:   func() error { return each(n.birds, (*lab.BIRD).Kill) },
		Start:  func(ctx context.Context) error { return each(n.birds, func(b *lab.BIRD) error { return b.Start(ctx) }) },
		Signal: func(sig syscall.Signal) error { return each(n.birds, func(b *lab.BIRD) error { return b.Signal(sig) }) },
	}
	s.Wire = &routertest.Wire{End: '\n', Reading: readingBIRD, Through: func(dir string) routers.Router { return bird.New(n.behind(dir)) }}
	for _, b := range n.birds {
		s.Wire.Sockets = append(s.Wire.Sockets, b.Socket())
	}
	switch way {
	case lab.Direct:
		without(&s, "the method has no worse way", "degrade")
		s.Worse = nil
	case lab.Protocol:
		nowhere := host("10.53.53.77")
		s.Labels[nowhere] = routers.Label{Service: "nosuch"}
		s.Refuse = func(context.Context) (routertest.Refusal, error) {
			return routertest.Refusal{Change: routers.Change{Prefix: nowhere, Want: routers.Announced}, Names: "anycast_nosuch"}, nil
		}
		s.Undo, s.Redo = n.birdc("disable"), n.birdc("enable")
	default:
		s.Refuse = n.mistake(s.Two[0])
		s.Undo, s.Redo = n.another(routers.Withdrawn, s.Labels), n.another(routers.Announced, s.Labels)
	}
	return &s
}

// behind gives the options with the sockets in dir.
func (n birdNode) behind(dir string) bird.Options {
	o := n.options
	o.Socket, o.Socket6 = filepath.Join(dir, filepath.Base(o.Socket)), filepath.Join(dir, filepath.Base(o.Socket6))
	return o
}

// birdc has somebody enable or disable the protocols of a service.
func (n birdNode) birdc(command string) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		_, err := n.birds[0].Birdc(ctx, command+" anycast_one")
		_, err6 := n.birds[len(n.birds)-1].Birdc(ctx, command+" anycast6_one")
		return errors.Join(err, err6)
	}
}

// another has somebody else write the file, who does it like us.
func (n birdNode) another(want routers.Want, labels map[netip.Prefix]routers.Label) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		r := bird.New(n.options)
		r.SetLabels(labels)
		var cs []routers.Change
		for _, p := range ps {
			cs = append(cs, routers.Change{Prefix: p, Want: want})
		}
		return errors.Join(n.Do(func() error { return r.Apply(ctx, cs) }), r.Close())
	}
}

// mistake has the operator leave a mistake in the configuration.
func (n birdNode) mistake(p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	return func(context.Context) (routertest.Refusal, error) {
		c, err := n.BIRD.Config()
		return routertest.Refusal{
			Change:  routers.Change{Prefix: p, Want: routers.Announced},
			Names:   filepath.Base(n.BIRD.ConfigFile()) + ":",
			Restore: func(context.Context) error { return n.BIRD.WriteConfig(c) },
		}, errors.Join(err, n.BIRD.WriteConfig(c+"nonsense;\n"))
	}
}

// open makes the network of a release and a way, and has the driver write its own file.
func openBIRD(t *testing.T, o lab.AnycastOptions) (*lab.AnycastLab, birdNode, routertest.Subject) {
	s := routertest.Subject{One: service(1), Two: service(2), Many: many(1000, 500), Foreign: service(99)}
	if !o.BGP {
		s.Many = many(fewLSAs, fewLSAs/2)
	}
	o.IPv6, o.NoUnbound, o.NoMinArrival, o.CoreConfig = true, true, true, coreFRR
	o.Services = []lab.NamedService{{Name: "one", Prefixes: s.One}, {Name: "two", Prefixes: s.Two}, {Name: "many", Prefixes: s.Many}}
	l := lab.OpenAnycast(t, o)
	if !o.BGP {
		for _, router := range []string{"router ospf", "router ospf6"} {
			_, err := l.CoreFRR.Vtysh(t.Context(), "configure terminal", router, "timers throttle spf 0 10 10")
			check(t, err)
		}
	}
	n := birdOptions(l, o.Way)
	common := base(l)
	common.Many = s.Many
	common.Worse = worseOSPF(l.CoreFRR, worseMetric2)
	if o.BGP {
		common.Worse = worseBGP(l.CoreFRR)
	}
	if n.options.Method == bird.MethodInclude { // the lab's own files are not ours to overwrite
		for _, b := range n.birds {
			check(t, os.Remove(b.Path(map[bool]string{true: lab.IncludeFile, false: lab.IncludeFile6}[b == n.BIRD])))
		}
		check(t, n.another(routers.Withdrawn, labels(&s))(t.Context(), slices.Concat(s.One, s.Two, s.Many)))
	}
	check(t, n.foreigners(t.Context(), o.Way, s.Foreign))
	return l, n, common
}

func birdBGP(t *testing.T, r lab.Release, way lab.Way) []*routertest.Subject {
	_, n, common := openBIRD(t, lab.AnycastOptions{BGP: true, Nodes: r, Way: way})
	s := n.subject(common, fmt.Sprintf("%s %s bgp", r, way), way)
	s.Thorough = way == lab.Switch && own(r)
	subjects := []*routertest.Subject{s}
	switch {
	case way == lab.Switch && (own(r) || r.Split()):
		auto := *s
		auto.Name, auto.Thorough = r.String()+" auto, switch bgp", false
		none := n.BIRD.Path("none")
		auto.Router = detect.New(detect.Options{FRR: frr.Options{SocketDir: none}, BIRD: n.options})
		auto.Wire = &routertest.Wire{End: '\n', Reading: readingBIRD, Sockets: s.Wire.Sockets, Through: func(dir string) routers.Router {
			return detect.New(detect.Options{FRR: frr.Options{SocketDir: none}, BIRD: n.behind(dir)})
		}}
		subjects = append(subjects, &auto)
	case way == lab.Protocol && r == lab.BIRDHost:
		subjects = append(subjects, n.commands(t, *s))
	}
	return subjects
}

func birdOSPF(t *testing.T, r lab.Release, way lab.Way) []*routertest.Subject {
	_, n, common := openBIRD(t, lab.AnycastOptions{Nodes: r, Way: way})
	s := n.subject(common, fmt.Sprintf("%s %s ospf", r, way), way)
	without(s, "BIRD sends an LSA again after 5 s at the earliest, and what this shows is the same with BGP",
		"side by side", "nonsense", "refused", "undo", "cut change", "late announce", "many", "kill")
	return []*routertest.Subject{s}
}

// commands drives the protocols by an operator's own shell script.
func (n birdNode) commands(t *testing.T, s routertest.Subject) *routertest.Subject {
	script := filepath.Join(t.TempDir(), "anycast")
	check(t, lab.WriteProgram(script, fmt.Sprintf(`#!/bin/sh
six=; core=core4
case $ANYCAST_PREFIX in *:*) six=6; core=core6 ;; esac
birdc() { %s "$@"; }
off() { birdc "show protocols $1" | grep -q " down "; }
p=anycast${six}_$ANYCAST_SERVICE
case $ANYCAST_ACTION in
up) birdc "enable $p" && birdc "disable ${p}_degraded" ;;
degrade) birdc "enable ${p}_degraded" && birdc "disable $p" ;;
down) birdc "disable $p" && birdc "disable ${p}_degraded" ;;
read)
	out=$(birdc "show route $ANYCAST_PREFIX export $core") || case $out in
	*"Network not "*) echo absent; exit ;;
	*) off $p && off ${p}_degraded && echo absent && exit; exit 2 ;; # the session is down, say
	esac
	case $out in *_degraded*) echo advertised degraded ;; *$p*) echo advertised ;; *) exit 2 ;; esac ;;
esac
`, strings.Join(n.BIRD.Client(), " "))))
	command := []string{script}
	s.Name = "commands of one's own, birdc"
	s.Router = program.New(program.Options{Up: command, Down: command, Degrade: command, Read: command, Timeout: 2 * time.Second})
	s.Wire, s.Refuse, s.Many = nil, nil, nil
	without(&s, "the driver speaks to nothing but its commands", "steady", "cut reading", "cut change")
	without(&s, "a command's failure may be anything", "refused")
	without(&s, "a command for each prefix, and a protocol for all of them", "many")
	without(&s, "a command names no peers", "peers")
	return &s
}
