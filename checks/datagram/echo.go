package datagram

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// EchoHeader is the size of an echo request before its payload (RFC 792, RFC 4443 section 4.1).
const EchoHeader = 8

// IPHeader gives the size of the IP header of packets to a: without options or extensions.
func IPHeader(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// The types of echo messages.
const (
	request4, reply4 = 8, 0
	request6, reply6 = 128, 129
)

// Request is an echo request with this number and payload.
func (s *Socket) Request(seq uint16, payload []byte) []byte {
	b := make([]byte, EchoHeader, EchoHeader+len(payload))
	b[0] = request4
	if s.target.Addr().Is6() {
		b[0] = request6 // the kernel fills in the checksum (RFC 3542, section 3.1)
	}
	binary.BigEndian.PutUint16(b[4:], s.id)
	binary.BigEndian.PutUint16(b[6:], seq)
	b = append(b, payload...)
	if s.target.Addr().Is4() {
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// Reply gives the number and payload of an echo reply to this socket's requests, wherever it came from.
func (s *Socket) Reply(b []byte) (seq uint16, payload []byte, ok bool) {
	kind := byte(reply4)
	if s.target.Addr().Is6() {
		kind = reply6
	}
	if len(b) < EchoHeader || b[0] != kind || b[1] != 0 || binary.BigEndian.Uint16(b[4:]) != s.id {
		return 0, nil, false
	}
	return binary.BigEndian.Uint16(b[6:]), b[EchoHeader:], true
}

// Asked gives the number of the request of this socket that an objection quotes.
func (s *Socket) Asked(o *Objection) (seq uint16, ok bool) {
	q := o.Quoted
	if len(q) < EchoHeader || q[0] != request4 && q[0] != request6 || binary.BigEndian.Uint16(q[4:]) != s.id {
		return 0, false
	}
	return binary.BigEndian.Uint16(q[6:]), true
}

// checksum is that of RFC 1071; the field itself is zero in b.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func randomID() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}

// onlyReplies keeps from a raw socket what else of ICMP this node gets, such as our own requests.
func onlyReplies(fd int, target netip.Addr) error {
	if target.Is4() {
		block := ^uint32(1 << reply4)
		return unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, int(int32(block)))
	}
	var block unix.ICMPv6Filter
	for i := range block.Data {
		block.Data[i] = ^uint32(0)
	}
	block.Data[reply6>>5] &^= 1 << (reply6 & 31)
	return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &block)
}

// onlyOwn has a raw socket get the messages with its id alone. Each raw socket is given all replies that come to
// this node, also to others: with many of them its buffer may be full before it has its own.
func onlyOwn(fd int, target netip.Addr, id uint16) error {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 4}} // the id
	if target.Is4() {                                                                // it stands behind the IP header
		code = []unix.SockFilter{{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}, {Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 4}}
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(id), Jf: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	for buf := make([]byte, 1); err == nil; { // what came before the filter was there
		if _, _, none := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); none != nil && none != unix.EINTR {
			break
		}
	}
	return err
}

// afterIPHeader is what follows the header that comes with a raw IPv4 socket's messages.
func afterIPHeader(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b[min(len(b), int(b[0]&0x0f)*4):]
}
