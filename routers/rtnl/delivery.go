package rtnl

import (
	"context"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Delivery is what the kernel does with a packet that has come for an address.
type Delivery uint8

// The deliveries.
const (
	Dropped   Delivery = iota // there is no route, or one that drops it
	Local                     // this host takes it in
	Forwarded                 // by a route to the address or a network that it is in
	ByDefault                 // by the default route, to where it may have come from
)

// fibMatch is RTM_F_FIB_MATCH (Linux 4.13): the answer is the route itself. Older kernels answer with one to the
// address alone, which looks like Forwarded.
const fibMatch = 0x2000

// DeliveryOf asks the kernel for the route to an address, as for a packet of this host's own: rules and filters for
// what comes from elsewhere are not asked. It returns within the deadline of ctx, or a second. Its error says that the
// kernel could not be asked.
func DeliveryOf(ctx context.Context, a netip.Addr) (Delivery, error) {
	c, err := dial()
	if err != nil {
		return Dropped, err
	}
	defer c.close()
	family := uint8(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: family, Dst_len: uint8(a.BitLen()), Flags: fibMatch}})
	req.AddData(nl.NewRtAttr(unix.RTA_DST, a.AsSlice()))
	found := Dropped
	err = c.get(ctx, req, func(b []byte) { found = delivery(b) })
	for _, none := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EINVAL, unix.EACCES, unix.EAGAIN} { // also for blackhole, prohibit and throw
		if errors.Is(err, none) {
			return Dropped, nil
		}
	}
	return found, err
}

// delivery reads a struct rtmsg.
func delivery(b []byte) Delivery {
	switch {
	case len(b) < unix.SizeofRtMsg:
		return Dropped
	case b[7] == unix.RTN_LOCAL:
		return Local
	case b[7] != unix.RTN_UNICAST:
		return Dropped
	case b[1] == 0:
		return ByDefault
	}
	return Forwarded
}
