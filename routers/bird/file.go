package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// byInclude is the method of a file that BIRD's configuration includes.
type byInclude struct {
	options Options
	daemons daemons
	names   *names
	memo    *memo
}

func newInclude(o Options, d daemons, n *names, m *memo) byInclude { return byInclude{o, d, n, m} }

// path is the file of a family's BIRD: one for both but for 1.6.
func (b byInclude) path(v ctl.Version, v4 bool) (string, error) {
	switch {
	case v.Major != 1 || v4:
		return b.options.Include, nil
	case b.options.Include6 == "":
		return "", routers.Errorf(routers.ErrRefused, "bird6 of BIRD 1.6 has a configuration of its own: set include6 to a file for it")
	}
	return b.options.Include6, nil
}

// format is how that BIRD wants it worded.
func (b byInclude) format(v ctl.Version) include.Format {
	d := b.options.Degraded
	return include.Format{Style: b.options.Style, Version: v,
		Attributes: include.Attributes{Community: d.Community, MED: d.MED, Prepend: d.Prepend, Metric2: d.Metric2}}
}

// observe reads the peers and tables, from BIRD the values that the file defines as they are in force, and
// whether the file says the same for when BIRD reads it next.
func (b byInclude) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	sights, err := b.daemons.observe(ctx, b.options, ps)
	values := map[netip.Prefix]value{}
	errs := []error{err}
	parts := b.daemons.split(ctx, ps)
	for _, part := range parts {
		errs = append(errs, b.values(ctx, part, values))
	}
	bound := b.names.bound(ctx, parts)
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		if _, of := bound[p]; of {
			values[p] = value{} // what it is said to be is what another is
		}
		os[i] = b.judge(p, sights[p], values[p])
	}
	b.rests(ctx, parts, sights, values, os)
	b.kept(ctx, parts, sights, values, os)
	b.names.remains(ctx, parts, bound, os)
	return os, routers.Join(errs...)
}

// rests says of prefixes that are let pass, and have no route, why that is.
func (b byInclude) rests(ctx context.Context, parts []part, sights map[netip.Prefix]sight, values map[netip.Prefix]value, os []routers.Observation) {
	lacking := map[netip.Prefix]int{}
	for i, o := range os {
		if v := values[o.Prefix]; o.Stage == routers.Configured && v.want() > routers.Withdrawn && len(sights[o.Prefix].own) == 0 {
			lacking[o.Prefix] = i
		}
	}
	for _, part := range parts {
		if len(lacking) == 0 {
			return
		}
		down, _ := resting(ctx, part) // what it does not tell is not said
		for _, p := range part.prefixes {
			if i, ok := lacking[p]; ok && len(down[p]) > 0 {
				os[i].Detail = values[p].name + " lets it be announced, but " + b.memo.resting(part.talker, down[p], values[p].name)
			}
		}
	}
}

// judge joins what BIRD gives its peers and what it has been told.
func (b byInclude) judge(p netip.Prefix, s sight, v value) routers.Observation {
	var o routers.Observation
	switch b.options.Style {
	case StyleList, StyleFunction:
		o = s.listed(p, b.options.MinPeers, v)
	case StyleRoutes:
		symbol, _ := b.names.of(p)
		s = s.of(symbol)
		o = s.observation(p, b.options.MinPeers)
		if o.Degraded = len(s.own) > 0 && b.options.Degraded.on(s.own[0]); o.Degraded {
			o.Detail = join(o.Detail, s.worse())
		}
	default:
		s = s.stated()
		o = s.observation(p, b.options.MinPeers)
		o.Degraded = o.Stage > routers.Absent && v.known && v.worse && !v.normal
		if o.Stage == routers.Absent && v.known && v.normal {
			o.Stage, o.Detail = routers.Configured, v.name+" is 0, but there is no route: does a static protocol with the prefix say \"disabled "+v.name+"\"?"
		}
		if v.want() == routers.Withdrawn {
			o.Detail = join(o.Detail, s.unheeded(v.name))
		}
	}
	if v.detail != "" {
		o.Detail = join(o.Detail, v.detail)
	}
	if v.failed && o.Stage != routers.Advertised {
		o.Stage = routers.Unknown
	}
	return o
}

// stated leaves out the routes of addresses while no peer was given any: a filter that names the static
// protocol lets them pass in no case.
func (s sight) stated() sight {
	if len(s.given()) == 0 {
		s.own = slices.DeleteFunc(slices.Clone(s.own), func(r route) bool { return r.connected() })
	}
	return s
}

// listed judges a prefix that the operator's filter passes while it is in a list. Its route may stay.
func (s sight) listed(p netip.Prefix, wanted int, v value) routers.Observation {
	o := s.observation(p, wanted)
	in := v.normal || v.worse
	switch {
	case o.Stage == routers.Unknown, v.failed:
	case o.Stage == routers.Advertised && !in:
		o.Detail = join(o.Detail, fmt.Sprintf("it is not in %s, and still given to a peer", v.name))
	case len(s.given()) > 0 && !in:
		o.Stage, o.Detail = routers.Configured, fmt.Sprintf("it is not in %s, and still given to a peer", v.name)
	case !in:
		o.Stage, o.Detail = routers.Absent, ""
	case o.Stage == routers.Absent:
		o.Stage, o.Detail = routers.Configured, "it is in "+v.name+", but bird has no route for it"
	}
	o.Degraded = v.worse && !v.normal
	return o
}

// on tells whether a route is announced in the worse way.
func (d Degraded) on(r route) bool {
	for _, c := range d.Community {
		if !r.hasCommunity(c) {
			return false
		}
	}
	med, _ := r.med()
	metric2, _ := r.metric2()
	return (d.MED == 0 || med == d.MED) && (d.Metric2 == 0 || metric2 == d.Metric2) && r.pathLength() >= len(d.Prepend) && d.byAttributes()
}
