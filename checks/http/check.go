package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/netip"
	"strings"
	"time"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

// keptBody is how much of a body is kept for people.
const keptBody = 4 << 10

type checker struct {
	listener.Watcher // of the port for TCP, which a server of HTTP/3 mostly has too
	url              address
	at               netip.AddrPort
	origin           checks.Origin
	version          string
	method           string
	headers          map[string]string
	body             string
	want             wanted
	redirects        int
	clients          map[string]*trust.Client // by the hosts that may be asked
}

// String gives such as "GET https://www.example.net/ at 127.0.0.1:443 over h3".
func (c *checker) String() string {
	s := c.method + " " + c.place(c.url)
	if v := versions[c.version]; v != "" {
		s += " over " + v
	}
	return s
}

// place tells of a URL, as long as people care to read, and where it is asked for, if it does not say so itself.
func (c *checker) place(u address) string {
	if at := c.target(u); at != u.address() {
		return payload.Clip(u.String()) + " at " + at.String()
	}
	return payload.Clip(u.String())
}

// Check asks once, and again for each redirect that is to be followed.
func (c *checker) Check(ctx context.Context) error {
	v := visit{url: c.url, method: c.method, first: true, start: time.Now()}
	for followed := 0; ; followed++ {
		a, err := c.fetch(ctx, v)
		if err != nil {
			return c.tell(v, err)
		}
		next, f := c.follow(v, a, followed)
		if f != nil {
			return c.tell(v, a.line.told(f))
		}
		if next == nil {
			return c.tell(v, a.line.told(c.want.judge(ctx, a)))
		}
		checks.Tracef(ctx, checks.Note, "redirected to %s", c.place(next.url))
		v = *next
	}
}

// tell says of a failure which URL it met, if that is not the configured one.
func (c *checker) tell(v visit, err error) error {
	var f *checks.Failure
	if v.first || !errors.As(err, &f) {
		return err
	}
	told := *f
	told.Detail = "redirected to " + c.place(v.url)
	if f.Detail != "" {
		told.Detail += ": " + f.Detail
	}
	return &told
}

// A line is a connection to the server, good for one request.
type line struct {
	nethttp.RoundTripper
	over  string       // what is spoken over it: "http/1.1", "h2" or "h3"
	sent  string       // from where, for people
	tls   *trust.Conn  // nil without TLS, and with QUIC
	conn  net.Conn     // what is read from; nil with QUIC
	heard fmt.Stringer // what came, for people
	close func()

	answered bool // the status has come
}

// String gives such as "over h2, sent from 192.0.2.1".
func (l *line) String() string { return "over " + l.over + ", " + l.sent }

// begun gives how many bytes of an answer have come. It is known of HTTP/1.1 alone: over the others the library reads more
// than the answer.
func (l *line) begun() int {
	if tap, ok := l.heard.(*payload.Tap); ok && l.over == "http/1.1" {
		return tap.Came()
	}
	return 0
}

// late describes an answer that did not come in time.
func (l *line) late(allowed string) string {
	if l.begun() > 0 {
		return fmt.Sprintf("no whole answer within %s: it stopped midway", allowed)
	}
	return "no answer within " + allowed
}

// told gives a failure that tells of the line.
func (l *line) told(err error) error {
	f := (*checks.Failure)(nil)
	if !errors.As(err, &f) || f.Reason == checks.ReasonUnknown {
		return err
	}
	told := *f
	told.Aside = "over " + l.over
	return checks.Told(&told, l.sent)
}

// open connects; the error is a *checks.Failure.
func (c *checker) open(ctx context.Context, v visit) (*line, error) {
	if c.version == "3" {
		return c.openQUIC(ctx, v)
	}
	return c.openTCP(ctx, v)
}

// target is the address for a URL: always the same, with a port that a redirect may change.
func (c *checker) target(u address) netip.AddrPort {
	if u.port == c.url.port {
		return c.at
	}
	return netip.AddrPortFrom(c.at.Addr(), u.port)
}

// An answer is what came of one request.
type answer struct {
	*nethttp.Response
	body   []byte          // what was kept of it
	broken *checks.Failure // why it was not read to its end or to the most that is read
	line   *line           // that it came over
}

// status gives the code and what the server calls it, for people.
func (a *answer) status() string { return payload.Clip(strings.TrimSpace(a.Status)) }

// fetch makes one request over a connection of its own, and closes that. The error is a *checks.Failure.
func (c *checker) fetch(ctx context.Context, v visit) (*answer, error) {
	req, err := c.request(ctx, v)
	if err != nil {
		return nil, err
	}
	l, err := c.open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer l.close()
	resp, err := l.RoundTrip(traceRequest(ctx, req, c.body, l))
	if err != nil {
		traceNone(ctx, l, err)
		return nil, l.told(l.failure(ctx, l.late(v.allowed(ctx)), err))
	}
	defer resp.Body.Close()
	l.answered = true
	a := &answer{Response: resp, line: l}
	if a.StatusCode == nethttp.StatusSwitchingProtocols {
		traceAnswer(ctx, a)
		return a, nil // what follows is no body
	}
	a.body, err = read(resp.Body, c.want.most, c.want.kept())
	if err != nil {
		a.broken = l.failure(ctx, fmt.Sprintf("status %s, but the body did not end within %s", a.status(), v.allowed(ctx)), err)
		if a.broken.Reason == checks.ReasonProtocol {
			a.broken.Detail = fmt.Sprintf("status %s, but the body is broken: %s", a.status(), a.broken.Detail)
		}
	}
	traceAnswer(ctx, a)
	return a, nil
}

// read reads no more than most bytes, and keeps the first of them.
func read(r io.Reader, most, keep int) ([]byte, error) {
	kept, err := io.ReadAll(io.LimitReader(r, int64(keep)))
	if err == nil && len(kept) == keep {
		_, err = io.Copy(io.Discard, io.LimitReader(r, int64(most-keep)))
	}
	return kept, err
}
