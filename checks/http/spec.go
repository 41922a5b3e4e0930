// Package http checks that a URL is served, over HTTP/1.1, HTTP/2 or HTTP/3.
package http

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

const (
	// defaultBody and mostBody bound what is read of a body, and kept where it is looked at.
	defaultBody = 1 << 20
	mostBody    = 4 << 20
	// mostRedirects is what browsers follow.
	mostRedirects = 20
)

// A Spec is the table of a check of type "http". Each round makes a new connection and closes it. The
// only address that is ever connected to is that of the URL or of connect, after redirects too.
type Spec struct {
	URL     string            `toml:"url"`                // what to fetch, such as "https://www.example.net/health"
	Connect string            `toml:"connect"`            // address and port to connect to; default: the URL's, if it has an address; SNI and Host stay the URL's
	Version string            `toml:"version"`            // "1.1", "2", "3" and no other, or "auto" (default): 2 or 1.1 as the server chooses, 1.1 without TLS
	Method  string            `toml:"method"`             // default "GET"
	Headers map[string]string `toml:"headers" empty:"ok"` // sent along; Host too may be set
	Body    string            `toml:"body"`               // sent with a method that takes one

	ExpectStatus  Statuses          `toml:"expect_status"`  // such as [200, "3xx", "400-404"]; default ["2xx"]
	ExpectBody    string            `toml:"expect_body"`    // regular expression (RE2) to be found in what is read of the body, within the timeout
	ExpectHeaders map[string]string `toml:"expect_headers"` // regular expression by name; one that does not match the empty text tells nodes apart

	// MaxBody is how many bytes of the body are read, default 1 MiB. A body that ends earlier is read to its
	// end, within the timeout; of a longer one the rest is not looked at, and is no fault.
	MaxBody int `toml:"max_body"`

	Redirects     int      `toml:"redirects" empty:"ok"`      // how many to follow; default 0
	RedirectHosts []string `toml:"redirect_hosts" empty:"ok"` // names beside the URL's own that they may lead to; they are asked at the same address

	trust.Spec
	checks.Origin
}

// versions are the values of version, each with what a person calls it.
var versions = map[string]string{"auto": "", "1.1": "http/1.1", "2": "h2", "3": "h3"}

// Validate fills in the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	at, more := s.validateTarget()
	ps = append(ps, more...)
	ps = append(ps, s.validateVersion()...)
	ps = append(ps, s.validateRequest()...)
	ps = append(ps, s.validateAnswer()...)
	ps = append(ps, s.validateRedirects()...)
	if u, err := parseURL(s.URL); err != nil || u.scheme == "https" || s.Redirects > 0 {
		ps = append(ps, s.Spec.Problems()...)
	}
	return append(ps, s.Origin.Problems(at.Addr())...)
}

// validateTarget gives the address to connect to; it is invalid if there is a problem.
func (s *Spec) validateTarget() (netip.AddrPort, []checks.Problem) {
	u, err := parseURL(s.URL)
	if err != nil {
		return netip.AddrPort{}, []checks.Problem{urlProblem("url", s.URL, err)}
	}
	if s.Connect == "" {
		if !u.named() {
			return u.address(), nil
		}
		return netip.AddrPort{}, []checks.Problem{{Key: "connect", What: fmt.Sprintf("is missing: names such as %s are not looked up", u.host),
			WayOut: fmt.Sprintf(`write connect = "127.0.0.1:%d"; the name stays the URL's`, u.port)}}
	}
	at, err := checks.Endpoint(s.Connect, u.port)
	if err != nil {
		return netip.AddrPort{}, []checks.Problem{checks.EndpointProblem("connect", s.Connect, err,
			fmt.Sprintf(`write an address and a port, such as "127.0.0.1:%d"`, u.port))}
	}
	s.Connect = at.String()
	return at, nil
}

