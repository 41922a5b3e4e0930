package bird

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"vouch/routers/bird/ctl"
)

// A route is one of BIRD's to a prefix, as `show route` tells of it.
type route struct {
	prefix   netip.Prefix
	table    string
	protocol string
	kind     string // blackhole, unicast, unreachable, prohibit; 1.6: via, dev, multipath for unicast
	best     bool   // the one that protocols are given
	// attributes are what `all` adds, by the names of BIRD 3, which those of 1.6 and 2 are turned into:
	// bgp_med, bgp_community, bgp_large_community, bgp_path, ospf_metric2.
	attributes map[string]string
	last       string // the attribute that was told last
}

// med is the MED that the route has in the table.
func (r route) med() (uint32, bool) { return number(r.attributes["bgp_med"]) }

// metric2 is the OSPF metric of type 2 that the route has in the table.
func (r route) metric2() (uint32, bool) { return number(r.attributes["ospf_metric2"]) }

func number(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}

// hasCommunity tells whether the route has a community in the table, "65001:666" or large "65001:0:666".
func (r route) hasCommunity(community string) bool {
	written := "(" + strings.ReplaceAll(community, ":", ",") + ")"
	for _, name := range []string{"bgp_community", "bgp_large_community"} {
		if strings.Contains(strings.ReplaceAll(r.attributes[name], " ", ""), written) {
			return true
		}
	}
	return false
}

// pathLength is the number of AS numbers that the route has in the table: on a route of our own, those
// that were prepended.
func (r route) pathLength() int { return len(strings.Fields(r.attributes["bgp_path"])) }

// routeRow is "PREFIX kind [protocol since] * (preference) more". The prefix is not repeated for further
// routes to it. The star is "!" where the kernel refused the route.
var routeRow = regexp.MustCompile(`^(\S*)\s+([a-z]+).*?\[(\S+) [^\]]*\]( [*!])?`)

// parseRoutes reads the reply to `show route`. table is the one that was asked for, where BIRD does not
// say (1.6). NotFound beside no route is an empty answer; any other refusal an error.
func parseRoutes(r ctl.Reply, command, table string) ([]route, error) {
	var all []route
	for _, l := range r.Lines {
		text := l.Text
		switch {
		case l.Code > ctl.NotFound:
			return nil, r.Refused(command)
		case l.Code == ctl.NotFound, l.Code == 0, text == "": // 3.1.8 parts tables by an empty row
		case l.Code == ctl.RouteRow && strings.HasPrefix(text, "Table ") && strings.HasSuffix(text, ":"):
			table = strings.TrimSuffix(strings.TrimPrefix(text, "Table "), ":")
		case strings.HasPrefix(text, "\t"):
			if len(all) == 0 {
				return nil, fmt.Errorf("%q: a route's details without the route: %.80q", command, text)
			}
			all[len(all)-1].add(text)
		case l.Code == ctl.RouteRow:
			next, err := parseRouteRow(text, all)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", command, err)
			}
			next.table = table
			all = append(all, next)
		default:
			return nil, fmt.Errorf("%q: not understood: %04d %.80q", command, l.Code, text)
		}
	}
	return all, nil
}

func parseRouteRow(text string, before []route) (route, error) {
	m := routeRow.FindStringSubmatch(text)
	if m == nil {
		return route{}, fmt.Errorf("not a row of show route: %.80q", text)
	}
	r := route{kind: m[2], protocol: m[3], best: m[4] != ""}
	if m[1] == "" {
		if len(before) == 0 {
			return route{}, fmt.Errorf("a row of show route without a prefix: %.80q", text)
		}
		r.prefix = before[len(before)-1].prefix
		return r, nil
	}
	prefix, err := netip.ParsePrefix(m[1])
	if err != nil {
		return route{}, fmt.Errorf("not a row of show route: %.80q", text)
	}
	r.prefix = prefix
	return r, nil
}

// add takes a line of details: "\tBGP.med: 50" of 1.6 and 2, "\tbgp_med: 50" of 3, or "\t\t(…)" that goes
// on with a long value.
func (r *route) add(line string) {
	if r.attributes == nil {
		r.attributes = map[string]string{}
	}
	if more, ok := strings.CutPrefix(line, "\t\t"); ok {
		r.attributes[r.last] += " " + strings.TrimSpace(more)
		return
	}
	key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
	if !ok {
		return
	}
	key = strings.ToLower(strings.ReplaceAll(key, ".", "_"))
	key = strings.Replace(key, "bgp_as_path", "bgp_path", 1)
	r.attributes[key], r.last = strings.TrimSpace(value), key
}

// connected tells whether the route is that of an interface's address.
func (r route) connected() bool {
	return strings.HasPrefix(r.attributes["type"], "device") || r.attributes["source"] == "device"
}
