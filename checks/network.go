package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// noDeadline bounds a connection whose context has no deadline of its own.
const noDeadline = 30 * time.Second

// Endpoint reads an address and a port, such as "127.0.0.1:53" or "[::1]:53"; a bare address, with
// or without brackets, gets the default port, unless that is 0. Names are refused: they would be
// looked up through a resolver, perhaps the very one that is checked.
func Endpoint(s string, port uint16) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		bare := s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			bare = s[1 : len(s)-1]
		}
		a, err := netip.ParseAddr(bare)
		if err != nil {
			return netip.AddrPort{}, errors.New("is not an IP address with a port")
		}
		ap = netip.AddrPortFrom(a, port)
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	switch a := ap.Addr(); {
	case ap.Port() == 0:
		return netip.AddrPort{}, errors.New("has no port")
	case a.IsUnspecified(), a.IsMulticast():
		return netip.AddrPort{}, errors.New("is not the address of one host")
	}
	return ap, nil
}

// SourceProblem says what is wrong with s as the address to probe target from; nil: nothing, or s is
// empty. An invalid target is passed over, as it has a problem of its own.
func SourceProblem(s string, target netip.AddrPort) *Problem {
	if s == "" {
		return nil
	}
	p := &Problem{Key: "source", Got: s, WayOut: "write one of this node's own addresses, such as \"192.0.2.1\""}
	a, err := netip.ParseAddr(s)
	switch a = a.Unmap(); {
	case err != nil:
		p.What = "must be an IP address"
	case a.IsUnspecified() || a.IsMulticast():
		p.What = "must be the address of one host"
		p.WayOut = "leave it out to let the kernel choose"
	case target.IsValid() && a.Is4() != target.Addr().Is4():
		p.What = "must be of the same family as the address that is probed, " + target.Addr().String()
	default:
		return nil
	}
	return p
}

// Dial connects from source, or from wherever the kernel chooses if source is invalid. The
// connection gets ctx's deadline, and is cut short when ctx ends; release ends that tie and closes
// it. The error is a *Failure. Network is "udp" or "tcp".
func Dial(ctx context.Context, network string, source netip.Addr, target netip.AddrPort) (conn net.Conn, release func(), err error) {
	var d net.Dialer
	switch {
	case source.IsValid() && network == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	case source.IsValid():
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = start.Add(noDeadline)
	}
	d.Deadline = end
	conn, err = d.DialContext(ctx, network, target.String())
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) && source.IsValid() {
			return nil, nil, &Failure{Reason: ReasonUnreachable, Err: syscall.EADDRNOTAVAIL,
				Detail: fmt.Sprintf("the source address %s is not on this node, or not usable yet", source)}
		}
		return nil, nil, NetFailure(ctx, "no connection within "+since(start), err)
	}
	if err := conn.SetDeadline(end); err != nil {
		conn.Close()
		return nil, nil, &Failure{Reason: ReasonError, Err: err}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return conn, func() { stop(); conn.Close() }, nil
}

// NetFailure classifies an error of the network; late describes a timeout. When ctx was canceled,
// nothing was found out. A *Failure is passed on as it is. The addresses that the net package puts
// around a cause are left out: the port on our side is another each time, the check names the other.
func NetFailure(ctx context.Context, late string, err error) *Failure {
	var f *Failure
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	switch {
	case errors.As(err, &f):
		return f
	case ctx.Err() == context.Canceled:
		return &Failure{Reason: ReasonUnknown, Detail: "broken off", Err: ctx.Err()}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return &Failure{Reason: ReasonTimeout, Detail: late}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Failure{Reason: ReasonRefused, Err: err}
	}
	for _, e := range []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN,
		syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.EINVAL} {
		if errors.Is(err, e) {
			return &Failure{Reason: ReasonUnreachable, Err: err}
		}
	}
	return &Failure{Reason: ReasonError, Err: err}
}

// since gives the time since t, rounded for people.
func since(t time.Time) string {
	return time.Since(t).Round(time.Millisecond).String()
}