func (s *Spec) validateVersion() (ps []checks.Problem) {
	if s.Version == "" {
		s.Version = "auto"
	}
	if _, ok := versions[s.Version]; !ok {
		ps = append(ps, checks.Problem{Key: "version", What: `must be "auto", "1.1", "2" or "3"`, Got: s.Version,
			WayOut: `leave it out for "auto"`})
	}
	u, err := parseURL(s.URL)
	if err != nil || u.scheme == "https" {
		return ps
	}
	switch {
	case s.Version == "3": // and what is written about TLS is meant for it
		ps = append(ps, checks.Problem{Key: "version", What: "HTTP/3 is for https:// only", Got: s.Version, WayOut: "write the URL with https://"})
	case s.Redirects <= 0: // others may lead to https://
		ps = append(ps, s.Idle("has no effect with an http:// URL", "remove it, or write the URL with https://")...)
	}
	return ps
}

func (s *Spec) validateAnswer() (ps []checks.Problem) {
	ps = append(ps, s.ExpectStatus.validate()...)
	if len(s.ExpectStatus.spans) == 0 {
		s.ExpectStatus.spans = []span{{200, 299}}
	}
	if _, err := payload.Compile(s.ExpectBody); err != nil {
		ps = append(ps, checks.Problem{Key: "expect_body", What: "is no regular expression: " + why(err), Got: s.ExpectBody, WayOut: reWayOut})
	}
	if s.ExpectBody != "" && s.Method == "HEAD" {
		ps = append(ps, checks.Problem{Key: "expect_body", What: "the answer to HEAD has no body", WayOut: "leave method out"})
	}
	return append(append(ps, s.validateExpectedHeaders()...), s.validateMaxBody()...)
}

func (s *Spec) validateExpectedHeaders() (ps []checks.Problem) {
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(s.ExpectHeaders)) {
		key := "expect_headers." + name
		switch {
		case !token(name):
			ps = append(ps, checks.Problem{Key: key, What: "is not the name of a header", WayOut: `write such as { "X-Node" = "^node1$" }`})
		case seen[canonical(name)]:
			ps = append(ps, checks.Problem{Key: key, What: "is there twice: capitals make no difference", WayOut: "remove one of them"})
		}
		seen[canonical(name)] = true
		if _, err := payload.Compile(s.ExpectHeaders[name]); err != nil {
			ps = append(ps, checks.Problem{Key: key, What: "is no regular expression: " + why(err), Got: s.ExpectHeaders[name], WayOut: reWayOut})
		}
	}
	return ps
}

// validateMaxBody leaves it at 0 where there is no body.
func (s *Spec) validateMaxBody() (ps []checks.Problem) {
	switch {
	case s.MaxBody < 0 || s.MaxBody > mostBody:
		ps = append(ps, checks.Problem{Key: "max_body", What: "must be from 1 to 4194304 bytes (4 MiB)", Got: fmt.Sprint(s.MaxBody), WayOut: "leave it out for 1 MiB"})
	case s.Method == "HEAD" && s.MaxBody != 0 && s.ExpectBody == "": // which is told of already
		ps = append(ps, checks.Problem{Key: "max_body", What: "has no effect with HEAD, whose answer has no body", Got: fmt.Sprint(s.MaxBody), WayOut: "remove it"})
	case s.Method != "HEAD" && s.MaxBody == 0:
		s.MaxBody = defaultBody
	}
	return ps
}

func (s *Spec) validateRedirects() (ps []checks.Problem) {
	if s.Redirects < 0 || s.Redirects > mostRedirects {
		ps = append(ps, checks.Problem{Key: "redirects", What: "must be from 0 to 20", Got: fmt.Sprint(s.Redirects), WayOut: "write how many to follow, such as 1"})
	}
	if s.Redirects > 0 && s.Redirects <= mostRedirects && !slices.ContainsFunc(redirectCodes, func(code int) bool { return !s.ExpectStatus.accepts(code) }) {
		ps = append(ps, checks.Problem{Key: "redirects", What: "has no effect where expect_status takes every redirect as the answer", Got: fmt.Sprint(s.Redirects),
			WayOut: "remove it, or leave expect_status to what the last answer must have"})
	}
	if s.Redirects == 0 && len(s.RedirectHosts) > 0 {
		ps = append(ps, checks.Problem{Key: "redirect_hosts", What: "has no effect without redirects", WayOut: "write redirects = 1 as well"})
	}
	for i, name := range s.RedirectHosts {
		host, err := hostname(name)
		if err != nil {
			ps = append(ps, checks.Problem{Key: "redirect_hosts", What: err.Error(), Got: name, WayOut: `write names alone, such as "www.example.net"`})
			continue
		}
		s.RedirectHosts[i] = host
	}
	return ps
}

