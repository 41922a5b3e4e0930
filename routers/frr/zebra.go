package frr

import (
	"context"
	"fmt"
	"net/netip"

	"vouch/routers"
)

// A route is one of zebra's for a prefix; absent flags are false.
type route struct {
	Protocol string    `json:"protocol"`
	Selected bool      `json:"selected"`
	Distance int       `json:"distance"`
	Metric   uint32    `json:"metric"`
	Tag      uint32    `json:"tag"`
	Nexthops []nexthop `json:"nexthops"`
}

type nexthop struct {
	Interface string `json:"interfaceName"`
	Blackhole bool   `json:"blackhole"`
}

// routes asks zebra for each prefix, all in one session. It may hold the whole Internet, so never for
// the table.
func routes(ctx context.Context, talk talker, ps []netip.Prefix) (map[netip.Prefix][]route, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	commands := make([]string, len(ps))
	for i, p := range ps {
		commands[i] = showRoute(p)
	}
	replies, err := ask(ctx, talk, "zebra", commands...)
	if err != nil {
		return nil, err
	}
	found := make(map[netip.Prefix][]route, len(ps))
	for i, p := range ps {
		if found[p], err = parseRoutes(replies[i].Text, p); err != nil {
			return nil, fmt.Errorf("zebra: %s: %w", p, err)
		}
	}
	return found, nil
}

func showRoute(p netip.Prefix) string { return fmt.Sprintf("show %s route %s json", family(p), p) }

func parseRoutes(text string, p netip.Prefix) ([]route, error) {
	var table map[netip.Prefix][]route
	if err := decode(text, &table); err != nil {
		return nil, err
	}
	if _, ok := table[p]; !ok && len(table) > 0 {
		return nil, routers.Errorf(routers.ErrUnavailable, "the answer is about another prefix: %s", excerpt(text))
	}
	for _, r := range table[p] {
		if r.Protocol == "" {
			return nil, unknownShape("a route without protocol")
		}
	}
	return table[p], nil
}

// selected gives the protocol of the route that zebra selected, or nothing.
func selected(rs []route) string {
	for _, r := range rs {
		if r.Selected {
			return r.Protocol
		}
	}
	return ""
}

// connectedOn tells whether zebra selected the connected route over an interface.
func connectedOn(rs []route, iface string) bool {
	for _, r := range rs {
		for _, n := range r.Nexthops {
			if r.Selected && r.Protocol == "connected" && n.Interface == iface {
				return true
			}
		}
	}
	return false
}
