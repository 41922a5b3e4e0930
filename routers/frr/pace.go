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
// A change that comes while one is kept back breaks that Apply off. The next one makes the change that was
// kept back and keeps back the new one instead: so none waits longer than longest, whatever comes after,
// and what is made last still comes a second after all before it.
//
// A redistributed route has an external LSA of its own, so that any number go together; one waits only
// when its own was just changed.
type pacer struct {
	talk talker
	held []hold // kept back by this Apply, or by the last one if that was broken off
}

// A hold is a change that is kept back.
type hold struct {
	change routers.Change
	since  time.Time
	from   time.Time // not made before
	young  bool      // its LSA was less than a second old when last looked at
}

const (
	// margin is what the ways of two instances to a neighbour may differ by.
	margin = 100 * time.Millisecond
	// minArrival is how far apart two instances are made, so that both are taken.
	minArrival = time.Second + margin
	// longest is how long a change is kept back at most, also when somebody else keeps changing the LSA.
	longest = minArrival + margin
	// recent is for how long a hold that was broken off is remembered. Then it was of another occasion.
	recent = 5 * time.Second
	// paceStep is between two readings of the LSA's age, which is in whole seconds.
	paceStep = 25 * time.Millisecond
	// paceAsk is how long a daemon may take to tell the age.
	paceAsk = 250 * time.Millisecond
)

// pending leaves out the changes that are so already: they make no LSA, and could not carry others.
func pending(cs []routers.Change, have []routers.Observation) []routers.Change {
	var out []routers.Change
	for i, c := range cs {
		asWanted := have[i].Stage == routers.Absent
		if c.Want != routers.Withdrawn {
			asWanted = have[i].Stage >= routers.Selected && have[i].Degraded == (c.Want == routers.Degraded)
		}
		if !asWanted {
			out = append(out, c)
		}
	}
	return out
}

// plan parts pending changes into those to make now and those to make later, when the neighbours will
// take another LSA: of several the last that was not kept back before, and a lone one when it was, or
// when its LSA is young. IPv4 and IPv6 have LSAs of their own. Withdraws come first, so that what is
// kept back is an announce, if there is one. young tells whether the change's LSA is less than a second
// old; it is asked only about a lone change.
func plan(cs []routers.Change, held, young func(routers.Change) bool) (now, later []routers.Change) {
	ordered := slices.Clone(cs)
	slices.SortStableFunc(ordered, func(a, b routers.Change) int { return int(a.Want) - int(b.Want) })
	count, back := map[bool]int{}, map[bool]int{}
	for i, c := range ordered {
		v4 := isIPv4(c.Prefix)
		if count[v4]++; count[v4] == 1 || !held(c) {
			back[v4] = i
		}
	}
	for i, c := range ordered {
		v4 := isIPv4(c.Prefix)
		if back[v4] == i && (count[v4] > 1 || held(c) || young(c)) {
			later = append(later, c)
		} else {
			now = append(now, c)
		}
	}
	return now, later
}

// holds tells whether a change was kept back by an Apply that was broken off.
func (p *pacer) holds(c routers.Change) bool { return p.find(c) >= 0 }

func (p *pacer) find(c routers.Change) int {
	return slices.IndexFunc(p.held, func(h hold) bool { return h.change == c && time.Since(h.since) < recent })
}

// hold keeps back the later changes, from when the other ones were made, and forgets what was kept back
// before. One that was already, and is alone now, waits on.
func (p *pacer) hold(now, later []routers.Change) {
	held := make([]hold, len(later))
	for i, c := range later {
		at := time.Now()
		switch before := p.find(c); {
		case before >= 0:
			held[i] = p.held[before]
		case slices.ContainsFunc(now, func(n routers.Change) bool { return isIPv4(n.Prefix) == isIPv4(c.Prefix) }):
			held[i] = hold{change: c, since: at, from: at.Add(minArrival)}
		default:
			held[i] = hold{change: c, since: at, from: at, young: true}
		}
	}
	p.held = held
}

// release makes the changes that are kept back, each when it is due. It returns the errors of do, and
// that of ctx when that ends it; what is then still to be made stays kept back.
func (p *pacer) release(ctx context.Context, do func([]routers.Change) error) error {
	var failed error
	for len(p.held) > 0 {
		if cs := p.due(ctx); len(cs) > 0 && ctx.Err() == nil {
			err := do(cs)
			failed = routers.Join(failed, err)
			if err == nil || ctx.Err() == nil {
				p.held = slices.DeleteFunc(p.held, func(h hold) bool { return slices.Contains(cs, h.change) })
				continue
			}
		}
		if err := pause(ctx, paceStep); err != nil {
			return routers.Join(failed, err)
		}
	}
	return failed
}

// due gives the changes to be made now.
func (p *pacer) due(ctx context.Context) []routers.Change {
	now := time.Now()
	var ask []routers.Change
	for _, h := range p.held {
		if !now.Before(h.from) && !h.over(now) {
			ask = append(ask, h.change)
		}
	}
	young := map[routers.Change]bool{}
	for _, c := range p.young(ctx, ask) {
		young[c] = true
	}
	var cs []routers.Change
	for i := range p.held {
		if h := &p.held[i]; h.due(now, young[h.change]) {
			cs = append(cs, h.change)
		}
	}
	return cs
}

// over tells whether the change is due whatever its LSA.
func (h *hold) over(now time.Time) bool { return now.Sub(h.since) >= longest }

// due tells whether the change is to be made now, and notes how its LSA is. A margin passes after that
// has been young.
func (h *hold) due(now time.Time, young bool) bool {
	switch {
	case h.over(now):
		return true
	case now.Before(h.from):
		return false
	case young:
		h.young = true
		return false
	case h.young:
		h.from, h.young = now.Add(margin), false
		return false
	}
	return true
}

// young gives those of the changes that would replace an LSA which is less than a second old. A daemon
// that does not say so soon holds up no change.
func (p *pacer) young(ctx context.Context, cs []routers.Change) []routers.Change {
	if len(cs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, paceAsk)
	defer cancel()
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	v4, v6, err4, err6 := ospf{talk: p.talk}.databases(ctx, ps)
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
