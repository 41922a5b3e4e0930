package rtnl

import (
	"context"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vouch/routers"
)

// LocalRoutes gives the networks whose packets this host takes in by the kernel's local table: its own addresses, and
// what `ip route add local` was told of. It returns within the deadline of ctx, or a second. The error is of class
// routers.ErrUnavailable.
func LocalRoutes(ctx context.Context, family Family) ([]netip.Prefix, error) {
	var found []netip.Prefix
	err := again(ctx, func() error {
		found = nil
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.close()
		req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(family), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}})
		return c.dump(ctx, req, func(data []byte) bool {
			if r, ok := parseRoute(data, unix.RT_TABLE_LOCAL); ok && r.kind == unix.RTN_LOCAL && r.dst.IsValid() {
				found = append(found, r.dst)
			}
			return true
		})
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // that the table has never had a route
		return nil, routers.Errorf(routers.ErrUnavailable, "read the %s routes of table local: %w", family, err)
	}
	return found, nil
}
