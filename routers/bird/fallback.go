package bird

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// fallBack makes withdraws at run time that the file cannot make for the reason why, and says what became of it.
// Any configure that succeeds undoes it, as far as the file lets it.
func (b byInclude) fallBack(ctx context.Context, part part, withdraws []routers.Change, why error) error {
	if len(withdraws) == 0 {
		return nil
	}
	ps := prefixesOf(withdraws)
	sights, err := observe(ctx, part, b.options, ps)
	if err != nil {
		return err
	}
	told := map[netip.Prefix]value{}
	_ = b.values(ctx, part.of(ps), told) // what is not told is not known to be off
	going := map[netip.Prefix]bool{}
	for p, s := range sights {
		going[p] = len(s.given()) > 0 || told[p].want() != routers.Withdrawn
	}
	disabled, err := disable(ctx, part, sights, going)
	b.memo.disabled(part.talker, disabled, why)
	if len(disabled) > 0 {
		err = routers.Join(routers.Errorf(why, "until then %s disabled at run time, which any configure of bird undoes", areNow(slices.Sorted(maps.Keys(disabled)))), err)
	}
	return err
}

// rise enables what was disabled at run time for prefixes that are to be announced again, and that the file cannot
// announce for the reason why: asked are these protocols, with what is asked of all that each has. It does so only
// where what BIRD has in force lets all of that pass, and as nothing better than is asked.
func (b byInclude) rise(ctx context.Context, part part, asked map[string]map[netip.Prefix]routers.Want, why error) error {
	if len(asked) == 0 {
		return nil
	}
	protocols, err := readProtocols(ctx, part)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range protocols {
		if all := asked[p.name]; len(all) > 0 && p.state == "down" && b.lets(ctx, part, all) {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := command(ctx, part, "enable", names); err != nil {
		return err
	}
	b.memo.enabled(part.talker, names)
	risen := routers.Errorf(why, "until then %s enabled at run time again, as what bird has in force lets that be announced", areNow(names))
	if errors.Is(why, errTheirs) {
		return routers.Join(risen, b.keep(ctx, part, asked, names))
	}
	return risen
}

// keep writes into the file what protocols were enabled for, so that it stays so once the configuration is mended:
// BIRD has it in force already, and would take it but for the mistake of another. What goes by the number of one that
// was not enabled, and a file that is not as vouch wrote it, are left as they are.
func (b byInclude) keep(ctx context.Context, part part, asked map[string]map[netip.Prefix]routers.Want, names []string) error {
	risen := map[netip.Prefix]routers.Want{}
	for _, name := range names {
		maps.Copy(risen, asked[name])
	}
	v, err := part.version(ctx)
	if err != nil {
		return err
	}
	path, err := b.path(v, part.prefixes[0].Addr().Is4())
	if err != nil || !b.memo.knows(path) {
		return err
	}
	text, err := b.memo.read(path)
	if err != nil {
		return err
	}
	es, _, err := parseEntries(path, text)
	if err != nil {
		return err
	}
	es.change(b.options.Style, es.apart(b.options.Style, risen))
	return b.memo.write(path, es.render(b.format(v)))
}

// lets says whether what BIRD has in force announces the prefixes, in no better way than is asked. The routes of
// style routes, which are the protocol's own, are of the one way or the other.
func (b byInclude) lets(ctx context.Context, part part, asked map[netip.Prefix]routers.Want) bool {
	told := map[netip.Prefix]value{}
	ps := slices.Collect(maps.Keys(asked))
	if err := b.values(ctx, part.of(ps), told); err != nil {
		return false
	}
	return !slices.ContainsFunc(ps, func(p netip.Prefix) bool {
		w := told[p].want()
		if b.options.Style == StyleRoutes {
			w = routers.Announced
		}
		return w < routers.Degraded || w > asked[p]
	})
}

// areNow is what protocols are, with the verb.
func areNow(names []string) string {
	if len(names) == 1 {
		return "protocol " + names[0] + " is"
	}
	return "protocols " + few(names) + " are"
}

// disable disables the protocols that hold nothing but prefixes which are going, and gives what each of them holds.
// Of the others its error says what is to be done.
func disable(ctx context.Context, part part, sights map[netip.Prefix]sight, going map[netip.Prefix]bool) (map[string]map[netip.Prefix]bool, error) {
	by := map[string][]string{} // of each protocol the prefixes that are going, as text
	for _, p := range slices.SortedFunc(maps.Keys(going), netip.Prefix.Compare) {
		for _, r := range sights[p].own {
			if going[p] && !slices.Contains(by[r.protocol], p.String()) {
				by[r.protocol] = append(by[r.protocol], p.String())
			}
		}
	}
	if len(by) == 0 {
		return nil, nil
	}
	protocols, err := readProtocols(ctx, part)
	if err != nil {
		return nil, err
	}
	names := map[string]map[netip.Prefix]bool{}
	var errs []error
	for _, p := range protocols {
		if len(by[p.name]) == 0 {
			continue
		}
		held, err := p.holds(ctx, part)
		if beside := besides(held, going); err != nil {
			errs = append(errs, err)
		} else if len(beside) > 0 {
			errs = append(errs, routers.Errorf(routers.ErrRefused, "protocol %s has %s beside %s, and is not disabled for the sake of these: `birdc disable %[1]s` withdraws all of them",
				p.name, few(beside), few(by[p.name])))
		} else {
			names[p.name] = held
		}
	}
	return names, routers.Join(append(errs, command(ctx, part, "disable", slices.Sorted(maps.Keys(names))))...)
}

// command gives protocols a command each.
func command(ctx context.Context, t talker, verb string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	commands := make([]string, len(names))
	for i, n := range names {
		commands[i] = verb + " " + quoted(n)
	}
	replies, err := t.change(ctx, commands...)
	errs := []error{err}
	for i, r := range replies {
		errs = append(errs, r.Refused(commands[i]))
	}
	return routers.Join(errs...)
}

// holds gives the prefixes that a protocol has. Only protocols whose routes are this node's own making can be asked.
func (p protocol) holds(ctx context.Context, t talker) (map[netip.Prefix]bool, error) {
	switch p.kind {
	case kindStatic:
		ask := "show static " + quoted(p.name)
		replies, err := t.read(ctx, ask)
		if err == nil {
			err = replies[0].Refused(ask)
		}
		if err != nil {
			return nil, err
		}
		return parseStatic(replies[0]), nil
	case kindDirect:
		return p.routes(ctx, t)
	}
	return nil, routers.Errorf(routers.ErrRefused, "protocol %s, which has it, is of kind %s, and is not disabled for it", p.name, p.kind)
}

// besides gives those of the prefixes held that are not going.
func besides(held, going map[netip.Prefix]bool) []string {
	var beside []string
	for q := range held {
		if !going[q] {
			beside = append(beside, q.String())
		}
	}
	slices.Sort(beside)
	return beside
}

// routes gives the prefixes that a protocol has in its tables.
func (p protocol) routes(ctx context.Context, t talker) (map[netip.Prefix]bool, error) {
	held := map[netip.Prefix]bool{}
	for _, c := range p.channels {
		ask := fmt.Sprintf("show route protocol %s table %s", quoted(p.name), quoted(c.table))
		replies, err := t.read(ctx, ask)
		if err != nil {
			return nil, err
		}
		rs, err := parseRoutes(replies[0], ask, c.table)
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			held[r.prefix] = true
		}
	}
	return held, nil
}

// resting gives for each prefix the static protocols that have it and are down.
func resting(ctx context.Context, part part) (map[netip.Prefix][]string, error) {
	protocols, err := readProtocols(ctx, part)
	if err != nil {
		return nil, err
	}
	by := map[netip.Prefix][]string{}
	var qs []question
	for _, p := range protocols {
		if p.kind == kindStatic && p.state == "down" {
			qs = append(qs, question{"show static " + quoted(p.name), func(r ctl.Reply) {
				for q := range parseStatic(r) {
					by[q] = append(by[q], p.name)
				}
			}})
		}
	}
	return by, put(ctx, part.talker, qs)
}
