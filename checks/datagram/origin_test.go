package datagram_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/datagram"
)

// Both ends of a link-local socket are of the interface that is named, by either end or as the device.
func TestLinkLocal(t *testing.T) {
	near, far := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(near, far, "va", "vb", 1500, 1500, []string{"fe80::a/64"}, []string{"fe80::b/64"})
	near.Await("fe80::b%va")
	for _, c := range []struct {
		origin       checks.Origin
		target, want string
	}{
		{checks.Origin{}, "fe80::b%va", ""},
		{checks.Origin{Source: "fe80::a"}, "fe80::b%va", ""},
		{checks.Origin{Source: "fe80::a%va"}, "fe80::b", ""},
		{checks.Origin{Device: "va"}, "fe80::b", ""},
		{checks.Origin{Source: "fe80::a", Device: "va"}, "fe80::b", ""},
		{checks.Origin{}, "fe80::b", "unreachable: fe80::b is link-local, and no interface is given"},
		{checks.Origin{}, "fe80::b%gone", "unreachable: there is no interface gone"},
		{checks.Origin{Source: "fe80::a%gone"}, "fe80::b%va", "unreachable: there is no interface gone"},
		{checks.Origin{Source: "fe80::c"}, "fe80::b%va", "unreachable: the source address fe80::c is not on this node, or not usable yet: cannot assign requested address"},
	} {
		for _, open := range []func(context.Context) (*datagram.Socket, error){
			func(ctx context.Context) (*datagram.Socket, error) {
				return datagram.Echo(ctx, datagram.Options{Origin: c.origin}, netip.MustParseAddr(c.target))
			},
			func(ctx context.Context) (*datagram.Socket, error) {
				return datagram.UDP(ctx, datagram.Options{Origin: c.origin}, netip.AddrPortFrom(netip.MustParseAddr(c.target), 9))
			},
		} {
			var s *datagram.Socket
			var err error
			near.Do(func() { s, err = open(t.Context()) })
			if err == nil {
				if got := s.From().String(); got != "fe80::a" {
					t.Errorf("%+v to %s: from %s", c.origin, c.target, got)
				}
				s.Close()
			}
			if got := text(err); got != c.want {
				t.Errorf("%+v to %s: %q, want %q", c.origin, c.target, got, c.want)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// That no port of this node is left is no finding about the target.
func TestNoPortLeft(t *testing.T) {
	s := checktest.NewSpace(t)
	s.Sysctl("ipv4/ip_local_port_range", "40000 40003")
	var err error
	for range 5 {
		s.Do(func() {
			var socket *datagram.Socket
			if socket, err = datagram.UDP(t.Context(), datagram.Options{}, netip.MustParseAddrPort("127.0.0.1:9")); err == nil {
				t.Cleanup(socket.Close)
			}
		})
	}
	if f := (*checks.Failure)(nil); !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
		t.Errorf("%v, want unknown", err)
	}
}
