package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"vouch/routers"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A step changes one address of an interface.
type step func(c *conn, ctx context.Context, l link, p netip.Prefix) error

// changeAddress finds the interface anew for each change: it may have been made again meanwhile,
// with another index.
func (c *conn) changeAddress(ctx context.Context, iface string, p netip.Prefix, do step) error {
	l, err := c.linkByName(ctx, iface)
	if err == nil {
		err = do(c, ctx, l, p)
	}
	if err != nil {
		return fmt.Errorf("address %s on interface %q: %w", p, iface, classify(err))
	}
	return nil
}

// add puts the address of p with p's length on an interface, with scope global and, for IPv6, without
// duplicate address detection: an anycast address is on other hosts too. One that failed duplicate
// address detection is replaced. It is idempotent. For IPv6 the kernel says EEXIST of an address
// whatever its length and its state, so that has to be looked at; for IPv4 it says so only of exactly
// this one.
func (c *conn) add(ctx context.Context, l link, p netip.Prefix) error {
	flags := unix.NLM_F_CREATE | unix.NLM_F_EXCL
	err := c.change(ctx, addressRequest(unix.RTM_NEWADDR, flags, l, p))
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if p.Addr().Is4() {
		return nil
	}
	found, _, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found, func(a Address) bool { return a.Interface == l.name && a.Prefix.Addr() == p.Addr() })
	switch {
	case i < 0:
		return errInterrupted
	case found[i].Prefix != p || found[i].peer.IsValid():
		return fmt.Errorf("%w: the kernel holds an IPv6 address only once, and it is there as %s; take that one away", routers.ErrRefused, found[i].Prefix)
	case !found[i].dadFailed:
		return nil
	}
	if err := c.del(ctx, l, p); err != nil {
		return err
	}
	return c.change(ctx, addressRequest(unix.RTM_NEWADDR, flags, l, p))
}

// del is idempotent.
func (c *conn) del(ctx context.Context, l link, p netip.Prefix) error {
	err := c.change(ctx, addressRequest(unix.RTM_DELADDR, 0, l, p))
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

// addressRequest names the address by IFA_LOCAL and IFA_ADDRESS: only with both does the kernel
// also compare the length when it deletes an IPv4 address.
func addressRequest(kind, flags int, l link, p netip.Prefix) *nl.NetlinkRequest {
	family := unix.AF_INET6
	if p.Addr().Is4() {
		family = unix.AF_INET
	}
	msg := nl.NewIfAddrmsg(family)
	msg.Index = uint32(l.index)
	msg.Prefixlen = uint8(p.Bits())
	if family == unix.AF_INET6 && kind == unix.RTM_NEWADDR {
		msg.Flags = unix.IFA_F_NODAD
	}
	req := nl.NewNetlinkRequest(kind, flags)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, p.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, p.Addr().AsSlice()))
	return req
}

// classify adds the class of an error, and the way out where there is one. An interface that does not
// exist may be about to be made, as at boot, so that it is no refusal.
func classify(err error) error {
	var code syscall.Errno
	switch {
	case errors.Is(err, routers.ErrRefused):
		return err
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w; the process needs CAP_NET_ADMIN", routers.ErrRefused, err)
	case errors.Is(err, unix.ENODEV):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, unix.ENODEV), "no such interface (yet): create it, or name one that is there")
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return routers.Errorf(routers.ErrUnavailable, "%w", err)
	case errors.As(err, &code):
		return fmt.Errorf("%w by the kernel: %w", routers.ErrRefused, err)
	}
	return routers.Errorf(routers.ErrUnavailable, "%w", err)
}
