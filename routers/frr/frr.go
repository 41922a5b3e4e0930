// Package frr drives FRR: it has a prefix announced by OSPF or BGP, or not, and reads FRR's own tables
// to tell how far the prefix has come. It was made on FRR 8.4.4 and 10.3.
//
// A method is the way to announce, and has a way to announce worse:
//
//   - address: the host prefix is put on an interface, by netlink or by FRR itself, and OSPF or BGP takes
//     it from there. Worse: by OSPF with a cost of its own.
//   - network: a BGP network statement. Worse: with a route-map.
//   - static: a static blackhole route, which OSPF or BGP redistributes. Worse: with a tag.
//
// Nothing is ever saved: FRR's configuration files stay the operator's.
package frr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/rtnl"
)

// The words of Options.
const (
	MethodAddress = "address"
	MethodNetwork = "network"
	MethodStatic  = "static"

	ProtocolOSPF = "ospf"
	ProtocolBGP  = "bgp"

	ViaAuto    = "auto"
	ViaSocket  = "socket"
	ViaCommand = "command"

	OwnerKernel = "kernel"
	OwnerFRR    = "frr"
)

// Options say how to drive FRR. A field left zero has the default; a word that is none of its
// constants counts as the default too, so whoever loads the configuration refuses it.
type Options struct {
	Method    string        // default address
	Protocol  string        // whose table must hold the prefix; default ospf; method network: always bgp
	Interface string        // method address; default lo
	Via       string        // default auto: the socket; where it is missing or denied, vtysh
	SocketDir string        // default /run/frr
	Vtysh     string        // the program; default vtysh, looked up in PATH
	MinPeers  int           // bgp: established peers that must be sent the prefix; default 1
	Timeout   time.Duration // of one question to a daemon; default 1s
	// Unpaced says that all OSPF neighbours take any number of changes at once, since they have
	// `timers lsa min-arrival 0`. Then nothing is kept back for their sake, see Router.Apply.
	Unpaced bool
	// Owner is who holds the address with method address: the kernel, where netlink puts it, or FRR, in
	// whose running configuration of the interface it is then; default OwnerKernel.
	Owner string
	// Degraded says what a degraded prefix gets; what is left zero is not set.
	Degraded Degraded
	// ConfigDir is where FRR's saved configuration is looked for by Examine; default /etc/frr, and below it
	// the name of the path space that SocketDir has below /run/frr.
	ConfigDir string

	source string // method static, for Source: whose routes are redistributed; default static
}

// Degraded is how a degraded prefix is announced, by method and protocol.
type Degraded struct {
	// Cost, with method address and ospf: 1 to 65535. An IPv4 address has a cost of its own (`ip ospf cost
	// N ADDRESS`), so that the interface's stays the operator's. OSPFv3 knows but one for the interface,
	// and so for all its IPv6 prefixes.
	Cost     int
	RouteMap string // network: the statement's route-map
	Tag      uint32 // static: the route's tag, for the operator's route-map of the redistribution
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	o.Method = cmp.Or(o.Method, MethodAddress)
	o.Protocol = cmp.Or(o.Protocol, ProtocolOSPF)
	if o.Method == MethodNetwork {
		o.Protocol = ProtocolBGP
	}
	o.Interface = cmp.Or(o.Interface, "lo")
	o.Owner = cmp.Or(o.Owner, OwnerKernel)
	o.SocketDir = cmp.Or(o.SocketDir, "/run/frr")
	o.Vtysh = cmp.Or(o.Vtysh, "vtysh")
	o.ConfigDir = cmp.Or(o.ConfigDir, configDir(o.SocketDir))
	o.MinPeers = max(o.MinPeers, 1)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	return o
}

