package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// The addresses of the anycast network, which are the same in each as the namespaces keep them apart.
var (
	Service  = netip.MustParsePrefix("10.53.53.53/32")
	Service6 = netip.MustParsePrefix("2001:db8:53::53/128")
)

// AnycastOptions vary the network that Anycast makes. The zero value is FRR with OSPFv2 and one
// prefix.
type AnycastOptions struct {
	IPv6             bool     // OSPFv3 beside OSPFv2, and Service6 among the prefixes
	Prefixes         int      // how many IPv4 prefixes: Service and those after it; 0 means 1
	NoNexthopObjects bool     // nodes: `no zebra nexthop kernel enable`, so that `ip nexthop flush` harms nothing
	NodeConfig       string   // further lines of the nodes' frr.conf
	NodeOSPF         string   // further lines of their `router ospf`
	NoMinArrival     bool     // the core takes changes however fast one follows the other, see Quiet
	CoreOSPF         string   // further lines of the core's `router ospf`
	Daemons          []string // further daemons of the nodes
	NoUnbound        bool     // no unbound on the nodes
	Keep             bool     // the network outlives the process, see Net.Keep
}

// An AnycastLab is the network client — core — apu01, apu02. The nodes announce every address of
// 10.53.53.0/24 (and 2001:db8:53::/64) that is on their lo; putting it there is left to the user.
type AnycastLab struct {
	*Net
	Client, Core *Node
	Nodes        [2]*AnycastNode // apu01, apu02
	CoreFRR      *FRR
	Prefixes     []netip.Prefix
	families     []family
}

// An AnycastNode is one of the two that can announce.
type AnycastNode struct {
	*Node
	Via    netip.Addr // the core's IPv4 next hop to it
	Via6   netip.Addr // the core's IPv6 next hop to it: a link-local address
	FRR    *FRR
	listen []netip.Addr

	mu      sync.Mutex
	unbound *Proc
}

// Anycast makes the network and returns when the core has both nodes as OSPF neighbours, both nodes
// have the core's default route in their kernel, and a change of a node would be taken at once.
func Anycast(ctx context.Context, o AnycastOptions) (*AnycastLab, error) {
	n, err := New(ctx)
	if err != nil {
		return nil, err
	}
	l := &AnycastLab{Net: n, Prefixes: prefixes(o), families: families(o)}
	if err := l.build(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, n.logs()), n.Close())
	}
	return l, nil
}

// OpenAnycast is Anycast for a test, with Close as its cleanup. It takes at most a minute.
func OpenAnycast(tb TB, o AnycastOptions) *AnycastLab {
	tb.Helper()
	Require(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
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
	if err := l.route(ctx, o); err != nil {
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
	a := &AnycastNode{Node: nd, Via: addr("10.0.%d.2", i), Via6: addr("fe80::%d:2", i)}
	a.listen = []netip.Addr{a.Via, addr("2001:db8:%d::2", i)}
	for _, p := range l.Prefixes {
		a.listen = append(a.listen, p.Addr())
	}
	core := []string{fmt.Sprintf("10.0.%d.1/30", i), fmt.Sprintf("2001:db8:%d::1/64", i), fmt.Sprintf("fe80::%d:1/64", i)}
	own := []string{a.Via.String() + "/30", a.listen[1].String() + "/64", a.Via6.String() + "/64"}
	return a, l.Link(l.Core, fmt.Sprintf("eth%d", i), core, nd, "eth0", own)
}

func addr(format string, i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, i)) }

// route starts FRR everywhere.
func (l *AnycastLab) route(ctx context.Context, o AnycastOptions) (err error) {
	daemons := []string{"ospfd"}
	if o.IPv6 {
		daemons = append(daemons, "ospf6d")
	}
	if l.CoreFRR, err = l.Core.FRR(ctx, coreConfig(o), daemons...); err != nil {
		return err
	}
	return both(func(i int) (err error) {
		l.Nodes[i].FRR, err = l.Nodes[i].Node.FRR(ctx, nodeConfig(o, i+1), append(daemons, o.Daemons...)...)
		return err
	})
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
