package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"vouch/checks"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

const (
	// mostHeader bounds the headers of an answer, those of informational ones before it included.
	mostHeader = 64 << 10
	// streamBuffer and lineBuffer bound what a server may send ahead of our reading.
	streamBuffer = 256 << 10
	lineBuffer   = 512 << 10
	// mostElse bounds what comes over a connection beside the body, which in parts of its own choice may take overhead times
	// its length.
	mostElse = 1 << 20
	overhead = 8
	// ahead is how much is read and written at once but for bodies, for each of a thousand connections that
	// are made anew.
	ahead = 1 << 10
	// lastWait is how long what the server says last may be behind what it is the cause of.
	lastWait = 100 * time.Millisecond
)

// openTCP connects for HTTP/1.1 and HTTP/2.
func (c *checker) openTCP(ctx context.Context, v visit) (*line, error) {
	conn, release, err := c.origin.Dial(ctx, "tcp", c.target(v.url))
	if err != nil {
		return nil, err
	}
	raw := &payload.Tap{Conn: payload.Limit(kept{conn}, overhead*c.want.most+mostElse)}
	l := &line{over: "http/1.1", sent: c.origin.Sent(checks.From(conn)), conn: raw.Conn, heard: raw, close: release}
	conn = raw
	if v.url.scheme == "https" {
		if err := l.secure(ctx, c, raw, v); err != nil {
			release()
			return nil, checks.Told(err, l.sent)
		}
		conn, l.conn = l.above(raw), l.tls.Conn
	} else if c.version == "2" {
		l.over = "h2"
	}
	plain, err := speak(ctx, conn, v.url.scheme, l.over)
	if err != nil {
		traceNone(ctx, l, err)
		err = l.told(l.failure(ctx, l.late(v.allowed(ctx)), err))
		release()
		return nil, err
	}
	l.RoundTripper = plain
	l.close = func() {
		plain.Close()
		release()
	}
	return l, nil
}

// kept is a connection that stays open until it is released: what the server said last is read even after
// the library has given it up.
type kept struct{ net.Conn }

// Close does nothing.
func (kept) Close() error { return nil }

// SetWriteDeadline does nothing: crypto/tls would take 5 s to say good-bye to a server that does not read.
func (kept) SetWriteDeadline(time.Time) error { return nil }

// sealed tells how much came that net/http alone decrypts.
type sealed struct{ *payload.Tap }

// String gives the number of bytes.
func (s sealed) String() string {
	return fmt.Sprintf("%d bytes came back, encrypted, with those of the handshake", s.Came())
}

// above gives the connection to speak HTTP over, on top of TLS over raw. That of HTTP/2 is left as it is: net/http needs to
// see that it is TLS.
func (l *line) above(raw *payload.Tap) net.Conn {
	if l.over == "h2" {
		l.heard = sealed{raw}
		return l.tls.Conn
	}
	tap := &payload.Tap{Conn: l.tls.Conn}
	l.heard = tap
	return tap
}

// secure makes the handshake, judges the certificate, and tells what the server chose to speak.
func (l *line) secure(ctx context.Context, c *checker, raw net.Conn, v visit) (err error) {
	if l.tls, err = c.clients[v.url.host].Handshake(ctx, raw, v.start); err != nil {
		return err
	}
	if l.tls.ConnectionState().NegotiatedProtocol == "h2" {
		l.over = "h2"
	} else if c.version == "2" {
		return &checks.Failure{Reason: checks.ReasonTLS, Detail: "the server did not choose h2, which alone was offered (ALPN)"}
	}
	return nil
}

// speak makes an HTTP connection out of one that is already there.
func speak(ctx context.Context, conn net.Conn, scheme, over string) (*nethttp.ClientConn, error) {
	var protocols nethttp.Protocols
	protocols.SetHTTP1(over != "h2")
	protocols.SetHTTP2(over == "h2" && scheme == "https")
	protocols.SetUnencryptedHTTP2(over == "h2" && scheme == "http")
	if over != "h2" { // which needs to see that it is TLS
		scheme, conn = "http", &gate{Conn: conn, open: make(chan struct{})}
	}
	ready := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	t := &nethttp.Transport{DialContext: ready, DialTLSContext: ready, Protocols: &protocols,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: mostHeader,
		ReadBufferSize: ahead, WriteBufferSize: ahead,
		HTTP2: &nethttp.HTTP2Config{MaxReceiveBufferPerConnection: lineBuffer, MaxReceiveBufferPerStream: streamBuffer}}
	plain, err := t.NewClientConn(ctx, scheme, conn.RemoteAddr().String())
	if over == "h2" && t.TLSNextProto["h2"] == nil { // where net/http keeps what it has for it
		if err == nil {
			plain.Close()
		}
		err = &checks.Failure{Reason: checks.ReasonUnknown, Detail: "HTTP/2 is switched off in this process: take http2client=0 out of its GODEBUG"}
	}
	return plain, err
}

