package dns

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
)

// notAsked are types that are no question, or whose answer is a transfer.
var notAsked = []uint16{dns.TypeNone, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY, dns.TypeAXFR, dns.TypeIXFR,
	dns.TypeMAILA, dns.TypeMAILB, dns.TypeReserved}

// flags are those that an answer can be wanted to have.
var flags = []string{"AA", "AD", "RA"}

// labelSize is the length of a random label with the byte before it.
const labelSize = 1 + 16

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	s.Proto = orDefault(strings.ToLower(s.Proto), "udp")
	if _, ok := ports[s.Proto]; !ok {
		ps = append(ps, checks.Problem{Key: "proto", What: "must be udp, tcp, tls or https", Got: s.Proto, WayOut: `leave it out for "udp"`})
	}
	server, more := s.validateServer()
	ps = append(ps, more...)
	ps = append(ps, s.validateQuestion()...)
	ps = append(ps, s.Accept.validate()...)
	ps = append(ps, s.validateAnswer()...)
	ps = append(ps, s.validateIdentity()...)
	ps = append(ps, s.validateSerial(server)...)
	ps = append(ps, s.Origin.Problems(server)...)
	ps = append(ps, s.validateSecurity()...)
	if s.RecursionDesired == nil {
		recurse := s.Accept.byList() && !slices.Contains(s.Flags, "AA")
		s.RecursionDesired = &recurse
	}
	return ps
}

func (s *Spec) validateServer() (netip.Addr, []checks.Problem) {
	port := ports[s.Proto]
	if port == 0 {
		port = ports["udp"]
	}
	server, err := checks.Endpoint(s.Server, port)
	switch {
	case s.Server == "":
		return netip.Addr{}, []checks.Problem{{Key: "server", What: "is missing", WayOut: `write server = "127.0.0.1:` + strconv.Itoa(int(port)) + `"`}}
	case err != nil:
		return netip.Addr{}, []checks.Problem{checks.EndpointProblem("server", s.Server, err,
			`write an address and a port, such as "127.0.0.1:53" or "[::1]:53"; a name would need the resolver that is checked`)}
	}
	s.Server = server.String()
	return server.Addr(), nil
}

func (s *Spec) validateQuestion() (ps []checks.Problem) {
	if s.RandomLabel && s.Name == "" {
		ps = append(ps, checks.Problem{Key: "random_label", What: "needs a name", WayOut: `write such as name = "probe.example.net", with a wildcard below it`})
	}
	ps = append(ps, s.validateName()...)
	kind := "NS"
	if len(s.serialKeys()) > 0 {
		kind = "SOA"
	}
	s.Qtype = strings.ToUpper(orDefault(s.Qtype, kind))
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

// validateName brings the name into the form that the DNS library gives those of an answer.
func (s *Spec) validateName() []checks.Problem {
	s.Name = dns.Fqdn(orDefault(s.Name, "."))
	p := checks.Problem{Key: "name", Got: s.Name}
	wire := make([]byte, 256)
	_, ok := dns.IsDomainName(s.Name)
	n, err := dns.PackDomainName(s.Name, wire, 0, nil, false)
	switch {
	case strings.ContainsFunc(s.Name, func(r rune) bool { return r > unicode.MaxASCII }):
		p.What, p.WayOut = "must be in ASCII, as it goes over the wire", "write the xn-- form"
	case !ok || err != nil || n > 255:
		p.What, p.WayOut = "is not a domain name", "write labels of 1 to 63 characters, 253 in all"
	case s.RandomLabel && n+labelSize > 255:
		p.What, p.WayOut = "has no room for a random label before it", "write one of 236 characters at most"
	default:
		if s.Name, _, err = dns.UnpackDomainName(wire[:n], 0); err == nil {
			return nil
		}
		p.What, p.WayOut = "is not a domain name", "write labels of 1 to 63 characters, 253 in all"
	}
	return []checks.Problem{p}
}

// recordKeys are the keys that look at records.
func (s *Spec) recordKeys() (keys []string) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"answer", len(s.Answer) > 0}, {"match", s.Match != ""}, {"min_answers", s.MinAnswers != nil}, {"max_ttl", s.MaxTTL != 0},
	} {
		if k.set {
			keys = append(keys, k.key)
		}
	}
	return append(keys, s.serialKeys()...)
}

func (s *Spec) serialKeys() (keys []string) {
	if s.SerialFrom != "" {
		keys = append(keys, "serial_from")
	}
	if s.SerialMaxAge != 0 {
		keys = append(keys, "serial_max_age")
	}
	return keys
}

