package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"vouch/checks"
	"vouch/routers/rtnl"
)

// New makes the check; it reads nothing yet.
func (s *Spec) New() (checks.Checker, error) {
	addresses, prefixes, ps := s.destinations()
	if len(ps) > 0 {
		return nil, fmt.Errorf("destinations %q: %s", ps[0].Got, ps[0].What)
	}
	c := &check{table: uint32(s.Table), over: slices.Clone(s.Interfaces), changes: rtnl.OnLinks | rtnl.OnAddresses | rtnl.OnDefaults}
	for _, f := range s.families() {
		c.wants = append(c.wants, want{family: f, halves: s.Halves})
	}
	for _, a := range addresses {
		l := rtnl.Lookup{To: a, From: s.SourceAddr(), Mark: s.Mark, Over: s.Device}
		c.wants = append(c.wants, want{lookup: l})
		c.source, c.changes = s.SourceAddr(), rtnl.OnEverything
	}
	for _, p := range prefixes {
		c.wants = append(c.wants, want{prefix: p})
		c.changes |= rtnl.OnNetworks
	}
	return c, nil
}

// A check reads in the network namespace of the thread that calls it.
type check struct {
	wants   []want
	table   uint32
	over    []string
	source  netip.Addr // must be on this node; invalid: none
	changes rtnl.Concern
	alarm   alarm
}

// A want is one route that must be there: to an address by the kernel's own lookup, to a prefix by a table,
// or else the default route.
type want struct {
	lookup rtnl.Lookup
	prefix netip.Prefix
	family rtnl.Family
	halves bool
}

var (
	_ checks.Checker = (*check)(nil)
	_ checks.Watcher = (*check)(nil)
)

// Check wants each route to be there and usable. What is known to be wrong of one counts more than what
// is not known of another.
func (c *check) Check(ctx context.Context) error {
	failed := c.sourceFailure(ctx)
	if failed != nil {
		return failed
	}
	var soonest time.Duration
	for _, w := range c.wants {
		way, err := c.ask(ctx, w)
		if way.Left > 0 && (soonest == 0 || way.Left < soonest) {
			soonest = way.Left
		}
		f := c.failure(w, way, err)
		if checks.Traced(ctx) {
			trace(ctx, c.what(w), way, err)
		}
		failed = worse(failed, f)
	}
	c.alarm.set(soonest)
	if failed == nil {
		return nil
	}
	return failed
}

func trace(ctx context.Context, what string, way rtnl.Way, err error) {
	checks.Tracef(ctx, checks.Sent, "asked the kernel for the %s", what)
	switch {
	case err != nil:
		checks.Tracef(ctx, checks.Got, "%v", err)
	case !way.Found:
		checks.Tracef(ctx, checks.Got, "there is none")
	default:
		checks.Tracef(ctx, checks.Got, "%s (usable: %t)", way.Text, way.Usable)
	}
}

// sourceFailure wants the source of lookups on this node: of IPv6 the kernel does not look.
func (c *check) sourceFailure(ctx context.Context) *checks.Failure {
	if !c.source.IsValid() {
		return nil
	}
	found, err := rtnl.Addresses(ctx)
	if err != nil {
		return &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	}
	for _, a := range found {
		if a.Prefix.Addr() == c.source && a.Usable() {
			return nil
		}
	}
	return &checks.Failure{Reason: checks.ReasonUnreachable,
		Detail: fmt.Sprintf("the source address %s is not on this node, or not usable yet", c.source)}
}

func (c *check) ask(ctx context.Context, w want) (rtnl.Way, error) {
	switch {
	case w.lookup.To.IsValid():
		return rtnl.Look(ctx, w.lookup, c.over...)
	case w.prefix.IsValid():
		return rtnl.RouteTo(ctx, w.prefix, c.table, c.over...)
	}
	if w.halves {
		return rtnl.Halves(ctx, w.family, c.table, c.over...)
	}
	return rtnl.DefaultRoute(ctx, w.family, c.table, c.over...)
}

// what names a route that is wanted.
func (c *check) what(w want) string {
	switch {
	case w.lookup.To.IsValid():
		return "route to " + w.lookup.String()
	case w.prefix.IsValid():
		return fmt.Sprintf("route to %s in table %s", w.prefix, rtnl.TableName(c.table))
	}
	kind := "default route"
	if w.halves {
		kind = "default route or two halves"
	}
	return fmt.Sprintf("%s for %s in table %s", kind, familyNames[w.family], rtnl.TableName(c.table))
}

var familyNames = map[rtnl.Family]string{rtnl.IPv4: "IPv4", rtnl.IPv6: "IPv6"}

// failure turns one reading into a failure, or nil.
func (c *check) failure(w want, way rtnl.Way, err error) *checks.Failure {
	switch {
	case err != nil:
		return &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	case way.Usable:
		return nil
	case way.Found:
		return &checks.Failure{Reason: checks.ReasonUnusable,
			Detail: fmt.Sprintf("no usable %s: only %s", c.what(w), strconv.Quote(way.Text))}
	}
	return &checks.Failure{Reason: checks.ReasonAbsent, Detail: "no " + c.what(w)}
}

// worse gives the failure that decides; of two of one sort it joins what they say.
func worse(a, b *checks.Failure) *checks.Failure {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	unknownA, unknownB := a.Reason == checks.ReasonUnknown, b.Reason == checks.ReasonUnknown
	switch {
	case unknownA && unknownB:
		return &checks.Failure{Reason: a.Reason, Err: errors.Join(a.Err, b.Err)}
	case unknownA:
		return b
	case unknownB:
		return a
	}
	return &checks.Failure{Reason: a.Reason, Detail: a.Detail + "; " + b.Detail}
}

// Watch wakes on every change that can take a wanted route away or bring it back. A router that tells of
// thousands of routes does not wake a check of the default route. The end of a lifetime, which a router advertised, wakes
// it too.
func (c *check) Watch(ctx context.Context, wake func()) error {
	defer c.alarm.off()
	return rtnl.WatchFor(ctx, c.changes, c.alarm.on(wake))
}

// Subscribe is Watch that does not wait.
func (c *check) Subscribe(ctx context.Context, wake func(), over func(error)) {
	rtnl.SubscribeFor(ctx, c.changes, c.alarm.on(wake), func(err error) {
		c.alarm.off()
		over(err)
	})
}

// String is such as "default route ipv4 table 254" or "route to 192.0.2.1 from 10.0.0.1, 198.51.100.0/24
// table 254".
func (c *check) String() string {
	var families, tos []string
	for _, w := range c.wants {
		switch {
		case w.lookup.To.IsValid():
			tos = append(tos, w.lookup.String())
		case w.prefix.IsValid():
			tos = append(tos, fmt.Sprintf("%s table %d", w.prefix, c.table))
		default:
			families = append(families, w.family.String())
		}
	}
	s := "route to " + strings.Join(tos, ", ")
	if len(tos) == 0 {
		s = fmt.Sprintf("default route %s table %d", strings.Join(families, " and "), c.table)
	}
	if len(c.over) > 0 {
		s += " over " + strings.Join(c.over, " or ")
	}
	return s
}
