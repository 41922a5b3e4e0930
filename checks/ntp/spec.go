// Package ntp checks that a server gives the time, and that it is synchronised: NTP version 4 (RFC 5905).
package ntp

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"vouch/checks"
)

const (
	port = 123
	// mostStratum is that of a server that is synchronised; 16 says that it is not (RFC 5905, section 7.3).
	mostStratum = 15
	// defaultDistance is where ntpd's clients turn away from a server (tos maxdist); chrony's do at 3s.
	defaultDistance = 1500 * time.Millisecond
)

// A Spec is the table of a check of type "ntp". A server that is not synchronised fails always, and so does one that goes by its
// own clock alone (chrony's "local stratum", ntpd's 127.127.1.x), whatever stratum it gives itself.
type Spec struct {
	Server     string `toml:"server"`      // address, or address:port; an IPv6 address in brackets; default port 123
	MaxStratum int    `toml:"max_stratum"` // the highest stratum that is ok; default 15
	// MaxRootDistance is how far off the time may be that the server gives, by its own account of its sources and the
	// time that the round took; default 1.5s.
	MaxRootDistance time.Duration `toml:"max_root_distance"`
	// MaxOffset is how far this node's clock and the server's may be apart; default: not looked at. It tells nothing
	// of a server on this node, which gives the time of the very same clock.
	MaxOffset time.Duration `toml:"max_offset"`
	checks.Origin
}

var (
	_ checks.Spec     = (*Spec)(nil)
	_ checks.Targeter = (*Spec)(nil)
	_ checks.Localer  = (*Spec)(nil)
)

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	server, err := checks.Endpoint(s.Server, port)
	switch {
	case s.Server == "":
		ps = append(ps, checks.Problem{Key: "server", What: "is missing", WayOut: `write server = "127.0.0.1"`})
	case err != nil:
		ps = append(ps, checks.EndpointProblem("server", s.Server, err, `write an address, such as "127.0.0.1" or "[::1]:123"; names are not looked up`))
	default:
		s.Server = server.String()
	}
	s.MaxStratum = cmp.Or(s.MaxStratum, mostStratum)
	if s.MaxStratum < 1 || s.MaxStratum > mostStratum {
		ps = append(ps, checks.Problem{Key: "max_stratum", What: "must be 1 to 15; 16 is what a server says that is not synchronised",
			Got: strconv.Itoa(s.MaxStratum), WayOut: "leave it out for 15"})
	}
	s.MaxRootDistance = cmp.Or(s.MaxRootDistance, defaultDistance)
	if s.MaxRootDistance < 0 {
		ps = append(ps, checks.Problem{Key: "max_root_distance", What: "must not be negative", Got: s.MaxRootDistance.String(),
			WayOut: fmt.Sprintf(`leave it out for "%s"`, defaultDistance)})
	}
	if s.MaxOffset < 0 {
		ps = append(ps, checks.Problem{Key: "max_offset", What: "must not be negative; a clock that is slow counts as one that is fast",
			Got: s.MaxOffset.String(), WayOut: `write such as "100ms", or leave it out`})
	}
	return append(ps, s.Problems(server.Addr())...)
}

// Targets gives the server's address.
func (s *Spec) Targets() []netip.Addr {
	server, _ := checks.Endpoint(s.Server, port)
	return []netip.Addr{server.Addr()}
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	server, err := checks.Endpoint(s.Server, port)
	if err != nil {
		return nil, fmt.Errorf("server %q %w", s.Server, err)
	}
	return &checker{server: server, origin: s.Origin,
		limits: limits{stratum: s.MaxStratum, distance: s.MaxRootDistance, offset: s.MaxOffset}}, nil
}
