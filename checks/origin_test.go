package checks

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOriginProblems(t *testing.T) {
	target := netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		origin Origin
		want   string
	}{
		{Origin{}, ""},
		{Origin{Source: "192.0.2.1", Mark: 7, Device: "vrf-mgmt"}, ""},
		{Origin{Source: "::ffff:192.0.2.1"}, ""},
		{Origin{Source: "lo"}, "source: must be an IP address"},
		{Origin{Source: "127.0.0.1:0"}, "source: must be an IP address"},
		{Origin{Source: "0.0.0.0"}, "source: must be the address of one host"},
		{Origin{Source: "224.0.0.1"}, "source: must be the address of one host"},
		{Origin{Source: "::1"}, "source: must be of the same family as the address that is probed, 127.0.0.1"},
		{Origin{Device: "eth0/1"}, "device: must be the name of an interface: at most 15 bytes, without blanks and slashes"},
		{Origin{Device: "abcdefghijklmnop"}, "device: must be the name of an interface: at most 15 bytes, without blanks and slashes"},
		{Origin{Device: ".."}, "device: must be the name of an interface: at most 15 bytes, without blanks and slashes"},
	} {
		var got []string
		for _, p := range c.origin.Problems(target) {
			got = append(got, p.Key+": "+p.What)
			if p.WayOut == "" {
				t.Errorf("%+v: no way out", c.origin)
			}
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%+v: %q, want %q", c.origin, s, c.want)
		}
	}
	if ps := (Origin{Source: "::1"}).Problems(netip.Addr{}); ps != nil {
		t.Errorf("with no target: %+v", ps)
	}
}

// What this machine does not have is told before a check fails for it.
func TestOriginLocal(t *testing.T) {
	for _, c := range []struct {
		origin Origin
		want   string
	}{
		{Origin{}, ""},
		{Origin{Source: "127.0.0.9", Device: "lo"}, ""},
		{Origin{Source: "::1"}, ""},
		{Origin{Source: "198.51.100.7"}, "source: the address is not on this node, or not usable yet"},
		{Origin{Device: "nosuch0"}, "device: there is no such interface"},
		{Origin{Source: "198.51.100.7", Device: "nosuch0"}, "device: there is no such interface|source: the address is not on this node, or not usable yet"},
	} {
		var got []string
		for _, p := range c.origin.Local() {
			got = append(got, p.Key+": "+p.What)
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%+v: %q, want %q", c.origin, s, c.want)
		}
	}
}

// unprivileged runs f on a thread without capabilities, which ends with it.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is thrown away
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			done <- err
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A mark that may not be set fails as denied, and Local tells of it.
func TestOriginDenied(t *testing.T) {
	o := Origin{Mark: 7}
	unprivileged(t, func() {
		if ps := o.Local(); len(ps) != 1 || ps[0].Key != "mark" || !strings.Contains(ps[0].What, "CAP_NET_ADMIN") {
			t.Errorf("local: %+v", ps)
		}
		_, _, err := o.Dial(t.Context(), "udp", netip.MustParseAddrPort("127.0.0.1:9"))
		var f *Failure
		if !errors.As(err, &f) || f.Reason != ReasonDenied || !strings.Contains(f.Detail, "mark 7") {
			t.Errorf("dial: %v", err)
		}
	})
}

// Mark and device are on the socket that is used.
func TestOriginApplied(t *testing.T) {
	o := Origin{Device: "lo"}
	if os.Geteuid() == 0 {
		o.Mark = 0xfffffffe
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	conn, release, err := o.Dial(t.Context(), "udp", pc.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		if mark, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK); err != nil || uint32(mark) != o.Mark {
			t.Errorf("mark %#x, %v, want %#x", uint32(mark), err, o.Mark)
		}
		if dev, err := unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil || dev != "lo" {
			t.Errorf("device %q, %v", dev, err)
		}
	})
	if got := From(conn); got != "127.0.0.1" {
		t.Errorf("from %q", got)
	}
}

func TestOriginWithoutDevice(t *testing.T) {
	_, _, err := Origin{Device: "nosuch0"}.Dial(t.Context(), "tcp", netip.MustParseAddrPort("127.0.0.1:9"))
	var f *Failure
	if !errors.As(err, &f) || f.Reason != ReasonUnreachable || !strings.Contains(f.Detail, "no interface nosuch0") {
		t.Errorf("got %v", err)
	}
}

// A connection has a deadline also when its context has none, and is closed by release.
func TestDial(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	at := pc.LocalAddr().(*net.UDPAddr).AddrPort()
	ctx, cancel := context.WithCancel(context.Background())
	conn, release, err := Origin{Source: "127.0.0.5"}.Dial(ctx, "udp", at)
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String(); got != "127.0.0.5" {
		t.Errorf("from %s", got)
	}
	start := time.Now()
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the end of ctx: %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the end of ctx was seen after %s", took)
	}
	release()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after release: %v", err)
	}
}

func TestTrace(t *testing.T) {
	var got []string
	ctx := WithTrace(t.Context(), func(d Direction, text string) { got = append(got, string(rune(d))+text) })
	Tracef(ctx, Sent, "%d bytes", 3)
	Tracef(ctx, Got, "ok")
	Tracef(t.Context(), Note, "nobody looks on")
	if s := strings.Join(got, "|"); s != ">3 bytes|<ok" || !Traced(ctx) || Traced(t.Context()) {
		t.Errorf("got %q", s)
	}
}

// Whoever looks on sees also a connection that did not come about.
func TestDialIsTraced(t *testing.T) {
	var got []string
	ctx := WithTrace(t.Context(), func(d Direction, text string) { got = append(got, string(rune(d))+" "+text) })
	if _, _, err := (Origin{Source: "127.0.0.9", Device: "lo"}).Dial(ctx, "tcp", netip.MustParseAddrPort("127.0.0.1:1")); err == nil {
		t.Fatal("somebody listens on port 1")
	}
	const want = "> tcp to 127.0.0.1:1 from 127.0.0.9, device lo|< refused: connect: connection refused"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
