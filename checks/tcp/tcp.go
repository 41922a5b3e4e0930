package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

// settle is the least time that a connection that need not say anything must stay open.
const settle = 50 * time.Millisecond

type checker struct {
	listener.Watcher
	origin                 checks.Origin
	address                netip.AddrPort
	client                 *trust.Client // nil without TLS
	greeting, send, expect []byte
}

// String gives such as "tcp 127.0.0.1:443".
func (c *checker) String() string { return "tcp " + c.address.String() }

// Check makes one connection and closes it.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	return c.origin.Ask(ctx, "tcp", c.address, func(conn net.Conn) error { return c.visit(ctx, conn, start) })
}

// visit makes the connection secure if need be, and talks.
func (c *checker) visit(ctx context.Context, conn net.Conn, start time.Time) error {
	connected := time.Now()
	checks.Tracef(ctx, checks.Note, "connected from %s", checks.From(conn))
	w := wire{Conn: conn, late: "timeout after " + checks.Allowed(ctx, start), settle: settle}
	if c.client != nil {
		secure, err := c.client.Handshake(ctx, conn, start)
		if err != nil {
			return err
		}
		w.Conn = secure
		if secure.Asked { // a refusal of what the client showed is still on its way
			w.settle = max(settle, 2*time.Since(connected))
		}
	}
	return c.talk(ctx, w)
}

// talk is greeted, sends, and waits for what is expected, as far as each is configured.
func (c *checker) talk(ctx context.Context, w wire) error {
	if len(c.greeting) > 0 {
		if err := w.await(ctx, "greeting", c.greeting); err != nil {
			return err
		}
	}
	if len(c.send) > 0 {
		if checks.Traced(ctx) {
			checks.Tracef(ctx, checks.Sent, "%s", payload.Dump(c.send))
		}
		if _, err := w.Write(c.send); err != nil {
			return w.failure(ctx, err, fmt.Sprintf("could not send all of %d bytes", len(c.send)))
		}
	}
	switch {
	case len(c.expect) > 0:
		return w.await(ctx, "answer", c.expect)
	case len(c.greeting) > 0: // it lives; what it does after a farewell is its own affair
		return nil
	}
	return w.stays(ctx)
}

// A wire is a connection, with what is to be said when its time is over.
type wire struct {
	net.Conn
	late   string
	settle time.Duration
}

// failure classifies an error of the connection, and says what was going on.
func (w wire) failure(ctx context.Context, err error, doing string) *checks.Failure {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &checks.Failure{Reason: checks.ReasonMismatch, Detail: "closed too early: " + doing}
	}
	f := trust.Failure(ctx, w.late, err)
	switch {
	case f.Reason == checks.ReasonUnknown, f.Reason == checks.ReasonTLS:
		return f
	case f.Detail == "":
		f.Detail = doing
	default:
		f.Detail += ": " + doing
	}
	return f
}

// stays fails if the other side closes at once, as a proxy does that has nobody behind it.
func (w wire) stays(ctx context.Context) error {
	wait := w.settle
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	if err := w.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return &checks.Failure{Reason: checks.ReasonError, Err: err}
	}
	_, err := w.Read(make([]byte, 1))
	switch {
	case ctx.Err() != nil:
		return trust.Failure(ctx, w.late, ctx.Err())
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &checks.Failure{Reason: checks.ReasonRefused, Detail: "accepted, and closed at once"}
	}
	return w.failure(ctx, err, "accepted, and broken off at once")
}

// await reads until a text has come, which is a greeting or an answer.
func (w wire) await(ctx context.Context, what string, text []byte) error {
	got, err := w.search(text)
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s", payload.Dump(got))
	}
	switch {
	case errors.Is(err, errTooMuch):
		return &checks.Failure{Reason: checks.ReasonMismatch,
			Detail: fmt.Sprintf("the %s is not in the first 64 KiB: expected %s, got %s", what, payload.Excerpt(text), payload.Excerpt(got))}
	case err != nil && len(got) == 0:
		return w.failure(ctx, err, fmt.Sprintf("expected the %s %s, got nothing", what, payload.Excerpt(text)))
	case err != nil:
		return w.failure(ctx, err, fmt.Sprintf("expected the %s %s, got %d bytes: %s", what, payload.Excerpt(text), len(got), payload.Excerpt(got)))
	}
	return nil
}

var errTooMuch = errors.New("more than 64 KiB")

// search reads until a text has come, and gives what came; the error is nil only if it has.
func (w wire) search(text []byte) (got []byte, err error) {
	buf := make([]byte, 4096)
	for {
		n, err := w.Read(buf)
		from := max(0, len(got)-len(text)+1)
		got = append(got, buf[:n]...)
		switch {
		case bytes.Contains(got[from:], text):
			return got, nil
		case err != nil:
			return got, err
		case len(got) >= maxBytes:
			return got, errTooMuch
		}
	}
}
