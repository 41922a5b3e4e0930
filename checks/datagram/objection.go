package datagram

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// An Objection is what a router, the target, or this node's kernel says against a packet that was sent.
type Objection struct {
	By     netip.Addr // who says so; invalid: this node's kernel
	Errno  unix.Errno // what the kernel makes of it (ip(7), IP_RECVERR)
	MTU    int        // bytes that would fit, where the packet was too big; 0: not told
	Quoted []byte     // how the packet began, from the ICMP header on, or after that of UDP; often cut

	what string
}

// TooBig says whether it was the packet's size.
func (o *Objection) TooBig() bool { return o.Errno == unix.EMSGSIZE }

// Error tells who says what: "10.0.0.1 says: host unreachable".
func (o *Objection) Error() string {
	if !o.By.IsValid() {
		return "this node says: " + o.what
	}
	return o.By.String() + " says: " + o.what
}

// icmpWords and icmp6Words tell types and codes (RFC 792, RFC 1812 section 5.2.7.1, RFC 4443).
var (
	icmpWords = map[[2]byte]string{
		{3, 0}: "network unreachable", {3, 1}: "host unreachable", {3, 2}: "protocol unreachable",
		{3, 3}: "port unreachable", {3, 5}: "source route failed", {3, 6}: "network unknown", {3, 7}: "host unknown",
		{3, 9}: "network administratively prohibited", {3, 10}: "host administratively prohibited",
		{3, 11}: "network unreachable for this type of service", {3, 12}: "host unreachable for this type of service",
		{3, 13}: "communication administratively prohibited", {11, 0}: "time to live exceeded",
	}
	icmp6Words = map[[2]byte]string{
		{1, 0}: "no route to destination", {1, 1}: "communication administratively prohibited",
		{1, 2}: "beyond the scope of the source address", {1, 3}: "address unreachable", {1, 4}: "port unreachable",
		{1, 5}: "source address failed ingress/egress policy", {1, 6}: "reject route to destination",
		{3, 0}: "hop limit exceeded", {4, 0}: "erroneous header field", {4, 1}: "unrecognized next header",
	}
)

// objection takes the oldest one from the socket's error queue. The error is EAGAIN if there is none.
func objection(fd int) (*Objection, error) {
	quoted, oob := make([]byte, 64), make([]byte, 512)
	n, oobn, _, _, err := unix.Recvmsg(fd, quoted, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		h := m.Header
		if h.Level == unix.SOL_IP && h.Type == unix.IP_RECVERR || h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_RECVERR {
			if o := parseObjection(m.Data); o != nil {
				o.Quoted = quoted[:n]
				return o, nil
			}
		}
	}
	return nil, unix.EBADMSG
}

// parseObjection reads a struct sock_extended_err, and the offender's address behind it (ip(7)); nil: it
// is none.
func parseObjection(b []byte) *Objection {
	const size = 16
	if len(b) < size {
		return nil
	}
	o := &Objection{Errno: unix.Errno(binary.NativeEndian.Uint32(b))}
	origin, kind := b[4], [2]byte{b[5], b[6]}
	if o.TooBig() {
		o.MTU = int(binary.NativeEndian.Uint32(b[8:]))
	}
	words := icmpWords
	switch origin {
	case unix.SO_EE_ORIGIN_ICMP:
	case unix.SO_EE_ORIGIN_ICMP6:
		words = icmp6Words
	default:
		o.what = o.tooBig(o.Errno.Error())
		return o
	}
	o.By = offender(b[size:])
	o.what = words[kind]
	if o.what == "" {
		o.what = fmt.Sprintf("ICMP type %d code %d", kind[0], kind[1])
	}
	o.what = o.tooBig(o.what)
	return o
}

func (o *Objection) tooBig(otherwise string) string {
	switch {
	case !o.TooBig():
		return otherwise
	case o.MTU > 0:
		return fmt.Sprintf("packet too big, at most %d bytes fit", o.MTU)
	}
	return "packet too big"
}

// offender reads a sockaddr of either family.
func offender(b []byte) netip.Addr {
	switch {
	case len(b) < 2:
	case binary.NativeEndian.Uint16(b) == unix.AF_INET && len(b) >= 8:
		return netip.AddrFrom4([4]byte(b[4:8]))
	case binary.NativeEndian.Uint16(b) == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	}
	return netip.Addr{}
}

// ownObjection is what the kernel said just now against a packet of ours that does not fit.
func ownObjection(fd int) *Objection {
	for {
		o, err := objection(fd)
		if err != nil {
			return &Objection{Errno: unix.EMSGSIZE, what: "packet too big"}
		}
		if !o.By.IsValid() && o.TooBig() {
			return o
		}
	}
}
