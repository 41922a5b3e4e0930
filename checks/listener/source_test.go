package listener

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// TestLost overflows a socket that nobody reads meanwhile: all are told.
func TestLost(t *testing.T) {
	ns := node(t)
	opened, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*source)
	target := netip.MustParseAddrPort("127.0.0.1:5300")
	if err := s.Add(target); err != nil {
		t.Fatal(err)
	}
	if err := s.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		listen(t, "127.0.0.1:5300").Close()
	}
	var all atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ns.Go(func() {
		ended <- s.Follow(ctx, func(concerns func(netip.AddrPort) bool) {
			all.Store(all.Load() || concerns(netip.MustParseAddrPort("10.53.53.53:1")))
		})
	})
	ns.Wait("all are told of lost messages", all.Load)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Follow after its context ended: %v", err)
	}
	s.Close()
}

// TestSocketLost closes the socket under the one who follows.
func TestSocketLost(t *testing.T) {
	node(t)
	opened, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- opened.Follow(t.Context(), func(func(netip.AddrPort) bool) {}) }()
	opened.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "subscription lost") {
		t.Errorf("the socket was closed: %v", err)
	}
}

// TestManyPorts goes past what the filter can name.
func TestManyPorts(t *testing.T) {
	node(t)
	opened, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(65535-i))
	}
	last := at(0)
	heard := func(ports int) {
		t.Helper()
		listen(t, last.String()).Close()
		if gone, lost, err := opened.(*source).next(); err != nil || lost || !gone[last] {
			t.Errorf("%d ports: %v, %t, %v", ports, gone, lost, err)
		}
	}
	counts := []int{1, mostPorts, mostPorts + 1, 1<<16 - 1}
	added := 0
	for _, n := range counts {
		for ; added < n; added++ {
			if err := opened.Add(at(added)); err != nil {
				t.Fatalf("%d ports: %v", n, err)
			}
		}
		heard(n)
	}
	for _, n := range slices.Backward(counts) {
		for ; added > n; added-- {
			opened.Remove(at(added - 1))
		}
		heard(n)
	}
}

// TestPortsCount has a port heard of while anybody wants it, and nobody else's.
func TestPortsCount(t *testing.T) {
	node(t)
	opened, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	one, other, marker := netip.MustParseAddrPort("127.0.0.1:5300"), netip.MustParseAddrPort("10.53.53.53:5300"), netip.MustParseAddrPort("127.0.0.1:5301")
	for _, target := range []netip.AddrPort{one, other, marker} {
		if err := opened.Add(target); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		without netip.AddrPort
		heard   bool
	}{{other, true}, {one, false}} {
		opened.Remove(c.without)
		listen(t, one.String()).Close()
		listen(t, marker.String()).Close()
		gone := map[netip.AddrPort]bool{}
		for !gone[marker] {
			more, lost, err := opened.(*source).next()
			if err != nil || lost {
				t.Fatalf("%v, %t", err, lost)
			}
			maps.Copy(gone, more)
		}
		if gone[one] != c.heard {
			t.Errorf("without %s: heard of %s: %t", c.without, one, gone[one])
		}
	}
}

func TestUnavailable(t *testing.T) {
	for code, quiet := range map[syscall.Errno]bool{unix.EMFILE: false, unix.ENOBUFS: false, unix.EAFNOSUPPORT: true, unix.EPROTONOSUPPORT: true, unix.ENOENT: true, unix.EPERM: true} {
		if got := errors.Is(unavailable(code), checks.ErrNoHints); got != quiet {
			t.Errorf("%v says that there are no hints: %t", code, got)
		}
	}
}

func TestListened(t *testing.T) {
	message := func(family byte, port uint16, source string, peerPort byte) []byte {
		b := make([]byte, messageOf)
		b[header], b[sportAt], b[sportAt+1], b[dportAt+1] = family, byte(port>>8), byte(port), peerPort
		copy(b[sourceAt:], netip.MustParseAddr(source).AsSlice())
		return b
	}
	for _, c := range []struct {
		bytes []byte
		want  string
	}{
		{message(unix.AF_INET, 53, "127.0.0.1", 0), "127.0.0.1:53"},
		{message(unix.AF_INET, 5300, "0.0.0.0", 0), "0.0.0.0:5300"},
		{message(unix.AF_INET6, 53, "::1", 0), "[::1]:53"},
		{message(unix.AF_INET6, 53, "::ffff:127.0.0.1", 0), "127.0.0.1:53"},
		{message(unix.AF_INET, 53, "127.0.0.1", 9), "invalid AddrPort"},
		{message(unix.AF_UNIX, 53, "127.0.0.1", 0), "invalid AddrPort"},
		{message(unix.AF_INET, 53, "127.0.0.1", 0)[:messageOf-1], "invalid AddrPort"},
		{nil, "invalid AddrPort"},
	} {
		if got, ok := listened(c.bytes); got.String() != c.want || ok != got.IsValid() {
			t.Errorf("got %s, %t, want %s", got, ok, c.want)
		}
	}
}

func TestServes(t *testing.T) {
	for _, c := range []struct {
		at, target string
		want       bool
	}{
		{"127.0.0.1:53", "127.0.0.1:53", true}, {"127.0.0.1:53", "127.0.0.1:54", false}, {"127.0.0.1:53", "127.0.0.2:53", false},
		{"0.0.0.0:53", "127.0.0.1:53", true}, {"[::]:53", "127.0.0.1:53", true}, {"[::]:53", "[::1]:53", true}, {"0.0.0.0:54", "127.0.0.1:53", false},
	} {
		if got := serves(netip.MustParseAddrPort(c.at), netip.MustParseAddrPort(c.target)); got != c.want {
			t.Errorf("%s serves %s: %t", c.at, c.target, got)
		}
	}
}

// BenchmarkCloses is what it costs all others in a network namespace that somebody watches: connections made
// and ended, with no watch and with one.
func BenchmarkCloses(b *testing.B) {
	for _, n := range []int{0, 1} {
		b.Run(fmt.Sprintf("watches=%d", n), func(b *testing.B) {
			ns := node(b)
			l := listen(b, "127.0.0.1:5300")
			for i := range n {
				w := watch(b, ns, fmt.Sprintf("127.0.0.1:%d", 10000+i))
				b.Cleanup(w.stop)
			}
			for b.Loop() {
				cycle(b, l)
			}
		})
	}
}

// cycle makes one connection and ends it without a TIME_WAIT.
func cycle(tb testing.TB, l *net.TCPListener) {
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	_ = c.SetLinger(0)
	c.Close()
	s.Close()
}
