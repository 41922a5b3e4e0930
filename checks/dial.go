package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Control sets mark and device on a socket before it is bound; it fits net.Dialer and net.ListenConfig.
// The error is a *Failure.
func (o Origin) Control(network, _ string, c syscall.RawConn) error {
	late := o.Source != "" && strings.HasPrefix(network, "tcp")
	if o.Mark == 0 && o.Device == "" && !late {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		if late { // an old kernel may not know it
			_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		}
		failed = o.Apply(int(fd))
	})
	if failed != nil {
		return failed
	}
	return err
}

// Apply sets mark and device on a socket. The error is a *Failure.
func (o Origin) Apply(fd int) error {
	if err := o.setMark(fd); err != nil {
		return err
	}
	return o.setDevice(fd)
}

func (o Origin) setMark(fd int) error {
	if o.Mark == 0 {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(o.Mark)); err != nil {
		return &Failure{Reason: ReasonDenied, Err: err, Detail: fmt.Sprintf("the mark %d cannot be set, which needs CAP_NET_ADMIN", o.Mark)}
	}
	return nil
}

func (o Origin) setDevice(fd int) error {
	if o.Device == "" {
		return nil
	}
	switch err := unix.BindToDevice(fd, o.Device); {
	case errors.Is(err, unix.ENODEV):
		return &Failure{Reason: ReasonUnreachable, Detail: fmt.Sprintf("there is no interface %s to send through", o.Device)}
	case err != nil:
		return &Failure{Reason: ReasonDenied, Err: err, Detail: fmt.Sprintf("the interface %s cannot be sent through", o.Device)}
	}
	return nil
}

// Dialer gives a dialer that connects from the origin, and the target in the form that it is to be given. It is for
// one dial, as interfaces may change their names: see Ends. Network is "udp" or "tcp". The error is a *Failure.
func (o Origin) Dialer(network string, target netip.AddrPort) (d *net.Dialer, to string, err error) {
	source, addr, err := o.Ends(target.Addr())
	if err != nil {
		return nil, "", err
	}
	d = &net.Dialer{Control: o.Control}
	switch {
	case source.IsValid() && network == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	case source.IsValid():
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return d, netip.AddrPortFrom(addr, target.Port()).String(), nil
}

// Dial connects from the origin. The connection gets ctx's deadline, and is cut short when ctx ends;
// release ends that tie and closes it. The error is a *Failure. Network is "udp" or "tcp".
func (o Origin) Dial(ctx context.Context, network string, target netip.AddrPort) (conn net.Conn, release func(), err error) {
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = start.Add(noDeadline)
	}
	conn, err = o.dial(ctx, end, network, target)
	if err != nil {
		if network == "tcp" && errors.Is(err, syscall.EADDRNOTAVAIL) && o.hasAddress(ctx, target) {
			err = noPort()
		}
		f := o.Failure(ctx, "no connection within "+Allowed(ctx, start), err)
		if network == "udp" {
			f = o.unsent(ctx, Allowed(ctx, start), err)
		}
		Tracef(ctx, Sent, "%s to %s%s", network, target, o.as())
		Tracef(ctx, Got, "%s", f)
		return nil, nil, Told(f, o.sentTo(target))
	}
	if err := conn.SetDeadline(end); err != nil {
		conn.Close()
		return nil, nil, &Failure{Reason: ReasonError, Err: err}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return conn, func() { stop(); conn.Close() }, nil
}

// dial connects, but never a socket to itself: where nobody has a port of this node, the kernel may choose that
// very one to send from, and what is sent comes back as if it were the answer. With TCP the net package sees
// to it.
func (o Origin) dial(ctx context.Context, end time.Time, network string, target netip.AddrPort) (net.Conn, error) {
	d, to, err := o.Dialer(network, target)
	if err != nil {
		return nil, err
	}
	d.Deadline = end
	conn, err := d.DialContext(ctx, network, to)
	if err != nil {
		return nil, err
	}
	own, udp := conn.LocalAddr().(*net.UDPAddr)
	if !udp || own.Port != int(target.Port()) || own.AddrPort().Addr().Unmap().WithZone("") != target.Addr().Unmap().WithZone("") {
		return conn, nil
	}
	defer conn.Close() // not before, as the port is to be taken
	return d.DialContext(ctx, network, to)
}

// hasAddress says whether this node has the address to ask the target from: then it was a port that TCP found
// none of. A UDP socket tells, to which ports are no matter; connecting one sends nothing.
func (o Origin) hasAddress(ctx context.Context, target netip.AddrPort) bool {
	conn, err := o.dial(ctx, time.Time{}, "udp", target)
	if err == nil {
		conn.Close()
	}
	return !errors.Is(err, syscall.EADDRNOTAVAIL)
}

// noPort is no finding about the target.
func noPort() *Failure {
	return &Failure{Reason: ReasonUnknown, Detail: "all ports of this node to ask from are taken (sysctl net.ipv4.ip_local_port_range)"}
}

// Failure is NetFailure for an error of a UDP socket of the origin that is bound and connected: it tells of
// addresses and ports of this node that are not there.
func (o Origin) Failure(ctx context.Context, late string, err error) *Failure {
	switch source := o.SourceAddr(); {
	case errors.Is(err, syscall.EADDRINUSE): // bound to port 0, which means any
		return noPort()
	case errors.Is(err, syscall.EADDRNOTAVAIL) && source.IsValid():
		return &Failure{Reason: ReasonUnreachable, Err: syscall.EADDRNOTAVAIL,
			Detail: fmt.Sprintf("the source address %s is not on this node, or not usable yet", source)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &Failure{Reason: ReasonUnreachable, Err: syscall.EADDRNOTAVAIL, Detail: "this node has no address to ask from, or none that is usable yet"}
	case source.IsLoopback() && routed(err, syscall.EINVAL):
		return &Failure{Reason: ReasonUnreachable, Err: syscall.EINVAL,
			Detail: fmt.Sprintf("from the source address %s nothing but this node itself can be asked", source)}
	}
	return NetFailure(ctx, late, err)
}
