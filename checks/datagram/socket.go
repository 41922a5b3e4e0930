// Package datagram sends single packets to one target and hears all that comes of them: answers, and
// what routers on the way, or this node's kernel, object. It is what the checks icmp and mtu share.
package datagram

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// noDeadline bounds a wait whose context has no deadline of its own.
const noDeadline = 30 * time.Second

// A Socket is connected to one target. Its methods are not called concurrently.
type Socket struct {
	target netip.AddrPort
	from   netip.Addr
	id     uint16 // of echo requests
	raw    bool   // IPv4 messages come with their IP header
	file   *os.File
	conn   syscall.RawConn
	stop   func() bool
}

// Options say what the packets of a Socket are like.
type Options struct {
	Origin checks.Origin
	// Whole packets are never fragmented, neither here nor on the way (RFC 791, DF), and what the kernel
	// remembers of the path's MTU is left aside (ip(7), IP_PMTUDISC_PROBE).
	Whole bool
}

// Echo gives a socket for ICMP echo requests: an unprivileged ping socket where net.ipv4.ping_group_range
// lets this process have one, else a raw one, which needs CAP_NET_RAW. The error is a *checks.Failure.
// Reads end when ctx does.
func Echo(ctx context.Context, o Options, target netip.Addr) (*Socket, error) {
	fd, raw, err := echoFD(target)
	if err != nil {
		return nil, err
	}
	return open(ctx, fd, o, &Socket{target: netip.AddrPortFrom(target, 0), raw: raw})
}

