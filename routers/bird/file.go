package bird

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// byInclude is the method of a file that BIRD's configuration includes.
type byInclude struct {
	options Options
	daemons daemons
	names   *names
}

// path is the file of a family's BIRD: one for both but for 1.6.
func (b byInclude) path(v ctl.Version, v4 bool) string {
	if v.Major == 1 && !v4 {
		return b.options.Include6
	}
	return b.options.Include
}

// format is how that BIRD wants it worded.
func (b byInclude) format(v ctl.Version) include.Format {
	d := b.options.Degraded
	return include.Format{Style: b.options.Style, Channels: v.Major >= 2, ReturnType: v.Major > 2 || v.Major == 2 && v.Minor >= 14,
		Attributes: include.Attributes{Community: d.Community, MED: d.MED, Prepend: d.Prepend, Metric2: d.Metric2}}
}

// observe reads the peers and tables, and from BIRD the values that the file defines as they are in force.
func (b byInclude) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	sights, err := b.daemons.observe(ctx, b.options, ps)
	values := map[netip.Prefix]value{}
	errs := []error{err}
	for _, part := range b.daemons.split(ctx, ps) {
		errs = append(errs, b.values(ctx, part, values))
	}
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = b.judge(p, sights[p], values[p])
	}
	return os, routers.Join(errs...)
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
		o.Degraded = len(s.own) > 0 && b.options.Degraded.on(s.own[0])
	default:
		s = s.stated()
		o = s.observation(p, b.options.MinPeers)
		o.Degraded = o.Stage > routers.Absent && v.known && v.worse && !v.normal
		if o.Stage == routers.Absent && v.known && v.normal {
			o.Stage, o.Detail = routers.Configured, v.name+" is 0, but there is no route: does a static protocol with the prefix say \"disabled "+v.name+"\"?"
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
	return (d.MED == 0 || med == d.MED) && (d.Metric2 == 0 || metric2 == d.Metric2) && r.pathLength() >= len(d.Prepend) &&
		(len(d.Community) > 0 || d.MED != 0 || d.Metric2 != 0 || len(d.Prepend) > 0)
}

// apply writes the file for all prefixes and has BIRD read it. Where BIRD refuses that, the withdraws are
// tried alone: nothing that is to be announced may keep them.
func (b byInclude) apply(ctx context.Context, cs []routers.Change) error {
	var errs []error
	for _, part := range b.daemons.split(ctx, prefixesOf(cs)) {
		mine := slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return !slices.Contains(part.prefixes, c.Prefix) })
		err := b.put(ctx, part, mine)
		withdraws := slices.DeleteFunc(slices.Clone(mine), func(c routers.Change) bool { return c.Want != routers.Withdrawn })
		if errors.Is(err, routers.ErrRefused) && len(withdraws) > 0 && len(withdraws) < len(mine) {
			err = routers.Join(err, b.put(ctx, part, withdraws))
		}
		errs = append(errs, err)
	}
	return routers.Join(errs...)
}

func (b byInclude) put(ctx context.Context, part part, cs []routers.Change) error {
	v, err := part.version(ctx)
	if err != nil {
		return routers.Join(err, b.begin())
	}
	path := b.path(v, cs[0].Prefix.Addr().Is4())
	if path == "" {
		return routers.Errorf(routers.ErrRefused, "bird6 of BIRD 1.6 has a configuration of its own: set include6 to a file for it")
	}
	old, err := include.Read(path)
	if err != nil {
		return err
	}
	entries, err := b.entries(ctx, part, v, path, old)
	if err != nil {
		return err
	}
	repeated := change(entries, cs)
	text := include.Render(b.format(v), sorted(entries))
	if !bytes.Equal(text, old) {
		if err := include.Write(path, text); err != nil {
			return err
		}
	}
	if err := check(ctx, part); err != nil {
		return b.refused(ctx, part, path, old, text, cs, err)
	}
	if repeated {
		b.reload(ctx, part, cs)
	}
	return configure(ctx, part)
}

// begin makes the file for a BIRD that is away, where there is none: BIRD does not start without a file that
// it is to include. Nothing is announced in it. It is worded for BIRD 2 and later.
func (b byInclude) begin() error {
	old, err := include.Read(b.options.Include)
	if err != nil || old != nil || b.options.Include6 != "" {
		return err
	}
	var es []include.Entry
	for p := range b.names.known() {
		symbol, worse := b.names.of(p)
		es = append(es, include.Entry{Prefix: p, Want: routers.Withdrawn, Symbol: symbol, Worse: worse})
	}
	return include.Write(b.options.Include, include.Render(b.format(ctl.Version{Major: 2}), es))
}

// refused finds out whose mistake it is that BIRD does not take its configuration. When it is ours, the file
// is put back as it was. When it is another's, the file stays, so that what is withdrawn stays so once that
// is mended, and what can be is withdrawn at run time.
func (b byInclude) refused(ctx context.Context, part part, path string, old, text []byte, cs []routers.Change, why error) error {
	if refusal := (*ctl.Refusal)(nil); !errors.As(why, &refusal) {
		return routers.Join(why, include.Write(path, old))
	}
	if err := include.Write(path, old); err != nil {
		return routers.Join(why, err)
	}
	if err := check(ctx, part); err == nil {
		return routers.Errorf(why, "%s is put back as it was: %w", path, why)
	}
	if err := include.Write(path, text); err != nil {
		return routers.Join(why, err)
	}
	err := routers.Errorf(why, "bird does not take its configuration, with or without what is new in %s: mend it, and `birdc configure`: %w", path, why)
	return routers.Join(err, b.disable(ctx, part, cs))
}

