package vyos

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/rtnl"
)

// What the other method made, by a run with another configuration, announces a prefix behind the back of this one.
// Method static takes the kernel's routes of ours away. Method kernel never commits, and tells.

// kernelRoutes gives those of ours that zebra may have of the prefixes, by method static. Most often zebra says that
// there are none.
func kernelRoutes(ctx context.Context, origins []frr.Origin) map[netip.Prefix][]uint32 {
	var ps []netip.Prefix
	for _, o := range origins {
		if o.Winner == frr.SourceKernel {
			ps = append(ps, o.Prefix)
		}
	}
	found, _ := blackholes(ctx, ps) // who withdraws reads it again, and tells
	return found
}

// twice makes of an observation that of a prefix which such a route is there for too.
func twice(o routers.Observation) routers.Observation {
	if o.Stage != routers.Unknown {
		o.Stage, o.Broken = max(o.Stage, routers.Configured), true
	}
	o.Detail = join(o.Detail, fmt.Sprintf("the kernel has a blackhole route of protocol %d for it, as method kernel makes: it goes when this is announced by method static, or withdrawn", Protocol))
	return o
}

// dropKernelRoutes takes such routes away, of the changes that are meant.
func dropKernelRoutes(ctx context.Context, cs []routers.Change, meant func(routers.Change) bool) error {
	cs = slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return !meant(c) })
	found, err := blackholes(ctx, prefixes(cs))
	failed := []error{err}
	for _, c := range cs {
		for _, m := range found[c.Prefix] {
			if err := rtnl.DeleteBlackhole(ctx, rtnl.Blackhole{Prefix: c.Prefix, Protocol: Protocol, Metric: m}); err != nil {
				failed = append(failed, &routers.PrefixError{Prefix: c.Prefix, Err: err})
			}
		}
	}
	return routers.Join(failed...)
}

// staticRoutes says of prefixes that are announced and not by the kernel's route, what line of VyOS's configuration
// does it, by method kernel.
func (k kernel) staticRoutes(ctx context.Context, origins []frr.Origin, own map[netip.Prefix][]uint32) map[netip.Prefix]string {
	var ps []netip.Prefix
	for _, o := range origins {
		if o.Winner == frr.SourceStatic && len(own[o.Prefix]) == 0 {
			ps = append(ps, o.Prefix)
		}
	}
	if len(ps) == 0 {
		return nil
	}
	a, err := k.system.readActive(ctx, ps, leaves{})
	if err != nil {
		return nil // it is announced by something, and that is told in any case
	}
	told := map[netip.Prefix]string{}
	for _, p := range ps {
		if lines := deletes(p, a.nodes[p]); len(lines) > 0 {
			told[p] = "VyOS's configuration has a static blackhole route for it, which method kernel leaves alone: `" + strings.Join(lines, "`, `") + "`, and commit"
		}
	}
	return told
}

// deletes are the commands that take the blackholes of a prefix out of VyOS's configuration.
func deletes(p netip.Prefix, n node) (lines []string) {
	for _, one := range n.each(p) {
		switch path := nodePath(p, one.name); {
		case !one.beside():
			lines = append(lines, op{p, true, path}.line())
		case one.blackhole:
			lines = append(lines, op{p, true, append(path, "blackhole")}.line())
		}
	}
	return lines
}

// examineOther finds static routes that announce prefixes of method kernel whether their service answers or not.
func (r *Router) examineOther(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	a, err := r.system.readActive(ctx, ps, leaves{})
	if err != nil {
		return []routers.Finding{{Severity: routers.Warning, Subject: "vyos", Text: "whether its configuration announces a prefix beside method kernel cannot be read: " + err.Error()}}
	}
	var found []routers.Finding
	for _, p := range ps {
		if a.nodes[p].blackhole {
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: "protocols static " + routeNode(p) + " " + p.String(),
				Text:   "is a blackhole route in VyOS's configuration, which method kernel does not withdraw: where static routes are redistributed it is announced whether its service answers or not",
				WayOut: "run `" + strings.Join(deletes(p, a.nodes[p]), "`, `") + "`, commit and save; or use method static"})
		}
	}
	return found
}
