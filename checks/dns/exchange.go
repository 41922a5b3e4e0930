package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/trust"
)

const (
	// bufferSize is more than a server may send over UDP after ednsSize.
	bufferSize = 4096
	// traceSize is how much of a message is shown.
	traceSize = 4096
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A peer is a server, and how it is talked to. It keeps nothing from one question to the next.
type peer struct {
	proto  string
	server netip.AddrPort
	origin checks.Origin
	trust  *trust.Client // with tls and https
	url    string        // with https
}

// ask sends the question over proto and waits for its reply, and tells from where it was sent. The error is a
// *checks.Failure.
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

// closed says whether the other side has ended a connection.
func closed(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// converse sends the question over a socket, and reads until its reply comes.
func (p *peer) converse(ctx context.Context, conn net.Conn, proto string, query *dns.Msg, allowed string) (*dns.Msg, error) {
	wire, err := query.Pack()
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Detail: "the question cannot be packed", Err: err}
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf) // of which no message keeps anything
	r := reader{conn: conn, buf: buf[:]}
	read := r.datagram
	if proto != "udp" {
		wire, read = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...), r.framed
	}
	var d dropped
	if _, err = conn.Write(wire); err == nil {
		var reply *dns.Msg
		if reply, err = receive(ctx, read, query, &d); err == nil {
			return reply, nil
		}
	}
	if closed(err) {
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the connection was closed before an answer" + d.after("; ")}
	}
	late := "timeout after " + allowed
	f := checks.NetFailure(ctx, late, err)
	if proto == "tls" {
		f = trust.Failure(ctx, late, err)
	}
	if f.Reason == checks.ReasonTimeout {
		f.Aside = d.String()
	}
	if proto == "udp" && f.Reason == checks.ReasonTimeout {
		checks.Tracef(ctx, checks.Note, "what comes from another address or port than %s is not heard here: tcpdump shows it", p.server)
	}
	return nil, f
}

// receive reads until a message is the reply to query, or reading fails.
func receive(ctx context.Context, read func() ([]byte, error), query *dns.Msg, d *dropped) (*dns.Msg, error) {
	for {
		wire, err := read()
		if err != nil {
			return nil, err
		}
		reply := new(dns.Msg)
		err = reply.Unpack(wire)
		// A datagram may be cut where the header says so, or by our buffer; what came tells enough.
		if err != nil && len(wire) == bufferSize {
			reply.Truncated = true
			checks.Tracef(ctx, checks.Note, "what comes next is cut: it is larger than %d bytes, and no more than %d were asked for", bufferSize, ednsSize)
		}
		why := d.count(query, reply, err)
		if why == "" {
			traceMessage(ctx, checks.Got, reply)
			return reply, nil
		}
		if checks.Traced(ctx) {
			checks.Tracef(ctx, checks.Got, "%d bytes, dropped: %s", len(wire), why)
		}
	}
}

// A reader reads messages into a buffer, which the next one overwrites.
type reader struct {
	conn net.Conn
	buf  []byte
}

func (r *reader) datagram() ([]byte, error) {
	n, err := r.conn.Read(r.buf)
	return r.buf[:n], err
}

// framed reads a message that follows its length.
func (r *reader) framed() ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r.conn, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > len(r.buf) {
		r.buf = make([]byte, n)
	}
	_, err := io.ReadFull(r.conn, r.buf[:n])
	return r.buf[:n], err
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
