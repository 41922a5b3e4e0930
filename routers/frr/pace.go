package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
)

// A pacer makes a group of changes arrive in one second instead of seven.
//
// Each change of an address makes ospfd originate its router-LSA anew, at once. A neighbour drops an
// instance that comes less than a second after the one it took (MinLSArrival, RFC 2328, 13 (5) (a)),
// and ospfd sends it again only by its retransmission timer of 5 s. Of eight changes made together the
// first thus arrives in 15 ms and the other seven after 7 s (8.4.4; ospf6d, whose one LSA holds all
// prefixes just so: 2 s).
//
// Every instance holds all that came before it. So all changes but one are made together, and one is
// kept back until a second has passed: its instance is taken, and brings the others along. A lone
// change goes at once, unless this node's LSA is younger than a second.
//
// A redistributed route has an external LSA of its own, so that any number go together; one waits only
// when its own was just changed.
type pacer struct{ talk talker }

const (
	// margin is what the ways of two instances to a neighbour may differ by.
	margin = 100 * time.Millisecond
	// minArrival is how far apart two instances are made, so that both are taken.
	minArrival = time.Second + margin
	// paceStep is between two readings of the LSA's age, which is in whole seconds.
	paceStep = 25 * time.Millisecond
	// paceAsk is how long a daemon may take to tell the age.
	paceAsk = 250 * time.Millisecond
)

// pending leaves out the changes that are so already: they make no LSA, and could not carry others.
func pending(cs []routers.Change, have []routers.Observation) []routers.Change {
	var out []routers.Change
	for i, c := range cs {
		there := have[i].Stage >= routers.Selected
		if c.Want == routers.Withdrawn && have[i].Stage != routers.Absent || c.Want == routers.Announced && !there {
			out = append(out, c)
		}
	}
	return out
}

// plan parts pending changes into those to make now and those to make later, when the neighbours will
// take another LSA, and says whether what is made now keeps them from taking one. IPv4 and IPv6 have
// LSAs of their own. Withdraws come first, so that what is kept back is an announce, if there is one.
// young tells whether a family's LSA is less than a second old; it is asked only about a lone change.
func plan(cs []routers.Change, young func(routers.Change) bool) (now, later []routers.Change, burst bool) {
	ordered := slices.Clone(cs)
	slices.SortStableFunc(ordered, func(a, b routers.Change) int { return int(a.Want) - int(b.Want) })
	count, last := map[bool]int{}, map[bool]int{}
	for i, c := range ordered {
		count[c.Prefix.Addr().Is4()]++
		last[c.Prefix.Addr().Is4()] = i
	}
	for i, c := range ordered {
		switch v4 := c.Prefix.Addr().Is4(); {
		case last[v4] != i:
			now, burst = append(now, c), true
		case count[v4] > 1 || young(c):
			later = append(later, c)
		default:
			now = append(now, c)
		}
	}
	return now, later, burst
}

// wait returns when the later changes can be made: after a burst when minArrival has passed, and not
// before their LSAs are a second old, though for that it waits no longer than minArrival. The error is
// that of ctx.
func (p pacer) wait(ctx context.Context, later []routers.Change, burst bool) error {
	if burst {
		if err := pause(ctx, minArrival); err != nil {
			return err
		}
	}
	waited := false
	for start := time.Now(); time.Since(start) < minArrival && len(p.young(ctx, later)) > 0; waited = true {
		if err := pause(ctx, paceStep); err != nil {
			return err
		}
	}
	if waited {
		return pause(ctx, margin)
	}
	return ctx.Err()
}

// young gives those of the changes that would replace an LSA which is less than a second old. A daemon
// that does not say so soon holds up no change.
func (p pacer) young(ctx context.Context, cs []routers.Change) []routers.Change {
	ctx, cancel := context.WithTimeout(ctx, paceAsk)
	defer cancel()
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	v4, v6, err4, err6 := ospf(p).databases(ctx, ps)
	return slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool {
		if isIPv4(c.Prefix) {
			return err4 != nil || !v4.fresh(c.Prefix)
		}
		return err6 != nil || !v6.fresh(c.Prefix)
	})
}

// pause waits so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting until ospf can carry one more change: %w", context.Cause(ctx))
	}
}
