package frr

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// peers says of each neighbour what keeps prefixes from it.
func (rd reading) peers(all map[string]bgpNeighbor, f filters, o Options, ps []netip.Prefix) []routers.Finding {
	if len(all) == 0 {
		return []routers.Finding{{Severity: routers.Failing, Subject: "bgpd", Text: "there is no neighbour to announce to", WayOut: "configure one"}}
	}
	var found []routers.Finding
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := all[name]
		g := routers.Finding{Severity: routers.Warning, Subject: "neighbor " + name}
		switch {
		case n.Shutdown:
			g.Severity, g.Text = routers.Notice, "is shut down"
		case n.State != "Established":
			g.Text = "the session is not established: " + n.State
			if len(n.Families) == 0 {
				g.Text += ", as no address-family is activated for it"
				g.WayOut = activate(name, familiesOf(name, ps)...)
			}
		default:
			found = append(found, rd.families(name, all, f, o, ps)...)
			continue
		}
		found = append(found, g)
	}
	found = append(found, lonely(all, ps)...)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if mode := all[name].Restart.Mode; strings.HasPrefix(mode, restartMode) {
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: "neighbor " + name,
				Text:   "graceful restart: it keeps routes of this node alive when bgpd dies, also those that ought to be withdrawn then",
				WayOut: "configure `bgp graceful-restart-disable`, or `neighbor " + name + " graceful-restart-disable`"})
		}
	}
	return found
}

// lonely tells of a family of the prefixes that no neighbour has.
func lonely(all map[string]bgpNeighbor, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	for _, afi := range afis(ps) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(n bgpNeighbor) bool { _, has := n.Families[afi+"Unicast"]; return has }) {
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: "bgpd", Text: afi + ": there is no neighbour with this address-family, so that none of its prefixes is announced", WayOut: activate("NEIGHBOR", afi)})
		}
	}
	return found
}

// activate is the way out of an address-family that a neighbour lacks.
func activate(name string, afis ...string) string {
	lines := make([]string, len(afis))
	for i, afi := range afis {
		lines[i] = fmt.Sprintf("`address-family %s unicast`, `neighbor %s activate`", afi, name)
	}
	return "configure " + strings.Join(lines, "; ")
}

// afis gives the families that there are prefixes of.
func afis(ps []netip.Prefix) []string {
	var found []string
	for _, afi := range []string{"ipv4", "ipv6"} {
		if slices.ContainsFunc(ps, func(p netip.Prefix) bool { return isIPv4(p) == (afi == "ipv4") }) {
			found = append(found, afi)
		}
	}
	return found
}

// familiesOf gives the one of a neighbour's own address, as far as there are prefixes of it, and else all of them.
func familiesOf(name string, ps []netip.Prefix) []string {
	all := afis(ps)
	if a, err := netip.ParseAddr(name); err == nil {
		own := "ipv6"
		if a.Is4() {
			own = "ipv4"
		}
		if slices.Contains(all, own) {
			return []string{own}
		}
	}
	return all
}

// restartMode begins the mode in which a neighbour is asked to keep this node's routes.
const restartMode = "Restart"

