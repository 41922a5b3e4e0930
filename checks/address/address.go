// Package address is the check that an address is on an interface of this host and can be used.
package address

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"vouch/checks"
	"vouch/routers/rtnl"
)

// A Spec configures the check.
type Spec struct {
	// Address is the address, as "10.0.1.2" for any length or "10.0.1.2/30" for exactly that one.
	Address string `toml:"address"`
	// Interface is the name of the interface it must be on; default: any.
	Interface string `toml:"interface"`
}

var (
	_ checks.Spec     = (*Spec)(nil)
	_ checks.Targeter = (*Spec)(nil)
)

// Validate gives every mistake. There are no defaults to set.
func (s *Spec) Validate() []checks.Problem {
	var ps []checks.Problem
	if _, err := s.wanted(); err != nil {
		p := checks.Problem{
			Key: "address", What: "must be an address, or an address and its length", Got: strconv.Quote(s.Address),
			WayOut: `write "192.0.2.1" or "192.0.2.1/24"`,
		}
		if s.Address == "" {
			p.What, p.Got = "is missing", ""
		}
		ps = append(ps, p)
	}
	if !interfaceName(s.Interface) {
		ps = append(ps, checks.Problem{
			Key: "interface", What: "must be the name of an interface, at most 15 bytes without slash and space", Got: strconv.Quote(s.Interface),
			WayOut: `write "lo", or leave it out for any interface`,
		})
	}
	return ps
}

// Targets gives the address that is looked for.
func (s *Spec) Targets() []netip.Addr {
	t, err := s.wanted()
	if err != nil {
		return nil
	}
	return []netip.Addr{t.address}
}

// interfaceName says whether the kernel can have an interface of that name; empty stands for any.
func interfaceName(s string) bool {
	return len(s) <= 15 && s != "." && s != ".." && !strings.ContainsAny(s, "/: \t\n\v\f\r\x00")
}

// A target is what is looked for; bits is -1 for any length.
type target struct {
	address netip.Addr
	bits    int
	iface   string
}

// wanted reads the address. An interface belongs in Interface, not behind a "%", and an IPv4 address
// is never on an interface in its IPv6 form.
func (s *Spec) wanted() (target, error) {
	t := target{bits: -1, iface: s.Interface}
	if p, err := netip.ParsePrefix(s.Address); err == nil {
		t.address, t.bits = p.Addr(), p.Bits()
	} else if t.address, err = netip.ParseAddr(s.Address); err != nil {
		return target{}, err
	}
	if t.address.Zone() != "" || t.address.Is4In6() {
		return target{}, fmt.Errorf("address %q has a zone, or is an IPv4 address in IPv6 form", s.Address)
	}
	return t, nil
}

// New makes the check; it reads nothing yet.
func (s *Spec) New() (checks.Checker, error) {
	t, err := s.wanted()
	if err != nil {
		return nil, fmt.Errorf("address check: %w", err)
	}
	return &check{t}, nil
}

// A check reads in the network namespace of the thread that calls it.
type check struct{ target }

var (
	_ checks.Checker = (*check)(nil)
	_ checks.Watcher = (*check)(nil)
)

// Check wants the address to be there and usable.
func (c *check) Check(ctx context.Context) error {
	checks.Tracef(ctx, checks.Sent, "asked the kernel for all addresses")
	found, err := rtnl.Addresses(ctx)
	if err != nil {
		return &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	}
	if checks.Traced(ctx) {
		c.trace(ctx, found)
	}
	if f := c.judge(found); f != nil {
		return f
	}
	return nil
}

// trace tells of the address wherever it is.
func (t target) trace(ctx context.Context, found []rtnl.Address) {
	checks.Tracef(ctx, checks.Got, "%d addresses", len(found))
	for _, a := range found {
		if a.Prefix.Addr() == t.address {
			checks.Tracef(ctx, checks.Got, "%s on interface %q (usable: %t)", a.Prefix, a.Interface, a.Usable())
		}
	}
}

// judge is content with one usable address; otherwise it says what comes nearest.
func (t target) judge(found []rtnl.Address) *checks.Failure {
	var unusable, elsewhere []string
	for _, a := range found {
		if a.Prefix.Addr() != t.address {
			continue
		}
		place := fmt.Sprintf("%s on interface %q", a.Prefix, a.Interface)
		switch {
		case !t.matches(a):
			elsewhere = append(elsewhere, place)
		case a.Usable():
			return nil
		default:
			unusable = append(unusable, place+": "+a.State())
		}
	}
	if len(unusable) > 0 {
		return &checks.Failure{Reason: checks.ReasonUnusable, Detail: strings.Join(unusable, "; ")}
	}
	f := &checks.Failure{Reason: checks.ReasonAbsent, Detail: fmt.Sprintf("no %s", t)}
	if len(elsewhere) > 0 {
		f.Detail += ", but there is " + strings.Join(elsewhere, " and ")
	}
	return f
}

func (t target) matches(a rtnl.Address) bool {
	return (t.iface == "" || t.iface == a.Interface) && (t.bits < 0 || t.bits == a.Prefix.Bits())
}

// Watch wakes on every change of links and addresses.
func (c *check) Watch(ctx context.Context, wake func()) error {
	return rtnl.WatchFor(ctx, rtnl.OnLinks|rtnl.OnAddresses, wake)
}

// Subscribe is Watch that does not wait.
func (c *check) Subscribe(ctx context.Context, wake func(), over func(error)) {
	rtnl.SubscribeFor(ctx, rtnl.OnLinks|rtnl.OnAddresses, wake, over)
}

// String is such as "address 10.0.1.2/30 on eth0".
func (t target) String() string {
	s := "address " + t.address.String()
	if t.bits >= 0 {
		s = "address " + netip.PrefixFrom(t.address, t.bits).String()
	}
	if t.iface != "" {
		s += " on " + t.iface
	}
	return s
}
