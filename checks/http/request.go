package http

import (
	"context"
	"fmt"
	"io"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"
	"time"

	"vouch/checks"
)

// own are headers that the connection has for itself.
var own = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"}

func (s *Spec) validateRequest() (ps []checks.Problem) {
	if s.Method == "" {
		if s.Body != "" {
			ps = append(ps, checks.Problem{Key: "body", What: "needs a method that takes one", WayOut: `write method = "POST" as well`})
		}
		s.Method = nethttp.MethodGet
	}
	switch upper := strings.ToUpper(s.Method); {
	case strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || upper == nethttp.MethodConnect:
		ps = append(ps, checks.Problem{Key: "method", What: "is not a method that can be asked with", Got: s.Method, WayOut: `leave it out for "GET"`})
	case upper != s.Method:
		ps = append(ps, checks.Problem{Key: "method", What: "must be in capitals", Got: s.Method, WayOut: fmt.Sprintf("write %q", upper)})
	case s.Body != "" && (upper == nethttp.MethodHead || upper == nethttp.MethodTrace):
		ps = append(ps, checks.Problem{Key: "body", What: upper + " takes none", WayOut: "remove it, or write another method"})
	}
	return append(ps, s.validateHeaders()...)
}

func (s *Spec) validateHeaders() (ps []checks.Problem) {
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		p := checks.Problem{Key: "headers." + name, WayOut: `write such as headers = { "X-Probe" = "vouch" }`}
		switch value := s.Headers[name]; {
		case !token(name):
			p.What = "is not the name of a header"
		case seen[canonical(name)]:
			p.What, p.WayOut = "is there twice: capitals make no difference", "remove one of them"
		case slices.Contains(own, canonical(name)):
			p.What, p.WayOut = "is set by the connection itself", "remove it"
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			p.What = "has a control character in its value"
		case canonical(name) == "Host" && value == "":
			p.What, p.WayOut = "has no effect when it is empty", "remove it: the URL's host is sent then"
		case canonical(name) == "Host" && strings.ContainsAny(value, " \t/?#@"):
			p.What, p.Got, p.WayOut = "is not a host", value, `write such as "www.example.net"`
		}
		seen[canonical(name)] = true
		if p.What != "" {
			ps = append(ps, p)
		}
	}
	return ps
}

// token says whether s can be the name of a header (RFC 9110, section 5.6.2).
func token(s string) bool {
	const others = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(others, r)
	})
}

func canonical(name string) string { return nethttp.CanonicalHeaderKey(name) }

// A visit is one request to be made: the first one, or what a redirect led to.
type visit struct {
	url    address
	method string
	first  bool
	start  time.Time // of the check
}

// allowed tells how long the whole check may take.
func (v visit) allowed(ctx context.Context) string { return checks.Allowed(ctx, v.start) }

// request makes what is sent.
func (c *checker) request(ctx context.Context, v visit) (*nethttp.Request, error) {
	var body io.Reader
	if v.method == c.method && c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := nethttp.NewRequestWithContext(ctx, v.method, v.url.full(), body)
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Err: err}
	}
	req.Header.Set("User-Agent", "vouch")
	req.Header.Set("Accept", "*/*")
	for name, value := range c.headers {
		switch {
		case canonical(name) != "Host":
			req.Header.Set(name, value)
		case v.first: // a redirect leads to the host that it names
			req.Host = value
		}
	}
	return req, nil
}
