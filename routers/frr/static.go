package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// static is the method of static blackhole routes, which OSPF or BGP redistributes.
type static struct {
	talk   talker
	table  view
	daemon func() string // who keeps static routes: mgmtd where there is one (FRR 10.3), staticd before
	tag    uint32        // of a degraded prefix; 0: there is no worse way
	pace   *pacer        // nil for bgp
}

// A routing is what is known of one prefix beside the protocol's table.
type routing struct {
	ours     bool   // our blackhole is in zebra's table
	selected bool   // and zebra selected it
	tag      uint32 // and has this tag
	stated   bool   // it is in the configuration
	foreign  bool   // there is a static route that is not ours
	kin      bool   // which is one that our removal would take away
	winner   string // the protocol of the route that zebra selected
}

// An operator's own static route for the prefix is one with another next hop, distance or tag.
const staticDistance = 1

// known tells whether a tag is of ours.
func (s static) known(tag uint32) bool { return tag == 0 || tag == s.tag }

func (s static) readTable(r *routing, rs []route) {
	r.winner = selected(rs)
	for _, rt := range rs {
		if rt.Protocol != "static" {
			continue
		}
		if rt.Distance != staticDistance || !s.known(rt.Tag) {
			r.foreign = true
			continue
		}
		for _, n := range rt.Nexthops {
			if n.Blackhole {
				r.ours, r.tag = true, rt.Tag
			}
			r.selected = r.selected || n.Blackhole && rt.Selected
			r.foreign = r.foreign || !n.Blackhole
		}
	}
}

// parse reads the static routes of the default VRF from a running configuration: those that are ours, and
// those of others.
func (s static) parse(text string) map[netip.Prefix]routing {
	found := map[netip.Prefix]routing{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || line[0] == ' ' || words[0] != "ip" && words[0] != "ipv6" || words[1] != "route" {
			continue
		}
		p, err := netip.ParsePrefix(words[2])
		if err != nil {
			continue
		}
		r := found[p.Masked()]
		if s.own(words[3:]) {
			r.stated = true
		} else {
			r.foreign = true
			r.kin = r.kin || slices.Contains([]string{"blackhole", "Null0", "reject"}, words[3])
		}
		found[p.Masked()] = r
	}
	return found
}

// own tells whether what follows a route's prefix is as we write it.
func (s static) own(words []string) bool {
	switch {
	case words[0] != "blackhole" && words[0] != "Null0":
		return false
	case len(words) == 3 && words[1] == "tag":
		return words[2] == fmt.Sprint(s.tag)
	}
	return len(words) == 1
}

// config reads what is configured.
func (s static) config(ctx context.Context) (map[netip.Prefix]routing, error) {
	text, err := running(ctx, s.talk, s.daemon())
	if err != nil {
		return nil, err
	}
	return s.parse(text), nil
}

// read gathers what zebra and the configuration know.
func (s static) read(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix]routing, error) {
	rs, err := routes(ctx, s.talk, ps)
	if err != nil {
		return nil, err
	}
	stated, err := s.config(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[netip.Prefix]routing, len(ps))
	for _, p := range ps {
		r := stated[p]
		s.readTable(&r, rs[p])
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
		os[i].Degraded = s.tag != 0 && r.ours && r.tag == s.tag
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
		if o.Broken {
			o.Detail = join(o.Detail, s.wayOut(r.winner))
		}
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

// apply asks for the withdraws at once: one that is not there is no error. It announces only where there
// is no static route of somebody else's, with which ours would become one route.
func (s static) apply(ctx context.Context, cs []routers.Change) error {
	var gone, there []routers.Change
	for _, c := range cs {
		if c.Want == routers.Withdrawn {
			gone = append(gone, c)
		} else {
			there = append(there, c)
		}
	}
	err := s.withdraw(ctx, gone)
	if len(there) == 0 || ctx.Err() != nil {
		return err
	}
	return routers.Join(err, s.announce(ctx, there))
}

// withdraw removes what is not somebody else's blackhole, which `no ip route P blackhole` takes away too,
// whatever its distance and tag (8.4.4, 10.3). When the configuration cannot be read it is asked for all
// the same. It leaves to the end what OSPF could not carry yet.
func (s static) withdraw(ctx context.Context, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	stated, unread := s.config(ctx)
	var able []routers.Change
	var refused error
	for _, c := range cs {
		if r := stated[c.Prefix]; r.kin && !r.stated {
			refused = routers.Join(refused, routers.Errorf(routers.ErrRefused, "%s: there is a static route for it that is not ours, and is not removed: remove it, or use another method", c.Prefix))
			continue
		}
		able = append(able, c)
	}
	err := routers.Join(refused, unread, s.paced(ctx, able, able))
	if unread != nil || ctx.Err() != nil {
		return err
	}
	return routers.Join(err, s.clear(ctx, able, stated))
}

// paced makes the changes. Those of changing replace an LSA; while that is too young for OSPF to carry
// another one, they are left to the end.
func (s static) paced(ctx context.Context, cs, changing []routers.Change) error {
	do := func(cs []routers.Change) error { return s.tell(ctx, cs) }
	if s.pace == nil || len(cs) == 0 {
		return do(cs)
	}
	later := s.pace.young(ctx, changing)
	now := slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return slices.Contains(later, c) })
	err := do(now)
	s.pace.hold(nil, later)
	return routers.Join(err, s.pace.release(ctx, do))
}

// tell gives the daemon a command for each change. A route entered with another tag, or none, takes the
// place of the one before (8.4.4, 10.3).
func (s static) tell(ctx context.Context, cs []routers.Change) error {
	q := session{daemon: s.daemon(), enter: []string{"configure terminal"}, bulk: true}
	for _, c := range cs {
		command := fmt.Sprintf("%s route %s blackhole", family(c.Prefix), c.Prefix)
		switch c.Want {
		case routers.Withdrawn:
			command = "no " + command
		case routers.Degraded:
			command += fmt.Sprintf(" tag %d", s.tag)
		}
		q.commands = append(q.commands, command)
	}
	return tell(ctx, s.talk, q)
}

func (s static) announce(ctx context.Context, cs []routers.Change) error {
	found, err := s.read(ctx, prefixes(cs))
	if err != nil {
		return err
	}
	var refused error
	var able, retagged []routers.Change
	for _, c := range cs {
		r := found[c.Prefix]
		if r.foreign {
			refused = routers.Join(refused, fmt.Errorf("%s: %w: there is a static route for it already that is not our blackhole: remove it, or use another method", c.Prefix, routers.ErrRefused))
			continue
		}
		able = append(able, c)
		if r.ours && (r.tag != 0) != (c.Want == routers.Degraded) {
			retagged = append(retagged, c)
		}
	}
	return routers.Join(s.paced(ctx, able, retagged), refused)
}
