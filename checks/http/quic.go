package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/sys/unix"

	"vouch/checks"
)

// forever is longer than any check takes: its context ends what quic-go would end by a clock of its own.
const forever = time.Hour

// openQUIC connects for HTTP/3, from a socket of its own.
func (c *checker) openQUIC(ctx context.Context, v visit) (*line, error) {
	client := c.clients[v.url.host]
	socket, err := c.socket(ctx, v)
	if err != nil {
		return nil, err
	}
	conf, err := client.Begin(ctx, "QUIC", socket)
	if err != nil {
		socket.Close()
		return nil, err
	}
	heard := &packets{Conn: socket}
	l := &line{over: "h3", sent: c.origin.Sent(checks.From(socket)), heard: heard}
	pipe := &quic.Transport{Conn: heard}
	conn, err := pipe.Dial(ctx, socket.RemoteAddr(), conf, &quic.Config{
		HandshakeIdleTimeout: forever, MaxIdleTimeout: forever, MaxIncomingStreams: -1, DisablePathMTUDiscovery: true,
		MaxStreamReceiveWindow: streamBuffer, InitialStreamReceiveWindow: streamBuffer,
		MaxConnectionReceiveWindow: lineBuffer, InitialConnectionReceiveWindow: lineBuffer,
	})
	l.close = func() {
		if conn != nil {
			_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
		}
		_ = pipe.Close()
		socket.Close()
	}
	if err == nil {
		state := conn.ConnectionState().TLS
		traceTLS(ctx, state)
		if f := client.Judge(state, time.Now()); f != nil {
			err = f
		}
	} else {
		client.TraceRefused(ctx, heard, err)
		err = c.unshaken(ctx, v, heard, err)
	}
	if err != nil {
		l.close()
		return nil, checks.Told(err, l.sent)
	}
	l.RoundTripper = (&http3.Transport{DisableCompression: true, MaxResponseHeaderBytes: mostHeader}).NewClientConn(conn)
	return l, nil
}

// socket is connected to the server. The error is a *checks.Failure.
func (c *checker) socket(ctx context.Context, v visit) (net.Conn, error) {
	target := c.target(v.url)
	dialer, to, err := c.origin.Dialer("udp", target)
	if err != nil {
		return nil, c.origin.Unsent(ctx, target, v.allowed(ctx), err)
	}
	dialer.Control = c.undivided
	socket, err := dialer.DialContext(ctx, "udp", to)
	if err != nil {
		return nil, c.origin.Unsent(ctx, target, v.allowed(ctx), err)
	}
	return socket, nil
}

// undivided has no packet of a socket sent in fragments, which QUIC forbids (RFC 9000, section 14).
func (c *checker) undivided(network, address string, raw syscall.RawConn) error {
	if err := c.origin.Control(network, address, raw); err != nil {
		return err
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		if network == "udp6" {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}
	})
	return errors.Join(err, failed)
}

// packets is a connected socket in the form that quic-go takes. Connected, it hears of ports that nobody
// listens on, and takes packets from the server alone. That its buffers stay as the kernel gives them is on
// purpose: they do for one request, and quic-go would complain in the log where it may not enlarge them.
type packets struct {
	net.Conn
	came atomic.Int64
}

// ReadFrom reads one packet.
func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := p.Read(b)
	if err == nil {
		p.came.Add(1)
	}
	return n, p.RemoteAddr(), err
}

// WriteTo sends one packet, always to the server.
func (p *packets) WriteTo(b []byte, _ net.Addr) (int, error) { return p.Write(b) }

// SetReadBuffer leaves it as it is.
func (p *packets) SetReadBuffer(int) error { return nil }

// SetWriteBuffer leaves it as it is.
func (p *packets) SetWriteBuffer(int) error { return nil }

// String tells how much came.
func (p *packets) String() string {
	switch n := p.came.Load(); n {
	case 0:
		return "nothing came back"
	case 1:
		return "1 packet came back"
	default:
		return fmt.Sprintf("%d packets came back", n)
	}
}

// unshaken tells why no handshake came about.
func (c *checker) unshaken(ctx context.Context, v visit, heard *packets, err error) *checks.Failure {
	if over(ctx) != nil {
		why := "udp is blocked, or nobody answers"
		if heard.came.Load() > 0 {
			why = "what came was no whole handshake"
		}
		return checks.NetFailure(ctx, fmt.Sprintf("no QUIC handshake within %s: %s", v.allowed(ctx), why), over(ctx))
	}
	return quicFailure(ctx, c.clients[v.url.host].Failure, err)
}

// quicFailure tells of a QUIC connection that was ended by something else than the check's own clock; secure tells of what
// is a matter of TLS, as trust.Failure does.
func quicFailure(ctx context.Context, secure func(context.Context, string, error) *checks.Failure, err error) *checks.Failure {
	var (
		transport *quic.TransportError
		version   *quic.VersionNegotiationError
		reset     *quic.StatelessResetError
		errno     syscall.Errno
	)
	switch {
	case errors.As(err, &transport) && transport.ErrorCode.IsCryptoError():
		if transport.Remote { // RFC 9001, section 4.8
			err = tls.AlertError(transport.ErrorCode - 0x100)
		}
		return secure(ctx, "", err)
	case errors.As(err, &transport) && transport.Remote && transport.ErrorCode == quic.ConnectionRefused, errors.As(err, &reset):
		return &checks.Failure{Reason: checks.ReasonRefused, Detail: "the server refused the connection"}
	case errors.As(err, &version):
		return protocol("the server speaks no version of QUIC that is known here", nil)
	case errors.As(err, &errno):
		f := checks.NetFailure(ctx, "", errno)
		f.Detail = "no answer"
		return f
	}
	return protocol("no understandable answer", err)
}
