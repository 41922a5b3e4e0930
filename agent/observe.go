package agent

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// A prefix is the core's record of what one prefix was last read to be.
type prefix struct {
	routers.Observation
	want      routers.Want
	wantSince time.Time
	read      time.Time // last reading that was not unknown
	since     time.Time // since when the stage is so
	arrived   bool      // it has been as wanted since it was wanted so
	right     time.Time // the beginning of the last reading by which it was so
	drifted   time.Time // when it was read to be so no more, by somebody else's doing; zero: it is
	unheard   bool      // it has drifted only in that too few peers have it
	out       *reconcile.Outstanding
	told      map[string]bool // errors already told in this divergence; nil: not diverged for long
}

// gone tells whether it was read absent after nothing was under way any more. An absent that is still
// outstanding may be a reading from before an announce came through.
func (ps *prefix) gone() bool { return ps.Stage == routers.Absent && ps.out == nil }

// onReport takes in what the reconciler read and did.
func (c *core) onReport(r reconcile.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = maps.Equal(r.Desired, c.desired)
	c.onRead(r)
	for _, o := range r.Observations {
		if ps := c.seen[o.Prefix]; ps != nil {
			c.onObservation(ps, o, r)
		}
	}
	for p, ps := range c.seen {
		c.onOutstanding(ps, r.Outstanding, p, r.Time)
	}
	c.onRenamed()
	c.dropLeft()
	c.settle(time.Now())
}

// onRouter takes in what the router calls itself, and how far it can tell that a prefix has come: both
// may be found out by reading, and become others when another daemon is found.
func (c *core) onRouter(r reconcile.Report, first bool) {
	rt := &c.head.Router
	old := rt.Name
	rt.Name, rt.Goal = r.Router, r.Goal
	if first || rt.Name == old {
		return
	}
	c.event(state.Event{Level: "info", Kind: state.KindRouter, Reason: "changed", Text: fmt.Sprintf("%s (was %s)", rt.Name, old)})
	c.examine() // what was found of the one before is not true any more
}

// onRead tells when the routing daemon went or came back.
func (c *core) onRead(r reconcile.Report) {
	rt := &c.head.Router
	first := rt.Since.IsZero()
	c.onRouter(r, first)
	ok, text := r.ReadErr == nil, ""
	if !ok {
		text = state.Clean(r.ReadErr.Error())
	} else {
		rt.Read = r.Time
	}
	if r.WatchErr != nil {
		c.problem("kernel events", "kernel events are lost, vouch only polls until they are back: "+state.Clean(r.WatchErr.Error()))
	} else {
		c.problem("kernel events", "")
	}
	if !first && ok == rt.OK {
		rt.Error = text
		return
	}
	rt.OK, rt.Error, rt.Since = ok, text, r.Time
	if ok {
		c.examine()
	}
	switch {
	case !ok:
		c.event(state.Event{Level: "error", Kind: state.KindRouter, Reason: "unreadable", Text: rt.Name + " cannot be read: " + text})
	case first:
		c.event(state.Event{Level: "info", Kind: state.KindRouter, Text: rt.Name + " is read"})
	default:
		c.event(state.Event{Level: "info", Kind: state.KindRouter, Text: rt.Name + " can be read again"})
	}
}

// onObservation updates one prefix.
func (c *core) onObservation(ps *prefix, o routers.Observation, r reconcile.Report) {
	old := ps.Observation
	ps.Observation = o
	if o.Stage != routers.Unknown {
		ps.read = r.Time
	}
	c.onStage(ps, old, r.Time)
	if c.met(ps) {
		ps.right = r.Time.Add(-r.Took)
	}
}

// onStage tells when a prefix came to another stage or way, or to stand on nothing.
func (c *core) onStage(ps *prefix, old routers.Observation, now time.Time) {
	o := ps.Observation
	if (len(c.found) > 0 || !ps.drifted.IsZero() && !ps.unheard) && otherwise(old, o) {
		c.examine() // what was found may be put right, and who changed something may be found
	}
	if !ps.since.IsZero() && old.Stage == o.Stage && old.Broken == o.Broken && old.Degraded == o.Degraded {
		return
	}
	first := ps.since.IsZero()
	ps.since = now
	if first && o.Stage == routers.Unknown {
		return // nothing was known, and nothing is
	}
	level, text := c.stageText(ps, old, first, now)
	if o.Detail != "" {
		text += ": " + state.Clean(o.Detail)
	}
	c.event(state.Event{Level: level, Kind: state.KindStage, Service: c.ownerOf(o.Prefix), Prefix: o.Prefix.String(), Stage: o.Stage.String(), Text: text})
}

