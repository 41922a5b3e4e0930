package vyos

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/frr"
)

// An op is one set or delete of a session.
type op struct {
	prefix netip.Prefix
	remove bool
	path   []string
}

// whole tells whether it deletes all that there is of its prefix.
func (o op) whole() bool { return o.remove && len(o.path) == 4 }

// fresh tells whether it announces what is not announced.
func (o op) fresh() bool { return !o.remove && len(o.path) == 5 }

// partial tells whether it deletes a blackhole beside which others have children.
func (o op) partial() bool { return o.remove && len(o.path) == 5 }

// line is the command, such as "set protocols static route 192.0.2.53/32 blackhole".
func (o op) line() string {
	verb := "set "
	if o.remove {
		verb = "delete "
	}
	return verb + strings.Join(o.path, " ")
}

// A plan is what changes come to.
type plan struct {
	ops     []op             // to be committed, withdraws first
	add     []frr.Static     // VyOS's configuration has them, and FRR lost them: put there again, as no commit would
	drop    []netip.Prefix   // FRR has them, and VyOS's configuration does not
	changes []routers.Change // those that anything is done about
	refused []error
}

// repaired gives the prefixes of which FRR alone is changed.
func (p plan) repaired() []netip.Prefix {
	ps := slices.Clone(p.drop)
	for _, s := range p.add {
		ps = append(ps, s.Prefix)
	}
	return ps
}

// settled gives the prefixes that are committed, or refused.
func (p plan) settled() map[netip.Prefix]bool {
	all := map[netip.Prefix]bool{}
	for _, o := range p.ops {
		all[o.prefix] = true
	}
	for _, err := range p.refused {
		if about := (*routers.PrefixError)(nil); errors.As(err, &about) {
			all[about.Prefix] = true
		}
	}
	return all
}

// rules are what a plan depends on beside what was read.
type rules struct {
	leaves
	unsettled string // why nothing is to be announced for now; empty: nothing keeps from it
}

// makePlan decides. An origin says what zebra has; one that could not be read gives no repairs.
func makePlan(cs []routers.Change, a active, origins map[netip.Prefix]frr.Origin, r rules) plan {
	var p plan
	for _, c := range withdrawsFirst(cs) {
		n, o := a.nodes[c.Prefix], origins[c.Prefix]
		before := p.size()
		var err error
		if c.Want == routers.Withdrawn {
			err = p.withdraw(c, n, o)
		} else {
			err = p.announce(c, n, o, r)
		}
		if err != nil {
			p.refused = append(p.refused, &routers.PrefixError{Prefix: c.Prefix, Err: err})
		}
		if p.size() > before {
			p.changes = append(p.changes, c)
		}
	}
	return p
}

// size counts what is to be done.
func (p *plan) size() int { return len(p.ops) + len(p.add) + len(p.drop) }

// withdraw deletes the whole node where it is ours, by the name that it has: with its blackhole alone deleted VyOS 1.3
// refuses it, and 1.4 keeps an empty one. Where others have children there, it deletes the blackhole alone.
func (p *plan) withdraw(c routers.Change, n node, o frr.Origin) error {
	before := len(p.ops)
	for _, one := range n.each(c.Prefix) {
		path := nodePath(c.Prefix, one.name)
		switch {
		case one.ours():
			p.ops = append(p.ops, op{c.Prefix, true, path})
		case one.blackhole && !one.strange:
			p.ops = append(p.ops, op{c.Prefix, true, append(path, "blackhole")})
		}
	}
	switch {
	case n.strange:
		return routers.Errorf(routers.ErrRefused, "%s: taken out of FRR, and left in VyOS's configuration, whose next commit may bring it back: `%s` has what is not vouch's (%s): "+
			"delete that, or the route; or set distance in [router], or tag in [router.degraded], to it, if the route is vouch's", c.Prefix, strings.Join(nodePath(c.Prefix, c.Prefix.String()), " "), strings.Join(n.others, ", "))
	case len(p.ops) == before && o.Unread == nil && o.There:
		p.drop = append(p.drop, c.Prefix)
	}
	return nil
}

// nodePath is the node of a prefix by one of its names.
func nodePath(p netip.Prefix, name string) []string {
	return []string{"protocols", "static", routeNode(p), name}
}

func (p *plan) announce(c routers.Change, n node, o frr.Origin, r rules) error {
	if n.there && !n.ours() {
		if n.strange && o.Unread == nil && !slices.Contains(o.Tags, n.tag) { // it was taken out when it was withdrawn
			p.add = append(p.add, frr.Static{Prefix: c.Prefix, Tag: n.tag, Distance: n.distance})
		}
		return routers.Errorf(routers.ErrRefused, "%s: not announced, as `protocols static %s %[1]s` has children that are not ours (%[3]s): remove them, or use method kernel",
			c.Prefix, routeNode(c.Prefix), strings.Join(n.others, ", "))
	}
	ops := retag(c, n, r)
	switch {
	case n.blackhole && len(ops) == 0:
		if o.Unread == nil && !slices.Contains(o.Tags, n.tag) {
			p.add = append(p.add, frr.Static{Prefix: c.Prefix, Tag: n.tag, Distance: n.distance})
		}
		return nil
	case o.Unread != nil:
		return routers.Errorf(routers.ErrUnavailable, "%s: not announced, as FRR does not answer: %w", c.Prefix, o.Unread)
	case r.unsettled != "" && !n.blackhole:
		return routers.Errorf(routers.ErrBusy, "%s: not announced for now: %s", c.Prefix, r.unsettled)
	}
	if !n.blackhole {
		path := append(nodePath(c.Prefix, c.Prefix.String()), "blackhole")
		ops = []op{{c.Prefix, false, path}}
		if r.distance != 0 {
			ops = append(ops, op{c.Prefix, false, below(path, "distance", fmt.Sprint(r.distance))})
		}
		if c.Want == routers.Degraded {
			ops = append(ops, op{c.Prefix, false, below(path, "tag", fmt.Sprint(r.tag))})
		}
	}
	p.ops = append(p.ops, ops...)
	return nil
}

// retag gives each blackhole that is there the tag that is wanted of it.
func retag(c routers.Change, n node, r rules) (ops []op) {
	for _, one := range n.each(c.Prefix) {
		path := append(nodePath(c.Prefix, one.name), "blackhole")
		switch worse := r.tag != 0 && one.tag == r.tag; {
		case !one.blackhole || worse == (c.Want == routers.Degraded):
		case worse:
			ops = append(ops, op{c.Prefix, true, below(path, "tag")})
		default:
			ops = append(ops, op{c.Prefix, false, below(path, "tag", fmt.Sprint(r.tag))})
		}
	}
	return ops
}

// below is a longer path, which shares nothing with the one that it was made of.
func below(path []string, more ...string) []string { return slices.Concat(path, more) }
