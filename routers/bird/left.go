package bird

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"vouch/routers"
)

// A prefix that is not managed any more, and goes by the same number or protocol as one that is, cannot be
// withdrawn by that: the other would go with it. It is withdrawn at run time where a protocol has nothing else,
// and told of until the operator has taken its route out of BIRD's configuration.

// apart parts the withdraws of such prefixes from the other changes. For each it gives one that stays.
func (n *names) apart(cs []routers.Change, alike bool) (able []routers.Change, bound map[netip.Prefix]netip.Prefix) {
	bound = map[netip.Prefix]netip.Prefix{}
	for _, c := range cs {
		if q, ok := n.sharer(c.Prefix, alike); ok && c.Want == routers.Withdrawn {
			bound[c.Prefix] = q
		} else {
			able = append(able, c)
		}
	}
	return able, bound
}

// loosen withdraws what it can of them, and says what is to be done.
func (b byInclude) loosen(ctx context.Context, part part, bound map[netip.Prefix]netip.Prefix) error {
	if len(bound) == 0 {
		return nil
	}
	ps := slices.SortedFunc(maps.Keys(bound), netip.Prefix.Compare)
	sights, err := observe(ctx, part, b.options, ps)
	if err != nil {
		return err
	}
	going := map[netip.Prefix]bool{}
	for _, p := range ps {
		going[p] = true
	}
	_, err = disable(ctx, part, sights, going)
	return routers.Join(b.names.boundErrors(bound), err)
}

// boundErrors says of each why it cannot be withdrawn for good.
func (n *names) boundErrors(bound map[netip.Prefix]netip.Prefix) error {
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(bound), netip.Prefix.Compare) {
		errs = append(errs, &routers.PrefixError{Prefix: p, Err: routers.Errorf(routers.ErrRefused, "%s", n.boundText(p, bound[p]))})
	}
	return routers.Join(errs...)
}

func (n *names) boundText(p, q netip.Prefix) string {
	symbol, _ := n.of(p)
	return fmt.Sprintf("%s is not in vouch's configuration any more, and goes by %s as %s does, which is: take its route out of bird.conf, and `birdc configure`", p, symbol, q)
}

// bound gives those among the prefixes that have to be read, each with one that stays.
func (n *names) bound(ctx context.Context, parts []part) map[netip.Prefix]netip.Prefix {
	bound := map[netip.Prefix]netip.Prefix{}
	for _, part := range parts {
		if !slices.ContainsFunc(part.prefixes, n.left) {
			continue
		}
		v, err := part.version(ctx)
		if err != nil {
			continue
		}
		for _, p := range part.prefixes {
			if q, ok := n.sharer(p, v.Major == 1); ok {
				bound[p] = q
			}
		}
	}
	return bound
}

// remains puts right what was read of such prefixes: one whose route a protocol still has that is down is
// announced again when that is enabled for the sake of the other.
func (n *names) remains(ctx context.Context, parts []part, bound map[netip.Prefix]netip.Prefix, os []routers.Observation) {
	if len(bound) == 0 {
		return
	}
	down := map[netip.Prefix][]string{}
	var errs []error
	for _, part := range parts {
		some, err := resting(ctx, part)
		maps.Copy(down, some)
		errs = append(errs, err)
	}
	err := routers.Join(errs...)
	for i, o := range os {
		if q, ok := bound[o.Prefix]; ok {
			os[i] = n.remain(o, q, len(down[o.Prefix]) > 0, err)
		}
	}
}

// remain judges one that goes by the symbol of q. With down there is a protocol that has it and is down.
func (n *names) remain(o routers.Observation, q netip.Prefix, down bool, err error) routers.Observation {
	switch {
	case o.Stage == routers.Unknown:
		return o
	case o.Stage == routers.Absent && err != nil:
		o.Stage, o.Detail = routers.Unknown, err.Error()
		return o
	case o.Stage == routers.Absent && !down:
		return o
	case o.Stage == routers.Absent:
		o.Stage = routers.Configured
	}
	o.Detail = join(o.Detail, n.boundText(o.Prefix, q))
	return o
}
