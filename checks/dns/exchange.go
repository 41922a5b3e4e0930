package dns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

const (
	// bufferSize is more than a server may send over UDP after ednsSize.
	bufferSize = 4096
	// traceSize is how much of a message is shown.
	traceSize = 4096
	// burst is how many datagrams that are no reply are read before breath is taken, so that a flood of them costs
	// this node a small part of one CPU; the kernel drops what comes meanwhile and finds no room.
	burst  = 32
	breath = time.Millisecond
)

// buffers have a byte more, which tells that there was no room for all that came.
var buffers = sync.Pool{New: func() any { return new([bufferSize + 1]byte) }}

// A peer is a server, and how it is talked to. It keeps nothing from one question to the next.
type peer struct {
	proto  string
	server netip.AddrPort
	origin checks.Origin
	trust  *trust.Client // with tls and https
	url    string        // with https
}

// ask sends the question over proto and waits for its reply, and tells from where it was sent. The error is errLarge,
// or a *checks.Failure.
func (p *peer) ask(ctx context.Context, proto string, query *dns.Msg, allowed string) (reply *dns.Msg, sent string, err error) {
	start, network := time.Now(), proto
	if proto != "udp" {
		network = "tcp"
	}
	connected := false
	err = p.origin.Ask(ctx, network, p.server, func(conn net.Conn) (err error) {
		connected, sent = true, p.origin.Sent(checks.From(conn))
		reply, err = p.talk(ctx, conn, proto, start, query, allowed)
		return err
	})
	if !connected {
		err = within(allowed, err)
	}
	return reply, sent, err
}

// talk makes the connection secure if need be, and asks over it.
func (p *peer) talk(ctx context.Context, conn net.Conn, proto string, start time.Time, query *dns.Msg, allowed string) (*dns.Msg, error) {
	if proto == "https" {
		conn = payload.Limit(conn, maxRead)
	}
	if proto == "tls" || proto == "https" {
		secured, err := p.trust.Handshake(ctx, conn, start)
		if err != nil {
			return nil, err
		}
		defer secured.Close()
		conn = secured.Conn
		if got := secured.ConnectionState().NegotiatedProtocol; proto == "https" && got != "h2" {
			return nil, &checks.Failure{Reason: checks.ReasonTLS, Detail: "the server does not speak HTTP/2: it did not agree to h2 in the handshake"}
		}
	}
	checks.Tracef(ctx, checks.Note, "%s to %s from %s", proto, p.server, checks.From(conn))
	if proto == "https" {
		return p.post(ctx, conn, query, allowed)
	}
	traceMessage(ctx, checks.Sent, query)
	return p.converse(ctx, conn, proto, query, allowed)
}

// within says of a connection that did not come about how long the check may take, also where it is the second try.
func within(allowed string, err error) error {
	if f := (*checks.Failure)(nil); errors.As(err, &f) && f.Reason == checks.ReasonTimeout {
		return &checks.Failure{Reason: f.Reason, Detail: "no connection within " + allowed, Sent: f.Sent}
	}
	return err
}

// converse sends the question over a socket, and reads until its reply comes. The error is errLarge, or a
// *checks.Failure.
func (p *peer) converse(ctx context.Context, conn net.Conn, proto string, query *dns.Msg, allowed string) (*dns.Msg, error) {
	wire, err := query.Pack()
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Detail: "the question cannot be packed", Err: err}
	}
	buf := buffers.Get().(*[bufferSize + 1]byte)
	defer buffers.Put(buf) // of which no message keeps anything
	late := "timeout after " + allowed
	if proto != "udp" {
		return overStream(ctx, conn, query, wire, buf[:], late)
	}
	var d dropped
	var reply *dns.Msg
	if _, err = conn.Write(wire); err == nil {
		reply, err = receive(ctx, conn, query, buf[:], &d)
		d.traceRest(ctx)
	}
	if err == nil || errors.Is(err, errLarge) {
		return reply, err
	}
	f := checks.NetFailure(ctx, late, err)
	if f.Reason == checks.ReasonTimeout {
		f.Aside = d.String()
		checks.Tracef(ctx, checks.Note, "what comes from another address or port than %s is not heard here: tcpdump shows it", p.server)
	}
	return nil, f
}

// errLarge says that the answer over UDP was not read whole.
var errLarge = fmt.Errorf("an answer of more than %d bytes, not marked as truncated, where at most %d were asked for", bufferSize, ednsSize)

// receive reads datagrams until one is the reply to query, or reading fails. Anybody may have sent the others.
func receive(ctx context.Context, r io.Reader, query *dns.Msg, buf []byte, d *dropped) (*dns.Msg, error) {
	for {
		n, err := r.Read(buf)
		if err != nil {
			return nil, err
		}
		large := n > bufferSize
		reply, m := understand(query, buf[:n], !large)
		switch {
		case m.kind != fits:
			d.note(ctx, m, buf[:n])
			if d.all()%burst == 0 {
				time.Sleep(breath)
			}
		case large && !reply.Truncated:
			checks.Tracef(ctx, checks.Got, "%v", errLarge)
			return nil, errLarge
		default:
			traceMessage(ctx, checks.Got, reply)
			return reply, nil
		}
	}
}

// traceMessage shows a message as zone files and dig do.
func traceMessage(ctx context.Context, d checks.Direction, m *dns.Msg) {
	if !checks.Traced(ctx) {
		return
	}
	text := m.String()
	if len(text) > traceSize {
		text = text[:traceSize] + "…"
	}
	checks.Tracef(ctx, d, "%s", text)
}
