package mtu

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"vouch/checks"
	"vouch/checks/checktest"
)

// listen opens a UDP port in a space.
func listen(t *testing.T, in *checktest.Space, host string) net.PacketConn {
	t.Helper()
	var pc net.PacketConn
	var err error
	in.Do(func() { pc, err = net.ListenPacket("udp", net.JoinHostPort(host, "0")) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	return pc
}

// server runs a real QUIC server in a space.
func server(t *testing.T, in *checktest.Space, host string) string {
	t.Helper()
	pc := listen(t, in, host)
	tr := &quic.Transport{Conn: pc}
	ln, err := tr.Listen(&tls.Config{NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ln.Close()
		tr.Close()
	})
	return pc.LocalAddr().String()
}

func overQUIC(bytes int, ds ...string) Spec {
	return Spec{Destinations: ds, Bytes: bytes, Probe: "quic"}
}

// A real server answers packets of each size that the path carries.
func TestQUIC(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1300, 1300)
	for host, c := range map[string]struct {
		least  int
		router string
	}{checktest.Far4: {1228, checktest.Router4}, checktest.Far6: {1248, checktest.Router6}} {
		at := server(t, p.Far, host)
		for _, bytes := range []int{0, c.least, c.least + 1, 1300} {
			want(t, fmt.Sprint(at, " ", bytes), probeFrom(t, p.Near, overQUIC(bytes, at), long), "", "")
		}
		want(t, at, probeFrom(t, p.Near, overQUIC(1301, at), long), checks.ReasonUnusable, "the path carries 1300 bytes, not 1301, says "+c.router)
	}
}

func TestQUICBlackHole(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1300)
	at := server(t, p.Far, checktest.Far4)
	want(t, "lost", probeFrom(t, p.Near, overQUIC(1400, at), short), checks.ReasonUnusable, "the path carries 1228 bytes, not 1400, and no router says so")
	p.Near.IP("link set eth0 mtu 1250")
	want(t, "own", probeFrom(t, p.Near, overQUIC(1280, at), long), checks.ReasonUnusable, "this node's own interface eth0 carries 1250 bytes, not 1280")
}

// Nobody there is no finding about the path.
func TestQUICNobody(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	for far, words := range map[string]string{
		"10.0.2.2":        "10.0.2.2 says: port unreachable (sent from 10.0.1.2)", // on port 443
		"[fd00:2::2]:444": "fd00:2::2 says: port unreachable",
	} {
		want(t, far, probeFrom(t, p.Near, overQUIC(0, far), long), checks.ReasonRefused, words)
	}
	silent := listen(t, p.Far, checktest.Far4)
	want(t, "silent", probeFrom(t, p.Near, overQUIC(0, silent.LocalAddr().String()), short), checks.ReasonTimeout,
		"no answer within D, neither to a packet of 1280 bytes nor to one of 1228: whatever the size, it is not reached")
	want(t, "silent, one size", probeFrom(t, p.Near, overQUIC(1228, silent.LocalAddr().String()), short), checks.ReasonTimeout, "no answer to a packet of 1228 bytes within D")
}

// negotiation is what a server answers, given the ids of the packet that it got (RFC 8999, section 6).
func negotiation(q []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0x80}, 0)
	b = append(append(b, 8), q[15:23]...)
	b = append(append(b, 8), q[6:14]...)
	return binary.BigEndian.AppendUint32(b, 1)
}

func edit(f func(b []byte)) func(q []byte) []byte {
	return func(q []byte) []byte {
		b := negotiation(q)
		f(b)
		return b
	}
}

// What is no answer to the packet that was sent does not count, and each kind of it is tried by itself.
func TestQUICHostile(t *testing.T) {
	t.Parallel()
	here := checktest.NewSpace(t)
	for name, c := range map[string]struct {
		answer func(q []byte) []byte
		ok     bool
	}{
		"right":               {negotiation, true},
		"the question itself": {slices.Clone[[]byte], false},
		"nothing":             {func([]byte) []byte { return nil }, false},
		"one byte":            {func([]byte) []byte { return []byte{0x80} }, false},
		"no versions":         {func(q []byte) []byte { return negotiation(q)[:23] }, false},
		"half a version":      {func(q []byte) []byte { return negotiation(q)[:25] }, false},
		"short header":        {edit(func(b []byte) { b[0] = 0x40 }), false},
		"another version":     {edit(func(b []byte) { b[4] = 1 }), false},
		"another destination": {edit(func(b []byte) { b[6]++ }), false},
		"another source":      {edit(func(b []byte) { b[15]++ }), false},
		"ids not swapped": {func(q []byte) []byte {
			return append(append(make([]byte, 0), append([]byte{0x80, 0, 0, 0, 0}, q[5:23]...)...), 0, 0, 0, 1)
		}, false},
		"oversized": {func(q []byte) []byte { return append(negotiation(q), bytes.Repeat([]byte{1}, 60000)...) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			pc := listen(t, here, "127.0.0.1")
			go serve(pc, pc, c.answer)
			d, reason := long, checks.Reason("")
			if !c.ok {
				d, reason = 50*time.Millisecond, checks.ReasonTimeout
			}
			want(t, name, probeFrom(t, here, overQUIC(0, pc.LocalAddr().String()), d), reason, "no answer within D")
		})
	}
	t.Run("from another port", func(t *testing.T) {
		pc, other := listen(t, here, "127.0.0.1"), listen(t, here, "127.0.0.1")
		go serve(pc, other, negotiation)
		want(t, "elsewhere", probeFrom(t, here, overQUIC(0, pc.LocalAddr().String()), 50*time.Millisecond), checks.ReasonTimeout, "")
	})
}

// serve answers what comes to pc through out, until pc is closed.
func serve(pc, out net.PacketConn, answer func(q []byte) []byte) {
	buf := make([]byte, 65536)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = out.WriteTo(answer(buf[:n]), from)
	}
}

// The first answers are lost, as happens; the packet is sent again.
func TestAgain(t *testing.T) {
	t.Parallel()
	here := checktest.NewSpace(t)
	pc := listen(t, here, "127.0.0.1")
	seen := 0
	go serve(pc, pc, func(q []byte) []byte {
		if len(q) != leastQUIC {
			seen++
		}
		if seen < 3 {
			return nil
		}
		return negotiation(q)
	})
	want(t, "the third", probeFrom(t, here, overQUIC(0, pc.LocalAddr().String()), 3*time.Second), "", "")
}

// What quotes another packet is not about this one.
func TestAbout(t *testing.T) {
	q := newNegotiator(1252, true)
	large, small := q.packets()
	if len(large) != 1252 || len(small) != leastQUIC {
		t.Errorf("%d and %d bytes", len(large), len(small))
	}
	for _, c := range []struct {
		quoted []byte
		large  bool
	}{{large, true}, {small, false}, {small[:14], false}, {small[:13], true}, {nil, true}} {
		if q.small.quotedBy(c.quoted) == c.large {
			t.Errorf("%d bytes quoted: large %v", len(c.quoted), !c.large)
		}
	}
	if to := netip.MustParseAddrPort("[::1]:443"); (&finding{to: to, quic: true}).name() != "[::1]:443" {
		t.Error("the port is part of the name")
	}
}
