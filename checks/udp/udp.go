// Package udp checks that something answers a datagram.
package udp

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"vouch/checks"
	"vouch/checks/payload"
)

// maxBytes is the most that one datagram holds over IPv4 (RFC 768).
const maxBytes = 65535 - 20 - 8

// A Spec is the table of a check of type "udp". One datagram is sent, from a fresh port, and the first that
// comes back decides. A server that answers nothing cannot be checked so: its port being open proves only
// that nobody said it is closed.
type Spec struct {
	Address   string `toml:"address"`    // address:port; an IPv6 address in brackets
	Send      string `toml:"send"`       // the datagram that is sent; it or send_hex is needed
	SendHex   string `toml:"send_hex"`   // the same for what is no text
	Expect    string `toml:"expect"`     // must be somewhere in the reply; default: any reply will do
	ExpectHex string `toml:"expect_hex"` // the same for what is no text
	checks.Origin
}

func (s *Spec) sendField() payload.Field {
	return payload.Field{Key: "send", Text: s.Send, Hex: s.SendHex, Most: maxBytes}
}

func (s *Spec) expectField() payload.Field {
	return payload.Field{Key: "expect", Text: s.Expect, Hex: s.ExpectHex, Most: maxBytes}
}

// Validate gives all that is wrong.
func (s *Spec) Validate() []checks.Problem {
	address, canonical, ps := checks.NeedEndpoint("address", s.Address, "123")
	s.Address = canonical
	send := s.sendField().Problems()
	if send == nil && s.sendField().Bytes() == nil {
		send = []checks.Problem{{Key: "send", What: "is missing: a server is silent until it is asked", WayOut: "write something that it answers, or send_hex"}}
	}
	ps = append(ps, send...)
	ps = append(ps, s.expectField().Problems()...)
	return append(ps, s.Problems(address.Addr())...)
}

// Targets gives the address that is sent to.
func (s *Spec) Targets() []netip.Addr {
	address, _ := checks.Endpoint(s.Address, 0)
	return []netip.Addr{address.Addr()}
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	address, err := checks.Endpoint(s.Address, 0)
	if err != nil {
		return nil, fmt.Errorf("address %q %w", s.Address, err)
	}
	return &checker{origin: s.Origin, address: address, send: s.sendField().Bytes(), expect: s.expectField().Bytes()}, nil
}

type checker struct {
	origin       checks.Origin
	address      netip.AddrPort
	send, expect []byte
}

// buffers are for replies, none of which is larger.
var buffers = sync.Pool{New: func() any { return new([1 << 16]byte) }}

// String gives such as "udp 127.0.0.1:123".
func (c *checker) String() string { return "udp " + c.address.String() }

// Check sends once, from a fresh socket that hears nobody but the address asked.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	return c.origin.Ask(ctx, "udp", c.address, func(conn net.Conn) error { return c.converse(ctx, conn, start) })
}

func (c *checker) converse(ctx context.Context, conn net.Conn, start time.Time) error {
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Sent, "%s, sent from %s", payload.Dump(c.send), checks.From(conn))
	}
	buf := buffers.Get().(*[1 << 16]byte)
	defer buffers.Put(buf)
	got, err := exchange(conn, c.send, buf[:])
	if err != nil {
		f := c.origin.Failure(ctx, "timeout after "+checks.Allowed(ctx, start), err)
		switch f.Reason {
		case checks.ReasonRefused:
			f.Detail = "nobody listens there, or a firewall says so"
		case checks.ReasonTimeout:
			f.Aside = "0 of 1 replies"
			checks.Tracef(ctx, checks.Note, "what comes from another address or port than %s is not heard here: tcpdump shows it", c.address)
		}
		return f
	}
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s", payload.Dump(got))
	}
	if !bytes.Contains(got, c.expect) {
		return &checks.Failure{Reason: checks.ReasonMismatch,
			Detail: fmt.Sprintf("expected %s, got %d bytes: %s", payload.Excerpt(c.expect), len(got), payload.Excerpt(got))}
	}
	return nil
}

// exchange sends a datagram and gives the first that comes back.
func exchange(conn net.Conn, send, buf []byte) ([]byte, error) {
	if _, err := conn.Write(send); err != nil {
		return nil, err
	}
	n, err := conn.Read(buf)
	return buf[:n], err
}
