package frr

import (
	"context"
	"net/netip"
	"slices"

	"vouch/routers"
)

// clear has removed what is left over of withdrawn prefixes: a blackhole that a killed zebra left in the
// kernel, and the next one took for a static route of its own (8.4.4 in some of its starts, 10.3 in most).
// OSPF and BGP redistribute it, but in no configuration is it stated, so that there is nothing to remove:
// it has to be entered first, which takes the place of what is announced already. This comes after the
// withdraws, so that these wait for no reading; what cannot be read is cleared by the next one.
func (s static) clear(ctx context.Context, cs []routers.Change, stated map[netip.Prefix]routing) error {
	cs = slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return stated[c.Prefix].stated })
	rs, err := routes(ctx, s.talk, prefixes(cs))
	if err != nil {
		return nil
	}
	var enter, remove []routers.Change
	for _, c := range cs {
		r := stated[c.Prefix]
		if s.readTable(&r, rs[c.Prefix]); r.ours && !r.foreign {
			enter = append(enter, routers.Change{Prefix: c.Prefix, Want: routers.Announced})
			remove = append(remove, c)
		}
	}
	if len(enter) == 0 {
		return nil
	}
	if err := s.tell(ctx, enter); err != nil {
		return err
	}
	return s.tell(ctx, remove)
}
