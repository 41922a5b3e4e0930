package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NextHops reads from the kernel's main table where the node sends packets for a prefix. Only a
// route to exactly this prefix counts. A next hop without a gateway is the unspecified address.
func (nd *Node) NextHops(prefix netip.Prefix) ([]netip.Addr, error) {
	return nd.read(func(h *netlink.Handle) ([]netip.Addr, error) { return nextHops(h, prefix) })
}

// Addresses reads the addresses on an interface, but for loopback and link-local ones.
func (nd *Node) Addresses(iface string) ([]netip.Addr, error) {
	return nd.read(func(h *netlink.Handle) ([]netip.Addr, error) { return addresses(h, iface) })
}

// A reader reads some addresses from the kernel, sorted.
type reader func(h *netlink.Handle) ([]netip.Addr, error)

func (nd *Node) read(read reader) (got []netip.Addr, err error) {
	err = nd.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		defer h.Close()
		got, err = read(h)
		return err
	})
	return got, err
}

func addresses(h *netlink.Handle, iface string) ([]netip.Addr, error) {
	link, err := h.LinkByName(iface)
	if err != nil {
		return nil, fmt.Errorf("lab: interface %s: %w", iface, err)
	}
	list, err := h.AddrList(link, netlink.FAMILY_ALL)
	for range 10 { // something changed meanwhile: once more
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
		list, err = h.AddrList(link, netlink.FAMILY_ALL)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: addresses of %s: %w", iface, err)
	}
	var got []netip.Addr
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.Unmap().IsLoopback() && !ip.IsLinkLocalUnicast() {
			got = append(got, ip.Unmap())
		}
	}
	slices.SortFunc(got, netip.Addr.Compare)
	return got, nil
}

// nextHops asks the kernel for the route it would take, which costs the same however many routes
// there are.
func nextHops(h *netlink.Handle, prefix netip.Prefix) ([]netip.Addr, error) {
	dst := prefix.Addr()
	if prefix.Bits() == 0 { // any address that nothing more specific leads to; 0.0.0.0 means "this host"
		dst = netip.MustParseAddr("192.0.2.255")
		if prefix.Addr().Is6() {
			dst = netip.MustParseAddr("2001:db8:ffff:ffff::1")
		}
	}
	routes, err := h.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) {
		return nil, nil // the kernel's words for: none, prohibit, blackhole
	}
	if err != nil {
		return nil, fmt.Errorf("lab: route to %s: %w", prefix, err)
	}
	via, exact := hopsOf(routes, prefix)
	if exact || prefix.Addr().Is4() {
		return via, nil
	}
	// The kernel keeps what it last looked up with the next hop, and routes with the same nexthop object
	// share that: of an IPv6 prefix it may answer with another one's route (seen with Linux 6.18).
	if routes, err = dumped(h, prefix); err != nil {
		return nil, fmt.Errorf("lab: routes to %s: %w", prefix, err)
	}
	via, _ = hopsOf(routes, prefix)
	return via, nil
}

// dumped reads all routes and gives those to the prefix.
func dumped(h *netlink.Handle, prefix netip.Prefix) (routes []netlink.Route, err error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}}
	for range 10 { // something changed meanwhile: once more
		routes, err = h.RouteListFiltered(netlink.FAMILY_V6, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return routes, err
}

// hopsOf gives the next hops, sorted, of those routes that lead to the prefix, and whether there is one.
func hopsOf(routes []netlink.Route, prefix netip.Prefix) (via []netip.Addr, exact bool) {
	for _, r := range routes {
		if r.Table != unix.RT_TABLE_MAIN || r.Type != unix.RTN_UNICAST || !leadsTo(r.Dst, prefix) {
			continue
		}
		exact = true
		if len(r.MultiPath) == 0 {
			via = append(via, gateway(r.Gw, prefix))
		}
		for _, m := range r.MultiPath {
			via = append(via, gateway(m.Gw, prefix))
		}
	}
	slices.SortFunc(via, netip.Addr.Compare)
	return via, exact
}

// leadsTo says whether dst, which is nil for the default route, is the prefix.
func leadsTo(dst *net.IPNet, prefix netip.Prefix) bool {
	if dst == nil {
		return prefix.Bits() == 0
	}
	a, ok := netip.AddrFromSlice(dst.IP)
	bits, _ := dst.Mask.Size()
	return ok && netip.PrefixFrom(a.Unmap(), bits) == prefix.Masked()
}

func gateway(ip net.IP, prefix netip.Prefix) netip.Addr {
	if a, ok := netip.AddrFromSlice(ip); ok {
		return a.Unmap()
	}
	if prefix.Addr().Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}
