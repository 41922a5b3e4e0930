package tls

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/trust"
)

// settle is the least time that a server gets to refuse the certificate that it asked for.
const settle = 50 * time.Millisecond

type checker struct {
	listener.Watcher
	origin  checks.Origin
	address netip.AddrPort
	client  *trust.Client
	alpn    []string
	name    string
}

// String gives such as "tls 127.0.0.1:443 www.example.com".
func (c *checker) String() string { return c.name }

// Check makes one connection and one whole handshake, and closes it.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	return c.origin.Ask(ctx, "tcp", c.address, func(raw net.Conn) error { return c.shake(ctx, raw, start) })
}

func (c *checker) shake(ctx context.Context, raw net.Conn, start time.Time) error {
	connected := time.Now()
	conn, err := c.client.Handshake(ctx, raw, start)
	if err != nil {
		return err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; len(c.alpn) > 0 && got == "" {
		return &checks.Failure{Reason: checks.ReasonTLS, Detail: fmt.Sprintf("the server agreed to none of the protocols offered, %s", strings.Join(c.alpn, ", "))}
	}
	if conn.Asked {
		if err := accepted(ctx, conn, max(settle, 2*time.Since(connected))); err != nil {
			return err
		}
	}
	_ = conn.CloseWrite() // politeness: the server need not log a client that vanished
	return nil
}

// accepted waits whether the server refuses the client's certificate, or its absence: with TLS 1.3 the
// handshake is over for the client before the server has looked at it. It need not say that all is well.
func accepted(ctx context.Context, conn *trust.Conn, wait time.Duration) error {
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
	}
	f := trust.Failure(ctx, "", err)
	if f.Reason != checks.ReasonTLS && f.Reason != checks.ReasonUnknown {
		return &checks.Failure{Reason: checks.ReasonTLS, Detail: "the server asked for a client certificate, and closed the connection right after the handshake"}
	}
	return f
}
