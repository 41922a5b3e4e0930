package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The addresses of the anycast network, which are the same in each as the namespaces keep them apart.
var (
	Service  = netip.MustParsePrefix("10.53.53.53/32")
	Service6 = netip.MustParsePrefix("2001:db8:53::53/128")
)

// anycastNet holds every anycast address, by family.
var anycastNet = map[int]netip.Prefix{4: netip.MustParsePrefix("10.53.53.0/24"), 6: netip.MustParsePrefix("2001:db8:53::/64")}

// AnycastOptions vary the network that Anycast makes. The zero value is FRR with OSPFv2 and one
// prefix.
type AnycastOptions struct {
	BGP          bool     // eBGP sessions between the core and the nodes, of each family its own, in place of OSPF
	IPv6         bool     // IPv6 beside IPv4, and Service6 among the prefixes
	Core, Nodes  Release  // the daemons of the core, and of both nodes
	Prefixes     int      // how many IPv4 prefixes: Service and those after it; 0 means 1
	NoStatements bool     // nodes with FRR: none that would announce an address on lo
	NodeConfig   string   // nodes with FRR: further lines of frr.conf
	NodeOSPF     string   // nodes with FRR: further lines of their `router ospf`
	CoreOSPF     string   // core with FRR: further lines of its `router ospf`
	CoreConfig   string   // core with FRR or BIRD: further lines of its configuration
	Daemons      []string // nodes with FRR: further daemons
	NoUnbound    bool     // no unbound on the nodes
	Keep         bool     // the network outlives the process, see Net.Keep

	NoNexthopObjects bool // nodes with FRR: `no zebra nexthop kernel enable`, so that `ip nexthop flush` harms nothing
	NoMinArrival     bool // core with FRR: it takes changes however fast one follows the other, see Quiet

	Way      Way               // nodes with BIRD: what they announce
	Services []NamedService    // for the other ways than Direct; default: one of all prefixes, called resolver
	NodeBIRD string            // nodes with BIRD: further lines of their bird.conf
	Files    map[string]string // nodes with BIRD: files in its directory; IncludeFile has by default that nothing is announced
}

// An AnycastLab is the network client — core — apu01, apu02. Nodes with FRR, and with BIRD the way
// Direct, announce every address of 10.53.53.0/24 and 2001:db8:53::/64 that is on their lo; putting it
// there is left to the user. With the other ways the services' addresses are on lo always.
type AnycastLab struct {
	*Net
	Client, Core        *Node
	Nodes               [2]*AnycastNode // apu01, apu02
	CoreFRR             *FRR            // nil when it has BIRD
	CoreBIRD, CoreBIRD6 *BIRD           // nil when it has FRR; the second is with BIRD 1 only
	Prefixes            []netip.Prefix
	options             AnycastOptions
}

// An AnycastNode is one of the two that can announce.
type AnycastNode struct {
	*Node
	Via         netip.Addr // the core's IPv4 next hop to it
	Via6        netip.Addr // the core's IPv6 next hop to it: its link-local address, but the other one for BIRD with BGP
	FRR         *FRR       // nil when it has BIRD
	BIRD, BIRD6 *BIRD      // nil when it has FRR; the second is with BIRD 1 only
	number      int
	listen      []netip.Addr

	mu      sync.Mutex
	unbound *Proc
}

// Anycast makes the network and returns when the core has both nodes as neighbours, both nodes have the
// core's default routes in their kernel, and a change of a node would be taken at once.
func Anycast(ctx context.Context, o AnycastOptions) (*AnycastLab, error) {
	n, err := New(ctx)
	if err != nil {
		return nil, err
	}
	l := &AnycastLab{Net: n, Prefixes: prefixes(o)}
	if o.Services == nil {
		o.Services = []NamedService{{"resolver", l.Prefixes}}
	}
	l.options = o
	if err := l.build(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, n.logs()), n.Close())
	}
	return l, nil
}

// OpenAnycast is Anycast for a test, with Close as its cleanup. It takes at most five minutes.
func OpenAnycast(tb TB, o AnycastOptions) *AnycastLab {
	tb.Helper()
	Require(tb, o.Core, o.Nodes)
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	l, err := Anycast(ctx, o)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	l.closeAfter(tb)
	return l
}

func prefixes(o AnycastOptions) []netip.Prefix {
	ps := []netip.Prefix{Service}
	for a := Service.Addr().Next(); len(ps) < o.Prefixes; a = a.Next() {
		ps = append(ps, netip.PrefixFrom(a, a.BitLen()))
	}
	if o.IPv6 {
		ps = append(ps, Service6)
	}
	return ps
}

func (l *AnycastLab) build(ctx context.Context, o AnycastOptions) error {
	if o.Keep {
		if err := l.Keep(); err != nil {
			return err
		}
	}
	if err := l.wire(ctx); err != nil {
		return err
	}
	if err := l.route(ctx); err != nil {
		return err
	}
	if !o.NoUnbound {
		if err := both(func(i int) error { return l.Nodes[i].StartUnbound(ctx) }); err != nil {
			return err
		}
	}
	return l.settle(ctx, o)
}

