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

// A bgpNeighbor is one of show bgp neighbors json (8.4.4, 10.3).
type bgpNeighbor struct {
	State    string               `json:"bgpState"`
	Shutdown bool                 `json:"adminShutDown"`
	Families map[string]bgpFamily `json:"addressFamilyInfo"`
	Restart  struct {
		Mode string `json:"localGrMode"`
	} `json:"gracefulRestartInfo"`
}

type bgpFamily struct {
	NoPolicy   string `json:"outboundEbgpRequiresPolicy"`
	RouteMap   string `json:"routeMapForOutgoingAdvertisements"`
	PrefixList string `json:"outgoingUpdatePrefixFilterList"`
	AccessList string `json:"outgoingUpdateNetworkFilterList"`
	ASPathList string `json:"outgoingUpdateAsPathFilterList"`
}

// filters names what may hold a prefix back.
func (f bgpFamily) filters() string {
	var all []string
	for _, part := range [][2]string{{"route-map", f.RouteMap}, {"prefix-list", f.PrefixList}, {"distribute-list", f.AccessList}, {"filter-list", f.ASPathList}} {
		if part[1] != "" {
			all = append(all, part[0]+" "+part[1])
		}
	}
	return strings.Join(all, ", ")
}

// bgp examines bgpd.
func (rd reading) bgp(o Options, ps []netip.Prefix) []routers.Finding {
	text, ok := rd.configs["bgpd"]
	if !ok {
		return nil
	}
	c := parseBGPConfig(text)
	if c.as == "" {
		return []routers.Finding{{Severity: routers.Failing, Subject: "bgpd", Text: "it runs, but there is no router bgp", WayOut: "configure it"}}
	}
	found := rd.sources(c, o, ps)
	var neighbors map[string]bgpNeighbor
	if err := decode(rd.neighbors, &neighbors); err != nil {
		return append(found, routers.Finding{Severity: routers.Warning, Subject: "bgpd", Text: "the neighbours cannot be read: " + err.Error()})
	}
	return append(found, examineNeighbors(neighbors, ps)...)
}

// sources says what would bring the prefixes into BGP's table.
func (rd reading) sources(c bgpConfig, o Options, ps []netip.Prefix) []routers.Finding {
	f := routers.Finding{Subject: "bgp network import-check"}
	if o.Method == MethodStatic {
		f = redistributes("bgpd", c.redistribute["ipv4"], o.Degraded.Tag)
		if slices.ContainsFunc(ps, isIPv6) && (f.Severity == routers.Fine || !slices.ContainsFunc(ps, isIPv4)) {
			f = redistributes("bgpd", c.redistribute["ipv6"], o.Degraded.Tag)
		}
		return []routers.Finding{f}
	}
	f.Text = "on: a network statement needs a route of the very prefix in the table, such as its address on lo"
	if c.noImportCheck {
		f.Severity, f.Text = routers.Notice, "off: a network statement announces also what has no address on this node"
		f.WayOut = "configure `bgp network import-check`, unless it is meant so"
	}
	found := []routers.Finding{f}
	if o.Method == MethodNetwork {
		if name := o.Degraded.RouteMap; name != "" && !c.routeMaps[name] {
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: "route-map " + name, Text: "does not exist, so that nothing can be degraded", WayOut: fmt.Sprintf("configure `route-map %s permit 10`", name)})
		}
		return found
	}
	var bare []string
	for _, p := range ps {
		afi := "ipv6"
		if isIPv4(p) {
			afi = "ipv4"
		}
		_, stated := c.statements[p]
		if _, connected := c.redistribute[afi]["connected"]; !stated && !connected {
			bare = append(bare, p.String())
		}
	}
	if len(bare) > 0 {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: "bgpd", Text: "nothing takes " + strings.Join(bare, ", ") + " from the interface into BGP",
			WayOut: "configure a network statement for each, or `redistribute connected`, or use method network"})
	}
	return found
}

// examineNeighbors says of each neighbour what keeps prefixes from it.
func examineNeighbors(neighbors map[string]bgpNeighbor, ps []netip.Prefix) []routers.Finding {
	if len(neighbors) == 0 {
		return []routers.Finding{{Severity: routers.Failing, Subject: "bgpd", Text: "there is no neighbour to announce to", WayOut: "configure one"}}
	}
	var found []routers.Finding
	for _, name := range slices.Sorted(maps.Keys(neighbors)) {
		n := neighbors[name]
		f := routers.Finding{Severity: routers.Warning, Subject: "neighbor " + name}
		switch {
		case n.Shutdown:
			f.Severity, f.Text = routers.Notice, "is shut down"
		case n.State != "Established":
			f.Text = "the session is not established: " + n.State
		default:
			found = append(found, n.families(name, ps)...)
			continue
		}
		found = append(found, f)
	}
	for _, name := range slices.Sorted(maps.Keys(neighbors)) {
		if mode := neighbors[name].Restart.Mode; strings.HasPrefix(mode, "Restart") {
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: "neighbor " + name,
				Text:   "graceful restart: it keeps routes of this node alive when bgpd dies, also those that ought to be withdrawn then",
				WayOut: "configure `bgp graceful-restart-disable`, or `neighbor " + name + " graceful-restart-disable`"})
		}
	}
	return found
}

// families examines an established neighbour for the families that there are prefixes of.
func (n bgpNeighbor) families(name string, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	active := 0
	for _, afi := range []string{"ipv4", "ipv6"} {
		if !slices.ContainsFunc(ps, func(p netip.Prefix) bool { return isIPv4(p) == (afi == "ipv4") }) {
			continue
		}
		family, ok := n.Families[afi+"Unicast"]
		f := routers.Finding{Subject: "neighbor " + name, Text: "established, " + afi + " without an outbound filter"}
		switch filters := family.filters(); {
		case !ok:
			continue
		case family.NoPolicy != "":
			f.Severity, f.Text = routers.Failing, afi+": nothing is sent to it, as it has no outbound policy and bgp ebgp-requires-policy is on"
			f.WayOut = fmt.Sprintf("configure `neighbor %s route-map NAME out`, or `no bgp ebgp-requires-policy`", name)
		case filters != "":
			f.Text = "established, " + afi + " through " + filters
		}
		active++
		found = append(found, f)
	}
	if active == 0 {
		return []routers.Finding{{Severity: routers.Warning, Subject: "neighbor " + name, Text: "established, but no family of the prefixes is activated for it", WayOut: "activate it: `neighbor " + name + " activate`"}}
	}
	slices.SortStableFunc(found, func(a, b routers.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return found
}
