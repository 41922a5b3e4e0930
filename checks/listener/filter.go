package listener

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// The offsets of what the filter looks at: a struct inet_diag_msg behind a struct nlmsghdr.
const (
	header    = unix.SizeofNlMsghdr
	sportAt   = header + 4
	dportAt   = header + 6
	sourceAt  = header + 8
	peerAt    = header + 24
	messageOf = header + 72 // the length of both
)

// mostPorts is how many ports the filter names; a program may have 4096 instructions (BPF_MAXINSNS). With
// more it lets pass all that listened.
const mostPorts = 1000

// filter gives a classic BPF program that lets pass what has no peer, as a socket that listened, and one
// of the ports. A connection that ends has a peer; one that was refused has lost its port, not the address.
func filter(ports map[uint16]int) []unix.SockFilter {
	const load, equal = unix.BPF_LD | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	program := []unix.SockFilter{{Code: load | unix.BPF_H, K: dportAt}, {Code: equal, K: 0, Jt: 1}, drop}
	for word := uint32(0); word < 4; word++ {
		program = append(program, unix.SockFilter{Code: load | unix.BPF_W, K: peerAt + 4*word}, unix.SockFilter{Code: equal, K: 0, Jt: 1}, drop)
	}
	if len(ports) > mostPorts {
		return append(program, pass)
	}
	program = append(program, unix.SockFilter{Code: load | unix.BPF_H, K: sportAt})
	for p := range ports {
		program = append(program, unix.SockFilter{Code: equal, K: uint32(p), Jf: 1}, pass)
	}
	return append(program, drop)
}

// listened reads where the socket of a message listened; the address may be unspecified.
func listened(b []byte) (netip.AddrPort, bool) {
	if len(b) < messageOf || b[dportAt] != 0 || b[dportAt+1] != 0 {
		return netip.AddrPort{}, false
	}
	port := uint16(b[sportAt])<<8 | uint16(b[sportAt+1])
	switch b[header] {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[sourceAt:])), port), true
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[sourceAt:])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// serves says whether a socket that listened at one could be what answers a target: one at all addresses of
// IPv6 mostly answers those of IPv4 too.
func serves(at, target netip.AddrPort) bool {
	return at.Port() == target.Port() && (at.Addr() == target.Addr() || at.Addr().IsUnspecified())
}
