package datagram

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// A raw socket is not given what is another's, neither of the time before it has a filter nor of later:
// its buffer is to have room for its own.
func TestRawSocketGetsItsOwn(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "::1"} {
		to := netip.MustParseAddr(target)
		proto := unix.IPPROTO_ICMP
		if to.Is6() {
			proto = unix.IPPROTO_ICMPV6
		}
		open := func(before func()) *Socket {
			fd, err := unix.Socket(checks.Family(to), unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
			if err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("no raw socket, which needs CAP_NET_RAW: %v", err)
				}
				t.Skipf("SKIPPED: no raw socket, which needs CAP_NET_RAW: %v", err)
			}
			before()
			s, err := openFD(t, fd, to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return s
		}
		own := open(func() {})
		answered := func() {
			if err := own.Write(own.Request(1, nil)); err != nil {
				t.Fatal(err)
			}
			m, err := own.Read(t.Context(), time.Now().Add(5*time.Second), make([]byte, 128))
			if _, _, ok := own.Reply(m.Data); !ok {
				t.Fatalf("%s: %v, not its reply: %x", target, err, m.Data)
			}
		}
		other := open(answered)
		answered()
		if m, err := other.Read(t.Context(), time.Now().Add(time.Millisecond), make([]byte, 128)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the other one was given %x, %v", target, m.Data, err)
		}
	}
}

func openFD(t *testing.T, fd int, to netip.Addr) (*Socket, error) {
	return open(t.Context(), fd, Options{}, &Socket{target: netip.AddrPortFrom(to, 0), raw: true})
}
