// Package kernel is the driver for a host without a routing daemon of its own, or with one that
// advertises whatever addresses it finds: a prefix is announced by putting its address on an
// interface.
package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// A Router keeps host prefixes as addresses of one interface, in the network namespace of whichever
// thread calls it. It touches no address that it is not asked to change.
type Router struct{ iface string }

var (
	_ routers.Router  = (*Router)(nil)
	_ routers.Watcher = (*Router)(nil)
)

// New names the interface; nothing is read or opened.
func New(iface string) *Router { return &Router{iface: iface} }

// Observe reads the addresses: Selected is on the interface and usable, Configured is there and
// not usable, such as tentative, or while the interface is down. The error is of class routers.ErrUnavailable.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	os, err := rtnl.ObserveUp(ctx, r.iface, ps)
	if err != nil {
		return os, fmt.Errorf("kernel: %w", err)
	}
	return os, nil
}

// Apply puts addresses on the interface or takes them away, withdraws first; when one fails it goes
// on with the others and joins the errors. What is no /32 or /128 is refused, and so is a change to
// degraded: an address has no worse way.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	var no error
	for _, c := range cs {
		if c.Want != routers.Announced && c.Want != routers.Withdrawn {
			no = routers.Join(no, fmt.Errorf("address %s on interface %q: %w: it can be announced and withdrawn, not %s", c.Prefix, r.iface, routers.ErrRefused, c.Want))
		}
	}
	if err := routers.Join(rtnl.ChangeAddresses(ctx, r.iface, cs), no); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	return nil
}

// Watch wakes on every change of links, addresses and routes.
func (r *Router) Watch(ctx context.Context, wake func()) error { return rtnl.Watch(ctx, wake) }

// Goal is Selected: the kernel advertises nothing itself.
func (r *Router) Goal() routers.Stage { return routers.Selected }

// Close does nothing: nothing is held open.
func (r *Router) Close() error { return nil }

// String names the driver and the interface.
func (r *Router) String() string { return fmt.Sprintf("kernel (address on %s)", r.iface) }
