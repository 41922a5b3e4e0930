package rtnl

import (
	"context"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDelivery(t *testing.T) {
	for want, b := range map[Delivery][]byte{
		Local: {2, 32, 0, 0, 0, 0, 0, unix.RTN_LOCAL, 0, 0, 0, 0}, Forwarded: {2, 24, 0, 0, 0, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0},
		ByDefault: {2, 0, 0, 0, 0, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, Dropped: {2, 32, 0, 0, 0, 0, 0, unix.RTN_BLACKHOLE, 0, 0, 0, 0},
	} {
		if got := delivery(b); got != want {
			t.Errorf("%v: %d, want %d", b, got, want)
		}
	}
	if delivery([]byte{2}) != Dropped {
		t.Error("half a message")
	}
}

// The loopback address is always taken in.
func TestDeliveryOfLoopback(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.3.4.5"} {
		if got, err := DeliveryOf(unhurried(t), netip.MustParseAddr(a)); got != Local || err != nil {
			t.Errorf("%s: %d, %v", a, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DeliveryOf(ctx, netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("asked after the end")
	}
}
