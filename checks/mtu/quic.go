package mtu

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
)

const (
	udpHeader = 8
	// leastQUIC is the payload below which a server answers nothing (RFC 9000, section 14.1).
	leastQUIC = 1200
	// reserved is a version that no server ever knows, so that it must negotiate (RFC 9000, section 15).
	reserved = 0x1a2a3a4a
	idSize   = 8
)

// A hello is a QUIC packet of a version that is not known, padded; the ids tell its answer from others
// (RFC 8999, section 5.1).
type hello struct{ destination, source [idSize]byte }

func newHello() (h hello) {
	_, _ = rand.Read(h.destination[:]) // never fails
	_, _ = rand.Read(h.source[:])
	return h
}

// packet is the UDP payload, of this size.
func (h *hello) packet(size int) []byte {
	b := make([]byte, 0, size)
	b = append(b, 0xc0) // long header; a server reads no more of this byte where it does not know the version
	b = binary.BigEndian.AppendUint32(b, reserved)
	b = append(append(b, idSize), h.destination[:]...)
	b = append(append(b, idSize), h.source[:]...)
	return b[:size]
}

// answered says whether b is the Version Negotiation that answers it (RFC 8999, section 6): version 0, the ids
// swapped, and one version at least.
func (h *hello) answered(b []byte) bool {
	want := make([]byte, 4, 4+2*(1+idSize))
	want = append(append(want, idSize), h.source[:]...)
	want = append(append(want, idSize), h.destination[:]...)
	return len(b) >= 1+len(want)+4 && b[0]&0x80 != 0 && bytes.Equal(b[1:1+len(want)], want)
}

// quotedBy says whether a quotation is of this packet, as far as it goes.
func (h *hello) quotedBy(q []byte) bool {
	own := h.packet(leastQUIC)[:6+idSize]
	return len(q) >= len(own) && bytes.Equal(q[:len(own)], own)
}
