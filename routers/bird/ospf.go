package bird

import (
	"fmt"
	"net/netip"
	"strings"

	"vouch/routers/bird/ctl"
)

// parseOwnLSAs gives what this router itself has in the link-state database that its neighbours share:
// the stubs of its router LSA (OSPFv3: its intra-area prefixes) and its externals, with the metric as
// `show ospf state` words it.
//
// The router itself is the one at distance 0. Only what is reachable is shown, so it is always there.
func parseOwnLSAs(r ctl.Reply) (map[netip.Prefix]string, error) {
	lsas := map[netip.Prefix]string{}
	routers, found, own := 0, false, false
	for _, text := range r.Texts(ctl.OSPFState) {
		entry, isEntry := strings.CutPrefix(text, "\t\t")
		switch f := strings.Fields(text); {
		case !isEntry && len(f) == 2 && f[0] == "router":
			own = false
			routers++
		case !isEntry:
			own = false
		case entry == "distance 0":
			own, found = true, true
		case own && len(f) >= 2 && (f[0] == "stubnet" || f[0] == "external" || f[0] == "nssa-ext"):
			p, err := netip.ParsePrefix(f[1])
			if err != nil {
				return nil, fmt.Errorf("show ospf state: not understood: %.80q", text)
			}
			lsas[p.Masked()] = f[0] + " " + strings.Join(f[2:], " ")
		}
	}
	if routers > 0 && !found {
		return nil, fmt.Errorf("show ospf state: %d routers, and this one is not among them", routers)
	}
	return lsas, nil
}

// isStub tells whether an LSA is of what an interface has, and stands on no route.
func isStub(lsa string) bool { return strings.HasPrefix(lsa, "stubnet ") }

// interfacesOf gives the interfaces on which an OSPF protocol runs, as `show ospf interface` names them.
func interfacesOf(r ctl.Reply) []string {
	var names []string
	for _, text := range r.Texts(ctl.OSPFInterface) {
		if rest, ok := strings.CutPrefix(text, "Interface "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}

// countFull gives the number of neighbours whose database is the same as ours.
func countFull(r ctl.Reply) int {
	full := 0
	for _, text := range r.Texts(ctl.Neighbours) {
		if f := strings.Fields(text); len(f) > 2 && strings.HasPrefix(f[2], "Full") {
			full++
		}
	}
	return full
}