// UDP gives a socket for UDP. The error is a *checks.Failure. Reads end when ctx does.
func UDP(ctx context.Context, o Options, target netip.AddrPort) (*Socket, error) {
	fd, err := unix.Socket(checks.Family(target.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, checks.NetFailure(ctx, "", err)
	}
	return open(ctx, fd, o, &Socket{target: target})
}

// MayEcho says whether this process may send echo requests; the failure of reason denied tells the way out.
func MayEcho(target netip.Addr) error {
	fd, _, err := echoFD(target)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func echoFD(target netip.Addr) (fd int, raw bool, err error) {
	proto := unix.IPPROTO_ICMP
	if target.Is6() {
		proto = unix.IPPROTO_ICMPV6
	}
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err = unix.Socket(checks.Family(target), unix.SOCK_DGRAM|flags, proto)
	if err == nil {
		return fd, false, nil
	}
	if checks.Starved(err) {
		return -1, false, &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	}
	switch fd, err = unix.Socket(checks.Family(target), unix.SOCK_RAW|flags, proto); {
	case err == nil:
		return fd, true, nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return -1, false, &checks.Failure{Reason: checks.ReasonDenied, Detail: "this process may not ping: " + WayToPing}
	case checks.Starved(err):
		return -1, false, &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	}
	return -1, false, &checks.Failure{Reason: checks.ReasonError, Detail: "no socket for ICMP", Err: err}
}

// WayToPing is what lets a process send echo requests.
const WayToPing = "give it CAP_NET_RAW, or its group a place in the sysctl net.ipv4.ping_group_range"

// open gives s the socket fd, which it closes when that fails.
func open(ctx context.Context, fd int, o Options, s *Socket) (*Socket, error) {
	if err := s.setUp(fd, o); err != nil {
		unix.Close(fd)
		return nil, o.Origin.Unsent(ctx, s.target, "", err)
	}
	s.file = os.NewFile(uintptr(fd), s.target.String())
	conn, err := s.file.SyscallConn()
	if err == nil {
		err = s.file.SetDeadline(time.Now().Add(noDeadline)) // tells whether deadlines hold
	}
	if err != nil {
		s.file.Close()
		return nil, &checks.Failure{Reason: checks.ReasonError, Err: err}
	}
	s.conn = conn
	s.stop = context.AfterFunc(ctx, func() { _ = s.file.SetDeadline(time.Unix(1, 0)) })
	return s, nil
}

func (s *Socket) setUp(fd int, o Options) error {
	if err := o.Origin.Apply(fd); err != nil {
		return err
	}
	if err := s.setOptions(fd, o.Whole); err != nil {
		return err
	}
	source, to, err := o.Origin.Ends(s.target.Addr())
	if err != nil {
		return err
	}
	if !source.IsValid() {
		source = netip.IPv4Unspecified()
		if to.Is6() {
			source = netip.IPv6Unspecified()
		}
	}
	if err := unix.Bind(fd, checks.Sockaddr(netip.AddrPortFrom(source, 0))); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Connect(fd, checks.Sockaddr(netip.AddrPortFrom(to, s.target.Port()))); err != nil {
		return os.NewSyscallError("connect", err)
	}
	return s.nameIt(fd)
}

// nameIt notes what the kernel chose, or for want of a choice chooses an id.
func (s *Socket) nameIt(fd int) error {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	local := addrPort(name)
	s.from, s.id = local.Addr(), local.Port()
	if s.raw {
		s.id = randomID()
		return onlyOwn(fd, s.target.Addr(), s.id)
	}
	return nil
}

func (s *Socket) setOptions(fd int, whole bool) error {
	discover := unix.IP_PMTUDISC_DONT
	if whole {
		discover = unix.IP_PMTUDISC_PROBE
	}
	type option struct{ level, name, value int }
	options := []option{{unix.SOL_IP, unix.IP_RECVERR, 1}, {unix.SOL_IP, unix.IP_MTU_DISCOVER, discover}}
	if s.target.Addr().Is6() {
		options = []option{{unix.SOL_IPV6, unix.IPV6_RECVERR, 1}, {unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, discover}}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("socket option %d/%d: %w", o.level, o.name, err)
		}
	}
	if s.raw {
		return onlyReplies(fd, s.target.Addr())
	}
	return nil
}

// From is the address that the packets leave from.
func (s *Socket) From() netip.Addr { return s.from }

// Target is where they go.
func (s *Socket) Target() netip.AddrPort { return s.target }

// Close may be called once.
func (s *Socket) Close() {
	s.stop()
	s.file.Close()
}

// Write sends one packet. Where it does not fit through this node's own interface the error is an
// *Objection.
func (s *Socket) Write(b []byte) error {
	var err error
	var objection *Objection
	failed := s.conn.Write(func(fd uintptr) bool {
		for range 2 { // once more, if the first error was what an earlier packet met
			if _, err = unix.SendmsgN(int(fd), b, nil, nil, 0); err == nil || err == unix.EAGAIN {
				break
			}
		}
		if err == unix.EMSGSIZE {
			objection = ownObjection(int(fd))
		}
		return err != unix.EAGAIN
	})
	switch {
	case failed != nil:
		return failed
	case objection != nil:
		return objection
	}
	return err
}

// A Message is what came: an answer, or an objection.
type Message struct {
	Data      []byte // of the answer: from the ICMP header on, or after that of UDP
	By        netip.Addr
	Objection *Objection
}

// Read waits until something comes, and at most until the time given. It is os.ErrDeadlineExceeded when
// nothing came by then, or when the context that the socket was opened with ended, which is to be ctx.
// What does not fit into buf is cut. A raw socket is told also what is objected to the pings that others on
// this node send to the same target: see Asked.
func (s *Socket) Read(ctx context.Context, until time.Time, buf []byte) (m Message, err error) {
	if err := s.file.SetReadDeadline(until); err != nil {
		return m, err
	}
	if ctx.Err() != nil {
		return m, os.ErrDeadlineExceeded
	}
	failed := s.conn.Read(func(fd uintptr) bool {
		m, err = receive(int(fd), buf)
		return err != unix.EAGAIN
	})
	if failed != nil {
		return Message{}, failed
	}
	if s.raw && s.from.Is4() && m.Objection == nil {
		m.Data = afterIPHeader(m.Data)
	}
	return m, err
}

// receive takes objections first: until they are read the kernel reports them as errors of the next call.
func receive(fd int, buf []byte) (Message, error) {
	for tries := 0; ; tries++ {
		o, err := objection(fd)
		if err == nil {
			return Message{By: o.By, Objection: o}, nil
		}
		n, _, _, from, err := unix.Recvmsg(fd, buf, nil, 0)
		switch {
		case err == nil:
			return Message{Data: buf[:n], By: addrPort(from).Addr()}, nil
		case err == unix.EAGAIN, tries > 8:
			return Message{}, err
		}
	}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
