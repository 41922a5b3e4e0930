package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
)

const (
	// ednsSize is what fits through any path unfragmented (DNS flag day 2020).
	ednsSize = 1232
	// bufferSize is more than a server may send over UDP after that.
	bufferSize = 4096
)

type checker struct {
	proto    string
	server   netip.AddrPort
	origin   checks.Origin
	question dns.Question
	recurse  bool
	accept   Accept
}

// String gives such as "udp 127.0.0.1:53 . NS".
func (c *checker) String() string {
	s := fmt.Sprintf("%s %s %s ", c.proto, c.server, c.question.Name)
	if c.question.Qclass != dns.ClassINET {
		s += dns.ClassToString[c.question.Qclass] + " "
	}
	return s + dns.TypeToString[c.question.Qtype]
}

// Check asks once, from a fresh socket and with a fresh id.
func (c *checker) Check(ctx context.Context) error {
	reply, err := c.ask(ctx, c.proto)
	if err != nil {
		return err
	}
	if reply.Truncated && c.proto == "udp" {
		if reply, err = c.ask(ctx, "tcp"); err != nil {
			return fallback(err)
		}
		if reply.Truncated {
			return fallback(errTruncated)
		}
	}
	if reply.Truncated {
		return errTruncated
	}
	if !c.accept.accepts(reply.Rcode) {
		return &checks.Failure{Reason: checks.ReasonStatus,
			Detail: fmt.Sprintf("rcode %s is not among those accepted, %s", rcodeName(reply.Rcode), c.accept)}
	}
	return nil
}

var errTruncated = &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the answer over tcp is truncated"}

// fallback says of a failure that it met the second try, over tcp.
func fallback(err error) error {
	f := &checks.Failure{Reason: checks.Result{Start: time.Now(), Err: err}.Reason(), Err: err}
	if inner := (*checks.Failure)(nil); errors.As(err, &inner) {
		f.Detail, f.Err = inner.Detail, inner.Err
	}
	f.Detail = strings.TrimSuffix("tcp fallback: "+f.Detail, ": ")
	return f
}

// ask sends the question and waits for its reply.
func (c *checker) ask(ctx context.Context, proto string) (*dns.Msg, error) {
	start := time.Now()
	conn, release, err := c.origin.Dial(ctx, proto, c.server)
	if err != nil {
		return nil, err
	}
	defer release()
	query := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: c.recurse}, Question: []dns.Question{c.question}}
	query.SetEdns0(ednsSize, false)
	wire, err := query.Pack()
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Detail: "the question cannot be packed", Err: err}
	}
	read := readDatagram
	if proto == "tcp" {
		wire, read = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...), readFramed
	}
	var d dropped
	if _, err = conn.Write(wire); err == nil {
		var reply *dns.Msg
		if reply, err = receive(conn, read, query, &d); err == nil {
			return reply, nil
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the connection was closed before an answer" + d.String()}
	}
	late := fmt.Sprintf("no answer from %s within %s%s", c.server, time.Since(start).Round(time.Millisecond), d)
	return nil, checks.NetFailure(ctx, late, err)
}

// receive reads until a message is the reply to query, or reading fails.
func receive(conn net.Conn, read func(net.Conn, []byte) ([]byte, error), query *dns.Msg, d *dropped) (*dns.Msg, error) {
	buf := make([]byte, bufferSize)
	for {
		wire, err := read(conn, buf)
		if err != nil {
			return nil, err
		}
		reply := new(dns.Msg)
		err = reply.Unpack(wire)
		// A datagram may be cut where the header says so, or by our buffer; what came tells enough.
		if err != nil && len(wire) == len(buf) {
			reply.Truncated = true
		}
		if d.count(query, reply, err) {
			return reply, nil
		}
	}
}

func readDatagram(conn net.Conn, buf []byte) ([]byte, error) {
	n, err := conn.Read(buf)
	return buf[:n], err
}

// readFramed reads a message that follows its length.
func readFramed(conn net.Conn, _ []byte) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	wire := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, wire)
	return wire, err
}
