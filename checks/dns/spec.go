// Package dns checks that a DNS server answers a question, over UDP or TCP.
package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"vouch/checks"
)

// port is where DNS servers listen.
const port = 53

// A Spec is the table of a check of type "dns". Any answer proves that the server process lives;
// only an accept list proves that it can resolve, and then a failure elsewhere may be what it shows.
type Spec struct {
	Server string `toml:"server"` // address, or address:port; an IPv6 address in brackets; default port 53
	Name   string `toml:"name"`   // the question's name; default "."
	Qtype  string `toml:"qtype"`  // its type; default "NS"
	Class  string `toml:"class"`  // its class; default "IN"
	Proto  string `toml:"proto"`  // udp (default; a truncated answer is fetched over tcp), tcp
	Accept Accept `toml:"accept"` // "any" (default), or the rcodes that are ok, such as ["NOERROR"]
	checks.Origin

	// RecursionDesired asks the server to ask others. The default is true with a list of rcodes, which
	// is to prove that it can, else false: a server that lives answers that at once from what it has,
	// while with the bit set one with an empty cache is silent as long as its upstream is.
	RecursionDesired *bool `toml:"recursion_desired"`
}

// An Accept is the set of rcodes that count as an answer. The zero Accept accepts any.
type Accept struct {
	rcodes []string // empty: any
	wrong  string   // what was written instead, as Go prints it
}

// UnmarshalTOML takes whatever was written, so that Validate can report it beside all else.
func (a *Accept) UnmarshalTOML(v any) error {
	*a = Accept{}
	switch v := v.(type) {
	case string:
		if v != "any" {
			a.wrong = strconv.Quote(v)
		}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				a.wrong = fmt.Sprint(v)
				return nil
			}
			a.rcodes = append(a.rcodes, strings.ToUpper(s))
		}
		if len(v) == 0 {
			a.wrong = "[]"
		}
	default:
		a.wrong = fmt.Sprint(v)
	}
	return nil
}

// MarshalTOML writes what UnmarshalTOML reads.
func (a Accept) MarshalTOML() ([]byte, error) { return []byte(a.String()), nil }

// String gives the value as it is written in TOML.
func (a Accept) String() string {
	if !a.byList() {
		return `"any"`
	}
	quoted := make([]string, len(a.rcodes))
	for i, r := range a.rcodes {
		quoted[i] = strconv.Quote(r)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// byList says whether there is a list, as against any.
func (a Accept) byList() bool { return len(a.rcodes) > 0 }

// accepts says whether an answer with this rcode is ok.
func (a Accept) accepts(rcode int) bool {
	return !a.byList() || slices.Contains(a.rcodes, rcodeName(rcode))
}

func rcodeName(rcode int) string {
	if n, ok := dns.RcodeToString[rcode]; ok {
		return n
	}
	return "RCODE" + strconv.Itoa(rcode)
}

// notAsked are types that are no question, or whose answer is a transfer.
var notAsked = []uint16{dns.TypeNone, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY, dns.TypeAXFR, dns.TypeIXFR,
	dns.TypeMAILA, dns.TypeMAILB, dns.TypeReserved}

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	server, err := checks.Endpoint(s.Server, port)
	switch {
	case s.Server == "":
		ps = append(ps, checks.Problem{Key: "server", What: "is missing", WayOut: `write server = "127.0.0.1:53"`})
	case err != nil:
		ps = append(ps, checks.EndpointProblem("server", s.Server, err,
			`write an address and a port, such as "127.0.0.1:53" or "[::1]:53"; a name would need the resolver that is checked`))
	default:
		s.Server = server.String()
	}
	ps = append(ps, s.validateQuestion()...)
	s.Proto = orDefault(strings.ToLower(s.Proto), "udp")
	if s.Proto != "udp" && s.Proto != "tcp" {
		ps = append(ps, checks.Problem{Key: "proto", What: "must be udp or tcp", Got: s.Proto, WayOut: `leave it out for "udp"`})
	}
	ps = append(ps, s.Accept.validate()...)
	ps = append(ps, s.Problems(server.Addr())...)
	if s.RecursionDesired == nil {
		recurse := s.Accept.byList()
		s.RecursionDesired = &recurse
	}
	return ps
}

func (s *Spec) validateQuestion() (ps []checks.Problem) {
	s.Name = dns.Fqdn(orDefault(s.Name, "."))
	if _, ok := dns.IsDomainName(s.Name); !ok {
		ps = append(ps, checks.Problem{Key: "name", What: "is not a domain name", Got: s.Name,
			WayOut: "write labels of 1 to 63 characters, 253 in all"})
	}
	s.Qtype = strings.ToUpper(orDefault(s.Qtype, "NS"))
	if t, ok := dns.StringToType[s.Qtype]; !ok || slices.Contains(notAsked, t) {
		ps = append(ps, checks.Problem{Key: "qtype", What: "is not a type that can be asked for", Got: s.Qtype,
			WayOut: `write one such as "NS", "SOA", "A", "AAAA" or "TXT"`})
	}
	s.Class = strings.ToUpper(orDefault(s.Class, "IN"))
	if _, ok := dns.StringToClass[s.Class]; !ok {
		ps = append(ps, checks.Problem{Key: "class", What: "is not a class", Got: s.Class, WayOut: `write "IN", or "CH" for id.server`})
	}
	return ps
}

func (a Accept) validate() (ps []checks.Problem) {
	if a.wrong != "" {
		return []checks.Problem{{Key: "accept", What: "must be \"any\" or a list of rcodes", Got: a.wrong,
			WayOut: `write accept = "any", or accept = ["NOERROR", "NXDOMAIN"]`}}
	}
	for _, r := range a.rcodes {
		if _, ok := dns.StringToRcode[r]; !ok {
			ps = append(ps, checks.Problem{Key: "accept", What: "is not the name of an rcode", Got: r,
				WayOut: "write names such as NOERROR, NXDOMAIN, SERVFAIL or REFUSED"})
		}
	}
	return ps
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
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
	return &checker{
		proto: s.Proto, server: server, origin: s.Origin, accept: s.Accept,
		question: dns.Question{Name: s.Name, Qtype: dns.StringToType[s.Qtype], Qclass: dns.StringToClass[s.Class]},
		recurse:  s.RecursionDesired != nil && *s.RecursionDesired,
	}, nil
}
