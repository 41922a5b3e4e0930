package vyos

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// examineDelivery warns of prefixes whose packets the blackhole drops, as nothing more specific takes them in. Whatever
// announces a prefix draws its packets here, and there the service has to have an address of it.
func examineDelivery(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	for _, family := range []rtnl.Family{rtnl.IPv4, rtnl.IPv6} {
		mine := slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return p.Addr().Is4() != (family == rtnl.IPv4) })
		if len(mine) == 0 {
			continue
		}
		locals, err := rtnl.LocalRoutes(ctx, family)
		if err != nil {
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: "kernel", Text: "whether this node takes in what comes for the prefixes cannot be read: " + err.Error()})
			continue
		}
		found = append(found, undelivered(locals, mine)...)
	}
	return found
}

// undelivered gives the prefixes of which this node takes nothing in, by its local routes.
func undelivered(locals, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	for _, p := range ps {
		if slices.ContainsFunc(locals, p.Overlaps) {
			continue
		}
		f := routers.Finding{Severity: routers.Warning, Subject: p.String(),
			Text:   "no interface has an address in it, so that the blackhole drops what comes for it while it is announced, unless a more specific route or NAT leads that elsewhere",
			WayOut: fmt.Sprintf("`set interfaces dummy dum0 address %s`, with the address at which the service listens, commit, save (see contrib/vyos)", example(p))}
		if p.IsSingleIP() {
			f.Text = "is not delivered to this node, so that the blackhole drops what comes for it while it is announced, unless NAT leads that elsewhere"
			f.WayOut = fmt.Sprintf("run `ip %sroute add local %s dev lo`, and have it as a line of /%s (see contrib/vyos/README.md); not on an interface, whose connected route would win", option(p), p, bootScript)
		}
		found = append(found, f)
	}
	return found
}

// example is the first address of a network behind its own.
func example(p netip.Prefix) netip.Prefix {
	a := p.Addr().Next()
	return netip.PrefixFrom(a, a.BitLen())
}

// option is what ip has to be told of a family.
func option(p netip.Prefix) string {
	if p.Addr().Is4() {
		return ""
	}
	return "-6 "
}
