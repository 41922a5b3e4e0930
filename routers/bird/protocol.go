package bird

import (
	"context"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// byProtocol is the method of enabling and disabling the operator's protocols. BIRD forgets it at every
// configure, by whomever: then the table, read again, shows it.
type byProtocol struct {
	options Options
	daemons daemons
	names   *names
}

func (b byProtocol) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	sights, err := b.daemons.observe(ctx, b.options, ps)
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		symbol, worse := b.names.of(p)
		s := sights[p].of(symbol, worse)
		os[i] = s.observation(p, b.options.MinPeers)
		if !sights[p].has(symbol) {
			os[i].Hindered = "bird has no protocol " + symbol + ": name the one that has " + p.String() + " with symbol in the service or in [router]"
		}
		os[i].Degraded = worse != "" && len(s.own) > 0 && s.by(worse) && !s.by(symbol)
	}
	parts := b.daemons.split(ctx, ps)
	b.names.remains(ctx, parts, b.names.bound(ctx, parts), os)
	return os, err
}

// of leaves only the routes of the named protocols: what else this node has of the prefix, such as that of
// the address on lo, is not announced by them.
func (s sight) of(names ...string) sight {
	mine := func(r route) bool { return slices.Contains(names, r.protocol) }
	s.others = slices.DeleteFunc(slices.Clone(s.own), mine)
	s.own = slices.DeleteFunc(slices.Clone(s.own), func(r route) bool { return !mine(r) })
	return s
}

// by says whether a protocol has a route of the sight.
func (s sight) by(name string) bool {
	return slices.ContainsFunc(s.own, func(r route) bool { return r.protocol == name })
}

// apply withdraws first. Of a protocol that holds several prefixes the least that is asked counts.
func (b byProtocol) apply(ctx context.Context, cs []routers.Change) error {
	var errs []error
	for _, part := range b.daemons.split(ctx, prefixesOf(cs)) {
		v, err := part.version(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		able, bound := b.names.apart(part.pick(cs), v.Major == 1)
		errs = append(errs, b.change(ctx, part, able), b.names.boundErrors(bound))
	}
	return routers.Join(errs...)
}

// change gives one BIRD the commands. Where a protocol that is to be disabled is not there, it is told which one
// has the prefix in its place.
func (b byProtocol) change(ctx context.Context, part part, cs []routers.Change) error {
	commands := b.commands(cs)
	if len(commands) == 0 {
		return nil
	}
	replies, err := part.change(ctx, commands...)
	errs := []error{err}
	missing := false
	for i, r := range replies {
		errs = append(errs, unknownProtocol(r, commands[i]))
		missing = missing || isUnknown(r)
	}
	if missing {
		errs = append(errs, b.instead(ctx, part, withdrawsOf(cs)))
	}
	return routers.Join(errs...)
}

// instead names the protocols that have prefixes which are to be withdrawn, and that vouch is not told of.
func (b byProtocol) instead(ctx context.Context, part part, withdraws []routers.Change) error {
	ps := prefixesOf(withdraws)
	sights, err := observe(ctx, part, b.options, ps)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range ps {
		symbol, worse := b.names.of(p)
		for _, r := range sights[p].own {
			if r.protocol != symbol && r.protocol != worse && !r.connected() {
				errs = append(errs, &routers.PrefixError{Prefix: p, Err: routers.Errorf(routers.ErrRefused,
					"%s is a route of protocol %s, which vouch is not told of: set symbol to that, or `birdc disable %[2]s`", p, r.protocol)})
			}
		}
	}
	return routers.Join(errs...)
}

// pick gives the changes of the part's prefixes.
func (p part) pick(cs []routers.Change) []routers.Change {
	mine := make(map[netip.Prefix]bool, len(p.prefixes))
	for _, q := range p.prefixes {
		mine[q] = true
	}
	return slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return !mine[c.Prefix] })
}

func prefixesOf(cs []routers.Change) []netip.Prefix {
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	return ps
}

// commands makes the changes: first all disables of what is withdrawn, and for the others what is to be
// enabled before what is to be disabled, so that no peer is without the prefix in between.
func (b byProtocol) commands(cs []routers.Change) []string {
	least := map[[2]string]routers.Want{}
	var order [][2]string
	for _, c := range cs {
		symbol, worse := b.names.of(c.Prefix)
		key := [2]string{symbol, worse}
		w, ok := least[key]
		if !ok {
			order = append(order, key)
		}
		if !ok || c.Want < w {
			least[key] = c.Want
		}
	}
	var commands []string
	add := func(verb, name string) {
		if name != "" {
			commands = append(commands, verb+" "+quoted(name))
		}
	}
	for _, want := range []routers.Want{routers.Withdrawn, routers.Degraded, routers.Announced} {
		for _, key := range order {
			switch symbol, worse := key[0], key[1]; {
			case least[key] != want:
			case want == routers.Withdrawn:
				add("disable", symbol)
				add("disable", worse)
			case want == routers.Degraded:
				add("enable", worse)
				add("disable", symbol)
			default:
				add("enable", symbol)
				add("disable", worse)
			}
		}
	}
	return commands
}

// isUnknown tells whether BIRD has no protocol of that name.
func isUnknown(r ctl.Reply) bool {
	return r.Has(ctl.NoProtocolMatches, ctl.ParseError, ctl.WrongSymbol)
}

// unknownProtocol makes an error of a reply that is none of the four good ones.
func unknownProtocol(r ctl.Reply, command string) error {
	if err := r.Refused(command); err != nil {
		if isUnknown(r) {
			return routers.Errorf(err, "%w: bird has no such protocol; name it with symbol in the service or in [router]", err)
		}
		return err
	}
	return nil
}
