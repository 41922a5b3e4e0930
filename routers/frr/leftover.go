package frr

import (
	"context"

	"vouch/routers"
)

// leftover tells a blackhole that a killed zebra left in the kernel, and the next one took for a static route
// of its own (8.4.4, in some of its starts): with the kernel's metric, where one that was entered has 0.
// staticd does not know it, and refuses to remove it, while OSPF and BGP redistribute it.
func (rt route) leftover() bool {
	blackhole := false
	for _, n := range rt.Nexthops {
		blackhole = blackhole || n.Blackhole
	}
	return blackhole && rt.Protocol == "static" && rt.Distance == staticDistance && rt.Metric != 0
}

// clear has what is left over of withdrawn prefixes removed: each is entered, which takes the place of
// what is announced already, and taken away again. It comes after the withdraws, so that these wait for no
// reading; what cannot be read is cleared by the next one.
func (s static) clear(ctx context.Context, cs []routers.Change) error {
	rs, err := routes(ctx, s.talk, prefixes(cs))
	if err != nil {
		return nil
	}
	var enter, remove []routers.Change
	for _, c := range cs {
		for _, rt := range rs[c.Prefix] {
			if rt.leftover() {
				enter = append(enter, routers.Change{Prefix: c.Prefix, Want: routers.Announced})
				remove = append(remove, c)
			}
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
