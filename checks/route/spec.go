// Package route is the check that the kernel has a usable route: the default route, or those to given
// destinations. Without one, no answer leaves this host. It reads the kernel itself, for a routing daemon
// can believe that a route is installed which the kernel has lost.
package route

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"vouch/checks"
	"vouch/routers/rtnl"
)

// A Spec configures the check. Without destinations it is of the default route.
type Spec struct {
	// Origin is where the lookups of addresses are from: the source of the packets, their mark, and the
	// interface or VRF that their socket is bound to. Nothing is sent. Only with an address in
	// Destinations.
	checks.Origin
	// Family is "ipv4" (the default), "ipv6" or "both". Not with Destinations, whose families are their own.
	Family string `toml:"family"`
	// Table is the number of the routing table; default 254, the main table. Addresses in Destinations are
	// looked up as the kernel's rules say, in whatever table.
	Table int64 `toml:"table"`
	// Destinations are addresses, which the kernel must have a usable route to by its rules and tables, and
	// prefixes, which a usable route in the table must lead to exactly or as part of a larger one.
	Destinations []string `toml:"destinations"`
	// Interfaces are those that the routes may lead over; default: any but loopback and dummy interfaces.
	Interfaces []string `toml:"interfaces"`
	// Halves has routes to 0.0.0.0/1 and 128.0.0.0/1 (::/1 and 8000::/1) count as a default route.
	Halves bool `toml:"halves"`
}

var (
	_ checks.Spec    = (*Spec)(nil)
	_ checks.Hinter  = (*Spec)(nil)
	_ checks.Localer = (*Spec)(nil)
)

// Validate sets the defaults and gives every mistake.
func (s *Spec) Validate() []checks.Problem {
	addresses, prefixes, ps := s.destinations()
	ps = append(ps, s.withoutEffect(addresses, prefixes)...)
	if s.Family == "" && len(s.Destinations) == 0 {
		s.Family = "ipv4"
	}
	if s.Family != "" && s.families() == nil {
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
	ps = append(ps, s.interfaceProblems()...)
	return append(ps, s.originProblems(addresses)...)
}

func (s *Spec) interfaceProblems() (ps []checks.Problem) {
	for _, name := range s.Interfaces {
		p := checks.Problem{Key: "interfaces", Got: name, WayOut: `write such as ["eth0"], or leave it out for any`}
		switch {
		case name == "" || (checks.Origin{Device: name}).Problems(netip.Addr{}) != nil:
			p.What = "must be the names of interfaces, of at most 15 bytes without slash and space"
		case name == "lo":
			p.What = "leads back to this host, so that no route over it is usable"
		default:
			continue
		}
		ps = append(ps, p)
	}
	return ps
}

// originProblems has the source fit each address.
func (s *Spec) originProblems(addresses []netip.Addr) []checks.Problem {
	for _, a := range addresses {
		if ps := s.Problems(a); ps != nil {
			return ps
		}
	}
	return s.Problems(netip.Addr{})
}

// withoutEffect refuses keys that change nothing beside the others.
func (s *Spec) withoutEffect(addresses []netip.Addr, prefixes []netip.Prefix) (ps []checks.Problem) {
	refuse := func(bad bool, key, what, wayOut string) {
		if bad {
			ps = append(ps, checks.Problem{Key: key, What: what, WayOut: wayOut})
		}
	}
	some := len(s.Destinations) > 0
	refuse(some && s.Family != "", "family", "has no effect with destinations, each of which has a family", "remove it")
	refuse(some && s.Halves, "halves", "has no effect with destinations: it is about the default route", "remove it")
	refuse(some && s.Table != 0 && len(prefixes) == 0 && len(addresses) > 0, "table",
		"has no effect on addresses, which the kernel looks up in the tables that its rules name", `write a prefix, such as "192.0.2.1/32", or remove it`)
	for _, k := range []struct {
		key string
		set bool
	}{{"source", s.Source != ""}, {"mark", s.Mark != 0}, {"device", s.Device != ""}} {
		refuse(k.set && len(addresses) == 0 && (!some || len(prefixes) > 0), k.key, "has no effect without an address in destinations, which is looked up from it",
			`write such as destinations = ["192.0.2.1"], or remove it`)
	}
	return ps
}

// destinations reads them.
func (s *Spec) destinations() (addresses []netip.Addr, prefixes []netip.Prefix, ps []checks.Problem) {
	for _, d := range s.Destinations {
		if a, err := netip.ParseAddr(d); err == nil {
			if what := unfit(a); what != "" {
				ps = append(ps, destinationProblem(d, what))
				continue
			}
			addresses = append(addresses, a)
			continue
		}
		p, err := netip.ParsePrefix(d)
		switch {
		case err != nil:
			ps = append(ps, destinationProblem(d, "must be addresses or prefixes"))
		case loopback(p):
			ps = append(ps, destinationProblem(d, itself))
		case p.Addr().Is4In6() || p.Addr().IsMulticast():
			ps = append(ps, destinationProblem(d, "must be of hosts, and IPv4 in its own form"))
		case p != p.Masked():
			pr := destinationProblem(d, "has bits behind its length")
			pr.WayOut = fmt.Sprintf("write %q, or the address alone", p.Masked())
			ps = append(ps, pr)
		default:
			prefixes = append(prefixes, p)
		}
	}
	return addresses, prefixes, ps
}

// Leads gives the destinations in their order, addresses as prefixes of one. The way to a managed prefix may not be among them, or
// to a part of it: it leads to this node itself while it is announced. Leads is called only after Validate found nothing.
func (s *Spec) Leads() []netip.Prefix {
	var ps []netip.Prefix
	for _, d := range s.Destinations {
		p, err := netip.ParsePrefix(d)
		if err != nil {
			a, _ := netip.ParseAddr(d)
			p = netip.PrefixFrom(a, a.BitLen())
		}
		ps = append(ps, p)
	}
	return ps
}

const itself = "is this host itself, and no way out of it leads there"

// loopback says whether all of a prefix is (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.3).
func loopback(p netip.Prefix) bool {
	return p.Addr().IsLoopback() && (p.Addr().Is6() && p.IsSingleIP() || p.Addr().Is4() && p.Bits() >= 8)
}

func destinationProblem(got, what string) checks.Problem {
	return checks.Problem{Key: "destinations", What: what, Got: got, WayOut: `write such as ["192.0.2.1", "198.51.100.0/24"]`}
}

// unfit says why an address is not one that a route can be looked up to.
func unfit(a netip.Addr) string {
	switch {
	case a.Zone() != "" || a.Is4In6():
		return "must be without a zone, and IPv4 in its own form"
	case a.IsUnspecified() || a.IsMulticast():
		return "must be of hosts"
	case a.IsLoopback():
		return itself
	}
	return ""
}

// Hint gives the way out of a table by name: the names are in a file that an administrator can change,
// the kernel knows only the numbers.
func (*Spec) Hint(key string) string {
	if key == "table" {
		return "write 254 for the main table, or leave it out"
	}
	return ""
}

// Local tells of interfaces and of a source that this machine does not have.
func (s *Spec) Local() []checks.Problem {
	var ps []checks.Problem
	if s.Origin != (checks.Origin{}) {
		addresses, _, _ := s.destinations()
		ps = append(s.Origin.Local(), s.Astray(addresses)...)
	}
	for _, name := range s.Interfaces {
		if _, err := net.InterfaceByName(name); err != nil {
			ps = append(ps, checks.Problem{Key: "interfaces", Got: name, What: "there is no such interface", WayOut: "create it, or name another (ip link)"})
		}
	}
	return ps
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