// validateAnswer looks at the keys that look at records, and sets their defaults.
func (s *Spec) validateAnswer() (ps []checks.Problem) {
	if keys := s.recordKeys(); len(keys) > 0 {
		switch {
		case !s.Accept.written():
			s.Accept.rcodes = []string{"NOERROR"}
		case s.Accept.wrong == "" && !s.Accept.records():
			ps = append(ps, checks.Problem{Key: "accept", What: `must be ["NOERROR"] with ` + keys[0] + ", as other answers have no records",
				Got: s.Accept.got(), WayOut: "leave it out, or remove " + strings.Join(keys, ", ")})
		}
	}
	s.Accept.any = !s.Accept.byList() && s.Accept.wrong == "" // which is the default, written or not
	if s.MinAnswers == nil && s.Accept.records() {
		one := 1
		s.MinAnswers = &one
	}
	if s.MinAnswers != nil && (*s.MinAnswers < 0 || *s.MinAnswers > 1000) {
		ps = append(ps, checks.Problem{Key: "min_answers", What: "must be from 0 to 1000", Got: strconv.Itoa(*s.MinAnswers),
			WayOut: "leave it out for 1"})
	}
	if keys := s.recordKeys(); s.MinAnswers != nil && *s.MinAnswers == 0 && len(keys) > 1 {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "min_answers" })
		ps = append(ps, checks.Problem{Key: "min_answers", What: "cannot be 0 with " + keys[0] + ", which looks at a record", Got: "0",
			WayOut: "leave it out, or remove " + strings.Join(keys, ", ")})
	}
	for _, v := range s.Answer {
		if _, err := s.value(v); err != nil {
			ps = append(ps, checks.Problem{Key: "answer", What: "is not the data of a record of type " + s.Qtype, Got: v,
				WayOut: `write it as in a zone file, such as "192.0.2.1" for A or "10 mail.example.net." for MX`})
		}
	}
	if _, err := payload.Compile(s.Match); err != nil {
		ps = append(ps, checks.Problem{Key: "match", What: err.Error(), Got: s.Match, WayOut: "write a regular expression (RE2)"})
	}
	if s.MaxTTL < 0 || s.MaxTTL%time.Second != 0 {
		ps = append(ps, checks.Problem{Key: "max_ttl", What: "must be whole seconds", Got: s.MaxTTL.String(), WayOut: `write such as "30s"`})
	}
	return ps
}

// got gives a value for a problem: that of a string without its quotes.
func (a Accept) got() string { return strings.Trim(a.String(), `"`) }

func (s *Spec) validateIdentity() (ps []checks.Problem) {
	for i, f := range s.Flags {
		if s.Flags[i] = strings.ToUpper(f); !slices.Contains(flags, s.Flags[i]) {
			ps = append(ps, checks.Problem{Key: "flags", What: "is not a flag that can be wanted", Got: f, WayOut: `write "AA", "AD" or "RA"`})
		}
	}
	if nsid, err := octets(s.NSID); err != nil || s.NSID != "" && len(nsid) == 0 {
		ps = append(ps, checks.Problem{Key: "nsid", What: "is neither text nor hexadecimal", Got: s.NSID,
			WayOut: `write the text as the server is configured to say it, or "0x" and an even number of hexadecimal digits`})
	}
	return ps
}

func (s *Spec) validateSerial(server netip.Addr) (ps []checks.Problem) {
	keys := s.serialKeys()
	if len(keys) > 0 && s.Qtype != "SOA" {
		ps = append(ps, checks.Problem{Key: "qtype", What: "must be SOA with " + keys[0], Got: s.Qtype, WayOut: `write "SOA", or leave it out`})
	}
	if len(keys) > 0 && s.RandomLabel {
		ps = append(ps, checks.Problem{Key: "random_label", What: "cannot be with " + keys[0] + ", which needs the name of a zone", WayOut: "remove one of them"})
	}
	if s.SerialLag != 0 && s.SerialFrom == "" {
		ps = append(ps, checks.Problem{Key: "serial_lag", What: "has no effect without serial_from", WayOut: "write serial_from, or remove it"})
	}
	if s.SerialLag >= 1<<31 {
		ps = append(ps, checks.Problem{Key: "serial_lag", What: "must be below 2147483648, half of all serials (RFC 1982)",
			Got: strconv.FormatUint(uint64(s.SerialLag), 10), WayOut: "write such as 1"})
	}
	if s.SerialMaxAge < 0 {
		ps = append(ps, checks.Problem{Key: "serial_max_age", What: "must not be negative", Got: s.SerialMaxAge.String(), WayOut: `write such as "72h"`})
	}
	if s.SerialFrom == "" {
		return ps
	}
	from, err := checks.Endpoint(s.SerialFrom, ports["udp"])
	source := s.SourceAddr()
	switch {
	case err != nil:
		return append(ps, checks.EndpointProblem("serial_from", s.SerialFrom, err, `write the address and port of a server, such as "192.0.2.1:53"`))
	case source.IsValid() && server.IsValid() && source.Is4() == server.Is4() && source.Is4() != from.Addr().Is4():
		ps = append(ps, checks.Problem{Key: "serial_from", What: "must be of the same family as source, " + source.String(), Got: s.SerialFrom,
			WayOut: "write the server's address of that family"})
	}
	s.SerialFrom = from.String()
	return ps
}

// validateSecurity refuses what has no effect without TLS, and looks at it with.
func (s *Spec) validateSecurity() (ps []checks.Problem) {
	if s.Proto == "https" {
		s.Path = orDefault(s.Path, "/dns-query")
		if u, err := url.ParseRequestURI(s.Path); err != nil || u.Path == "" || s.Path[0] != '/' || u.RawQuery != "" || u.ForceQuery || strings.Contains(s.Path, "#") {
			ps = append(ps, checks.Problem{Key: "path", What: "is not the path of a URL", Got: s.Path, WayOut: `write such as "/dns-query"`})
		}
	} else if s.Path != "" {
		ps = append(ps, checks.Problem{Key: "path", What: "has no effect without proto = \"https\"", Got: s.Path, WayOut: "remove it"})
	}
	if s.secure() {
		return append(append(ps, s.NameProblems()...), s.Spec.Problems()...)
	}
	if _, known := ports[s.Proto]; !known {
		return ps
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"verify", s.Verify != nil}, {"ca", s.CA != ""}, {"cert", s.Cert != ""}, {"key", s.Key != ""},
		{"server_name", s.ServerName != ""}, {"min_cert_days", s.MinCertDays != 0},
	} {
		if k.set {
			ps = append(ps, checks.Problem{Key: k.key, What: "has no effect without TLS", WayOut: `write proto = "tls" or "https", or remove it`})
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