// lacks says why there is no worse way to announce, with the way out; empty: there is one.
func (o Options) lacks() string {
	switch {
	case o.Method == MethodNetwork && o.Degraded.RouteMap == "":
		return "set route_map in [router.degraded]"
	case o.Method == MethodStatic && o.Degraded.Tag == 0:
		return "set tag in [router.degraded]"
	case o.Method == MethodAddress && o.Protocol == ProtocolBGP:
		return "an address has none by bgp: use method network, with route_map in [router.degraded]"
	case o.Method == MethodAddress && o.Degraded.Cost == 0:
		return "set cost in [router.degraded]"
	}
	return ""
}

// configurer is the daemon that takes what is zebra's or staticd's to configure: mgmtd where there is one
// (FRR 10.3), and before that these themselves. The first mgmtd, of 9.0, took only what is staticd's, see
// owner.taker.
func (o Options) configurer(daemon string) string {
	if _, err := os.Stat(vty.Path(o.SocketDir, mgmtd)); err == nil {
		return mgmtd
	}
	return daemon
}

// noSocket says that the daemon which would announce p has no socket, and is empty when there is one. A
// daemon that has died leaves its socket behind, so that this one was never started.
func (o Options) noSocket(p netip.Prefix) string {
	daemon := ospfDaemon(p)
	if o.Protocol == ProtocolBGP {
		daemon = "bgpd"
	}
	if _, err := os.Stat(vty.Path(o.SocketDir, daemon)); !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return daemon + " has no socket (not enabled in /etc/frr/daemons?)"
}

// A method is one way to announce. Its observe gives one Observation for each prefix, in order.
type method interface {
	observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error)
	apply(ctx context.Context, cs []routers.Change) error
}

// A view reads what a protocol's tables hold of the prefixes: one sight for each.
type view func(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix]sight, error)

// A sight is what a protocol's table says of one prefix as announced by this node itself. What
// neighbours announce is never counted.
type sight struct {
	stage  routers.Stage // Unknown: the table could not be read
	peers  []routers.Peer
	detail string
	stale  string // announced from what zebra has: the way out when that is gone
	routed bool   // announced from a route
	cost   int    // announced by ospf
}

// wayOut is what helps when it is not the address or route of ours that is announced, by the protocol of the route
// that zebra selected, if any: what is made of a route may be made of that one.
func (s sight) wayOut(winner string) string {
	if s.routed && winner != "" {
		return ""
	}
	return s.stale
}

// Router is the driver. It holds its options, and which changes a broken-off Apply kept back since when:
// every question is a session of its own, so that a daemon may restart between any two.
type Router struct {
	options  Options
	talk     talker
	method   method
	networkd func() networkd
}

var (
	_ routers.Watcher  = (*Router)(nil)
	_ routers.Examiner = (*Router)(nil)
)

// New makes a driver; it connects to nothing yet.
func New(o Options) *Router {
	o = o.withDefaults()
	return newRouter(o, newTalker(o))
}

func newRouter(o Options, talk talker) *Router {
	var table view = ospf{talk, &heard{}}.view
	if o.Protocol == ProtocolBGP {
		table = bgp{talk, o.MinPeers, bgpPath.own}.view
	}
	r := &Router{options: o, talk: talk, networkd: func() networkd { return readNetworkd("/") }}
	var pace *pacer
	if o.Protocol != ProtocolBGP && !o.Unpaced {
		pace = &pacer{talk: talk}
	}
	switch o.Method {
	case MethodNetwork:
		r.method = network{talk, bgp{talk, o.MinPeers, bgpPath.stated}.view, rtnl.Addresses, o.Degraded.RouteMap}
	case MethodStatic:
		r.method = static{talk, table, func() string { return o.configurer("staticd") }, o.Degraded.Tag, pace}
	default:
		a := address{iface: o.Interface, talk: talk, table: table, absent: o.noSocket, kernel: rtnl.ObserveAddresses, change: rtnl.ChangeAddresses, here: rtnl.Addresses, pace: pace}
		if o.Protocol != ProtocolBGP && o.Degraded.Cost > 0 {
			a.worse = &worse{talk, o.Interface, o.Degraded.Cost}
		}
		if o.Owner == OwnerFRR {
			a = a.ownedBy(owner{talk, func() bool { return o.configurer("zebra") != "zebra" }, rtnl.ObserveAddresses, interfaceExists})
		}
		r.method = a
	}
	return r
}

