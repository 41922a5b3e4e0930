package rtnl

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Family is a version of IP.
type Family uint8

// The families, as the kernel numbers them.
const (
	IPv4 Family = unix.AF_INET
	IPv6 Family = unix.AF_INET6
)

// String gives "ipv4" or "ipv6".
func (f Family) String() string {
	if f == IPv6 {
		return "ipv6"
	}
	return "ipv4"
}

// MainTable is the number of the table that is asked where no rule says otherwise.
const MainTable uint32 = unix.RT_TABLE_MAIN

// tableName gives the number of a table, with the kernel's name where it has one.
func tableName(table uint32) string {
	switch table {
	case unix.RT_TABLE_MAIN:
		return "main (254)"
	case unix.RT_TABLE_DEFAULT:
		return "default (253)"
	case unix.RT_TABLE_LOCAL:
		return "local (255)"
	}
	return strconv.FormatUint(uint64(table), 10)
}

// DefaultRoute reads the default route of a table and judges it. Only a route to everything counts,
// not two halves. It returns within the deadline of ctx, or a second. It fails also when the tables
// changed under every attempt to read them. Kernel 4.20 and later dump one table only; an earlier one
// dumps all of them.
func DefaultRoute(ctx context.Context, family Family, table uint32) (Default, error) {
	var d Default
	err := again(ctx, func() (err error) {
		d, err = readDefault(ctx, family, table)
		return err
	})
	if err != nil {
		return Default{}, fmt.Errorf("read %s default route of table %s: %w", family, tableName(table), err)
	}
	return d, nil
}

// readDefault reads once.
func readDefault(ctx context.Context, family Family, table uint32) (Default, error) {
	if family == IPv6 {
		return readDefault6(ctx, table)
	}
	routes, _, err := dumpDefaults(ctx, family, table)
	if err != nil {
		return Default{}, err
	}
	return weigh(ctx, family, table, routes)
}

// weigh reads what the routes name, and judges. What is named and not there was removed since:
// then the routes are no longer so either.
func weigh(ctx context.Context, family Family, table uint32, routes []route) (Default, error) {
	c, err := dial()
	if err != nil {
		return Default{}, err
	}
	defer c.close()
	objects, err := c.objects(ctx, routes)
	if err != nil {
		return Default{}, err
	}
	links, err := c.links(ctx, routes, objects)
	if err != nil {
		return Default{}, err
	}
	return judge(family, table, routes, objects, links), nil
}

// dumpDefaults reads the default routes of a table. They stand together in a dump, so that the
// first other route behind them ends it: for IPv4 they come first. Whole says that the table came in
// one piece, between two changes of it.
func dumpDefaults(ctx context.Context, family Family, table uint32) (routes []route, whole bool, err error) {
	c, err := dial()
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	err = c.dump(ctx, routeRequest(family, table), func(data []byte) bool {
		r, ok := parseDefault(data, table)
		if ok {
			routes = append(routes, r)
		}
		return ok || len(routes) == 0 || toAll(data)
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

// objects reads the nexthop objects that routes name in place of legs, and their members.
func (c *conn) objects(ctx context.Context, routes []route) (map[uint32]nexthop, error) {
	objects := map[uint32]nexthop{}
	var wanted []uint32
	for _, r := range routes {
		if len(r.legs) == 0 && r.nexthop != 0 {
			wanted = append(wanted, r.nexthop)
		}
	}
	for len(wanted) > 0 {
		id := wanted[0]
		wanted = wanted[1:]
		if _, ok := objects[id]; ok {
			continue
		}
		n, err := c.nexthop(ctx, id)
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("nexthop object %d is gone: %w", id, errInterrupted)
		}
		if err != nil {
			return nil, fmt.Errorf("read nexthop object %d: %w", id, err)
		}
		objects[id] = n
		wanted = append(wanted, n.group...)
	}
	return objects, nil
}

func (c *conn) nexthop(ctx context.Context, id uint32) (nexthop, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETNEXTHOP, 0)
	req.AddData(nhmsg{})
	req.AddData(nl.NewRtAttr(unix.NHA_ID, nl.Uint32Attr(id)))
	var n nexthop
	ok := false
	if err := c.get(ctx, req, func(data []byte) { n, ok = parseNexthop(data) }); err != nil {
		return nexthop{}, err
	}
	if !ok {
		return nexthop{}, errMalformed
	}
	return n, nil
}

// An nhmsg is an empty struct nhmsg, as a request has it.
type nhmsg struct{}

func (nhmsg) Len() int          { return unix.SizeofNhmsg }
func (nhmsg) Serialize() []byte { return make([]byte, unix.SizeofNhmsg) }

// links reads the interfaces that the routes and objects lead over.
func (c *conn) links(ctx context.Context, routes []route, objects map[uint32]nexthop) (map[int]link, error) {
	var legs []leg
	for _, r := range routes {
		legs = append(legs, r.legs...)
	}
	for _, n := range objects {
		legs = append(legs, n.leg)
	}
	links := map[int]link{}
	for _, l := range legs {
		if _, ok := links[l.index]; ok || l.index == 0 {
			continue
		}
		got, err := c.linkByIndex(ctx, l.index)
		if errors.Is(err, unix.ENODEV) {
			return nil, fmt.Errorf("interface %d is gone: %w", l.index, errInterrupted)
		}
		if err != nil {
			return nil, err
		}
		links[l.index] = got
	}
	return links, nil
}
