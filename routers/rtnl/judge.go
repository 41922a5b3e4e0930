package rtnl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kinds are the types of routes that send nothing anywhere, by their names in iproute2.
var kinds = map[uint8]string{
	unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast",
	unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable",
	unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw", unix.RTN_NAT: "nat",
}

// judge decides what the routes of a table to one place are worth, as the kernel does: the most specific
// is asked first, and of those the one with the lowest metric; what it says is final, unless all its next
// hops are dead, which are passed over. So an unreachable default hides a good one with a higher metric.
// One live next hop of several is enough. Over names the interfaces that count; none: all.
func (p picture) judge(family Family, over []string) Way {
	var passed Way
	for _, r := range inOrder(family, p.routes) {
		w, dead := p.judgeRoute(r, over)
		if r.left >= 0 {
			w.Left = r.left
		}
		if !dead {
			return w
		}
		if !passed.Found {
			passed = w
		}
	}
	return passed
}

// inOrder sorts routes into the order in which the kernel asks them. IPv6 may have several of one
// metric, such as from two routers' advertisements: they are as one route with several next hops. Those whose lifetime has
// ended come last: the kernel takes none of them, and says so only when it takes them out.
func inOrder(family Family, routes []route) []route {
	sorted := slices.Clone(routes)
	slices.SortStableFunc(sorted, func(a, b route) int {
		return cmp.Or(ended(a)-ended(b), cmp.Compare(b.length(), a.length()), cmp.Compare(a.metric, b.metric))
	})
	if family == IPv4 {
		return sorted
	}
	merged := sorted[:0]
	for _, r := range sorted {
		last := len(merged) - 1
		if last >= 0 && merged[last].dst == r.dst && merged[last].metric == r.metric && plain(merged[last]) && plain(r) {
			merged[last].legs = slices.Concat(merged[last].legs, r.legs)
			merged[last].left = soonest(merged[last].left, r.left)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// plain says that a route has next hops of its own.
func plain(r route) bool { return r.kind == unix.RTN_UNICAST && len(r.legs) > 0 && r.left >= 0 }

// ended is 1 for a route whose lifetime has ended.
func ended(r route) int {
	if r.left < 0 {
		return 1
	}
	return 0
}

// soonest is the lesser of two spans of time; 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// judgeRoute judges one route; dead says that the kernel passes over it.
func (p picture) judgeRoute(r route, over []string) (w Way, dead bool) {
	legs, blackhole := r.legs, false
	if len(legs) == 0 && r.nexthop != 0 {
		legs, blackhole = resolve(r.nexthop, p.objects)
	}
	switch {
	case r.left < 0:
		var lost []string
		for _, l := range legs {
			lost = append(lost, describe(l, p.links[l.index]))
		}
		return Way{Found: true, Text: r.name() + " " + strings.Join(append(lost, "its lifetime has ended"), ": ")}, true
	case blackhole:
		return Way{Found: true, Text: r.text("blackhole")}, false
	case r.kind != unix.RTN_UNICAST:
		name, ok := kinds[r.kind]
		if !ok {
			name = fmt.Sprintf("type %d", r.kind)
		}
		return Way{Found: true, Text: r.text(name)}, false
	case len(legs) == 0:
		return Way{Found: true, Text: r.name() + " has no next hop"}, false
	}
	return judgeLegs(r.name(), legs, p.links, over)
}

// resolve gives the legs of a nexthop object. Groups hold no groups.
func resolve(id uint32, objects map[uint32]nexthop) (legs []leg, blackhole bool) {
	members := objects[id].group
	if len(members) == 0 {
		members = []uint32{id}
	}
	for _, member := range members {
		if objects[member].blackhole {
			return nil, true
		}
		legs = append(legs, objects[member].leg)
	}
	return legs, false
}

// judgeLegs needs one of several to be alive.
func judgeLegs(name string, legs []leg, links map[int]link, over []string) (w Way, dead bool) {
	var alive, faulty []string
	dead = true
	for _, l := range legs {
		text, fault := describe(l, links[l.index]), fault(l, links[l.index])
		if fault == "" && len(over) > 0 && !slices.Contains(over, links[l.index].name) {
			fault = "not over " + strings.Join(over, " or ")
		}
		dead = dead && l.has(unix.RTNH_F_DEAD)
		if fault == "" {
			alive = append(alive, text)
		} else {
			faulty = append(faulty, text+": "+fault)
		}
	}
	slices.Sort(alive) // the kernel tells IPv6 legs in turns
	slices.Sort(faulty)
	if len(alive) > 0 {
		return Way{Found: true, Usable: true, Text: name + " " + strings.Join(alive, ", ")}, false
	}
	return Way{Found: true, Text: name + " " + strings.Join(faulty, "; ")}, dead
}

func describe(l leg, via link) string {
	dev := "dev " + via.name
	if l.gateway.IsValid() {
		return fmt.Sprintf("via %s %s", l.gateway, dev)
	}
	return dev
}

// fault says why nothing can be sent over a leg; it is empty for a good one.
func fault(l leg, via link) string {
	switch {
	case via.has(unix.IFF_LOOPBACK):
		return "leads back to this host"
	case via.kind == "dummy":
		return "a dummy interface sends nothing"
	case !via.has(unix.IFF_UP):
		return "link is down"
	case !via.has(unix.IFF_RUNNING), l.has(unix.RTNH_F_LINKDOWN):
		return "link has no carrier"
	case l.has(unix.RTNH_F_DEAD):
		return "next hop is dead"
	}
	return ""
}
