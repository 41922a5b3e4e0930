package rtnl

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// unhurried is for exchanges with the kernel of a busy machine, which may take longer than defaultTimeout.
func unhurried(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// addAddress and delAddress change one address, as ChangeAddresses does for many.
func addAddress(iface string, p netip.Prefix) error { return changeOne(iface, p, (*conn).add) }

func delAddress(iface string, p netip.Prefix) error { return changeOne(iface, p, (*conn).del) }

func changeOne(iface string, p netip.Prefix, do step) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.changeAddress(ctx, iface, p, do)
}
