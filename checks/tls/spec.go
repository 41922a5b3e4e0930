// Package tls checks that a server makes a secure connection: handshake, name, chain, days left.
package tls

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/trust"
)

// The versions that can be asked for.
var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// A Spec is the table of a check of type "tls". It proves nothing about what is spoken inside; a server that
// begins in plain text (STARTTLS) fails.
type Spec struct {
	Address    string   `toml:"address"`     // address:port; an IPv6 address in brackets
	ALPN       []string `toml:"alpn"`        // protocols to offer, such as "h2"; the server must take one
	MinVersion string   `toml:"min_version"` // the oldest version of TLS that will do: "1.2" (default) or "1.3"
	trust.Spec
	checks.Origin
}

// Validate gives all that is wrong. The server's name must be given, as the address is not who the
// certificate is for; an address that is so can be the name.
func (s *Spec) Validate() []checks.Problem {
	address, canonical, ps := checks.NeedEndpoint("address", s.Address, "443")
	s.Address = canonical
	if s.MinVersion == "" {
		s.MinVersion = "1.2"
	}
	if versions[s.MinVersion] == 0 {
		ps = append(ps, checks.Problem{Key: "min_version", Got: s.MinVersion, What: "is not a version of TLS that can be asked for", WayOut: `write "1.2" or "1.3"`})
	}
	ps = append(ps, s.alpnProblems()...)
	ps = append(ps, s.Spec.Problems()...)
	ps = append(ps, s.NameProblems()...)
	return append(ps, s.Origin.Problems(address.Addr())...)
}

// alpnProblems heeds RFC 7301, section 3.1: names of 1 to 255 bytes, all of them in 64 KiB.
func (s *Spec) alpnProblems() (ps []checks.Problem) {
	for i, p := range s.ALPN {
		switch {
		case p == "" || len(p) > 255:
			ps = append(ps, checks.Problem{Key: "alpn", Got: p, What: "must be names of 1 to 255 bytes", WayOut: `write such as ["h2", "http/1.1"]`})
		case slices.Contains(s.ALPN[:i], p):
			ps = append(ps, checks.Problem{Key: "alpn", Got: p, What: "is named twice", WayOut: "remove one"})
		}
	}
	if len(s.ALPN) > 32 {
		ps = append(ps, checks.Problem{Key: "alpn", What: "must be at most 32 names", WayOut: "name those that the service is used by"})
	}
	return ps
}

// Targets gives the address that is connected to.
func (s *Spec) Targets() []netip.Addr {
	address, _ := checks.Endpoint(s.Address, 0)
	return []netip.Addr{address.Addr()}
}

// Local says which of address and files do not fit this machine.
func (s *Spec) Local() []checks.Problem { return append(s.Origin.Local(), s.Spec.Local()...) }

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	address, err := checks.Endpoint(s.Address, 0)
	if err != nil {
		return nil, fmt.Errorf("address %q %w", s.Address, err)
	}
	client := s.Client("", s.ALPN...)
	client.MinVersion = versions[s.MinVersion]
	name := strings.TrimSpace("tls " + address.String() + " " + s.ServerName)
	return &checker{Watcher: listener.Watcher{Target: address}, origin: s.Origin, address: address, client: client, alpn: s.ALPN, name: name}, nil
}
