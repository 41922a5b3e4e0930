package vyos

import (
	"context"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/rtnl"
)

// kernel is the method of blackhole routes in the kernel.
type kernel struct {
	source *frr.Source
	system system
	worse  uint32 // the metric of a degraded route; 0: there is no worse way
}

// blackholes gives the metrics of our routes of the families that there are prefixes of.
func blackholes(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix][]uint32, error) {
	all := map[netip.Prefix][]uint32{}
	for _, family := range []rtnl.Family{rtnl.IPv4, rtnl.IPv6} {
		if !slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Addr().Is4() == (family == rtnl.IPv4) }) {
			continue
		}
		found, err := rtnl.Blackholes(ctx, family, Protocol)
		if err != nil {
			return nil, err
		}
		for p, metrics := range found {
			all[p] = metrics
		}
	}
	return all, nil
}

// observe reads FRR and the kernel side by side: neither takes the time of the other.
func (k kernel) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	var origins []frr.Origin
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		origins, err = k.source.Read(ctx, ps)
	}()
	own, unread := blackholes(ctx, ps)
	<-read
	static := k.staticRoutes(ctx, origins, own)
	os := make([]routers.Observation, len(ps))
	for i, o := range origins {
		mine := made{there: len(own[ps[i]]) > 0, unread: unread, what: "the kernel route", where: "the kernel"}
		mine.degraded = mine.there && k.worse != 0 && !slices.Contains(own[ps[i]], Metric)
		if o.There { // zebra hears of a change a moment later
			mine.degraded = mine.degraded && !slices.Contains(o.Metrics, Metric)
		}
		mine.foreign = static[ps[i]]
		os[i] = judge(o, mine)
	}
	return os, routers.Join(err, unread)
}

// apply withdraws first, and goes on when one change fails. To and from the worse way, the new route comes before
// the old one goes.
func (k kernel) apply(ctx context.Context, cs []routers.Change) error {
	own, unread := blackholes(ctx, prefixes(cs))
	var failed []error
	for _, c := range withdrawsFirst(cs) {
		if err := k.change(ctx, c, own[c.Prefix]); err != nil {
			failed = append(failed, &routers.PrefixError{Prefix: c.Prefix, Err: err})
		}
	}
	return routers.Join(append(failed, unread)...)
}

// change makes the route of the wanted metric, if any, and takes away those of other metrics: those that were
// read, and those that we make.
func (k kernel) change(ctx context.Context, c routers.Change, own []uint32) error {
	wanted := uint32(0)
	switch c.Want {
	case routers.Announced:
		wanted = Metric
	case routers.Degraded:
		wanted = k.worse
	}
	if wanted != 0 {
		if err := rtnl.AddBlackhole(ctx, rtnl.Blackhole{Prefix: c.Prefix, Protocol: Protocol, Metric: wanted}); err != nil {
			return err
		}
	}
	var failed []error
	for _, m := range slices.Compact(slices.Sorted(slices.Values(append([]uint32{Metric, k.worse}, own...)))) {
		if m != wanted && m != 0 {
			failed = append(failed, rtnl.DeleteBlackhole(ctx, rtnl.Blackhole{Prefix: c.Prefix, Protocol: Protocol, Metric: m}))
		}
	}
	return routers.Join(failed...)
}

func (k kernel) close() error { return nil }

func prefixes(cs []routers.Change) []netip.Prefix {
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	return ps
}

func withdrawsFirst(cs []routers.Change) []routers.Change {
	ordered := slices.Clone(cs)
	slices.SortStableFunc(ordered, func(a, b routers.Change) int { return int(a.Want) - int(b.Want) })
	return ordered
}
