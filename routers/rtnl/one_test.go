package rtnl

import (
	"context"
	"net/netip"
)

// addAddress and delAddress change one address, as ChangeAddresses does for many.
func addAddress(iface string, p netip.Prefix) error { return changeOne(iface, p, (*conn).add) }

func delAddress(iface string, p netip.Prefix) error { return changeOne(iface, p, (*conn).del) }

func changeOne(iface string, p netip.Prefix, do step) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	return c.changeAddress(context.Background(), iface, p, do)
}
