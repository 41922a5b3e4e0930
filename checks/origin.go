package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An Origin says where a network check asks from. It is embedded in the Spec of each. The zero Origin
// leaves all of it to the kernel. It may be copied, and used concurrently.
type Origin struct {
	Source string `toml:"source"` // address of this node to ask from, never a managed one
	Mark   uint32 `toml:"mark"`   // SO_MARK, for the node's routing rules; needs CAP_NET_ADMIN; 0: none
	Device string `toml:"device"` // interface or VRF to send through (SO_BINDTODEVICE)
}

// SourceAddr gives the address to ask from; it is invalid when the kernel chooses.
func (o Origin) SourceAddr() netip.Addr {
	a, _ := netip.ParseAddr(o.Source)
	return a.Unmap()
}

// Problems says what is wrong with the origin of a check of target, without a look at this machine.
// An invalid target is passed over, as it has a problem of its own.
func (o Origin) Problems(target netip.Addr) []Problem {
	var ps []Problem
	if p := o.sourceProblem(target); p != nil {
		ps = append(ps, *p)
	}
	if o.Device != "" && !interfaceName(o.Device) {
		ps = append(ps, Problem{Key: "device", What: "must be the name of an interface: at most 15 bytes, without blanks and slashes",
			Got: o.Device, WayOut: `write such as "vrf-mgmt"`})
	}
	return ps
}

func (o Origin) sourceProblem(target netip.Addr) *Problem {
	if o.Source == "" {
		return nil
	}
	p := &Problem{Key: "source", Got: o.Source, WayOut: "write one of this node's own addresses, such as \"192.0.2.1\""}
	a, err := netip.ParseAddr(o.Source)
	switch a = a.Unmap(); {
	case err != nil:
		p.What = "must be an IP address"
	case a.IsUnspecified() || a.IsMulticast():
		p.What = "must be the address of one host"
		p.WayOut = "leave it out to let the kernel choose"
	case target.IsValid() && a.Is4() != target.Unmap().Is4():
		p.What = "must be of the same family as the address that is probed, " + target.String()
	default:
		return nil
	}
	return p
}

// interfaceName says whether Linux could have an interface of that name (dev_valid_name).
func interfaceName(s string) bool {
	if len(s) >= unix.IFNAMSIZ || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r == '/' || r == ':' || r == 0x7f {
			return false
		}
	}
	return true
}

// Local says what of the origin this machine does not have, or does not let this process use: it opens
// a socket, and sends nothing.
func (o Origin) Local() []Problem {
	var ps []Problem
	note := func(key, got, what, wayOut string) {
		ps = append(ps, Problem{Key: key, Got: got, What: what, WayOut: wayOut})
	}
	if o.Device != "" {
		if _, err := net.InterfaceByName(o.Device); err != nil {
			note("device", o.Device, "there is no such interface", "create it, or name another (ip link)")
		}
	}
	network := "udp4"
	if a := o.SourceAddr(); a.IsValid() && a.Is6() {
		network = "udp6"
	}
	lc := net.ListenConfig{Control: Origin{Mark: o.Mark}.Control}
	pc, err := lc.ListenPacket(context.Background(), network, net.JoinHostPort(o.Source, "0"))
	switch {
	case err == nil:
		pc.Close()
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		note("source", o.Source, "the address is not on this node, or not usable yet", "write one of this node's own addresses (ip address), or leave it out")
	case errors.Is(err, syscall.EPERM) && o.Mark != 0:
		note("mark", fmt.Sprint(o.Mark), "a mark needs CAP_NET_ADMIN, which this process does not have", "run it as the package's unit does, or leave it out")
	}
	return ps
}

// Control sets mark and device on a socket before it is bound; it fits net.Dialer and net.ListenConfig.
// The error is a *Failure.
func (o Origin) Control(_, _ string, c syscall.RawConn) error {
	if o.Mark == 0 && o.Device == "" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) { failed = o.Apply(int(fd)) })
	if failed != nil {
		return failed
	}
	return err
}

// Apply sets mark and device on a socket. The error is a *Failure.
func (o Origin) Apply(fd int) error {
	if o.Mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(o.Mark)); err != nil {
			return &Failure{Reason: ReasonDenied, Err: err, Detail: fmt.Sprintf("the mark %d cannot be set, which needs CAP_NET_ADMIN", o.Mark)}
		}
	}
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

// Dialer gives a dialer that connects from the origin. Network is "udp" or "tcp".
func (o Origin) Dialer(network string) *net.Dialer {
	d := &net.Dialer{Control: o.Control}
	source := o.SourceAddr()
	switch {
	case source.IsValid() && network == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	case source.IsValid():
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return d
}

// Dial connects from the origin. The connection gets ctx's deadline, and is cut short when ctx ends;
// release ends that tie and closes it. The error is a *Failure. Network is "udp" or "tcp".
func (o Origin) Dial(ctx context.Context, network string, target netip.AddrPort) (conn net.Conn, release func(), err error) {
	d := o.Dialer(network)
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = start.Add(noDeadline)
	}
	d.Deadline = end
	conn, err = dial(ctx, d, network, target)
	if err != nil {
		return nil, nil, o.Failure(ctx, "no connection within "+Allowed(ctx, start), err)
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
func dial(ctx context.Context, d *net.Dialer, network string, target netip.AddrPort) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, target.String())
	if err != nil {
		return nil, err
	}
	own, udp := conn.LocalAddr().(*net.UDPAddr)
	if !udp || own.Port != int(target.Port()) || own.AddrPort().Addr().Unmap().WithZone("") != target.Addr().Unmap().WithZone("") {
		return conn, nil
	}
	defer conn.Close() // not before, as the port is to be taken
	return d.DialContext(ctx, network, target.String())
}

// Failure is NetFailure for an error of a dial from the origin: it tells of a source address that is not
// there.
func (o Origin) Failure(ctx context.Context, late string, err error) *Failure {
	if errors.Is(err, syscall.EADDRNOTAVAIL) && o.SourceAddr().IsValid() {
		return &Failure{Reason: ReasonUnreachable, Err: syscall.EADDRNOTAVAIL,
			Detail: fmt.Sprintf("the source address %s is not on this node, or not usable yet", o.SourceAddr())}
	}
	return NetFailure(ctx, late, err)
}

// From tells people what address a connection is from, such as "192.0.2.1"; "" if it has none.
func From(conn net.Conn) string {
	if conn == nil || conn.LocalAddr() == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}