const reWayOut = `write one of RE2, such as "status: (ok|good)"; in '…' a backslash needs no other`

// why gives the bare cause of a regular expression that is none.
func why(err error) string {
	if s, ok := err.(interface{ Unwrap() error }); ok && s.Unwrap() != nil {
		err = s.Unwrap()
	}
	return err.Error()
}

// Targets gives the address that is connected to.
func (s *Spec) Targets() []netip.Addr {
	at, _ := s.validateTarget()
	return []netip.Addr{at.Addr()}
}

// Local says what of it does not fit this machine.
func (s *Spec) Local() []checks.Problem { return append(s.Origin.Local(), s.Spec.Local()...) }

// Hint helps with values of the wrong type.
func (s *Spec) Hint(key string) string {
	switch key {
	case "headers":
		return `write headers = { "X-Probe" = "vouch" }`
	case "expect_headers":
		return `write expect_headers = { "X-Node" = "^node1$" }`
	case "version":
		return `write it as a text, such as "2"`
	case "redirects":
		return "write how many to follow, such as 1"
	}
	return ""
}

// Identifies says whether a header is expected that only this node is likely to send.
func (s *Spec) Identifies() bool {
	for name, expr := range s.ExpectHeaders {
		re, err := regexp.Compile(expr)
		if err == nil && !re.MatchString("") && !slices.Contains(common, canonical(name)) {
			return true
		}
	}
	return false
}

// common are headers whose values say nothing of the node that sends them.
var common = []string{"Accept-Ranges", "Age", "Allow", "Alt-Svc", "Cache-Control", "Connection", "Content-Encoding",
	"Content-Language", "Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Etag", "Expires", "Last-Modified",
	"Location", "Pragma", "Server", "Strict-Transport-Security", "Transfer-Encoding", "Vary", "Www-Authenticate"}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	u, err := parseURL(s.URL)
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", s.URL, err)
	}
	at, ps := s.validateTarget()
	if ps != nil {
		return nil, fmt.Errorf("%s %s", ps[0].Key, ps[0].What)
	}
	c := &checker{
		Watcher: listener.Watcher{Target: at},
		url:     u, at: at, origin: s.Origin, version: s.Version, method: s.Method, headers: s.Headers, body: s.Body,
		want:      wanted{status: s.ExpectStatus, headers: make(map[string]*payload.Pattern), most: s.MaxBody},
		redirects: s.Redirects, clients: s.clients(u.host),
	}
	if s.ExpectBody != "" {
		if c.want.body, err = payload.Compile(s.ExpectBody); err != nil {
			return nil, fmt.Errorf("expect_body: %w", err)
		}
	}
	for name, expr := range s.ExpectHeaders {
		if c.want.headers[canonical(name)], err = payload.Compile(expr); err != nil {
			return nil, fmt.Errorf("expect_headers.%s: %w", name, err)
		}
	}
	return c, nil
}

// clients gives a client for each host that may be asked; server_name is for the URL's own.
func (s *Spec) clients(host string) map[string]*trust.Client {
	alpn := map[string][]string{"auto": {"h2", "http/1.1"}, "1.1": {"http/1.1"}, "2": {"h2"}, "3": {"h3"}}[s.Version]
	all := make(map[string]*trust.Client)
	plain := s.Spec
	plain.ServerName = ""
	for _, other := range s.RedirectHosts {
		all[other] = plain.Client(other, alpn...)
	}
	all[host] = s.Spec.Client(host, alpn...)
	return all
}
