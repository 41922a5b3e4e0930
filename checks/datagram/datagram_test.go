package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// extended is a struct sock_extended_err with the offender's address behind it, as ip(7) has it.
func extended(errno unix.Errno, origin, kind, code byte, info uint32, offender netip.Addr) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(errno))
	b = append(b, origin, kind, code, 0)
	b = binary.NativeEndian.AppendUint32(b, info)
	b = binary.NativeEndian.AppendUint32(b, 0)
	if offender.Is4() {
		b = append(binary.NativeEndian.AppendUint16(b, unix.AF_INET), 0, 0)
		return append(append(b, offender.AsSlice()...), make([]byte, 8)...)
	}
	b = append(binary.NativeEndian.AppendUint16(b, unix.AF_INET6), 0, 0, 0, 0, 0, 0)
	return append(append(b, offender.AsSlice()...), make([]byte, 4)...)
}

func TestParseObjection(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		b    []byte
		want string
		mtu  int
	}{
		{extended(unix.EHOSTUNREACH, unix.SO_EE_ORIGIN_ICMP, 3, 1, 0, four), "192.0.2.1 says: host unreachable", 0},
		{extended(unix.ECONNREFUSED, unix.SO_EE_ORIGIN_ICMP, 3, 3, 0, four), "192.0.2.1 says: port unreachable", 0},
		{extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_ICMP, 3, 4, 1400, four), "192.0.2.1 says: packet too big, at most 1400 bytes fit", 1400},
		{extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_ICMP, 3, 4, 0, four), "192.0.2.1 says: packet too big", 0},
		{extended(unix.EHOSTUNREACH, unix.SO_EE_ORIGIN_ICMP, 3, 99, 7, four), "192.0.2.1 says: ICMP type 3 code 99", 0},
		{extended(unix.EHOSTUNREACH, unix.SO_EE_ORIGIN_ICMP, 11, 0, 0, four), "192.0.2.1 says: time to live exceeded", 0},
		{extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_ICMP6, 2, 0, 1280, six), "2001:db8::1 says: packet too big, at most 1280 bytes fit", 1280},
		{extended(unix.EACCES, unix.SO_EE_ORIGIN_ICMP6, 1, 1, 0, six), "2001:db8::1 says: communication administratively prohibited", 0},
		{extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_LOCAL, 0, 0, 1500, four), "this node says: packet too big, at most 1500 bytes fit", 1500},
		{extended(unix.EHOSTUNREACH, unix.SO_EE_ORIGIN_ICMP, 3, 1, 0, four)[:16], "this node says: host unreachable", 0},
	} {
		o := parseObjection(c.b)
		if o == nil || o.Error() != c.want || o.MTU != c.mtu {
			t.Errorf("%v, want %s, %d", o, c.want, c.mtu)
		}
		for i := range len(c.b) { // cut anywhere it neither crashes nor makes up an address
			o := parseObjection(c.b[:i])
			if i < 16 != (o == nil) || o != nil && o.By.IsValid() && !strings.HasPrefix(c.want, o.By.String()) {
				t.Errorf("%s, cut after %d: %v", c.want, i, o)
			}
		}
	}
}

func socketFor(t *testing.T, target string) *Socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	s, err := Echo(ctx, Options{Whole: true}, netip.MustParseAddr(target))
	if err != nil {
		if f := (*checks.Failure)(nil); os.Getenv("CI") != "true" && errors.As(err, &f) && f.Reason == checks.ReasonDenied {
			t.Skip("SKIPPED: " + err.Error())
		}
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestEcho(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "::1"} {
		s := socketFor(t, target)
		if s.From().String() != target || s.Target().Addr().String() != target {
			t.Errorf("from %s to %s", s.From(), s.Target())
		}
		for seq, size := range []int{0, 1, 56, 1001} {
			payload := []byte(strings.Repeat("x", size))
			if err := s.Write(s.Request(uint16(seq), payload)); err != nil {
				t.Fatal(err)
			}
			m, err := s.Read(t.Context(), time.Now().Add(10*time.Second), make([]byte, 2048))
			got, data, ok := s.Reply(m.Data)
			if err != nil || !ok || got != uint16(seq) || string(data) != string(payload) || m.By.String() != target {
				t.Errorf("%s, %d bytes: number %d, %d bytes from %s, %v, %v", target, size, got, len(data), m.By, ok, err)
			}
		}
	}
}

