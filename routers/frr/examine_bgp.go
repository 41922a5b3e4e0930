package frr

import (
	"fmt"
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
	var neighbors map[string]bgpNeighbor
	err := decode(rd.neighbors, &neighbors)
	found := rd.sources(c, neighbors, o, ps)
	if err != nil {
		return append(found, routers.Finding{Severity: routers.Warning, Subject: "bgpd", Text: "the neighbours cannot be read: " + err.Error()})
	}
	return append(found, rd.peers(neighbors, parseFilters(text), o, ps)...)
}

// sources says what would bring the prefixes into BGP's table.
func (rd reading) sources(c bgpConfig, all map[string]bgpNeighbor, o Options, ps []netip.Prefix) []routers.Finding {
	f := routers.Finding{Subject: "bgp network import-check"}
	if o.Method == MethodStatic {
		return o.redistributesEach(c, parseFilters(rd.configs["bgpd"]), all, ps)
	}
	f.Text = "on: a network statement needs a route of the very prefix in the table, such as its address on lo"
	missing := rd.unrouted(o, ps)
	switch {
	case c.noImportCheck:
		f.Severity, f.Text = routers.Notice, "off: a network statement announces also what has no address on this node"
		f.WayOut = "configure `bgp network import-check`, unless it is meant so"
	case len(missing) > 0:
		f.Severity, f.Text = routers.Warning, "on, and there is no route of "+strings.Join(missing, ", ")+" in the table (one that BGP itself brought does not count), so that a network statement announces nothing"
		f.WayOut = "put the address on lo, and leave it there (`ip address add ADDRESS dev lo`)"
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

// unrouted gives the prefixes whose network statement would find no route: what import-check wants is one of
// the very prefix that is not from BGP itself (8.4.4, 10.3).
func (rd reading) unrouted(o Options, ps []netip.Prefix) []string {
	if o.Method != MethodNetwork || rd.routes == nil {
		return nil
	}
	var missing []string
	for _, p := range ps {
		valid := slices.ContainsFunc(rd.table[p].Paths, func(path bgpPath) bool { return path.stated() && path.Valid })
		if from := selected(rd.routes[p]); !valid && (from == "" || from == "bgp") {
			missing = append(missing, p.String())
		}
	}
	return missing
}
