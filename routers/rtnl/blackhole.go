package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vouch/routers"
)

// A Blackhole is a route of the main table that drops what is sent to a network. Whose it is says its
// protocol number: nothing here touches one of another number.
type Blackhole struct {
	Prefix   netip.Prefix
	Protocol uint8  // rtm_protocol: 4 and less are the kernel's and ip route's own
	Metric   uint32 // RTA_PRIORITY, at least 1: an IPv6 route without has 1024
}

// Blackholes gives the metrics of the blackhole routes of a protocol number, by prefix. Kernel 4.20 and later
// dump those alone; an earlier one dumps every table. The error is of class routers.ErrUnavailable.
func Blackholes(ctx context.Context, family Family, protocol uint8) (map[netip.Prefix][]uint32, error) {
	found := map[netip.Prefix][]uint32{}
	err := again(ctx, func() error {
		clear(found)
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.close()
		req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(family), Table: uint8(MainTable), Protocol: protocol, Type: unix.RTN_BLACKHOLE}})
		return c.dump(ctx, req, func(data []byte) bool {
			if r, ok := parseRoute(data, MainTable); ok && r.kind == unix.RTN_BLACKHOLE && data[5] == protocol {
				p := r.dst
				if !p.IsValid() {
					p = netip.PrefixFrom(halves[family][0].Addr(), 0)
				}
				found[p] = append(found[p], r.metric)
			}
			return true
		})
	})
	if errors.Is(err, unix.ENOENT) { // the table has never had a route
		return found, nil
	}
	if err != nil {
		return nil, routers.Errorf(routers.ErrUnavailable, "read the %s blackhole routes of protocol %d: %w", family, protocol, err)
	}
	return found, nil
}

// AddBlackhole makes the route. One that is there already is no error, and one of the same prefix and metric
// that is somebody else's is refused. The error is of a class of package routers.
func AddBlackhole(ctx context.Context, b Blackhole) error {
	err := b.change(ctx, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if !errors.Is(err, unix.EEXIST) {
		return b.failure("add", err)
	}
	all, err := Blackholes(ctx, familyOf(b.Prefix.Addr()), b.Protocol)
	if err != nil {
		return err
	}
	for _, metric := range all[b.Prefix] {
		if metric == b.Metric {
			return nil
		}
	}
	return routers.Errorf(routers.ErrRefused, "%s: there is a route with metric %d already that is not ours (ip %sroute show %[1]s): remove it, or give it another metric", b.Prefix, b.Metric, option(b.Prefix))
}

// DeleteBlackhole takes the route away. One that is not there is no error.
func DeleteBlackhole(ctx context.Context, b Blackhole) error {
	err := b.change(ctx, unix.RTM_DELROUTE, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return b.failure("delete", err)
}

// option is what ip has to be told of a family.
func option(p netip.Prefix) string {
	if p.Addr().Is4() {
		return ""
	}
	return "-6 "
}

func (b Blackhole) change(ctx context.Context, kind, flags int) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	req := nl.NewNetlinkRequest(kind, flags)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{
		Family: uint8(familyOf(b.Prefix.Addr())), Dst_len: uint8(b.Prefix.Bits()), Table: uint8(MainTable),
		Protocol: b.Protocol, Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_BLACKHOLE,
	}})
	req.AddData(nl.NewRtAttr(unix.RTA_DST, b.Prefix.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(b.Metric)))
	return c.change(ctx, req)
}

func (b Blackhole) failure(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s blackhole route %s: %w", what, b.Prefix, classify(err))
}