// Observe reads the kernel, where the method needs it, and the tables of FRR's daemons. Link-state
// databases are read whole, as they hold only what this node originates; of the tables of zebra and
// bgpd, which may be the whole Internet's, only the prefixes are asked for, all in one session.
// Its errors are of class routers.ErrUnavailable; with method address zebra's too, also when what the
// stages are was read. It returns soon after ctx ends.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	os, err := r.method.observe(ctx, ps)
	if err != nil {
		err = fmt.Errorf("frr: %w", err)
	}
	return os, err
}

// Apply asks for the changes, withdraws first. With OSPF it can take 1.1 s, or 1.2 s at worst: a
// neighbour drops an LSA that comes within a second of the one before, so of several addresses one is
// kept back to carry the others along, and a lone change waits until the LSA is a second old. What was
// kept back when an Apply was broken off is not kept back anew by the next one. An answer
// other than success counts only when the tables, read again, are not as wanted. The error is of one of
// the classes of package routers.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	for _, c := range cs {
		if err := r.options.valid(c); err != nil {
			return fmt.Errorf("frr: %w", err)
		}
	}
	err := r.method.apply(ctx, cs)
	if refusal := (*vty.Refusal)(nil); errors.As(err, &refusal) && r.asWanted(ctx, cs) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("frr: %w", err)
	}
	return err
}

// valid refuses what would make another command, or another prefix in the table, than was meant.
func (o Options) valid(c routers.Change) error {
	switch p := c.Prefix; {
	case c.Want == routers.Degraded && o.lacks() != "":
		return routers.Errorf(routers.ErrRefused, "%s: there is no worse way to announce it: %s", p, o.lacks())
	case c.Want != routers.Announced && c.Want != routers.Degraded && c.Want != routers.Withdrawn:
		return fmt.Errorf("%s: %w: no change is called %s", p, routers.ErrRefused, c.Want)
	case !p.IsValid(), p != p.Masked(), p.Addr().Is4In6():
		return fmt.Errorf("%s: %w: not a prefix in its usual form, such as 192.0.2.53/32", p, routers.ErrRefused)
	}
	return nil
}

// asWanted reads whether the changes have been made, whatever the daemon answered.
func (r *Router) asWanted(ctx context.Context, cs []routers.Change) bool {
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	os, err := r.method.observe(ctx, ps)
	if err != nil {
		return false
	}
	for i, c := range cs {
		if !met(c.Want, os[i]) {
			return false
		}
	}
	return true
}

// met tells whether a prefix is there, or not, as wanted, however far it has come.
func met(w routers.Want, o routers.Observation) bool {
	if w == routers.Withdrawn {
		return o.Stage == routers.Absent
	}
	return o.Stage >= routers.Configured && !o.Broken && o.Degraded == (w == routers.Degraded)
}

// Watch wakes for changes in the kernel's tables; see rtnl.Watch. FRR itself gives no hints, so what
// changes only within its daemons is seen by polling.
func (r *Router) Watch(ctx context.Context, wake func()) error { return rtnl.Watch(ctx, wake) }

// Goal is Advertised: every method reads a protocol's table.
func (r *Router) Goal() routers.Stage { return routers.Advertised }

// Close does nothing: no session outlives a call.
func (r *Router) Close() error { return nil }

// String names the driver, such as "frr (address on lo, ospf)".
func (r *Router) String() string {
	o := r.options
	if _, ok := r.method.(address); ok {
		by := ""
		if o.Owner == OwnerFRR {
			by = " by frr"
		}
		return fmt.Sprintf("frr (address on %s%s, %s)", o.Interface, by, o.Protocol)
	}
	return fmt.Sprintf("frr (%s, %s)", o.Method, o.Protocol)
}
