package rtnl

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/hub"
)

// An Address is one address of an interface.
type Address struct {
	Prefix    netip.Prefix // the address itself with its length; host bits are kept
	Interface string
	// peer is the other end and its length where the address is one end of a point-to-point link;
	// Prefix is then a host prefix.
	peer netip.Prefix

	tentative bool // IPv6: duplicate address detection has not ended, the address cannot be used yet
	dadFailed bool // IPv6: duplicate address detection found it elsewhere, the address cannot be used
}

// Usable says whether packets to the address are taken in. They are also while the interface is set
// down: to the kernel an address belongs to the host.
func (a Address) Usable() bool { return !a.tentative && !a.dadFailed }

// State says in words why the address is not usable; it is empty for a usable one.
func (a Address) State() string {
	switch {
	case a.dadFailed:
		return "duplicate address detection failed: another host on the link has the address"
	case a.tentative:
		return "tentative: duplicate address detection has not ended"
	}
	return ""
}

// Addresses reads the addresses of all interfaces, of both families, in the kernel's order. It
// returns within the deadline of ctx, or a second. It fails also when the addresses changed under
// every attempt to read them. What it gives is shared with others who asked meanwhile, and must not be
// changed.
func Addresses(ctx context.Context) ([]Address, error) {
	found, _, err := readAddresses(ctx)
	return found, err
}

// An inventory is all addresses, and all interfaces, as some may have no address.
type inventory struct {
	addresses []Address
	links     map[int]link
}

var inventories readings[inventory]

func readAddresses(ctx context.Context) ([]Address, map[int]link, error) {
	i, err := inventories.ask(ctx, question{here: hub.Here()}, func(ctx context.Context) (i inventory, err error) {
		err = again(ctx, func() error {
			c, err := dial()
			if err != nil {
				return err
			}
			defer c.close()
			i.addresses, i.links, err = c.addresses(ctx)
			return err
		})
		return i, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read addresses: %w", err)
	}
	return i.addresses, i.links, nil
}

// addresses reads them once. The interfaces are read last, so that each address has its name unless
// the interface went away in between.
func (c *conn) addresses(ctx context.Context) ([]Address, map[int]link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, 0)
	req.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
	var found []Address
	var indexes []int
	err := c.dump(ctx, req, func(data []byte) bool {
		if a, index, ok := parseAddress(data); ok {
			found, indexes = append(found, a), append(indexes, index)
		}
		return true
	})
	if err != nil {
		return nil, nil, err
	}
	links, err := c.allLinks(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, index := range indexes {
		l, ok := links[index]
		if !ok {
			return nil, nil, fmt.Errorf("interface %d is gone: %w", index, errInterrupted)
		}
		found[i].Interface = l.name
	}
	return found, links, nil
}

// parseAddress reads a struct ifaddrmsg and its attributes. IPv4 has the address in IFA_LOCAL and
// the peer, or the address again, in IFA_ADDRESS; IPv6 has IFA_LOCAL only beside a peer.
func parseAddress(b []byte) (a Address, index int, ok bool) {
	if len(b) < unix.SizeofIfAddrmsg {
		return a, 0, false
	}
	family, bits, flags := b[0], int(b[1]), uint32(b[2])
	if family != unix.AF_INET && family != unix.AF_INET6 {
		return a, 0, false
	}
	var local, address netip.Addr
	for kind, value := range attributes(b[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(value)
		case unix.IFA_FLAGS:
			flags = number(value)
		}
	}
	switch {
	case !local.IsValid() || local == address:
		a.Prefix = netip.PrefixFrom(address, bits)
	default:
		a.Prefix = netip.PrefixFrom(local, local.BitLen())
		a.peer = netip.PrefixFrom(address, bits)
	}
	a.tentative = flags&unix.IFA_F_TENTATIVE != 0
	a.dadFailed = flags&unix.IFA_F_DADFAILED != 0
	return a, int(native.Uint32(b[4:])), a.Prefix.IsValid()
}
