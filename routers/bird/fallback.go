package bird

import (
	"context"
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
	b.memo.disabled(disabled, why)
	if len(disabled) > 0 {
		err = routers.Join(routers.Errorf(why, "until then %s at run time, which any configure of bird undoes", areDisabled(disabled)), err)
	}
	return err
}

// areDisabled says that protocols are.
func areDisabled(names []string) string {
	if len(names) == 1 {
		return "protocol " + names[0] + " is disabled"
	}
	return "protocols " + few(names) + " are disabled"
}

// disable disables the protocols that hold nothing but prefixes which are going, and names them. Of the others
// its error says what is to be done.
func disable(ctx context.Context, part part, sights map[netip.Prefix]sight, going map[netip.Prefix]bool) ([]string, error) {
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
	var names []string
	var errs []error
	for _, p := range protocols {
		if len(by[p.name]) == 0 {
			continue
		}
		if beside, err := p.beside(ctx, part, going); err != nil {
			errs = append(errs, err)
		} else if len(beside) > 0 {
			errs = append(errs, routers.Errorf(routers.ErrRefused, "protocol %s has %s beside %s, and is not disabled for the sake of these: `birdc disable %[1]s` withdraws all of them",
				p.name, few(beside), few(by[p.name])))
		} else {
			names = append(names, p.name)
		}
	}
	return names, routers.Join(append(errs, command(ctx, part, "disable", names))...)
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

// beside gives the prefixes that a protocol has and that are not going. Only protocols whose routes are this
// node's own making can be asked.
func (p protocol) beside(ctx context.Context, t talker, going map[netip.Prefix]bool) ([]string, error) {
	var held map[netip.Prefix]bool
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
		held = parseStatic(replies[0])
	case kindDirect:
		rs, err := p.routes(ctx, t)
		if err != nil {
			return nil, err
		}
		held = rs
	default:
		return nil, routers.Errorf(routers.ErrRefused, "protocol %s, which has it, is of kind %s, and is not disabled for it", p.name, p.kind)
	}
	var beside []string
	for q := range held {
		if !going[q] {
			beside = append(beside, q.String())
		}
	}
	slices.Sort(beside)
	return beside, nil
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
