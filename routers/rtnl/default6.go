package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// readDefault6 reads once. In an IPv6 dump the default route comes last, behind a table that may be
// long. So the kernel is first asked for its own choice, and the table only when that is no usable
// default route.
func readDefault6(ctx context.Context, table uint32) (picture, error) {
	p, err := chosen(ctx, table)
	if err == nil && p.judge(IPv6, nil).Usable {
		return p, nil
	}
	none := table == MainTable && errors.Is(err, refusal(""))
	changes, err := listen([]int{unix.RTNLGRP_IPV6_ROUTE})
	if err != nil {
		return picture{}, err
	}
	defer changes.close()
	routes, whole, err := dumpDefaults(ctx, IPv6, table)
	if err != nil {
		return picture{}, err
	}
	if len(routes) == 0 && !whole && !none && !changes.quiet() {
		return picture{}, fmt.Errorf("IPv6 routes: %w", errInterrupted)
	}
	return complete(ctx, routes)
}

// quiet says that no message has come. When a table changes between two pieces of a dump, the
// kernel (6.18) goes on by counting entries, so that with some deleted it passes over as many that
// stand, and does not set NLM_F_DUMP_INTR. A route not found in such a dump may be there.
func (c *conn) quiet() bool {
	var failed error
	err := c.raw.Control(func(fd uintptr) { _, _, failed = unix.Recvfrom(int(fd), c.buf, unix.MSG_DONTWAIT) })
	return err == nil && failed == unix.EAGAIN
}

// unassigned is an address that no more specific route leads to: 4000::/3 is not assigned (RFC
// 4291, IANA's IPv6 address space). Where one does all the same, the dump decides.
var unassigned = netip.MustParseAddr("4000::")

// chosen asks the kernel for the IPv6 route that it would take to an address that only a default
// route leads to; there are no routes in it if that is no default route of the table.
func chosen(ctx context.Context, table uint32) (picture, error) {
	p, err := choice(ctx, Lookup{To: unassigned})
	if err != nil || !p.covers(netip.PrefixFrom(netip.IPv6Unspecified(), 0), table) {
		return picture{}, err
	}
	return p, nil
}
