package bird

import (
	"context"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// undelivered says of single addresses that this host itself does not take what comes for them: with methods
// other than address nothing makes it so.
func undelivered(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	addresses, err := rtnl.Addresses(ctx)
	if err != nil {
		return nil
	}
	var all []routers.Finding
	for _, p := range ps {
		own := slices.ContainsFunc(addresses, func(a rtnl.Address) bool { return a.Prefix.Addr() == p.Addr() })
		if !p.IsSingleIP() || own {
			continue
		}
		if text := astray(netlink.RouteGetWithOptions(p.Addr().AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})); text != "" {
			all = append(all, routers.Finding{Severity: routers.Warning, Subject: p.String(),
				Text:   "is the address of no interface, and what comes for it " + text,
				WayOut: "put it on an interface for good, such as by `ip addr add " + p.String() + " dev lo` and in the network's configuration"})
		}
	}
	return all
}

// astray says what the kernel does with what comes for an address by the route that it has for it; nothing where a
// route of its own, such as one to a container, takes it on.
func astray(routes []netlink.Route, err error) string {
	switch {
	case err != nil || len(routes) == 0, slices.Contains([]int{unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW}, routes[0].Type):
		return "is dropped here"
	case routes[0].Type == unix.RTN_LOCAL:
		return ""
	}
	if dst := routes[0].Dst; dst != nil {
		if ones, _ := dst.Mask.Size(); ones > 0 {
			return ""
		}
	}
	return "is sent back by the default route"
}
