package frr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// A redistribution says by source, such as "static", through which route-map its routes are taken; empty: through none.
type redistribution map[string]string

// add takes up the words of a redistribute line.
func (r redistribution) add(words []string) {
	r[words[1]] = ""
	if i := slices.Index(words, "route-map"); i > 0 && i+1 < len(words) {
		r[words[1]] = words[i+1]
	}
}

// redistributesEach is redistributes for each family that there are prefixes of. Where nothing is wrong with two, and the
// same is said of them, it is said once.
func (o Options) redistributesEach(c bgpConfig, f filters, all map[string]bgpNeighbor, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	for _, afi := range afis(ps) {
		mine := slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return isIPv4(p) != (afi == "ipv4") })
		leak := routers.Warning
		if f.sifts(all, afi) {
			leak = routers.Notice
		}
		one := o.redistributes("bgpd", c.redistribute[afi], f, leak, mine)
		if one.Severity > routers.Fine {
			one.Text = afi + ": " + one.Text
		}
		if !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	return found
}

// redistributes says whether a protocol takes up the routes of the prefixes, and minds the tag of degraded ones. It tells
// of others taken up along with them by the severity leak.
func (o Options) redistributes(daemon string, from redistribution, f filters, leak routers.Severity, ps []netip.Prefix) routers.Finding {
	source, tag := o.redistributed(), o.Degraded.Tag
	found := routers.Finding{Subject: daemon, Text: "redistributes " + source + " routes"}
	name, ok := from[source]
	switch {
	case !ok:
		found.Severity, found.Text = routers.Failing, "does not redistribute "+source+" routes, so that none is announced"
		found.WayOut = "configure `redistribute " + source + " route-map NAME`, with a prefix-list of what is to be announced"
	case name != "":
		f.origin = &origin{source: source}
		if found = f.admits(found, name, ps); found.Severity < routers.Failing && f.open(name, ps[0]) {
			found.Severity, found.Text = leak, found.Text+", which lets everything through, so that "+whatever(source)+" is announced"
			found.WayOut = fmt.Sprintf("have each entry of route-map %s that permits say `match %s address prefix-list LIST`, with a prefix-list of what is to be announced", name, family(ps[0]))
		}
	case source == SourceKernel:
		found.Severity, found.Text = leak, "redistributes kernel routes without a route-map, so that "+whatever(source)+" is announced"
		found.WayOut = "configure `redistribute kernel route-map NAME`, with a prefix-list of what is to be announced"
	case tag != 0:
		found.Severity, found.Text = routers.Warning, fmt.Sprintf("redistributes %s routes without a route-map, so that the tag %d of a degraded one makes it no worse", source, tag)
		found.WayOut = fmt.Sprintf("configure `redistribute %s route-map NAME`, with an entry that has `match tag %d`", source, tag)
	}
	return found
}

// whatever names all that a protocol redistributes.
func whatever(source string) string {
	if source == SourceKernel {
		return "whatever anybody puts into the kernel"
	}
	return "every " + source + " route"
}

// strangers are prefixes that nobody has one list for, unless it is of everything.
var strangers = []netip.Prefix{netip.MustParsePrefix("10.255.255.255/32"), netip.MustParsePrefix("203.0.113.255/32"),
	netip.MustParsePrefix("fd00:ffff::ffff/128"), netip.MustParsePrefix("2001:db8:ffff::ffff/128")}

// open tells whether a route-map lets whatever is of the family of a prefix through.
func (f filters) open(name string, of netip.Prefix) bool {
	return !slices.ContainsFunc(strangers, func(p netip.Prefix) bool {
		return isIPv4(p) == isIPv4(of) && f.routeMap(name, p, depth) != permit
	})
}

// sifts tells whether whatever is redistributed goes no further, as there are filters for that before all neighbours of a
// family.
func (f filters) sifts(all map[string]bgpNeighbor, afi string) bool {
	for _, n := range all {
		family, ok := n.Families[afi+"Unicast"]
		if ok && !n.Shutdown && slices.ContainsFunc(strangers, func(p netip.Prefix) bool {
			v, _ := f.outbound(family, p)
			return isIPv4(p) == (afi == "ipv4") && v != deny
		}) {
			return false
		}
	}
	return len(all) > 0
}

// admits says whether the route-map of a redistribution lets the prefixes through. One that does not exist lets nothing
// through (8.4.4 and 10.3, all three daemons).
func (f filters) admits(found routers.Finding, name string, ps []netip.Prefix) routers.Finding {
	found.Text += " through route-map " + name
	if _, there := f.routeMaps[name]; !there {
		found.Severity, found.Text = routers.Failing, found.Text+", which does not exist, so that none is announced"
		found.WayOut = "configure route-map " + name + ", or take it out of the redistribution"
		return found
	}
	found.WayOut = "have route-map " + name + " permit it, in the prefix-list that it matches"
	return sifted(found, ps, func(p netip.Prefix) (verdict, string) { return f.routeMap(name, p, depth), f.lacks(name, p) })
}

// sifted says what becomes of the prefixes by a filter, which found names last, with the way out of what it denies. The
// judge gives its verdict, and what list it lacks.
func sifted(found routers.Finding, ps []netip.Prefix, judge func(netip.Prefix) (v verdict, lacks string)) routers.Finding {
	var denied, unknown []string
	why := ""
	for _, p := range ps {
		switch v, list := judge(p); v {
		case deny:
			denied = append(denied, p.String())
			if list != "" && why == "" {
				why = ": there is no " + list
			}
		case untold:
			unknown = append(unknown, p.String())
		}
	}
	switch {
	case len(denied) > 0:
		found.Severity, found.Text = routers.Failing, found.Text+", which does not permit "+strings.Join(denied, ", ")+why+": not announced"
	case len(unknown) > 0:
		found.Severity, found.Text = routers.Notice, found.Text+"; whether that permits "+strings.Join(unknown, ", ")+" cannot be told from here"
		found.WayOut = "look at the protocol's table once it is announced"
	default:
		found.WayOut = ""
	}
	return found
}

// outdone tells of prefixes that are on an interface: zebra prefers the connected route, and what has no best route is
// not redistributed.
func (rd reading) outdone(o Options, ps []netip.Prefix) []routers.Finding {
	if o.Method != MethodStatic {
		return nil
	}
	var found []routers.Finding
	for _, p := range ps {
		iface := interfaceOf(rd.routes[p])
		if iface == "" {
			continue
		}
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: p.String(),
			Text: fmt.Sprintf("is on %s itself: its connected route wins over the %s one, which then is not redistributed", iface, o.redistributed()),
			WayOut: fmt.Sprintf("take it off %s, and %s to have its packets; or announce a larger prefix that the address is within; or use method address",
				iface, localRoute(p))})
	}
	return found
}

// interfaceOf is the interface that has the prefix of the routes for its own, or empty. FRR 10.3 has a local route beside
// the connected one.
func interfaceOf(rs []route) string {
	for _, r := range rs {
		if r.Selected && (r.Protocol == "connected" || r.Protocol == "local") && len(r.Nexthops) > 0 {
			return r.Nexthops[0].Interface
		}
	}
	return ""
}

// localRoute has the kernel deliver what comes for a prefix here, without an address and its connected route.
func localRoute(p netip.Prefix) string {
	if isIPv4(p) {
		return fmt.Sprintf("`ip route add local %s dev lo`", p)
	}
	return fmt.Sprintf("`ip -6 route add local %s dev lo`", p)
}
