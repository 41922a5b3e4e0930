// Package reconcile makes what one router says of its prefixes what it ought to say: Plan compares,
// and Loop is the only one that reads and changes the router, again and again until they agree.
package reconcile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"vouch/routers"
)

// Desired is what every managed prefix ought to be. All of them are in it, those that are to be kept
// as they are too, so that they are read. A prefix that is not in it is left alone.
type Desired map[netip.Prefix]routers.Want

// prefixes gives the managed prefixes in order.
func (d Desired) prefixes() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(d), netip.Prefix.Compare)
}

// Plan gives the changes that lead from have to want, withdraws first, then what is to be degraded, then
// announced, each kind sorted. It is pure.
//
// A prefix to be withdrawn is asked for until it is read absent, also when it cannot be read. One to be
// announced or degraded is asked for when it is read to be short of goal, in the other way, or broken,
// and never when it cannot be read: nothing is announced for an unknown. A prefix that have does not name
// cannot be read.
func Plan(want Desired, have []routers.Observation, goal routers.Stage) []routers.Change {
	read := make(map[netip.Prefix]routers.Observation, len(have))
	for _, o := range have {
		read[o.Prefix] = o
	}
	var cs []routers.Change
	for p, w := range want {
		if o := read[p]; !Met(w, o, goal) && askable(w, o.Stage) {
			cs = append(cs, routers.Change{Prefix: p, Want: w})
		}
	}
	sortChanges(cs)
	return cs
}

// sortChanges puts changes in Plan's order, which is that of the wants.
func sortChanges(cs []routers.Change) {
	slices.SortFunc(cs, func(a, b routers.Change) int {
		return cmp.Or(cmp.Compare(a.Want, b.Want), a.Prefix.Compare(b.Prefix))
	})
}

// Met says whether a prefix that was read as o is as wanted, where goal is the stage at which an
// announced one has arrived.
func Met(w routers.Want, o routers.Observation, goal routers.Stage) bool {
	switch w {
	case routers.Withdrawn:
		return o.Stage == routers.Absent && !o.Broken
	case routers.Degraded, routers.Announced:
		return o.Stage != routers.Unknown && o.Stage >= goal && !o.Broken && o.Degraded == (w == routers.Degraded)
	}
	return true
}

// askable says whether a change to w may be asked for at stage s.
func askable(w routers.Want, s routers.Stage) bool {
	return w == routers.Withdrawn || w != routers.Keep && s != routers.Unknown
}

// interrupts says whether a change of mind from old to next is worth breaking off an Apply of under:
// always, except that withdraws which are still wanted are only broken off for withdraws, and what is
// still to be degraded for these two.
func interrupts(under []routers.Change, old, next Desired) bool {
	if maps.Equal(old, next) {
		return false
	}
	first := routers.Announced
	for _, c := range under {
		if next[c.Prefix] != c.Want {
			return true
		}
		first = min(first, c.Want)
	}
	return first == routers.Announced || asksAnew(old, next, first)
}

// asksAnew says whether next wants what old does not, which comes no later than last in Plan's order.
func asksAnew(old, next Desired, last routers.Want) bool {
	for p, w := range next {
		if w != routers.Keep && w <= last && old[p] != w {
			return true
		}
	}
	return false
}
