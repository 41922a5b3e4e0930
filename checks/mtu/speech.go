package mtu

import (
	"bytes"
	"crypto/rand"

	"vouch/checks/datagram"
)

// The numbers of the echo requests.
const (
	largeSeq = 1
	smallSeq = 2
)

// An echo speaks ICMP.
type echo struct {
	socket  *datagram.Socket
	payload []byte // of the large one; the small one has its beginning
	small   int
}

func newEcho(s *datagram.Socket, large, small int) *echo {
	e := &echo{s, make([]byte, large), small}
	_, _ = rand.Read(e.payload) // never fails; random, so that no link makes it smaller
	return e
}

func (e *echo) packets() (large, small []byte) {
	return e.socket.Request(largeSeq, e.payload), e.socket.Request(smallSeq, e.payload[:e.small])
}

func (e *echo) answers(b []byte) (large, small bool) {
	seq, payload, ok := e.socket.Reply(b)
	large = ok && seq == largeSeq && bytes.Equal(payload, e.payload)
	return large, ok && seq == smallSeq && bytes.Equal(payload, e.payload[:e.small])
}

func (e *echo) about(o *datagram.Objection) (large, ours bool) {
	seq, ok := e.socket.Asked(o)
	return seq == largeSeq, ok && (seq == largeSeq || seq == smallSeq)
}

// A negotiator speaks as much of QUIC as all its versions have in common.
type negotiator struct {
	large, small hello
	size         int
	both         bool // there is a small packet
}

func newNegotiator(size int, both bool) *negotiator {
	return &negotiator{newHello(), newHello(), size, both}
}

func (q *negotiator) packets() (large, small []byte) {
	if q.both {
		small = q.small.packet(leastQUIC)
	}
	return q.large.packet(q.size), small
}

func (q *negotiator) answers(b []byte) (large, small bool) {
	return q.large.answered(b), q.both && q.small.answered(b)
}

// about takes what quotes too little to tell for the large packet: the port is this probe's alone.
func (q *negotiator) about(o *datagram.Objection) (large, ours bool) {
	return !q.small.quotedBy(o.Quoted), true
}
