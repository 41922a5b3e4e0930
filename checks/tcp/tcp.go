// Package tcp checks that something accepts TCP connections, and what it says.
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
	"strconv"
	"time"

	"vouch/checks"
)

const (
	// settle is how long a connection that need not say anything must stay open.
	settle = 50 * time.Millisecond
	// maxRead is how much is read in search of what is expected.
	maxRead = 64 << 10
)

// A Spec is the table of a check of type "tcp". Without expect it is a weak check: the kernel
// accepts connections also for a process that hangs, as long as its backlog has room. With expect
// the process itself must have answered.
type Spec struct {
	checks.Origin
	Address string `toml:"address"` // address:port; an IPv6 address in brackets
	Send    string `toml:"send"`    // sent once connected
	Expect  string `toml:"expect"`  // must come somewhere in the first 64 KiB
}

// Validate gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	address, err := checks.Endpoint(s.Address, 0)
	switch {
	case s.Address == "":
		ps = append(ps, checks.Problem{Key: "address", What: "is missing", WayOut: `write address = "127.0.0.1:443"`})
	case err != nil:
		ps = append(ps, checks.EndpointProblem("address", s.Address, err,
			`write an address and a port, such as "127.0.0.1:443" or "[::1]:443"; names are not looked up`))
	default:
		s.Address = address.String()
	}
	ps = append(ps, s.Problems(address.Addr())...)
	if len(s.Expect) > maxRead {
		ps = append(ps, checks.Problem{Key: "expect", What: "is longer than 64 KiB, of which no more is read",
			WayOut: "expect a part of it"})
	}
	return ps
}

// Targets gives the address that is connected to.
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
	return &checker{origin: s.Origin, address: address, send: []byte(s.Send), expect: []byte(s.Expect)}, nil
}

type checker struct {
	origin       checks.Origin
	address      netip.AddrPort
	send, expect []byte
}

// String gives such as "tcp 127.0.0.1:443".
func (c *checker) String() string { return "tcp " + c.address.String() }

// Check makes one connection and closes it.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	conn, release, err := c.origin.Dial(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	defer release()
	if len(c.send) > 0 {
		if _, err := conn.Write(c.send); err != nil {
			return checks.NetFailure(ctx, "could not send within "+since(start), err)
		}
	}
	if len(c.expect) > 0 {
		return c.await(ctx, conn, start)
	}
	return stays(ctx, conn)
}

// stays fails if the other side closes at once, as a proxy does that has nobody behind it.
func stays(ctx context.Context, conn net.Conn) error {
	wait := settle
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return &checks.Failure{Reason: checks.ReasonError, Err: err}
	}
	_, err := conn.Read(make([]byte, 1))
	switch {
	case ctx.Err() != nil:
		return checks.NetFailure(ctx, "timed out", ctx.Err())
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Is(err, io.EOF):
		return &checks.Failure{Reason: checks.ReasonRefused, Detail: "accepted, and closed at once"}
	}
	f := checks.NetFailure(ctx, "", err)
	f.Detail = "accepted, and broken off at once"
	return f
}

// await reads until what is expected has come.
func (c *checker) await(ctx context.Context, conn net.Conn, start time.Time) error {
	var got []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		searched := max(0, len(got)-len(c.expect)+1)
		got = append(got, buf[:n]...)
		switch {
		case bytes.Contains(got[searched:], c.expect):
			return nil
		case len(got) >= maxRead:
			return &checks.Failure{Reason: checks.ReasonMismatch, Detail: "not in the first 64 KiB: " + excerpt(c.expect)}
		case errors.Is(err, io.EOF):
			return &checks.Failure{Reason: checks.ReasonMismatch, Detail: "closed before it came: " + c.instead(got)}
		case err != nil:
			f := checks.NetFailure(ctx, "did not come within "+since(start), err)
			if f.Detail == "" {
				f.Detail = "broken off before it came"
			}
			f.Detail += ": " + c.instead(got)
			return f
		}
	}
}

// instead says what was expected and what came.
func (c *checker) instead(got []byte) string {
	if len(got) == 0 {
		return fmt.Sprintf("expected %s, got nothing", excerpt(c.expect))
	}
	return fmt.Sprintf("expected %s, got %d bytes: %s", excerpt(c.expect), len(got), excerpt(got))
}

// excerpt quotes the beginning.
func excerpt(b []byte) string {
	const most = 60
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}

func since(t time.Time) string { return time.Since(t).Round(time.Millisecond).String() }
