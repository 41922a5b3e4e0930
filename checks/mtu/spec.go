// Package mtu checks that the path to given destinations carries packets of a size.
package mtu

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"vouch/checks"
	"vouch/checks/datagram"
)

const (
	defaultBytes = 1280  // what each IPv6 link carries (RFC 8200, section 5), and QUIC needs (RFC 9000, section 14)
	mostBytes    = 65535 // of an IPv4 packet
	smallBytes   = 100   // of the packet that tells a destination that is down from a path that is narrow
	quicPort     = 443
	mostTargets  = 16
)

// A Spec is the table of a check of type "mtu". It sends packets of that size that must not be fragmented, and
// smaller ones beside them: a destination that answers only these is behind a path that is too narrow, one that
// answers neither is not reached, which fails as well. It proves the way there; what comes back may have been fragmented.
type Spec struct {
	Destinations []string `toml:"destinations"` // addresses, up to 16; with probe "quic" with a port or on port 443. Better ones of several networks
	Bytes        int      `toml:"bytes"`        // size of the IP packet with its headers; default 1280
	// Probe is "icmp" (default): an echo request, which most hosts and routers answer; or "quic": a QUIC packet of
	// a version that no server knows, which each server answers by those it does (RFC 9000, section 6.1). It
	// goes the way of HTTP/3, as networks treat UDP otherwise than ping; at least 1228 bytes, 1248 over IPv6.
	Probe string `toml:"probe"`
	// Require is "any" (default): one destination that is reached is enough, as a fault of this node's uplink
	// is met towards all of them, and one of them may be down; or "all".
	Require string `toml:"require"`
	checks.Origin
}

var (
	_ checks.Spec     = (*Spec)(nil)
	_ checks.Targeter = (*Spec)(nil)
	_ checks.Localer  = (*Spec)(nil)
)

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	s.Bytes = cmp.Or(s.Bytes, defaultBytes)
	s.Probe = cmp.Or(s.Probe, "icmp")
	s.Require = cmp.Or(s.Require, "any")
	if s.Probe != "icmp" && s.Probe != "quic" {
		ps = append(ps, checks.Problem{Key: "probe", What: "must be icmp or quic", Got: s.Probe, WayOut: `leave it out for "icmp"`})
	}
	if s.Require != "any" && s.Require != "all" {
		ps = append(ps, checks.Problem{Key: "require", What: "must be any or all", Got: s.Require, WayOut: `leave it out for "any"`})
	}
	ps = append(ps, s.validateDestinations()...)
	if least, why := s.leastBytes(); s.Bytes < least || s.Bytes > mostBytes {
		ps = append(ps, checks.Problem{Key: "bytes", What: fmt.Sprintf("must be %d to %d%s", least, mostBytes, why), Got: strconv.Itoa(s.Bytes),
			WayOut: fmt.Sprintf("leave it out for %d", defaultBytes)})
	}
	return ps
}

func (s *Spec) validateDestinations() (ps []checks.Problem) {
	if n := len(s.Destinations); n == 0 || n > mostTargets {
		what := "is missing"
		if n > 0 {
			what = fmt.Sprintf("has %d, and at most %d are probed", n, mostTargets)
		}
		ps = append(ps, checks.Problem{Key: "destinations", What: what, WayOut: `write addresses of hosts that answer, such as ["192.0.2.1", "198.51.100.1"]`})
	}
	var first netip.Addr
	seen := make(map[netip.AddrPort]bool, len(s.Destinations))
	for i, d := range s.Destinations {
		to, p := s.target(d)
		if p != nil {
			ps = append(ps, *p)
			continue
		}
		if seen[to] {
			ps = append(ps, checks.Problem{Key: "destinations", What: "is named twice", Got: d, WayOut: "remove one, or name a host of another network"})
		}
		seen[to] = true
		if s.Destinations[i] = to.String(); s.Probe != "quic" {
			s.Destinations[i] = to.Addr().String()
		}
		if !first.IsValid() {
			first = to.Addr()
		}
		if s.Source != "" && to.Addr().Is4() != first.Is4() {
			ps = append(ps, checks.Problem{Key: "destinations", What: "must be of one family, as there is one source", Got: d,
				WayOut: "make two checks, one for IPv4 and one for IPv6"})
		}
	}
	return append(ps, s.Problems(first)...)
}

