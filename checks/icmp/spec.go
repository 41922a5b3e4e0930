// Package icmp checks that a host answers ping: ICMP and ICMPv6 echo requests.
package icmp

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
	// leastSize has room for what tells our replies from those of others.
	leastSize = token
	// mostSize fits a jumbo frame of 9000 bytes.
	mostSize    = 8952
	defaultSize = 56
	mostCount   = 100
)

// A Spec is the table of a check of type "icmp". It proves that a host is reached and comes back, not that
// it serves anything: hosts and routers answer ping when all else on them has failed, and may answer few
// while they are busy.
type Spec struct {
	Address string `toml:"address"`             // address of the host, without a port; a link-local one with its zone: "fe80::1%eth0"
	Count   int    `toml:"count"`               // requests in a round, spread over its first half; default 1
	MaxLoss int    `toml:"max_loss" empty:"ok"` // how many of them may stay without a reply; default 0
	Size    int    `toml:"size"`                // payload in bytes; default 56. Larger packets than a link takes are fragmented
	checks.Origin
}

var (
	_ checks.Spec     = (*Spec)(nil)
	_ checks.Targeter = (*Spec)(nil)
	_ checks.Localer  = (*Spec)(nil)
)

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	address, p := s.target()
	if p != nil {
		ps = append(ps, *p)
	} else {
		s.Address = address.String()
	}
	s.Count = cmp.Or(s.Count, 1)
	s.Size = cmp.Or(s.Size, defaultSize)
	if s.Count < 1 || s.Count > mostCount {
		ps = append(ps, checks.Problem{Key: "count", What: fmt.Sprintf("must be 1 to %d requests", mostCount), Got: strconv.Itoa(s.Count),
			WayOut: "leave it out for 1"})
	} else if s.MaxLoss < 0 || s.MaxLoss >= s.Count {
		ps = append(ps, checks.Problem{Key: "max_loss", What: fmt.Sprintf("must be 0 to %d, less than count: else the check could never fail", s.Count-1),
			Got: strconv.Itoa(s.MaxLoss), WayOut: "write a smaller number, or a larger count"})
	}
	if s.Size < leastSize || s.Size > mostSize {
		ps = append(ps, checks.Problem{Key: "size", What: fmt.Sprintf("must be %d to %d bytes of payload", leastSize, mostSize), Got: strconv.Itoa(s.Size),
			WayOut: fmt.Sprintf("leave it out for %d", defaultSize)})
	}
	return append(ps, s.Problems(address)...)
}

// target reads the address.
func (s *Spec) target() (netip.Addr, *checks.Problem) {
	p := &checks.Problem{Key: "address", Got: s.Address, WayOut: `write the address of a host, such as "192.0.2.1" or "2001:db8::1"`}
	a, err := netip.ParseAddr(s.Address)
	switch a = a.Unmap(); {
	case s.Address == "":
		p.What = "is missing"
	case err != nil:
		p.What = "is not an IP address; names are not looked up, and ping knows no ports"
	case a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		p.What = "is not the address of one host"
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "" && s.Device == "":
		p.What, p.WayOut = "is link-local, and there is one of these on each interface", fmt.Sprintf(`write the interface behind it, such as "%s%%eth0", or set device`, a)
	default:
		return a, nil
	}
	return netip.Addr{}, p
}

// Targets gives the address that is pinged.
func (s *Spec) Targets() []netip.Addr {
	a, _ := s.target()
	return []netip.Addr{a}
}

// Local says whether this process may ping, and what of the origin this machine does not have.
func (s *Spec) Local() []checks.Problem {
	ps := s.Origin.Local()
	address, _ := s.target()
	var f *checks.Failure
	if err := datagram.MayEcho(address); errors.As(err, &f) && f.Reason == checks.ReasonDenied {
		ps = append(ps, checks.Problem{What: "this process may not ping", WayOut: datagram.WayToPing})
	}
	return ps
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	address, p := s.target()
	if p != nil {
		return nil, fmt.Errorf("address %q %s", s.Address, p.What)
	}
	return &checker{address: address, origin: s.Origin, count: s.Count, maxLoss: s.MaxLoss, size: s.Size}, nil
}
