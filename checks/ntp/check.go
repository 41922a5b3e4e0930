package ntp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/beevik/ntp"

	"vouch/checks"
)

// noTimeout is more than a round takes: its end is ctx's, which the connection keeps.
const noTimeout = time.Hour

type checker struct {
	server netip.AddrPort
	origin checks.Origin
	limits limits
}

// String gives the server.
func (c *checker) String() string { return c.server.String() }

// Check asks once, from a fresh socket.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	return c.origin.Ask(ctx, "udp", c.server, func(conn net.Conn) error { return c.query(ctx, conn, start) })
}

func (c *checker) query(ctx context.Context, conn net.Conn, start time.Time) error {
	ex := &exchange{Conn: conn, ctx: ctx}
	response, err := ntp.QueryWithOptions(c.server.String(), ntp.QueryOptions{Version: 4, Timeout: noTimeout,
		Dialer: func(string, string) (net.Conn, error) { return ex, nil }})
	if err != nil {
		return c.failure(ctx, start, ex, err)
	}
	checks.Tracef(ctx, checks.Note, "offset %s, round trip %s, root distance %s, reference time %s", response.ClockOffset,
		response.RTT, response.RootDistance, response.ReferenceTime.UTC().Format(time.RFC3339))
	if f := ex.untrue(); f != nil {
		return f
	}
	if f := c.limits.judge(response); f != nil {
		return f
	}
	return nil
}

// failure tells why there was no response.
func (c *checker) failure(ctx context.Context, start time.Time, ex *exchange, err error) error {
	for _, e := range []error{ntp.ErrInvalidTransmitTime, ntp.ErrServerTickedBackwards, ntp.ErrInvalidMode, ntp.ErrInvalidTime} {
		if errors.Is(err, e) {
			return &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the answer makes no sense", Err: err}
		}
	}
	late := "no answer within " + checks.Allowed(ctx, start)
	if ex.other != "" {
		late += "; what came was no answer: " + ex.other
	}
	return checks.NetFailure(ctx, late, err)
}

// The layout of a message (RFC 5905, section 7.3), in bytes.
const (
	messageSize = 48
	originAt    = 24
	receiveAt   = 32
	transmitAt  = 40
	modeServer  = 4
)

// An exchange is a connection that gives only the answer to the question that was asked: the query would end with
// the first datagram, whatever it is.
type exchange struct {
	net.Conn
	ctx      context.Context
	transmit [8]byte // of the question, which the answer repeats as its origin
	other    string  // the first thing that came and was no answer

	asked   time.Time     // when the question was sent, by the clock that nobody sets
	took    time.Duration // the round
	claimed time.Duration // the time from its receipt to its answer, by the server's account
}

// SetDeadline changes nothing: the connection has its deadline.
func (*exchange) SetDeadline(time.Time) error { return nil }

// Close changes nothing: the connection belongs to the caller.
func (*exchange) Close() error { return nil }

func (x *exchange) Write(b []byte) (int, error) {
	copy(x.transmit[:], b[transmitAt:])
	checks.Tracef(x.ctx, checks.Sent, "version %d, mode %d, transmit timestamp %x, %d bytes", b[0]>>3&7, b[0]&7, x.transmit, len(b))
	x.asked = time.Now()
	return x.Conn.Write(b)
}

// Read gives the answer. The error may be a *checks.Failure for what has no timestamps that mean anything.
func (x *exchange) Read(b []byte) (int, error) {
	for {
		n, err := x.Conn.Read(b)
		if err != nil {
			return n, err
		}
		why := x.notOurs(b[:n])
		x.trace(b[:n], why)
		if why == "" {
			x.took, x.claimed = time.Since(x.asked), spell(b[receiveAt:], b[transmitAt:])
			return n, refusal(b[:n])
		}
		if x.other == "" {
			x.other = why
		}
	}
}

// notOurs says why a datagram is not the answer; "" if it is.
func (x *exchange) notOurs(b []byte) string {
	switch {
	case len(b) < messageSize:
		return "too short"
	case b[0]&7 != modeServer:
		return fmt.Sprintf("mode %d, not that of a server", b[0]&7)
	case [8]byte(b[originAt:]) != x.transmit:
		return "it repeats another transmit timestamp than was sent"
	}
	return ""
}

func (x *exchange) trace(b []byte, why string) {
	if !checks.Traced(x.ctx) {
		return
	}
	if why != "" {
		why = ": no answer, " + why
	}
	if len(b) < messageSize {
		checks.Tracef(x.ctx, checks.Got, "%d bytes%s", len(b), why)
		return
	}
	checks.Tracef(x.ctx, checks.Got, "leap %d, version %d, mode %d, stratum %d, poll %d, precision %d, root delay %x, root dispersion %x, reference id %x, "+
		"reference %x, origin %x, receive %x, transmit %x, %d bytes%s", b[0]>>6, b[0]>>3&7, b[0]&7, b[1], int8(b[2]), int8(b[3]), b[4:8], b[8:12], b[12:16],
		b[16:24], b[24:32], b[32:40], b[40:48], len(b), why)
}

// leeway is what a server's clock may be wrong by within a round, besides a tenth of it: it may have ticks as long as 1/64 s,
// and be slewed by up to a twelfth (chrony's maxslewrate).
const leeway = 20 * time.Millisecond

// untrue refuses the answer of a server that claims to have had the question for longer than the round took, or for less
// than no time: none of its times can be believed.
func (x *exchange) untrue() *checks.Failure {
	if x.claimed >= -leeway && x.claimed <= x.took+x.took/10+leeway {
		return nil
	}
	return &checks.Failure{Reason: checks.ReasonProtocol,
		Detail: fmt.Sprintf("the answer makes no sense: its receive and transmit timestamps are about %s apart, more than the round took", coarse(x.claimed.Abs()))}
}

// spell is the time between two timestamps, in seconds and their 2^32nd parts (RFC 5905, section 6); those of different eras too.
func spell(from, to []byte) time.Duration {
	d := int64(binary.BigEndian.Uint64(to) - binary.BigEndian.Uint64(from))
	return time.Duration(d>>32)*time.Second + time.Duration(d&0xffffffff*1e9>>32)
}

// refusal is the error of what answers the question and still gives no time.
func refusal(b []byte) error {
	if v := b[0] >> 3 & 7; v == 0 || v > 4 {
		return &checks.Failure{Reason: checks.ReasonProtocol, Detail: fmt.Sprintf("the answer is of version %d, to a question of version 4", v)}
	}
	return kiss(b)
}

// kiss tells of an answer of stratum 0, by which a server turns a client away (RFC 5905, section 7.4).
func kiss(b []byte) error {
	if b[1] != 0 {
		return nil
	}
	code := b[12:16]
	if string(code) == "\x00\x00\x00\x00" {
		return &checks.Failure{Reason: checks.ReasonMismatch, Detail: "the server is not synchronised: stratum 0"}
	}
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf("the server turned the question away: kiss-o'-death %q%s", code, meaning(string(code)))}
}

// meaning tells those codes of RFC 5905, section 7.4, that are met.
func meaning(code string) string {
	switch code {
	case "RATE":
		return ", asked too often: allow this node more, or make interval longer"
	case "DENY", "RSTR":
		return ", access denied by its policy"
	case "INIT":
		return ", not synchronised for the first time yet"
	case "STEP":
		return ", its time was stepped, and it is not synchronised again yet"
	}
	return ""
}