// leastBytes is what the probes need, and why.
func (s *Spec) leastBytes() (int, string) {
	if s.Probe != "quic" {
		return smallBytes + 1, ""
	}
	for _, d := range s.Destinations {
		if to, p := s.target(d); p == nil && to.Addr().Is6() {
			return datagram.IPHeader(to.Addr()) + udpHeader + leastQUIC, ", as QUIC servers answer nothing smaller"
		}
	}
	return datagram.IPHeader(netip.IPv4Unspecified()) + udpHeader + leastQUIC, ", as QUIC servers answer nothing smaller"
}

// target reads one destination; its port is 0 unless QUIC is spoken.
func (s *Spec) target(d string) (netip.AddrPort, *checks.Problem) {
	if s.Probe == "quic" {
		if a, err := netip.ParseAddr(d); err == nil {
			d = netip.AddrPortFrom(a, quicPort).String()
		}
		to, err := checks.Endpoint(d, quicPort)
		if err != nil {
			p := checks.EndpointProblem("destinations", d, err, `write an address, or an address and a port, such as "192.0.2.1:8443" or "[2001:db8::1]:8443"; names are not looked up`)
			return to, &p
		}
		return to, s.linkLocal(d, to.Addr())
	}
	p := &checks.Problem{Key: "destinations", Got: d, WayOut: `write the address of a host, such as "192.0.2.1" or "2001:db8::1"`}
	a, err := netip.ParseAddr(d)
	switch a = a.Unmap(); {
	case err != nil:
		p.What = "is not an IP address; names are not looked up, and only QUIC knows ports"
	case a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		p.What = "is not the address of one host"
	default:
		return netip.AddrPortFrom(a, 0), s.linkLocal(d, a)
	}
	return netip.AddrPort{}, p
}

func (s *Spec) linkLocal(d string, a netip.Addr) *checks.Problem {
	if !a.Is6() || !a.IsLinkLocalUnicast() || a.Zone() != "" || s.Device != "" {
		return nil
	}
	return &checks.Problem{Key: "destinations", Got: d, What: "is link-local, and there is one of these on each interface",
		WayOut: fmt.Sprintf(`write the interface behind the address, such as "%s%%eth0", or set device`, a)}
}

func (s *Spec) targets() (out []netip.AddrPort) {
	for _, d := range s.Destinations {
		if to, p := s.target(d); p == nil {
			out = append(out, to)
		}
	}
	return out
}

// Targets gives the destinations' addresses.
func (s *Spec) Targets() (out []netip.Addr) {
	for _, to := range s.targets() {
		out = append(out, to.Addr())
	}
	return out
}

// Local says whether this process may ping, where that is the probe, and what of the origin this machine does
// not have.
func (s *Spec) Local() []checks.Problem {
	ps := s.Origin.Local()
	if s.Probe == "quic" {
		return ps
	}
	var f *checks.Failure
	for _, a := range s.Targets() {
		if err := datagram.MayEcho(a); errors.As(err, &f) && f.Reason == checks.ReasonDenied {
			return append(ps, checks.Problem{Key: "probe", Got: s.Probe, What: "this process may not ping", WayOut: datagram.WayToPing + `, or write probe = "quic"`})
		}
	}
	return ps
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	targets := s.targets()
	if len(targets) == 0 || len(targets) != len(s.Destinations) {
		return nil, fmt.Errorf("destinations %q are not all addresses", s.Destinations)
	}
	return &checker{targets: targets, bytes: s.Bytes, quic: s.Probe == "quic", all: s.Require == "all", origin: s.Origin}, nil
}
