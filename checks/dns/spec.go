// Package dns checks that a DNS server answers a question, over UDP, TCP, TLS or HTTPS, and with what.
package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/trust"
)

// A Spec is the table of a check of type "dns". Any answer proves that the server process lives; what
// more is asked of it proves more, and then a failure elsewhere may be what it shows.
//
// The keys answer, match, min_answers, max_ttl and those of the serial look at the records of the type
// that was asked for, at the name that was asked for or where its aliases lead. Such records are there with
// NOERROR only: each of these keys makes that the only rcode that is accepted.
type Spec struct {
	Server string `toml:"server"` // address, or address:port; an IPv6 address in brackets; default port 53, tls 853, https 443
	Name   string `toml:"name"`   // the question's name; default "."
	Qtype  string `toml:"qtype"`  // its type; default "NS", with a key of the serial "SOA"
	Class  string `toml:"class"`  // its class; default "IN"

	// Proto is udp (default; a truncated answer is fetched over tcp), tcp, tls (DNS over TLS, RFC 7858) or
	// https (DNS over HTTPS, RFC 8484: a POST over HTTP/2).
	Proto string `toml:"proto"`
	Path  string `toml:"path"` // with https: the path of the URL; default "/dns-query"

	// RandomLabel puts a label that is new each time before the name, so that no cache can have the answer.
	// The name is best one with a wildcard below, in a zone that is not signed: a resolver may answer for
	// others of a signed one by what it knows of it (RFC 8198).
	RandomLabel bool `toml:"random_label"`

	// RecursionDesired asks the server to ask others. The default is true with a list of rcodes, which
	// is to prove that it can, unless the flag AA is wanted, which only one that knows by itself sets; else
	// false: a server that lives answers that at once from what it has, while with the bit set one with an
	// empty cache is silent as long as its upstream is.
	RecursionDesired *bool `toml:"recursion_desired"`

	Accept Accept `toml:"accept"` // "any" (default), or the rcodes that are ok, such as ["NOERROR"]

	// MinAnswers is the least number of records of the type. The default with accept = ["NOERROR"] is 1: an
	// empty NOERROR is what a server gives that has lost its data.
	MinAnswers *int `toml:"min_answers"`

	// Answer are values that the records must have, each of them, others beside them are let pass: as in a
	// zone file; of TXT the bare text.
	Answer []string      `toml:"answer"`
	Match  string        `toml:"match"`   // regular expression that the value of at least one record must match
	MaxTTL time.Duration `toml:"max_ttl"` // longest TTL that a record may have: a resolver may give out stale ones with another

	// Flags must be set in the answer: AA (the server knows by itself), AD (it has validated; DNSSEC is asked
	// for then, by DO and AD) or RA (it would ask others).
	Flags []string `toml:"flags"`

	// NSID is what the server must say of itself (RFC 5001), with any rcode: its text, or what is no text as
	// in "0x0badcafe".
	NSID string `toml:"nsid"`

	// SerialFrom is a server, such as the primary, with whose SOA serial that of this server is compared
	// (RFC 1982); it is asked over udp, with proto tcp over that. As long as it does not answer nothing is
	// found out.
	SerialFrom string `toml:"serial_from"`
	SerialLag  uint32 `toml:"serial_lag" empty:"ok"` // by how much the serial may be behind; default 0; one that is ahead is ok

	// SerialMaxAge is how old the serial may be, if it is a date as in 2026010101 (from 00:00 UTC on), or
	// the seconds since 1970. Another one fails.
	SerialMaxAge time.Duration `toml:"serial_max_age"`

	checks.Origin
	trust.Spec
}

// ports are where servers listen.
var ports = map[string]uint16{"udp": 53, "tcp": 53, "tls": 853, "https": 443}

// identities are the names at which a server tells who it is (RFC 4892).
var identities = []string{"id.server.", "hostname.bind."}

// Identifies says whether the answer must tell that it is this node's: by NSID, or by the TXT record of
// class CH of id.server or hostname.bind.
func (s *Spec) Identifies() bool {
	return s.NSID != "" || s.Class == "CH" && s.Qtype == "TXT" && slices.Contains(identities, dns.CanonicalName(s.Name)) &&
		len(s.Answer) > 0
}

// Targets gives the addresses of the servers.
func (s *Spec) Targets() []netip.Addr {
	server, _ := checks.Endpoint(s.Server, ports[s.Proto])
	as := []netip.Addr{server.Addr()}
	if s.SerialFrom != "" {
		from, _ := checks.Endpoint(s.SerialFrom, ports["udp"])
		as = append(as, from.Addr())
	}
	return as
}

// Local says what of the origin and of the files for TLS this machine does not have.
func (s *Spec) Local() []checks.Problem {
	ps := s.Origin.Local()
	if s.secure() {
		ps = append(ps, s.Spec.Local()...)
	}
	return ps
}

// Hint gives the way out of a value of the wrong type.
func (s *Spec) Hint(key string) string {
	return map[string]string{
		"flags":       `write flags = ["AA"], ["AD"] or ["RA"]`,
		"answer":      `write a list, such as answer = ["192.0.2.1"]`,
		"min_answers": "write min_answers = 1",
		"max_ttl":     `write max_ttl = "30s"`,
		"serial_lag":  "write serial_lag = 1",
	}[key]
}

// secure says whether TLS is spoken.
func (s *Spec) secure() bool { return s.Proto == "tls" || s.Proto == "https" }

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	server, err := checks.Endpoint(s.Server, ports[s.Proto])
	if err != nil {
		return nil, fmt.Errorf("server %q %w", s.Server, err)
	}
	c := &checker{
		Watcher:  listener.Watcher{Target: server},
		peer:     peer{proto: s.Proto, server: server, origin: s.Origin},
		question: dns.Question{Name: s.Name, Qtype: dns.StringToType[s.Qtype], Qclass: dns.StringToClass[s.Class]},
		random:   s.RandomLabel,
		recurse:  s.RecursionDesired != nil && *s.RecursionDesired,
		dnssec:   slices.Contains(s.Flags, "AD"),
		lag:      s.SerialLag, maxAge: s.SerialMaxAge,
	}
	if c.want, err = s.expects(); err != nil {
		return nil, err
	}
	switch s.Proto {
	case "tls":
		c.trust = s.Client("")
	case "https":
		c.trust, c.url = s.Client("", "h2"), s.url(server)
	}
	if s.SerialFrom != "" {
		from, err := checks.Endpoint(s.SerialFrom, ports["udp"])
		if err != nil {
			return nil, fmt.Errorf("serial_from %q %w", s.SerialFrom, err)
		}
		c.reference = &peer{proto: "udp", server: from, origin: s.Origin}
		if s.Proto == "tcp" {
			c.reference.proto = "tcp"
		}
	}
	return c, nil
}
