package frr

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/frr/vty"
)

// A Source is the eyes and, for static routes, a hand of a driver whose blackhole routes are made by something
// else (the kernel, or a configuration system on top of FRR) and are announced because OSPF or BGP redistributes
// them. Of the Options count Protocol, Via, SocketDir, Vtysh, MinPeers, Timeout and Degraded.Tag.
type Source struct {
	router *Router
	table  view
	static static
}

// The protocols, in zebra's words, whose routes a Source can be of.
const (
	SourceStatic = "static"
	SourceKernel = "kernel"
)

// NewSource makes a Source of the routes that zebra has of a protocol; it connects to nothing yet.
func NewSource(o Options, protocol string) *Source {
	o.Method, o.source = MethodStatic, protocol
	r := New(o)
	s := r.method.(static)
	return &Source{router: r, table: s.table, static: s}
}

func (o Options) redistributed() string { return cmp.Or(o.source, SourceStatic) }

// An Origin is what FRR knows of one prefix: how far it has come in the table of the protocol that announces
// it, and zebra's route that it is made of.
type Origin struct {
	Prefix netip.Prefix
	Stage  routers.Stage  // in OSPF's or BGP's table, as announced by this node itself; Unknown: not read
	Peers  []routers.Peer // the neighbours, as in an Observation
	Detail string         // why Stage is no further, or unknown

	Unread   error    // zebra could not be read, and what follows says nothing
	There    bool     // zebra has a blackhole route of the Source's protocol
	Selected bool     // and selected it
	Tags     []uint32 // of each of them
	Metrics  []uint32 // of each of them
	Others   bool     // there is a route of that protocol which is no blackhole
	Winner   string   // the protocol of the route that zebra selected, or empty

	wayOut string // of its sight
}

// Read asks zebra, and OSPF's or BGP's daemon, side by side. It gives one Origin for each prefix, in order, also
// beside an error, which is of class routers.ErrUnavailable.
func (s *Source) Read(ctx context.Context, ps []netip.Prefix) ([]Origin, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	var sights map[netip.Prefix]sight
	var table map[netip.Prefix][]route
	var err, zerr error
	abreast(
		func() { sights, err = s.table(ctx, ps) },
		func() { table, zerr = routes(ctx, s.router.talk, ps) },
	)
	os := make([]Origin, len(ps))
	for i, p := range ps {
		seen := sights[p]
		os[i] = Origin{Prefix: p, Stage: seen.stage, Peers: seen.peers, Detail: seen.detail, Unread: zerr}
		os[i].take(table[p], s.router.options.redistributed())
		os[i].wayOut = seen.wayOut(os[i].Winner)
	}
	return os, routers.Join(err, zerr)
}

// Zebra asks zebra alone: the Stage of each Origin is Unknown.
func (s *Source) Zebra(ctx context.Context, ps []netip.Prefix) ([]Origin, error) {
	table, err := routes(ctx, s.router.talk, ps)
	os := make([]Origin, len(ps))
	for i, p := range ps {
		os[i] = Origin{Prefix: p, Unread: err}
		os[i].take(table[p], s.router.options.redistributed())
	}
	return os, err
}

// take reads zebra's routes for the prefix.
func (o *Origin) take(rs []route, protocol string) {
	o.Winner = selected(rs)
	for _, r := range rs {
		if r.Protocol != protocol {
			continue
		}
		hole := func(n nexthop) bool { return n.Blackhole }
		if !slices.ContainsFunc(r.Nexthops, hole) {
			o.Others = true
			continue
		}
		o.There, o.Selected = true, o.Selected || r.Selected
		o.Tags, o.Metrics = append(o.Tags, r.Tag), append(o.Metrics, r.Metric)
		o.Others = o.Others || slices.ContainsFunc(r.Nexthops, func(n nexthop) bool { return !n.Blackhole })
	}
}

// Why says why zebra's route is not selected.
func (o Origin) Why() string {
	switch {
	case o.Unread != nil:
		return "zebra cannot be read: " + o.Unread.Error()
	case !o.There:
		return "zebra does not have the route"
	case o.Selected:
		return ""
	case o.Winner != "":
		return fmt.Sprintf("the route is not selected: the %s route for it wins", o.Winner)
	}
	return "the route is not selected"
}

// Orphan tells the way out when a prefix is announced although zebra has no route for it; it is empty for any
// other.
func (o Origin) Orphan() string {
	if o.Stage < routers.Selected || o.Unread != nil || o.There {
		return ""
	}
	return o.wayOut
}

// A Static is a static blackhole route.
type Static struct {
	Prefix   netip.Prefix
	Tag      uint32 // 0: none
	Distance int    // 0: the default
}

func (s Static) command() string {
	c := fmt.Sprintf("%s route %s blackhole", family(s.Prefix), s.Prefix)
	if s.Tag != 0 {
		c += fmt.Sprintf(" tag %d", s.Tag)
	}
	if s.Distance != 0 {
		c += fmt.Sprintf(" %d", s.Distance)
	}
	return c
}

// Staticd asks the daemon that keeps static routes for nothing, and gives the error of its socket when it does not answer.
func (s *Source) Staticd(ctx context.Context) error {
	conn, err := vty.Dial(ctx, s.router.options.SocketDir, "staticd")
	if err != nil {
		return err
	}
	c := vty.New(conn, s.router.options.Timeout)
	defer c.Close()
	_, err = c.Do(ctx, "enable")
	return err
}

// AddStatic enters static blackhole routes in FRR's running configuration.
func (s *Source) AddStatic(ctx context.Context, all []Static) error {
	commands := make([]string, len(all))
	for i, one := range all {
		commands[i] = one.command()
	}
	return s.tell(ctx, commands)
}

// RemoveStatic takes the static blackhole routes of the prefixes out of FRR's running configuration, whatever
// their tag and distance (8.4.4, 10.3). What is not there is no error.
func (s *Source) RemoveStatic(ctx context.Context, ps []netip.Prefix) error {
	commands := make([]string, len(ps))
	for i, p := range ps {
		commands[i] = "no " + Static{Prefix: p}.command()
	}
	return s.tell(ctx, commands)
}

// PurgeStatic is RemoveStatic for routes that zebra has and staticd may know nothing of: what a zebra that was
// killed left in the kernel, and the next one did not sweep away, as it does not when it takes longer than the second
// in which it started (8.4.4). Staticd has to be told of such a route before it can take it away.
func (s *Source) PurgeStatic(ctx context.Context, ps []netip.Prefix) error {
	commands := make([]string, 0, 2*len(ps))
	for _, p := range ps {
		one := Static{Prefix: p}.command()
		commands = append(commands, one, "no "+one)
	}
	return s.tell(ctx, commands)
}

// tell gives commands to the daemon that keeps static routes.
func (s *Source) tell(ctx context.Context, commands []string) error {
	return tell(ctx, s.static.talk, session{daemon: s.static.daemon(), enter: []string{"configure terminal"}, commands: commands, bulk: true})
}

// Examine is that of a Router: what in FRR would keep the routes from being announced. What FRR has saved is
// not looked at, as it is not FRR's own to keep here.
func (s *Source) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	return s.router.survey(ctx, ps).running(s.router.options, ps)
}