// disable withdraws without the configuration: it disables the static protocols that hold nothing but
// prefixes which are to go. Any configure that succeeds enables them again, as far as the file lets it.
func (b byInclude) disable(ctx context.Context, part part, cs []routers.Change) error {
	going := map[netip.Prefix]bool{}
	for _, c := range cs {
		going[c.Prefix] = c.Want == routers.Withdrawn
	}
	sights, err := observe(ctx, part, b.options, part.prefixes)
	if err != nil {
		return err
	}
	var commands []string
	for p, s := range sights {
		for _, r := range s.own {
			command := "disable " + quoted(r.protocol)
			if going[p] && !r.connected() && !slices.Contains(commands, command) && holdsOnly(ctx, part, r.protocol, going) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		return nil
	}
	_, err = part.change(ctx, commands...)
	return err
}

// holdsOnly tells whether all routes of a protocol are to the prefixes.
func holdsOnly(ctx context.Context, t talker, protocol string, going map[netip.Prefix]bool) bool {
	command := "show route protocol " + quoted(protocol)
	replies, err := t.read(ctx, command)
	if err != nil {
		return false
	}
	rs, err := parseRoutes(replies[0], command, "")
	return err == nil && len(rs) > 0 && !slices.ContainsFunc(rs, func(r route) bool { return !going[r.prefix] })
}

// change puts the changes into the entries, and tells whether a withdraw was there already.
func change(entries map[netip.Prefix]include.Entry, cs []routers.Change) (repeated bool) {
	for _, c := range cs {
		e := entries[c.Prefix]
		repeated = repeated || c.Want == routers.Withdrawn && e.Want == routers.Withdrawn
		e.Prefix, e.Want = c.Prefix, c.Want
		entries[c.Prefix] = e
	}
	return repeated
}

func sorted(entries map[netip.Prefix]include.Entry) []include.Entry {
	es := make([]include.Entry, 0, len(entries))
	for _, e := range entries {
		es = append(es, e)
	}
	return es
}

// entries gives what the file has to hold beside the changes: what it holds already, and of the managed
// prefixes that it does not know, what BIRD is read to announce.
func (b byInclude) entries(ctx context.Context, part part, v ctl.Version, path string, old []byte) (map[netip.Prefix]include.Entry, error) {
	entries := map[netip.Prefix]include.Entry{}
	if old != nil && len(bytes.TrimSpace(old)) > 0 {
		es, err := include.Parse(old)
		if err != nil && !include.Ours(old) {
			return nil, routers.Errorf(routers.ErrRefused, "%s is not vouch's, and is left alone (%w): move it away, or set include to another file", path, err)
		}
		for _, e := range es {
			entries[e.Prefix] = e
		}
	}
	var unknown []netip.Prefix
	for p := range b.names.known() {
		if v.Major == 1 && p.Addr().Is4() != part.prefixes[0].Addr().Is4() {
			continue
		}
		e, ok := entries[p]
		if !ok {
			unknown = append(unknown, p)
		}
		e.Prefix = p
		e.Symbol, e.Worse = b.names.of(p)
		entries[p] = e
	}
	if len(unknown) == 0 {
		return entries, nil
	}
	os, err := b.observe(ctx, unknown)
	if err != nil {
		return nil, err
	}
	for _, o := range os {
		e := entries[o.Prefix]
		e.Want = routers.Withdrawn
		switch {
		case o.Stage == routers.Unknown:
			return nil, routers.Errorf(routers.ErrUnavailable, "%s: %s is not in %s, and cannot be read: %s", o.Prefix, o.Prefix, path, o.Detail)
		case o.Stage >= routers.Configured && o.Degraded:
			e.Want = routers.Degraded
		case o.Stage >= routers.Configured:
			e.Want = routers.Announced
		}
		entries[o.Prefix] = e
	}
	return entries, nil
}

// check has BIRD read its configuration without putting it in force.
func check(ctx context.Context, t talker) error {
	const command = "configure check"
	replies, err := t.change(ctx, command)
	if err != nil {
		return err
	}
	return replies[0].Refused(command)
}

// configure has BIRD put its configuration in force. Where it takes a while, as when protocols restart or
// another configuration is on its way, that is waited for.
func configure(ctx context.Context, t talker) error {
	const command = "configure"
	replies, err := t.change(ctx, command)
	if err != nil {
		return err
	}
	if err := replies[0].Refused(command); err != nil || replies[0].Has(ctl.Reconfigured) {
		return err
	}
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		replies, err := t.read(ctx, "show status")
		if err != nil {
			return err
		}
		if !reconfiguring(replies[0]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return routers.Errorf(routers.ErrBusy, "a reconfiguration is in progress, and ours waits for it: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// reload has the peers told anew that still have what was withdrawn before: after somebody's `configure
// soft` a filter is not asked again for the routes that have passed it. That it fails is seen by reading.
func (b byInclude) reload(ctx context.Context, part part, cs []routers.Change) {
	os, err := b.observe(ctx, prefixesOf(cs))
	if err != nil {
		return
	}
	var commands []string
	for i, o := range os {
		for _, peer := range o.Reached() {
			command := "reload out " + quoted(peer)
			if cs[i].Want == routers.Withdrawn && !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) > 0 {
		_, _ = part.change(ctx, commands...)
	}
}