// What is cut, or of another kind, is no reply.
func TestReply(t *testing.T) {
	for target, kind := range map[string]byte{"127.0.0.1": 0, "::1": 129} {
		s := &Socket{target: netip.AddrPortFrom(netip.MustParseAddr(target), 0), id: 0x1234}
		b := s.Request(7, []byte("payload"))
		if _, _, ok := s.Reply(b); ok {
			t.Errorf("%s: a request is no reply", target)
		}
		if seq, ok := s.Asked(&Objection{Quoted: b[:8]}); !ok || seq != 7 {
			t.Errorf("%s: asked %d, %v", target, seq, ok)
		}
		b[0] = kind
		if _, ok := s.Asked(&Objection{Quoted: b}); ok {
			t.Errorf("%s: nobody objects to replies", target)
		}
		if seq, payload, ok := s.Reply(b); !ok || seq != 7 || string(payload) != "payload" {
			t.Errorf("%s: %d %q %v", target, seq, payload, ok)
		}
		for i := range 8 {
			if _, _, ok := s.Reply(b[:i]); ok {
				t.Errorf("%s: a reply of %d bytes", target, i)
			}
		}
		b[5]++
		if _, _, ok := s.Reply(b); ok {
			t.Errorf("%s: a reply to another id", target)
		}
	}
}

// The checksum of a message that holds its own is zero (RFC 1071).
func TestChecksum(t *testing.T) {
	s := &Socket{target: netip.MustParseAddrPort("127.0.0.1:0"), id: 0xffff}
	for _, payload := range []string{"", "a", "ab", "abc", strings.Repeat("\xff", 65000)} {
		if got := checksum(s.Request(0xffff, []byte(payload))); got != 0 {
			t.Errorf("%d bytes: %#x", len(payload), got)
		}
	}
}

func TestAfterIPHeader(t *testing.T) {
	for _, c := range []struct{ in, want string }{{"", ""}, {"\x45", ""}, {"\x45" + strings.Repeat("x", 19), ""},
		{"\x45" + strings.Repeat("x", 19) + "abc", "abc"}, {"\x46" + strings.Repeat("x", 23) + "abc", "abc"}} {
		if got := afterIPHeader([]byte(c.in)); string(got) != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// A read ends with the time given, with the context, and with the context that had ended before.
func TestReadEnds(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := UDP(ctx, Options{}, pc.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Read(ctx, time.Now().Add(time.Millisecond), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("in time: %v", err)
	}
	hour := time.Now().Add(time.Hour)
	ended := make(chan error)
	go func() {
		_, err := s.Read(ctx, hour, nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := s.Read(ctx, hour, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after that: %v", err)
	}
}

// A port that nobody has is told as an objection, each time.
func TestRefused(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := pc.LocalAddr().(*net.UDPAddr).AddrPort()
	pc.Close()
	s, err := UDP(t.Context(), Options{}, to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 10 {
		if err := s.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		m, err := s.Read(t.Context(), time.Now().Add(10*time.Second), make([]byte, 100))
		if err != nil || m.Objection == nil || m.Objection.Error() != "127.0.0.1 says: port unreachable" || string(m.Objection.Quoted) != "question" {
			t.Fatalf("%+v, %v", m, err)
		}
	}
}

// What does not fit through the loopback interface is told at once, with its MTU.
func TestTooBig(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "::1"} {
		s := socketFor(t, target)
		link, err := net.InterfaceByName("lo")
		if err != nil {
			t.Fatal(err)
		}
		var o *Objection
		err = s.Write(s.Request(1, make([]byte, link.MTU)))
		if !errors.As(err, &o) || !o.TooBig() || o.By.IsValid() {
			t.Errorf("%s: %v", target, err)
		} else if o.MTU != link.MTU && (s.From().Is6() || link.MTU < 65536) { // it may be larger than any IPv4 packet
			t.Errorf("%s: %v, want %d", target, err, link.MTU)
		}
	}
}

// Two that ping the same host hear only what is theirs, whatever sockets they have.
func TestOthers(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "::1"} {
		one, other := socketFor(t, target), socketFor(t, target)
		for seq := range uint16(3) {
			if err := errors.Join(other.Write(other.Request(seq, nil)), one.Write(one.Request(seq, nil))); err != nil {
				t.Fatal(err)
			}
			m, err := one.Read(t.Context(), time.Now().Add(10*time.Second), make([]byte, 100))
			if got, _, ok := one.Reply(m.Data); err != nil || !ok || got != seq {
				t.Errorf("%s: %x, %v", target, m.Data, err)
			}
		}
	}
}