// stageText says in words that the stage of ps is another one than before, and whose doing that is.
func (c *core) stageText(ps *prefix, old routers.Observation, first bool, now time.Time) (level, text string) {
	met, text := c.met(ps), fmt.Sprintf("%s (was %s)", standing(ps.Observation), standing(old))
	defer func() { ps.arrived = ps.arrived || met }()
	switch {
	case first:
		return "info", standing(ps.Observation) + " when first read"
	case ps.Stage == routers.Unknown:
		return "warn", text
	case met && !ps.drifted.IsZero():
		text += ps.backText(now)
		ps.drifted, ps.unheard = time.Time{}, false
	case met && !ps.arrived:
		text += fmt.Sprintf(", %s after it was to be %s", lasted(ps.wantSince, now), ps.want)
	case !met && ps.arrived && (ps.drifted.IsZero() || ps.unheard && !c.lacksPeers(ps)):
		ps.drifted, ps.unheard = now, c.lacksPeers(ps)
		return "warn", text + ", " + ps.driftText() + "; " + oughtText(ps)
	}
	return "info", text
}

// lacksPeers says whether nothing but peers is missing: the table itself has the prefix as it ought to be, so
// nobody needs to have changed anything.
func (c *core) lacksPeers(ps *prefix) bool {
	return ps.Stage == routers.Selected && c.head.Router.Goal == routers.Advertised && !ps.Broken &&
		ps.want != routers.Withdrawn && ps.Degraded == (ps.want == routers.Degraded)
}

// driftText says what has become of a prefix that was as it ought to be.
func (ps *prefix) driftText() string {
	switch {
	case !ps.unheard:
		return "changed by something else than vouch"
	case len(ps.Reached()) > 0:
		return "too few peers have it now"
	}
	return "no peer has it now"
}

// backText says how long a prefix was not as it ought to be. When that began is known no better than by the
// readings before it.
func (ps *prefix) backText(now time.Time) string {
	text := ", put right "
	if ps.unheard {
		text = ", peers have it again "
	}
	text += lasted(ps.drifted, now) + " after that was read"
	if !ps.right.IsZero() {
		text += ", and at most " + lasted(ps.right, now) + " after it happened"
	}
	return text
}

func lasted(since, now time.Time) string {
	return now.Sub(since).Round(100 * time.Microsecond).String()
}

// oughtText says what ps ought to be; where only the way is wrong, which one it is.
func oughtText(ps *prefix) string {
	there := ps.Stage >= routers.Configured && !ps.Broken
	switch {
	case there && ps.want == routers.Degraded && !ps.Degraded:
		return "it is announced as usual though it ought to be degraded"
	case there && ps.want == routers.Announced && ps.Degraded:
		return "it is degraded though it ought to be announced as usual"
	}
	return "it ought to be " + ps.want.String()
}

// standing names the stage and the way, and says when it stands on nothing.
func standing(o routers.Observation) string {
	text := o.Stage.String()
	if o.Degraded {
		text += ", degraded"
	}
	if o.Broken {
		text = "broken, though " + text
	}
	return text
}

// met tells whether ps was read as it ought to be.
func (c *core) met(ps *prefix) bool {
	return reconcile.Met(ps.want, ps.Observation, c.head.Router.Goal)
}

// onOutstanding tells once that a change did not take, once for each new cause, and once that it is
// settled, which nothing is of which nothing is known or wanted. What is under way has the router's deadline.
func (c *core) onOutstanding(ps *prefix, all map[netip.Prefix]reconcile.Outstanding, p netip.Prefix, now time.Time) {
	out, diverged := all[p]
	if !diverged {
		ps.out = nil
		if ps.told != nil && ps.want != routers.Keep && ps.Stage != routers.Unknown {
			ps.told = nil
			c.event(state.Event{Level: "info", Kind: state.KindSettled, Service: c.ownerOf(p), Prefix: p.String(), Stage: ps.Stage.String(),
				Text: fmt.Sprintf("is %s, as it ought to be", standing(ps.Observation))})
		}
		return
	}
	ps.out = &out
	if out.Err == nil || ps.told[out.Err.Error()] || errors.Is(out.Err, routers.ErrUnderway) && now.Sub(out.Since) < c.cfg.Router.Deadline {
		return
	}
	if ps.told == nil {
		ps.told = map[string]bool{}
	}
	if len(ps.told) >= 8 {
		return // a daemon whose every error differs must not fill the log
	}
	ps.told[out.Err.Error()] = true
	c.event(state.Event{Level: "warn", Kind: state.KindDiverged, Service: c.ownerOf(p), Prefix: p.String(), Stage: ps.Stage.String(), Reason: ps.want.String(),
		Text: fmt.Sprintf("ought to be %s: %s; it is tried again", ps.want, state.Clean(out.Err.Error()))})
}

// dropLeft forgets prefixes and services that are no longer configured and now read absent.
func (c *core) dropLeft() {
	if !c.current {
		return // an announce that was still under way may yet come through
	}
	for name, s := range c.services {
		s.leaving = slices.DeleteFunc(s.leaving, func(p netip.Prefix) bool { last := c.last(p); return last.gone() })
		if s.removed && len(s.leaving) == 0 {
			delete(c.services, name)
			c.dirty = true
		}
	}
}

// ownerOf names the service that p belongs to.
func (c *core) ownerOf(p netip.Prefix) string {
	for name, s := range c.services {
		if slices.Contains(s.managed(), p) {
			return name
		}
	}
	return ""
}
