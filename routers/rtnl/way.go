package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/hub"
)

// A Way is what was found of the routes to somewhere.
type Way struct {
	Found  bool   // there is a route, of whatever use
	Usable bool   // the kernel sends packets by it over a link that is up
	Text   string // for people: the route, and why it is not usable; empty when there is none
	// Left is how long the route has until its lifetime ends, at the time of reading, in steps of 10 ms; 0: it has none.
	// IPv6 only: a router advertises it, and may prolong it, and the kernel tells of neither. Its end is told of up to
	// half a minute late (net.ipv6.route.gc_interval), while the kernel takes the route no more.
	Left time.Duration
}

// A picture is some routes with all that they name.
type picture struct {
	routes  []route
	objects map[uint32]nexthop
	links   map[int]link
}

var pictures readings[picture]

// read has a picture taken, or shares one that is taken for another who asks the same.
func read(ctx context.Context, q question, take func(context.Context) (picture, error)) (picture, error) {
	q.here = hub.Here()
	return pictures.ask(ctx, q, func(ctx context.Context) (p picture, err error) {
		err = again(ctx, func() error {
			p, err = take(ctx)
			return err
		})
		return p, err
	})
}

// RouteTo judges the most specific route of a table to all of a prefix: to exactly that, or to a larger
// one. Routes to parts of it do not count. It returns within the deadline of ctx, or a second. Over names
// the interfaces that the route may lead over; none: any. A table that the kernel's rules do not lead to,
// or a route that is not usable, makes it read the whole table.
func RouteTo(ctx context.Context, to netip.Prefix, table uint32, over ...string) (Way, error) {
	to = to.Masked()
	family := familyOf(to.Addr())
	p, err := read(ctx, question{family: family, table: table, to: to}, func(ctx context.Context) (picture, error) {
		p, err := choice(ctx, Lookup{To: oneOf(to)})
		if err == nil && p.covers(to, table) && p.judge(family, nil).Usable {
			return p, nil
		}
		return dumpCovering(ctx, to, table)
	})
	if err != nil {
		return Way{}, fmt.Errorf("read routes to %s in table %s: %w", to, TableName(table), err)
	}
	return p.judge(family, over), nil
}

// oneOf gives an address that only routes to all of a prefix lead to, as far as that can be told. In a full
// table nothing more specific than a half leads to 0.0.0.0/8, to class E (RFC 1112), and to what IANA has not
// assigned of IPv6. Where something does all the same, the dump decides.
func oneOf(p netip.Prefix) netip.Addr {
	switch a := p.Addr(); {
	case p.Bits() > 1:
		return a
	case a.Is6() && a.IsUnspecified():
		return unassigned
	case a.IsUnspecified():
		return netip.AddrFrom4([4]byte{0, 0, 0, 1})
	case a.Is4():
		return netip.AddrFrom4([4]byte{240, 0, 0, 1})
	default:
		return a
	}
}

func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// covers says that the routes are of the table, and lead to all of a prefix. The kernel's choice for one
// address in it is then the most specific such route.
func (p picture) covers(to netip.Prefix, table uint32) bool {
	for _, r := range p.routes {
		if r.table != table || r.partial || r.dst.IsValid() && (r.dst.Bits() > to.Bits() || !r.dst.Contains(to.Addr())) {
			return false
		}
	}
	return len(p.routes) > 0
}

// dumpCovering reads the routes of a table that lead to all of a prefix.
func dumpCovering(ctx context.Context, to netip.Prefix, table uint32) (picture, error) {
	return dumpWhole(ctx, familyOf(to.Addr()), table, func(data []byte) (route, bool) {
		if len(data) < unix.SizeofRtMsg || int(data[1]) > to.Bits() {
			return route{}, false
		}
		r, ok := parseRoute(data, table)
		return r, ok && (!r.dst.IsValid() || r.dst.Contains(to.Addr()))
	})
}

// dumpWhole reads all of a table and what of it is kept. See quiet for why an IPv6 table that changed
// meanwhile tells nothing.
func dumpWhole(ctx context.Context, family Family, table uint32, keep func([]byte) (route, bool)) (picture, error) {
	changes, err := listen([]int{unix.RTNLGRP_IPV6_ROUTE})
	if err != nil {
		return picture{}, err
	}
	defer changes.close()
	routes, whole, err := dumpRoutes(ctx, family, table, func(data []byte) (route, bool, bool) {
		r, ok := keep(data)
		return r, ok, true
	})
	if err != nil {
		return picture{}, err
	}
	if family == IPv6 && !whole && !changes.quiet() {
		return picture{}, fmt.Errorf("IPv6 routes: %w", errInterrupted)
	}
	return complete(ctx, routes)
}

// dumpRoutes reads routes of a table until each says that no more are needed. Whole says that the table
// came in one piece, between two changes of it.
func dumpRoutes(ctx context.Context, family Family, table uint32, each func([]byte) (r route, ok, more bool)) (routes []route, whole bool, err error) {
	c, err := dial()
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	err = c.dump(ctx, routeRequest(family, table), func(data []byte) bool {
		r, ok, more := each(data)
		if ok {
			routes = append(routes, r)
		}
		return more
	})
	if errors.Is(err, unix.ENOENT) { // no such table: it has no routes
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read routes: %w", err)
	}
	return routes, c.datagrams <= 2, nil // the second is the end
}

func routeRequest(family Family, table uint32) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(family)}})
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(table)))
	return req
}

// complete reads what the routes name. What is named and not there was removed since: then the routes are
// no longer so either.
func complete(ctx context.Context, routes []route) (picture, error) {
	p := picture{routes: routes}
	c, err := dial()
	if err != nil {
		return p, err
	}
	defer c.close()
	if p.objects, err = c.objects(ctx, routes); err != nil {
		return picture{}, err
	}
	if p.links, err = c.linksOf(ctx, routes, p.objects); err != nil {
		return picture{}, err
	}
	return p, nil
}