// wire makes the namespaces and the links between them.
func (l *AnycastLab) wire(ctx context.Context) (err error) {
	if l.Client, err = l.Node("client"); err != nil {
		return err
	}
	if l.Core, err = l.Node("core"); err != nil {
		return err
	}
	err = l.Link(l.Client, "eth0", []string{"10.0.9.2/24", "2001:db8:9::2/64"}, l.Core, "eth0", []string{"10.0.9.1/24", "2001:db8:9::1/64"})
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"ip", "route", "add", "default", "via", "10.0.9.1"}, {"ip", "-6", "route", "add", "default", "via", "2001:db8:9::1"}} {
		if _, err := l.Client.Run(ctx, args...); err != nil {
			return err
		}
	}
	for i := range l.Nodes {
		if l.Nodes[i], err = l.node(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// node adds the node number i and its link to the core.
func (l *AnycastLab) node(i int) (*AnycastNode, error) {
	nd, err := l.Node(fmt.Sprintf("apu%02d", i))
	if err != nil {
		return nil, err
	}
	own6 := addr("fe80::%d:2", i)
	a := &AnycastNode{Node: nd, number: i, Via: nodeAddr(i, 4, 2), Via6: own6}
	if l.options.BGP && l.options.Core.IsBIRD() {
		a.Via6 = nodeAddr(i, 6, 2)
	}
	a.listen = []netip.Addr{a.Via, nodeAddr(i, 6, 2)}
	for _, p := range l.Prefixes {
		a.listen = append(a.listen, p.Addr())
	}
	core := []string{fmt.Sprintf("10.0.%d.1/30", i), fmt.Sprintf("2001:db8:%d::1/64", i), fmt.Sprintf("fe80::%d:1/64", i)}
	own := []string{a.Via.String() + "/30", a.listen[1].String() + "/64", own6.String() + "/64"}
	return a, l.Link(l.Core, fmt.Sprintf("eth%d", i), core, nd, "eth0", own)
}

func addr(format string, i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, i)) }

// nodeAddr is an address of the link between the core (host 1) and the node number i (host 2).
func nodeAddr(i, v, host int) netip.Addr {
	if v == 6 {
		return addr("2001:db8:%d::"+strconv.Itoa(host), i)
	}
	return addr("10.0.%d."+strconv.Itoa(host), i)
}

// route starts the routing daemons everywhere, the core's first.
func (l *AnycastLab) route(ctx context.Context) (err error) {
	o := l.options
	if o.Core.IsBIRD() {
		text := func(families []int) string { return coreBIRD(o, families) }
		l.CoreBIRD, l.CoreBIRD6, err = l.Core.birds(ctx, o.Core, o.families(), text, nil)
	} else {
		l.CoreFRR, err = l.Core.FRRFrom(ctx, o.Core, coreConfig(o), o.daemons()...)
	}
	if err != nil {
		return err
	}
	return both(func(i int) error { return l.Nodes[i].route(ctx, o) })
}

func (a *AnycastNode) route(ctx context.Context, o AnycastOptions) (err error) {
	if !o.Nodes.IsBIRD() {
		a.FRR, err = a.Node.FRRFrom(ctx, o.Nodes, nodeConfig(o, a.number), append(o.daemons(), o.Daemons...)...)
		return err
	}
	if o.Way == Direct && !o.BGP {
		// BIRD passes over an interface without a link-local address in OSPFv3.
		if err := a.Address(ctx, "add", "fe80::53/128", "lo"); err != nil {
			return err
		}
	}
	if o.Way != Direct {
		if err := a.serve(ctx, o.Services); err != nil {
			return err
		}
	}
	text := func(families []int) string { return nodeBIRD(o, a.number, families) }
	a.BIRD, a.BIRD6, err = a.birds(ctx, o.Nodes, o.families(), text, o.files())
	return err
}

// serve puts the services' addresses on lo.
func (a *AnycastNode) serve(ctx context.Context, services []NamedService) error {
	var lines strings.Builder
	for _, s := range services {
		for _, p := range s.Prefixes {
			fmt.Fprintf(&lines, "addr add %s dev lo\n", p)
		}
	}
	batch := filepath.Join(a.Dir(), "addresses")
	if err := os.WriteFile(batch, []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return a.ip(ctx, "-batch", batch)
}

// birds starts the daemons of a BIRD: one for all families, or for each its own.
func (nd *Node) birds(ctx context.Context, r Release, families []int, text func(families []int) string, files map[string]string) (b, b6 *BIRD, err error) {
	if !r.Split() {
		b, err = nd.bird(ctx, r, "bird", text(families), files)
		return b, nil, err
	}
	if b, err = nd.bird(ctx, r, "bird", text([]int{4}), files); err != nil || len(families) == 1 {
		return b, nil, err
	}
	b6, err = nd.bird(ctx, r, "bird6", text([]int{6}), files)
	return b, b6, err
}

// both does something for the two nodes at the same time.
func both(do func(i int) error) error {
	var errs [2]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// StartUnbound starts the node's unbound, again when it was stopped, and waits until it answers.
func (a *AnycastNode) StartUnbound(ctx context.Context) error {
	p, err := a.Unbound(ctx, UnboundConfig{Listen: a.listen})
	a.mu.Lock()
	defer a.mu.Unlock()
	if p != nil {
		a.unbound = p
	}
	return err
}

// Resolver is the node's unbound as last started, nil before.
func (a *AnycastNode) Resolver() *Proc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unbound
}
