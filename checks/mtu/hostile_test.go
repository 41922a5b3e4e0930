package mtu

import (
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"vouch/checks"
	"vouch/checks/checktest"
)

// respond answers the space's pings in its place until the function that it gives is called: first with an ICMP error of this
// type, code and second word, and then, if replies is set, with the reply.
func respond(t *testing.T, in *checktest.Space, kind ipv4.ICMPType, code int, word uint32, replies bool) (stop func()) {
	t.Helper()
	in.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	var conn net.PacketConn
	var err error
	in.Do(func() { conn, err = net.ListenPacket("ip4:icmp", checktest.Far4) })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 65536)
		for {
			n, peer, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			m, err := icmp.ParseMessage(1, buf[:n])
			if err != nil || m.Type != ipv4.ICMPTypeEcho {
				continue
			}
			objection := icmp.Message{Type: kind, Code: code, Body: &icmp.RawBody{Data: quote(word, buf[:n])}}
			if b, err := objection.Marshal(nil); err == nil {
				_, _ = conn.WriteTo(b, peer)
			}
			m.Type = ipv4.ICMPTypeEchoReply
			if b, err := m.Marshal(nil); err == nil && replies {
				_, _ = conn.WriteTo(b, peer)
			}
		}
	}()
	return func() {
		conn.Close()
		<-ended
	}
}

// quote is the body of an ICMP error about an echo request from near to far.
func quote(word uint32, request []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, word)
	header := make([]byte, 20)
	header[0], header[6], header[8], header[9] = 0x45, 0x40, 63, 1
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(request)))
	copy(header[12:], net.ParseIP(checktest.Near4).To4())
	copy(header[16:], net.ParseIP(checktest.Far4).To4())
	return append(append(b, header...), request[:8]...)
}

// Who answers has got the packet, whatever a router said of it, or anybody in its name.
func TestObjectedTo(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	for name, c := range map[string]struct {
		kind    ipv4.ICMPType
		code    int
		word    uint32
		replies bool
		reason  checks.Reason
		words   string
	}{
		"too big, and answered":     {ipv4.ICMPTypeDestinationUnreachable, 4, 600, true, "", ""},
		"unreachable, and answered": {ipv4.ICMPTypeDestinationUnreachable, 1, 0, true, "", ""},
		"quenched, and answered":    {4, 0, 0, true, "", ""},
		"complaint, and answered":   {ipv4.ICMPTypeParameterProblem, 0, 0, true, "", ""},
		"too big":                   {ipv4.ICMPTypeDestinationUnreachable, 4, 600, false, checks.ReasonUnusable, "the path carries 600 bytes, not 1280, says 10.0.2.2"},
		"unreachable":               {ipv4.ICMPTypeDestinationUnreachable, 1, 0, false, checks.ReasonUnreachable, "10.0.2.2 says: host unreachable"},
		"complaint":                 {ipv4.ICMPTypeParameterProblem, 0, 0, false, checks.ReasonTimeout, "no answer within D"},
	} {
		t.Run(name, func(t *testing.T) {
			defer respond(t, p.Far, c.kind, c.code, c.word, c.replies)()
			for kind, use := range sockets(p.Near) {
				use()
				d := medium
				if c.reason == checks.ReasonTimeout {
					d = short
				}
				want(t, kind+" "+name, probeFrom(t, p.Near, to(checktest.Far4), d), c.reason, c.words)
			}
		})
	}
}
