package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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

// TableName gives the number of a table, with the kernel's name where it has one.
func TableName(table uint32) string {
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
// not two halves; see Halves. Over names the interfaces that it may lead over; none: any. It returns within
// the deadline of ctx, or a second. It fails also when the tables changed under every attempt to read
// them. Kernel 4.20 and later dump one table only; an earlier one dumps all of them.
func DefaultRoute(ctx context.Context, family Family, table uint32, over ...string) (Way, error) {
	p, err := read(ctx, question{family: family, table: table}, func(ctx context.Context) (picture, error) {
		return readDefault(ctx, family, table)
	})
	if err != nil {
		return Way{}, fmt.Errorf("read %s default route of table %s: %w", family, TableName(table), err)
	}
	return p.judge(family, over), nil
}

// halves are the two networks that routes to everything but the default route itself lead to.
var halves = map[Family][2]netip.Prefix{
	IPv4: {netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")},
	IPv6: {netip.MustParsePrefix("::/1"), netip.MustParsePrefix("8000::/1")},
}

// Halves judges the routes of a table to the two halves of everything (0.0.0.0/1 and 128.0.0.0/1, or ::/1
// and 8000::/1): of use are only both. Each half may have the default route for its route. It reads the
// whole table, if the kernel's own choice tells nothing.
func Halves(ctx context.Context, family Family, table uint32, over ...string) (Way, error) {
	var both Way
	for _, half := range halves[family] {
		w, err := RouteTo(ctx, half, table, over...)
		if err != nil || !w.Usable {
			return w, err
		}
		if both.Text != "" && both.Text != w.Text {
			w.Text = both.Text + ", " + w.Text
		}
		w.Left = soonest(both.Left, w.Left)
		both = w
	}
	return both, nil
}

// readDefault reads once. The kernel is first asked for its own choice, and the table only when that is no
// usable default route.
func readDefault(ctx context.Context, family Family, table uint32) (picture, error) {
	p, err := chosen(ctx, family, table)
	if err == nil && p.judge(family, nil).Usable {
		return p, nil
	}
	if family == IPv6 {
		return dumpDefault6(ctx, table, table == MainTable && errors.Is(err, refusal("")))
	}
	routes, _, err := dumpDefaults(ctx, family, table)
	if err != nil {
		return picture{}, err
	}
	return complete(ctx, routes)
}

// chosen asks the kernel for the route that it would take to an address that only a default route leads to;
// there are no routes in it if that is no default route of the table.
func chosen(ctx context.Context, family Family, table uint32) (picture, error) {
	everything := netip.PrefixFrom(halves[family][0].Addr(), 0)
	p, err := choice(ctx, Lookup{To: oneOf(everything)})
	if err != nil || !p.covers(everything, table) {
		return picture{}, err
	}
	return p, nil
}

// dumpDefaults reads the default routes of a table. They stand together in a dump, so that the
// first other route behind them ends it. Of IPv4 they come first, but for those to networks that begin
// with 0.0.0.0 as well: the first to any other ends the dump too.
func dumpDefaults(ctx context.Context, family Family, table uint32) (routes []route, whole bool, err error) {
	found := false
	return dumpRoutes(ctx, family, table, func(data []byte) (route, bool, bool) {
		r, ok := parseDefault(data, table)
		found = found || ok
		past := found && !toAll(data) || !found && family == IPv4 && beyondZero(data, table)
		return r, ok, !past
	})
}

// beyondZero says that a struct rtmsg is of a route of the table to a network that does not begin with
// 0.0.0.0: the kernel keeps IPv4 routes in a trie, and walks it in the order of their first addresses.
func beyondZero(b []byte, table uint32) bool {
	if toAll(b) {
		return false
	}
	r, ok := parseRoute(b, table)
	return ok && !r.dst.Addr().IsUnspecified()
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

// linksOf reads the interfaces that the routes and objects lead over.
func (c *conn) linksOf(ctx context.Context, routes []route, objects map[uint32]nexthop) (map[int]link, error) {
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
