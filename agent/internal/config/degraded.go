package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vouch/routers/vyos"
)

// routerDegraded reads [router.degraded]; t is nil when it is not there.
func routerDegraded(rt, t *table, r *Router) {
	if t == nil {
		return
	}
	t.fill(&r.Degraded)
	t.unknown("")
	if rt.good("protocol", "style") && len(t.bad) == 0 {
		degradedKeys(rt, t, *r)
	}
	degradedForms(t, r.Degraded)
	setDefault(t, "symbol6", &r.Degraded.Symbol6, r.sixth(r.Degraded.Symbol))
	if len(t.bad) > 0 {
		rt.bad["degraded"] = true
	}
}

// degradedKeys refuses what has no effect, be it the whole table or one key of it.
func degradedKeys(rt, t *table, r Router) {
	keys := degradedUses.keys(r)
	switch {
	case len(keys) == 0:
		because, wayOut := noWay(r)
		t.refuseTable("has no effect "+because, wayOut)
		rt.bad["degraded"] = true
	case len(t.prims) == 0:
		t.refuseTable("says of no key what a degraded prefix gets", "write "+someOf(keys)+", or remove the table")
		rt.bad["degraded"] = true
	}
	for _, key := range t.names() {
		if because, _ := degradedUses.idle(r, key); because != "" && len(keys) > 0 {
			t.refuse(key, "has no effect "+because, "use "+someOf(keys)+" in its place")
		}
	}
}

// noWay says of a router that no key of [router.degraded] has an effect with why that is, and what to do
// about it.
func noWay(r Router) (because, wayOut string) {
	switch {
	case r.Daemon == daemonProgram:
		return "with daemon program", `write degrade = ["/path/to/program", "argument"] in [router]`
	case r.Daemon == daemonKernel:
		return "with daemon kernel, which can only put the address there or not", `use daemon = "frr" or "bird"`
	case r.Daemon == daemonVyOS:
		return "with method kernel and protocol ospf, which does not heed a kernel route's metric", `use method = "static" with tag`
	case r.Daemon == daemonBIRD:
		return "with method address, where BIRD knows no worse way", `use method = "include" or "protocol"`
	}
	return "with method address and protocol bgp", `use method = "network"`
}

// someOf writes a, b or c.
func someOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// The greatest OSPF metrics: of an interface (RFC 2328, 16 bits), and of an external route, below
// LSInfinity (24 bits).
const (
	maxCost    = 1<<16 - 1
	maxMetric2 = 1<<24 - 2
)

// maxPrepend is how many AS numbers may be put before a path: routers drop much longer ones.
const maxPrepend = 16

func degradedForms(t *table, d Degraded) {
	const least, most = 1, math.MaxUint32
	within(t, "cost", d.Cost, bound[int]{1, maxCost, "100"})
	within(t, "tag", d.Tag, bound[uint32]{least, most, "666"})
	within(t, "metric", d.Metric, bound[uint32]{least, most, "1000"})
	if d.Metric < vyos.Metric && t.has("metric") && t.good("metric") {
		t.refuse("metric", fmt.Sprintf("is better than %d, that of a route which is not degraded: this node would be preferred", vyos.Metric), "use 1000 or leave it out")
	}
	within(t, "med", d.MED, bound[uint32]{least, most, "100"})
	within(t, "metric2", d.Metric2, bound[uint32]{least, maxMetric2, "20000"})
	if t.has("route_map") {
		t.matches("route_map", d.RouteMap, routeMapForm, `must be a route-map's name: up to 63 letters, digits, "_", "-", "." and ":"`,
			"write it as show route-map does")
	}
	t.template("symbol", d.Symbol)
	t.template("symbol6", d.Symbol6)
	communities(t, d.Community)
	prepended(t, d.Prepend)
}

