package frr

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/frr/vty"
)

// static is the method of static blackhole routes, which OSPF or BGP redistributes.
type static struct {
	talk  talker
	table view
	dir   string // of the sockets
	pace  *pacer // nil for bgp
}

// daemon is who keeps static routes: mgmtd where there is one (FRR 10.3), staticd before.
func (s static) daemon() string {
	if _, err := os.Stat(vty.Path(s.dir, "mgmtd")); err == nil {
		return "mgmtd"
	}
	return "staticd"
}

// A routing is what is known of one prefix beside the protocol's table.
type routing struct {
	ours     bool   // our blackhole is in zebra's table
	selected bool   // and zebra selected it
	stated   bool   // it is in the configuration
	foreign  bool   // there is a static route that is not ours
	winner   string // the protocol of the route that zebra selected
}

// An operator's own static route for the prefix is one with another next hop, or distance.
const staticDistance = 1

func (r *routing) readTable(rs []route) {
	r.winner = selected(rs)
	for _, rt := range rs {
		if rt.Protocol != "static" {
			continue
		}
		if rt.Distance != staticDistance {
			r.foreign = true
			continue
		}
		for _, n := range rt.Nexthops {
			r.ours = r.ours || n.Blackhole
			r.selected = r.selected || n.Blackhole && rt.Selected
			r.foreign = r.foreign || !n.Blackhole
		}
	}
}

// parseStatics reads the static routes of the default VRF from a running configuration: those that
// are exactly ours, and those of others.
func parseStatics(text string) (ours, foreign map[netip.Prefix]bool) {
	ours, foreign = map[netip.Prefix]bool{}, map[netip.Prefix]bool{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || line[0] == ' ' || words[0] != "ip" && words[0] != "ipv6" || words[1] != "route" {
			continue
		}
		p, err := netip.ParsePrefix(words[2])
		if err != nil {
			continue
		}
		rest := strings.Join(words[3:], " ")
		if rest == "blackhole" || rest == "Null0" {
			ours[p.Masked()] = true
		} else {
			foreign[p.Masked()] = true
		}
	}
	return ours, foreign
}

// read gathers what zebra and the configuration know. mgmtd (10.3) is not asked for a configuration:
// there the table alone counts.
func (s static) read(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix]routing, error) {
	rs, err := routes(ctx, s.talk, ps)
	if err != nil {
		return nil, err
	}
	var ours, foreign map[netip.Prefix]bool
	if d := s.daemon(); d == "staticd" {
		text, err := running(ctx, s.talk, d)
		if err != nil {
			return nil, err
		}
		ours, foreign = parseStatics(text)
	}
	found := make(map[netip.Prefix]routing, len(ps))
	for _, p := range ps {
		r := routing{stated: ours[p], foreign: foreign[p]}
		r.readTable(rs[p])
		found[p] = r
	}
	return found, nil
}

func (s static) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	var sights map[netip.Prefix]sight
	var found map[netip.Prefix]routing
	var err, rerr error
	abreast(
		func() { sights, err = s.table(ctx, ps) },
		func() { found, rerr = s.read(ctx, ps) },
	)
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		r, known := found[p]
		os[i] = judgeStatic(p, sights[p], r, known, rerr)
	}
	return os, routers.Join(err, rerr)
}

// judgeStatic joins what the protocol's table and zebra say. The protocol's table has the last word:
// what it announces is announced, whatever became of the route.
func judgeStatic(p netip.Prefix, s sight, r routing, known bool, unread error) routers.Observation {
	o := routers.Observation{Prefix: p, Stage: s.stage, Peers: s.peers, Detail: s.detail}
	if !known {
		if s.stage < routers.Selected {
			o.Stage = routers.Unknown
		}
		o.Detail = join(o.Detail, "the static route cannot be read: "+unread.Error())
		return o
	}
	switch {
	case s.stage == routers.Unknown:
		o.Detail = join(s.detail, r.place())
	case s.stage >= routers.Selected && !r.ours:
		o.Broken = !r.stated && !r.foreign
		o.Detail = join(o.Detail, "although our static route is not in zebra's table")
	case s.stage == routers.Advertised:
	case r.selected:
		o.Stage = routers.Selected
		if s.stage == routers.Absent {
			o.Detail = join("the static route is selected, but not redistributed", s.detail)
		}
	case r.ours, r.stated:
		o.Stage = max(o.Stage, routers.Configured)
		o.Detail = join(r.why(), s.detail)
	}
	if r.foreign {
		o.Detail = join(o.Detail, "there is another static route for it, which is not ours and stays")
	}
	return o
}

// place tells what zebra and the configuration say.
func (r routing) place() string {
	switch {
	case r.selected:
		return "the static route is selected"
	case r.ours, r.stated:
		return r.why()
	}
	return "there is no static route of ours"
}

// why says why our static route is not selected.
func (r routing) why() string {
	switch {
	case !r.ours:
		return "the static route is configured, but zebra does not have it"
	case r.winner != "":
		return fmt.Sprintf("the static route is not selected: the %s route for it wins", r.winner)
	}
	return "the static route is not selected"
}

// apply asks for the withdraws at once: to remove exactly our route harms nobody else's, and one that
// is not there is no error. It announces only where there is no static route of somebody else's, with
// which ours would become one route.
func (s static) apply(ctx context.Context, cs []routers.Change) error {
	var withdraw []routers.Change
	var announce []netip.Prefix
	for _, c := range cs {
		if c.Want == routers.Withdrawn {
			withdraw = append(withdraw, c)
		} else {
			announce = append(announce, c.Prefix)
		}
	}
	err := s.withdraw(ctx, withdraw)
	if len(announce) == 0 || ctx.Err() != nil {
		return err
	}
	return routers.Join(err, s.announce(ctx, announce))
}

// withdraw leaves to the end what OSPF could not carry yet.
func (s static) withdraw(ctx context.Context, cs []routers.Change) error {
	if s.pace == nil || len(cs) == 0 {
		return s.remove(ctx, cs)
	}
	later := s.pace.young(ctx, cs)
	now := slices.DeleteFunc(cs, func(c routers.Change) bool { return slices.Contains(later, c) })
	err := s.remove(ctx, now)
	s.pace.hold(nil, later)
	return routers.Join(err, s.pace.release(ctx, func(cs []routers.Change) error { return s.remove(ctx, cs) }))
}

func (s static) remove(ctx context.Context, cs []routers.Change) error {
	q := s.session()
	for _, c := range cs {
		q.commands = append(q.commands, fmt.Sprintf("no %s route %s blackhole", family(c.Prefix), c.Prefix))
	}
	return tell(ctx, s.talk, q)
}

func (s static) session() session {
	return session{daemon: s.daemon(), enter: []string{"configure terminal"}}
}

func (s static) announce(ctx context.Context, ps []netip.Prefix) error {
	found, err := s.read(ctx, ps)
	if err != nil {
		return err
	}
	var refused error
	q := s.session()
	for _, p := range ps {
		if found[p].foreign {
			refused = routers.Join(refused, fmt.Errorf("%s: %w: there is a static route for it already that is not our blackhole: remove it, or use another method", p, routers.ErrRefused))
			continue
		}
		q.commands = append(q.commands, fmt.Sprintf("%s route %s blackhole", family(p), p))
	}
	return routers.Join(tell(ctx, s.talk, q), refused)
}
