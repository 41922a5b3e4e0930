package http

import (
	"context"
	"errors"
	"fmt"
	"log"
	nethttp "net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// Nothing of what a check meets may end up in the agent's log by way of a library.
func TestMain(m *testing.M) {
	var said strings.Builder
	log.SetOutput(&said)
	code := m.Run()
	if said.Len() > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "FAIL: libraries logged:\n%s", said.String())
		code = 1
	}
	os.Exit(code)
}

const name = "www.example.net"

// create gives the check of a Spec that must be without a problem.
func create(t testing.TB, s Spec) checks.Checker {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func probe(t testing.TB, s Spec, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return create(t, s).Check(ctx)
}

// long is for what must not take its time to the end, short for what must; it does for a handshake, on a busy
// machine too.
const long, short = time.Minute, 2 * time.Second

// want compares a result with a reason and words of the text; no reason: ok.
func want(t testing.TB, err error, reason checks.Reason, words ...string) {
	t.Helper()
	var f *checks.Failure
	switch {
	case reason == "" && err != nil:
		t.Errorf("failed: %v", err)
	case reason == "":
	case !errors.As(err, &f) || f.Reason != reason:
		t.Errorf("got %v, want %s", err, reason)
	}
	for _, w := range words {
		if err != nil && !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want it to say %q", err, w)
		}
	}
}

// A site is the same handler over each version, with a certificate for name.
type site struct {
	ca     *checktest.CA
	plain  netip.AddrPort
	secure netip.AddrPort
	quic   netip.AddrPort
}

func serve(t testing.TB, handler nethttp.Handler, twists ...checktest.Twist) *site {
	t.Helper()
	s := &site{ca: checktest.NewCA(t)}
	pair := s.ca.Issue(t, name, twists...)
	s.plain = checktest.HTTP(t, "127.0.0.1", nil, handler)
	s.secure = checktest.HTTP(t, "127.0.0.1", pair.Config(), handler)
	s.quic = checktest.HTTP3(t, "127.0.0.1", pair.Config(), handler)
	return s
}

// spec gives the Spec of one way to ask: plain, h2c, 1.1, 2, auto or 3.
func (s *site) spec(way, path string) Spec {
	spec := Spec{URL: "https://" + name + path, Connect: s.secure.String(), Version: way, Spec: trust.Spec{CA: s.ca.File}}
	switch way {
	case "plain":
		spec = Spec{URL: "http://" + name + path, Connect: s.plain.String()}
	case "h2c":
		spec = Spec{URL: "http://" + name + path, Connect: s.plain.String(), Version: "2"}
	case "3":
		spec.Connect = s.quic.String()
	}
	return spec
}

// ways are all the ways to ask, each with the protocol that the server sees.
var ways = map[string]string{"plain": "HTTP/1.1", "h2c": "HTTP/2.0", "1.1": "HTTP/1.1", "2": "HTTP/2.0", "auto": "HTTP/2.0", "3": "HTTP/3.0"}

// each runs a test for each way.
func each(t *testing.T, f func(t *testing.T, way string)) {
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f(t, way)
		})
	}
}

// What is asked is what the server sees, over each version.
func TestRequest(t *testing.T) {
	each(t, func(t *testing.T, way string) {
		seen := make(chan string, 1)
		s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			body := make([]byte, 10)
			n, _ := r.Body.Read(body)
			sni := "-"
			if r.TLS != nil {
				sni = r.TLS.ServerName
			}
			seen <- fmt.Sprint(r.Proto, " ", r.Method, " ", r.Host, " ", r.URL.RequestURI(), " ", sni, " ", r.Header.Get("X-Probe"), " ",
				r.Header.Get("Accept-Encoding"), "|", r.Header.Get("User-Agent"), " ", string(body[:n]))
		}))
		spec := s.spec(way, "/a%2Fb?c=d&e")
		spec.Method, spec.Body = "POST", "hello"
		spec.Headers = map[string]string{"x-probe": "yes"}
		want(t, probe(t, spec, long), "")
		sni := name
		if way == "plain" || way == "h2c" {
			sni = "-"
		}
		if got, w := <-seen, ways[way]+" POST "+name+" /a%2Fb?c=d&e "+sni+" yes |vouch hello"; got != w {
			t.Errorf("saw  %s\nwant %s", got, w)
		}
		spec.Headers["host"] = "other.example"
		want(t, probe(t, spec, long), "")
		if got := <-seen; !strings.Contains(got, " other.example ") || !strings.Contains(got, " "+sni+" ") {
			t.Errorf("with Host set it saw %s", got)
		}
	})
}

func TestJudged(t *testing.T) {
	each(t, func(t *testing.T, way string) {
		s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("X-Node", "node1")
			switch r.URL.Path {
			case "/503":
				w.WriteHeader(503)
				fmt.Fprint(w, "no backend\n")
			case "/204":
				w.WriteHeader(204)
			case "/302":
				nethttp.Redirect(w, r, "/", nethttp.StatusFound)
			case "/long":
				fmt.Fprint(w, strings.Repeat("x", 100000), "here")
			default:
				fmt.Fprint(w, "status: ok")
			}
		}))
		over := map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2.0": "h2", "HTTP/3.0": "h3"}[ways[way]]
		for path, c := range map[string]struct {
			twist  func(*Spec)
			reason checks.Reason
			words  string
		}{
			"/":        {},
			"/204":     {},
			"/503":     {nil, checks.ReasonStatus, `status 503 Service Unavailable, want 2xx; the body begins "no backend\n" (sent from 127.0.0.1, over ` + over + `)`},
			"/302":     {nil, checks.ReasonStatus, "status 302 Found, want 2xx"},
			"/302?ok":  {func(s *Spec) { s.ExpectStatus.spans = []span{{300, 399}} }, "", ""},
			"/?200":    {func(s *Spec) { s.ExpectStatus.spans = []span{{503, 503}} }, checks.ReasonStatus, "status 200 OK, want 503"},
			"/?body":   {func(s *Spec) { s.ExpectBody = "status: (ok|good)$" }, "", ""},
			"/?nobody": {func(s *Spec) { s.ExpectBody = "good" }, checks.ReasonMismatch, `no match for "good" in the body; the body begins "status: ok" (sent from 127.0.0.1, over ` + over + `)`},
			"/?head":   {func(s *Spec) { s.Method = "HEAD" }, "", ""},
			"/long":    {func(s *Spec) { s.ExpectBody = "here$" }, "", ""},
			"/long?s":  {func(s *Spec) { s.ExpectBody, s.MaxBody = "here$", 100000 }, checks.ReasonMismatch, `in the first 100000 bytes of the body`},
			"/long?n":  {func(s *Spec) { s.MaxBody = 10 }, "", ""},
			"/?node":   {func(s *Spec) { s.ExpectHeaders = map[string]string{"x-node": "^node1$"} }, "", ""},
			"/?node2":  {func(s *Spec) { s.ExpectHeaders = map[string]string{"x-node": "^node2$"} }, checks.ReasonMismatch, `no match for "^node2$" in header X-Node`},
			"/?none":   {func(s *Spec) { s.ExpectHeaders = map[string]string{"X-No": "x"} }, checks.ReasonMismatch, `in header X-No: there is none (sent from 127.0.0.1, over ` + over + `)`},
		} {
			spec := s.spec(way, path)
			if c.twist != nil {
				c.twist(&spec)
			}
			want(t, probe(t, spec, long), c.reason, c.words)
		}
	})
}