// A gate lets nothing in before something went out: a busy server may say so to whoever connects, and
// net/http takes no answer that comes before the question.
type gate struct {
	net.Conn
	open chan struct{}
	once sync.Once
}

// Read waits for the first Write, or Close.
func (g *gate) Read(b []byte) (int, error) {
	<-g.open
	return g.Conn.Read(b)
}

// Write opens the gate.
func (g *gate) Write(b []byte) (int, error) {
	g.unlock()
	return g.Conn.Write(b)
}

// Close opens the gate, for Read to fail.
func (g *gate) Close() error {
	defer g.unlock()
	return g.Conn.Close()
}

func (g *gate) unlock() { g.once.Do(func() { close(g.open) }) }

// failure tells why there was no whole answer. Late describes a timeout. What is no matter of the network or
// of TLS is an answer that could not be understood.
func (l *line) failure(ctx context.Context, late string, err error) *checks.Failure {
	switch {
	case over(ctx) != nil: // whatever else came of breaking off
		return checks.NetFailure(ctx, late, over(ctx))
	case l.over == "h3":
		return quicFailure(ctx, trust.Failure, err)
	}
	if f := trust.Failure(ctx, late, l.verdict()); f.Reason == checks.ReasonTLS {
		return f
	}
	switch f := trust.Failure(ctx, late, err); {
	case l.closed(err) && !l.answered && l.begun() > 0:
		return protocol("the connection was closed midway through the answer", nil)
	case l.closed(err) && !l.answered:
		return &checks.Failure{Reason: checks.ReasonRefused, Detail: "the connection was closed before an answer"}
	case l.closed(err):
		return protocol("the connection was closed before the end", nil)
	case f.Reason != checks.ReasonError:
		if f.Detail == "" {
			f.Detail = "no whole answer"
		}
		return f
	}
	what := "no understandable answer"
	if l.over == "h2" && strings.Contains(err.Error(), "PROTOCOL_ERROR") { // which is all that net/http tells of either
		what += fmt.Sprintf(": it breaks the rules of HTTP/2, or its headers are longer than %d KiB", mostHeader>>10)
	}
	return protocol(what, bare(err))
}

// closed says whether the server closed the connection. A reset and an end are the same to it: which of them
// is seen depends on whether it had read what we sent.
func (l *line) closed(err error) bool {
	if slices.Contains(vague, err.Error()) {
		err = l.last()
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// vague are errors of net/http that hide whether the server closed the connection or sent what is no HTTP/2.
var vague = []string{"http2: client conn could not be established", "http2: client conn is closed"}

// last gives what comes of reading once more.
func (l *line) last() error {
	_ = l.conn.SetReadDeadline(time.Now().Add(lastWait))
	_, err := l.conn.Read(make([]byte, 1))
	return err
}

// bare takes off what net/http puts before every cause.
func bare(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "net/http: HTTP/1.x transport connection broken: ") {
		return inner
	}
	return err
}

// over tells why ctx is over, also when its connection's deadline was a little faster than its own.
func over(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// verdict gives what a server that asked for a certificate has to say about it, if that is why it broke off:
// with TLS 1.3 it comes after the handshake, and HTTP/2 hides it.
func (l *line) verdict() error {
	if l.tls == nil || !l.tls.Asked {
		return io.EOF
	}
	if err := l.last(); err != nil {
		return err
	}
	return io.EOF
}

// protocol is the failure of an answer that breaks the rules. The error may have words of the server's in it.
func protocol(what string, err error) *checks.Failure {
	if err != nil {
		err = errors.New(payload.Clip(err.Error()))
	}
	return &checks.Failure{Reason: checks.ReasonProtocol, Detail: what, Err: err}
}
