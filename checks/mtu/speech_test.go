package mtu

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/checks/checktest"
	"vouch/checks/datagram"
)

// An answer counts if it comes from the one who was asked.
func TestHearWho(t *testing.T) {
	q := newNegotiator(1252, true)
	large, small := q.packets()
	for by, heard := range map[string]bool{"192.0.2.1": true, "192.0.2.2": false} {
		p := &probe{finding: at(finding{}), speech: q}
		p.hear(t.Context(), datagram.Message{Data: negotiation(small), By: netip.MustParseAddr(by)})
		if p.little != heard || p.large {
			t.Errorf("%s: small %v, large %v", by, p.little, p.large)
		}
		p.hear(t.Context(), datagram.Message{Data: negotiation(large), By: netip.MustParseAddr(by)})
		if p.large != heard {
			t.Errorf("%s: large %v", by, p.large)
		}
	}
}

// That the small packet is too big does not say so of the large one, which will be told of by itself.
func TestHearObjections(t *testing.T) {
	q := newNegotiator(1252, true)
	large, small := q.packets()
	for name, c := range map[string]struct {
		o      datagram.Objection
		doomed bool
	}{
		"large too big":     {datagram.Objection{By: someone, Errno: unix.EMSGSIZE, MTU: 1240, Quoted: large[:64]}, true},
		"small too big":     {datagram.Objection{By: someone, Errno: unix.EMSGSIZE, MTU: 1240, Quoted: small[:64]}, false},
		"too big, unquoted": {datagram.Objection{By: someone, Errno: unix.EMSGSIZE, MTU: 1240}, true},
		"small refused":     {datagram.Objection{By: someone, Errno: unix.EHOSTUNREACH, Quoted: small[:64]}, true},
	} {
		p := &probe{finding: at(finding{}), speech: q}
		p.hear(t.Context(), datagram.Message{By: someone, Objection: &c.o})
		if p.doomed() != c.doomed {
			t.Errorf("%s: doomed %v", name, p.doomed())
		}
	}
}

// A reply repeats the whole of what was sent: one that is cut, or of another round, is none.
func TestEchoAnswers(t *testing.T) {
	here := checktest.NewSpace(t)
	var s *datagram.Socket
	var err error
	here.Do(func() {
		s, err = datagram.Echo(t.Context(), datagram.Options{Whole: true}, netip.MustParseAddr("127.0.0.1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := newEcho(s, 1252, 72)
	big, little := e.packets()
	big[0], little[0] = 0, 0 // the type of replies
	for name, c := range map[string]struct {
		b            []byte
		large, small bool
	}{
		"large": {big, true, false}, "small": {little, false, true}, "large, cut": {big[:len(big)-1], false, false},
		"small as large": {append(append([]byte(nil), big[:8]...), little[8:]...), false, false},
		"another round":  {func() []byte { b, _ := newEcho(s, 1252, 72).packets(); b[0] = 0; return b }(), false, false},
	} {
		if large, small := e.answers(c.b); large != c.large || small != c.small {
			t.Errorf("%s: large %v, small %v", name, large, small)
		}
	}
}
