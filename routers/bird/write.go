package bird

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// entries are what a file holds, or has to.
type entries map[netip.Prefix]include.Entry

// apply writes the file for all prefixes and has BIRD read it. Where BIRD refuses that, the withdraws are
// tried alone: nothing that is to be announced may keep them.
func (b byInclude) apply(ctx context.Context, cs []routers.Change) error {
	var errs []error
	for _, part := range b.daemons.split(ctx, prefixesOf(cs)) {
		mine := slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return !slices.Contains(part.prefixes, c.Prefix) })
		err := b.put(ctx, part, mine)
		withdraws := withdrawsOf(mine)
		if errors.Is(err, routers.ErrRefused) && len(withdraws) > 0 && len(withdraws) < len(mine) {
			err = routers.Join(err, b.put(ctx, part, withdraws))
		}
		errs = append(errs, err)
	}
	return routers.Join(errs...)
}

func withdrawsOf(cs []routers.Change) []routers.Change {
	return slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return c.Want != routers.Withdrawn })
}

func (b byInclude) put(ctx context.Context, part part, cs []routers.Change) error {
	v, err := part.version(ctx)
	if err != nil {
		return b.away(cs, err)
	}
	path, err := b.path(v, cs[0].Prefix.Addr().Is4())
	if err != nil {
		return err
	}
	old, err := include.Read(path)
	if err != nil {
		return err
	}
	es, err := b.entries(ctx, part, v, path, old, cs)
	if err != nil {
		return err
	}
	es.change(cs)
	text := es.render(b.format(v))
	if !bytes.Equal(text, old) {
		if err := include.Write(path, text); err != nil {
			return routers.Join(err, b.disable(ctx, part, cs))
		}
	}
	if err := check(ctx, part); err != nil {
		return b.refused(ctx, part, path, old, text, cs, err)
	}
	b.reload(ctx, part, v, cs)
	return configure(ctx, part, v)
}

// change puts the changes in.
func (es entries) change(cs []routers.Change) {
	for _, c := range cs {
		e := es[c.Prefix]
		e.Prefix, e.Want = c.Prefix, c.Want
		es[c.Prefix] = e
	}
}

func (es entries) render(f include.Format) []byte {
	list := make([]include.Entry, 0, len(es))
	for _, e := range es {
		list = append(list, e)
	}
	return include.Render(f, list)
}

// held gives what the file at path holds. What is damaged in a file of ours is left out.
func held(path string, text []byte) (entries, ctl.Version, error) {
	es := entries{}
	if len(bytes.TrimSpace(text)) == 0 {
		return es, ctl.Version{}, nil
	}
	f, err := include.Parse(text)
	if err != nil && !include.Ours(text) {
		return nil, ctl.Version{}, routers.Errorf(routers.ErrRefused,
			"%s is not vouch's, and is left alone (%w): move it away, or set include to another file", path, err)
	}
	for _, e := range f.Entries {
		es[e.Prefix] = e
	}
	return es, f.Version, nil
}

// name puts in the managed prefixes with what they go by now, and gives those that were not in. With
// onlyLike valid, those of the other family are left out.
func (es entries) name(n *names, onlyLike netip.Prefix) (unknown []netip.Prefix) {
	for p := range n.known() {
		if onlyLike.IsValid() && p.Addr().Is4() != onlyLike.Addr().Is4() {
			continue
		}
		e, ok := es[p]
		if !ok {
			unknown = append(unknown, p)
			e.Want = routers.Withdrawn
		}
		e.Prefix = p
		e.Symbol, e.Worse = n.of(p)
		es[p] = e
	}
	return unknown
}

// entries gives what the file has to hold beside the changes: what it holds already, and of the managed
// prefixes that it does not know, what BIRD has been told or, where it was not, is read to announce.
func (b byInclude) entries(ctx context.Context, part part, v ctl.Version, path string, old []byte, cs []routers.Change) (entries, error) {
	es, _, err := held(path, old)
	if err != nil {
		return nil, err
	}
	only := netip.Prefix{}
	if v.Major == 1 {
		only = part.prefixes[0]
	}
	unknown := slices.DeleteFunc(es.name(b.names, only), func(p netip.Prefix) bool {
		return slices.ContainsFunc(cs, func(c routers.Change) bool { return c.Prefix == p })
	})
	told := map[netip.Prefix]value{}
	if err := b.values(ctx, part.of(unknown), told); err != nil {
		return nil, err
	}
	for p, v := range told {
		e := es[p]
		e.Want = v.want()
		es[p] = e
	}
	unknown = slices.DeleteFunc(unknown, func(p netip.Prefix) bool { return told[p].known })
	if len(unknown) == 0 {
		return es, nil
	}
	os, err := b.observe(ctx, unknown)
	for _, o := range os {
		e := es[o.Prefix]
		if e.Want = announced(o); e.Want == routers.Keep {
			return nil, routers.Join(routers.Errorf(routers.ErrUnavailable, "%s is not in %s, and cannot be read: %s", o.Prefix, path, o.Detail), err)
		}
		es[o.Prefix] = e
	}
	return es, nil
}

// announced is what a prefix is read to be; Keep where that is not known.
func announced(o routers.Observation) routers.Want {
	switch {
	case o.Stage == routers.Unknown:
		return routers.Keep
	case o.Stage == routers.Absent:
		return routers.Withdrawn
	case o.Degraded:
		return routers.Degraded
	}
	return routers.Announced
}