func communities(t *table, written []string) {
	if t.has("community") && t.good("community") && len(written) == 0 {
		t.refuse("community", "names no community", `write ["65001:666"] or leave it out`)
	}
	for i, c := range written {
		if t.good(elementName([]string{"community"}, i)) && !isCommunity(c) {
			t.refuseElement("community", i, fault{`must be "A:B" of numbers up to 65535, or "A:B:C" of numbers up to 4294967295`, `such as "65001:666"`})
		}
	}
}

var communityForm = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?::(?:0|[1-9][0-9]*)){1,2}$`)

// isCommunity knows a community (RFC 1997) and a large one (RFC 8092).
func isCommunity(s string) bool {
	parts, bits := strings.Split(s, ":"), 16
	if len(parts) == 3 {
		bits = 32
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, bits); err != nil {
			return false
		}
	}
	return communityForm.MatchString(s)
}

func prepended(t *table, asns []uint32) {
	if !t.has("prepend") || !t.good("prepend") {
		return
	}
	if n := len(asns); n < 1 || n > maxPrepend {
		t.refuse("prepend", fmt.Sprintf("must be 1 to %d AS numbers", maxPrepend), "write the node's own AS number once or twice, such as [65001, 65001]")
	}
	for i, n := range asns {
		if n == 0 {
			t.refuseElement("prepend", i, fault{"is no AS number (RFC 7607)", "write the node's own"})
		}
	}
}

// A degradable service has a check that degrades it: the first such.
type degradable struct {
	service Service
	check   *table
}

// needsWay refuses checks that are to degrade their service where there is no way to do that, none for all
// of its prefixes, or none for that service alone. It says one thing, once.
func needsWay(rt *table, r Router, services []Service, soft []degradable) {
	if len(soft) == 0 || !rt.good("daemon", "method", "protocol", "style", "degraded", "degrade") {
		return
	}
	if what, wayOut := noDegraded(rt, r); what != "" {
		soft[0].check.refuse("on_fail", what, wayOut)
		return
	}
	for _, s := range soft {
		if what, wayOut := s.unfit(r, services); what != "" {
			s.check.refuse("on_fail", what, wayOut)
			return
		}
	}
}

// unfit says why the way does not do for this service. OSPFv3 has one cost for the interface, while of IPv4
// each address has its own.
func (s degradable) unfit(r Router, services []Service) (what, wayOut string) {
	v4, v6 := families(s.service.Prefixes)
	shares := func(o Service) bool { _, six := families(o.Prefixes); return six && o.Name != s.service.Name }
	switch other := slices.IndexFunc(services, shares); {
	case v4 && degradedUses.effective(r, "symbol") && r.Degraded.Symbol == "":
		return "there is no degraded way to announce the IPv4 prefixes: [router.degraded] has no symbol", "write symbol there"
	case r.Degraded.Cost > 0 && v6 && other >= 0:
		return "would degrade the IPv6 prefixes of service " + services[other].Name + " too, because in OSPFv3 [router.degraded] cost is that of the interface which they share",
			`use method = "network" with route_map or "static" with tag, or "withdraw" or "warn" here`
	}
	return "", ""
}

// noDegraded says why there is no degraded way, and what to do about it; nothing when there is one.
func noDegraded(rt *table, r Router) (what, wayOut string) {
	const without = "there is no degraded way to announce "
	if r.Daemon == daemonProgram && len(r.Degrade) > 0 {
		return "", ""
	}
	keys := degradedUses.keys(r)
	if len(keys) == 0 {
		because, wayOut := noWay(r)
		return without + because, wayOut + `, or "withdraw" or "warn" here`
	}
	if r.Daemon == daemonAuto && r.Method == methodAddress {
		return without + "with method address should BIRD be the daemon that is found",
			`write daemon = "frr" in [router] if it is FRR, else use method = "include" or "protocol"`
	}
	if !rt.has("degraded") {
		return without + "without [router.degraded]", fmt.Sprintf(`write that table with %s, or "withdraw" or "warn" here`, someOf(keys))
	}
	return "", ""
}
