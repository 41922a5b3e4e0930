package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"vouch/routers"

	"golang.org/x/sys/unix"
)

// ObserveAddresses says of each prefix, in order, whether exactly it is on the interface: Selected
// when usable, Configured when not (Address.Usable), otherwise Absent, as all are while the interface
// does not exist. The same address on another interface or with another length is not the one looked
// for; Detail tells of it. When the addresses cannot be read all are Unknown and the error is of class
// routers.ErrUnavailable.
func ObserveAddresses(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error) {
	os, _, err := observeOn(ctx, iface, ps)
	return os, err
}

// observeOn gives the interfaces too.
func observeOn(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, map[int]link, error) {
	found, links, err := readAddresses(ctx)
	if err != nil {
		return unreadable(ps, err), nil, routers.Errorf(routers.ErrUnavailable, "interface %q: %w", iface, err)
	}
	return observe(iface, notOn(iface, links), ps, found), links, nil
}

// ObserveUp does the same for a host on which nothing else tells whether the address is advertised. An address of
// an interface that is set down is Configured then: the kernel still takes packets for it in, but whatever
// advertises addresses passes over those of such an interface.
func ObserveUp(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error) {
	os, links, err := observeOn(ctx, iface, ps)
	for _, l := range links {
		if l.name == iface && !l.has(unix.IFF_UP) {
			lower(os, fmt.Sprintf("interface %q is down: ip link set %s up", iface, iface))
		}
	}
	return os, err
}

// lower says why what is there is no further than configured.
func lower(os []routers.Observation, why string) {
	for i := range os {
		if os[i].Stage == routers.Selected {
			os[i].Stage, os[i].Detail = routers.Configured, why
		}
	}
}

// notOn is what Detail says of an address that is not on the interface.
func notOn(iface string, links map[int]link) string {
	text := fmt.Sprintf("not on interface %q", iface)
	for _, l := range links {
		if l.name == iface {
			return text
		}
	}
	return text + ", which does not exist (yet)"
}

func unreadable(ps []netip.Prefix, err error) []routers.Observation {
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = routers.Observation{Prefix: p, Stage: routers.Unknown, Detail: err.Error()}
	}
	return os
}

// observe compares the prefixes with the addresses that were found.
func observe(iface, absent string, ps []netip.Prefix, found []Address) []routers.Observation {
	same := make(map[netip.Addr][]Address, len(ps))
	for _, p := range ps {
		same[p.Addr()] = nil
	}
	for _, a := range found {
		if others, ok := same[a.Prefix.Addr()]; ok {
			same[a.Prefix.Addr()] = append(others, a)
		}
	}
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = observeOne(iface, absent, p, same[p.Addr()])
	}
	return os
}

// observeOne judges one prefix by all that have the same address.
func observeOne(iface, absent string, p netip.Prefix, same []Address) routers.Observation {
	o := routers.Observation{Prefix: p, Stage: routers.Absent}
	elsewhere := make([]string, 0, len(same))
	for _, a := range same {
		if a.Interface != iface || a.Prefix != p || a.peer.IsValid() {
			elsewhere = append(elsewhere, placed(a))
			continue
		}
		o.Stage, o.Detail = routers.Selected, ""
		if !a.Usable() {
			o.Stage, o.Detail = routers.Configured, a.State()
		}
	}
	if o.Stage == routers.Absent {
		o.Detail = absent
		if len(elsewhere) > 0 {
			o.Detail += ", but there is " + strings.Join(elsewhere, " and ") + ", which stays"
		}
	}
	return o
}

func placed(a Address) string {
	if a.peer.IsValid() {
		return fmt.Sprintf("%s with peer %s on interface %q", a.Prefix.Addr(), a.peer, a.Interface)
	}
	return fmt.Sprintf("%s on interface %q", a.Prefix, a.Interface)
}

// ChangeAddresses puts announced prefixes on the interface and takes withdrawn ones away, withdraws
// first. It goes on when one fails, and joins the errors, which are of the classes in package
// routers. It touches nothing but the changes, and refuses any that is not a host prefix. On an
// interface that does not exist everything is withdrawn already.
func ChangeAddresses(ctx context.Context, iface string, cs []routers.Change) error {
	c, err := dial()
	if err != nil {
		return routers.Errorf(routers.ErrUnavailable, "interface %q: %w", iface, err)
	}
	defer c.close()
	var failed []error
	for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
		for _, change := range cs {
			if change.Want == want {
				failed = append(failed, c.apply(ctx, iface, change))
			}
		}
	}
	return routers.Join(failed...)
}

func (c *conn) apply(ctx context.Context, iface string, change routers.Change) error {
	p := change.Prefix
	if !p.IsValid() || !p.IsSingleIP() || p.Addr().Is4In6() {
		return fmt.Errorf("address %s on interface %q: %w: not a host prefix; write a /32 or a /128", p, iface, routers.ErrRefused)
	}
	if change.Want == routers.Announced {
		return c.changeAddress(ctx, iface, p, (*conn).add)
	}
	err := c.changeAddress(ctx, iface, p, (*conn).del)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
