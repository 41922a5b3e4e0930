// Package route is the check that the kernel has a usable default route: without one, no answer
// leaves this host. It reads the routing table itself, for a routing daemon can believe that a route
// is installed which the kernel has lost.
package route

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"vouch/checks"
	"vouch/routers/rtnl"
)

// A Spec configures the check.
type Spec struct {
	// Family is "ipv4" (the default), "ipv6" or "both".
	Family string `toml:"family"`
	// Table is the number of the routing table; default 254, the main table.
	Table int64 `toml:"table"`
}

var (
	_ checks.Spec   = (*Spec)(nil)
	_ checks.Hinter = (*Spec)(nil)
)

// Validate sets the defaults and gives every mistake.
func (s *Spec) Validate() []checks.Problem {
	var ps []checks.Problem
	if s.Family == "" {
		s.Family = "ipv4"
	}
	if s.families() == nil {
		ps = append(ps, checks.Problem{
			Key: "family", What: "must be ipv4, ipv6 or both", Got: strconv.Quote(s.Family), WayOut: `write "ipv4", or leave it out`,
		})
	}
	if s.Table == 0 {
		s.Table = int64(rtnl.MainTable)
	}
	if s.Table < 1 || s.Table > 1<<32-1 {
		ps = append(ps, checks.Problem{
			Key: "table", What: "must be the number of a routing table, from 1 to 4294967295", Got: strconv.FormatInt(s.Table, 10),
			WayOut: s.Hint("table"),
		})
	}
	return ps
}

// Hint gives the way out of a table by name: the names are in a file that an administrator can change,
// the kernel knows only the numbers.
func (*Spec) Hint(key string) string {
	if key == "table" {
		return "write 254 for the main table, or leave it out"
	}
	return ""
}

func (s *Spec) families() []rtnl.Family {
	switch s.Family {
	case "ipv4":
		return []rtnl.Family{rtnl.IPv4}
	case "ipv6":
		return []rtnl.Family{rtnl.IPv6}
	case "both":
		return []rtnl.Family{rtnl.IPv4, rtnl.IPv6}
	}
	return nil
}

// New makes the check; it reads nothing yet.
func (s *Spec) New() (checks.Checker, error) {
	return &check{families: s.families(), table: uint32(s.Table)}, nil
}

// A check reads in the network namespace of the thread that calls it.
type check struct {
	families []rtnl.Family
	table    uint32
}

var (
	_ checks.Checker = (*check)(nil)
	_ checks.Watcher = (*check)(nil)
)

// Check wants a usable default route in each family. What is known to be wrong in one counts more
// than what is not known of the other.
func (c *check) Check(ctx context.Context) error {
	var failed *checks.Failure
	for _, family := range c.families {
		d, err := rtnl.DefaultRoute(ctx, family, c.table)
		failed = worse(failed, c.failure(family, d, err))
	}
	if failed == nil {
		return nil
	}
	return failed
}

// failure turns one reading into a failure, or nil.
func (c *check) failure(family rtnl.Family, d rtnl.Default, err error) *checks.Failure {
	f := &checks.Failure{Detail: d.Text}
	switch {
	case err != nil:
		return &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	case d.Usable:
		return nil
	case d.Found:
		f.Reason = checks.ReasonUnusable
	default:
		f.Reason = checks.ReasonAbsent
	}
	if len(c.families) > 1 {
		f.Detail = family.String() + ": " + f.Detail
	}
	return f
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

// Watch wakes on every change of links, addresses, routes and nexthop objects.
func (c *check) Watch(ctx context.Context, wake func()) error { return rtnl.Watch(ctx, wake) }

// String is such as "default route ipv4 table 254".
func (c *check) String() string {
	names := make([]string, len(c.families))
	for i, f := range c.families {
		names[i] = f.String()
	}
	return fmt.Sprintf("default route %s table %d", strings.Join(names, " and "), c.table)
}