// families examines an established neighbour for the families that there are prefixes of.
func (rd reading) families(name string, all map[string]bgpNeighbor, f filters, o Options, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	active := 0
	for _, afi := range []string{"ipv4", "ipv6"} {
		mine := slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return isIPv4(p) != (afi == "ipv4") })
		family, ok := all[name].Families[afi+"Unicast"]
		if len(mine) == 0 || !ok {
			continue
		}
		active++
		if family.NoPolicy != "" {
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: "neighbor " + name,
				Text:   afi + ": nothing is sent to it, as it has no outbound policy and bgp ebgp-requires-policy is on",
				WayOut: fmt.Sprintf("configure `neighbor %s route-map NAME out`, or `no bgp ebgp-requires-policy`", name)})
			continue
		}
		found = append(found, rd.family(name, afi, family, all, f, o, mine))
	}
	if active == 0 {
		return []routers.Finding{{Severity: routers.Warning, Subject: "neighbor " + name, Text: "established, but no family of the prefixes is activated for it", WayOut: activate(name, afis(ps)...)}}
	}
	slices.SortStableFunc(found, func(a, b routers.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return found
}

// family says whether the filters before an established neighbour let the prefixes of one family through. One
// that holds something back may be meant so, as long as enough others do not.
func (rd reading) family(name, afi string, family bgpFamily, all map[string]bgpNeighbor, f filters, o Options, ps []netip.Prefix) routers.Finding {
	g := routers.Finding{Subject: "neighbor " + name, Text: "established, " + afi + " without an outbound filter"}
	if through := family.filters(); through != "" {
		g.Text = "established, " + afi + " through " + through
	}
	for _, p := range ps {
		r := rd.reach(name, family, f, p)
		severity := routers.Notice
		switch {
		case r.verdict == permit:
			continue
		case r.verdict == deny && (r.announced && len(rd.table[p].AdvertisedTo) < o.MinPeers || rd.others(name, all, f, p) < o.MinPeers):
			severity = routers.Failing
		}
		if severity <= g.Severity && g.WayOut != "" { // the first one of a kind is told
			continue
		}
		g.Severity, g.Text, g.WayOut = severity, "established, "+afi+": "+r.text, "let it through, unless it is meant so"
		if r.verdict == untold {
			g.WayOut = "look with `show bgp neighbors " + name + " advertised-routes` once it is announced"
		}
	}
	return g
}

// A reach says whether a neighbour is sent a prefix, or would be.
type reach struct {
	verdict   verdict
	text      string
	announced bool // this node's path is the best, so that it is known
}

// reach judges by what was sent, where this node's path is the best, and else by the filters.
func (rd reading) reach(name string, family bgpFamily, f filters, p netip.Prefix) reach {
	v, why := f.outbound(family, p)
	e := rd.table[p]
	announced := slices.ContainsFunc(e.Paths, func(path bgpPath) bool { return path.own() && path.Valid && bool(path.BestPath) && !path.Pending })
	switch _, sent := e.AdvertisedTo[name]; {
	case announced && sent:
		return reach{permit, "", true}
	case announced && v == deny:
		return reach{deny, fmt.Sprintf("it is not sent %s: %s", p, why), true}
	case announced && family.filters() != "":
		return reach{deny, fmt.Sprintf("it is not sent %s, with %s before it", p, family.filters()), true}
	case announced:
		return reach{deny, fmt.Sprintf("it is not sent %s, though no filter is before it (the path's communities? suppressed by an aggregate? or not yet)", p), true}
	case v == deny:
		return reach{deny, fmt.Sprintf("it would not be sent %s: %s", p, why), false}
	case v == untold:
		return reach{untold, fmt.Sprintf("%s: %s", p, why), false}
	}
	return reach{permit, "", false}
}

// others counts the neighbours beside one that are sent a prefix, or would be as far as is known once their
// sessions are there.
func (rd reading) others(name string, all map[string]bgpNeighbor, f filters, p netip.Prefix) int {
	n := 0
	for other, neighbor := range all {
		family, ok := neighbor.Families[bgpFamilyOf(p)]
		if other == name || !ok || neighbor.Shutdown || family.NoPolicy != "" {
			continue
		}
		v, _ := f.outbound(family, p)
		if neighbor.State == "Established" {
			v = rd.reach(other, family, f, p).verdict
		}
		if v != deny {
			n++
		}
	}
	return n
}

// bgpFamilyOf names the family of a prefix as bgpd's answers about neighbours do.
func bgpFamilyOf(p netip.Prefix) string {
	if isIPv4(p) {
		return "ipv4Unicast"
	}
	return "ipv6Unicast"
}

const showNeighbors = "show bgp neighbors json"
