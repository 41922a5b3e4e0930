package rtnl

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// dumpDefault6 reads the default route of a table out of a dump, where it comes last, behind a table that may
// be long. None says that the kernel knows of none in the main table.
func dumpDefault6(ctx context.Context, table uint32, none bool) (picture, error) {
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
