package bird

import (
	"context"
	"net/netip"
	"slices"

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
		d, err := rtnl.DeliveryOf(ctx, p.Addr())
		if text := astray[d]; text != "" && err == nil {
			all = append(all, routers.Finding{Severity: routers.Warning, Subject: p.String(),
				Text:   "is the address of no interface, and what comes for it " + text,
				WayOut: "put it on an interface for good, such as by `ip addr add " + p.String() + " dev lo` and in the network's configuration"})
		}
	}
	return all
}

// astray says what becomes of what comes for an address. A route of its own may lead to a container.
var astray = map[rtnl.Delivery]string{rtnl.Dropped: "is dropped here", rtnl.ByDefault: "is sent back by the default route"}
