package frr

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// heard keeps when each neighbour was last read to have acknowledged everything, and what that was: the daemons tell
// only what is outstanding now. It may be used concurrently; a nil one keeps nothing.
type heard struct {
	mu  sync.Mutex
	at  map[string]time.Time    // by family and neighbour, of readings that count for its adjacency
	all map[string]acknowledged // the same, of every reading
}

// An acknowledged is what a neighbour had at a time.
type acknowledged struct {
	at   time.Time
	held map[netip.Prefix]entry
}

// settles is for how many seconds an adjacency has to be full before nothing outstanding says anything: right at
// its beginning the LSA that it leads to may not have been made yet.
const settles = 2

// note takes in a reading, and marks in it the neighbours that have acknowledged everything once since they became
// full. From then on they have a way to this node, whatever is outstanding later, and what was announced then.
func (h *heard) note(family string, db *lsdb, now time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at, h.all = map[string]time.Time{}, map[string]acknowledged{}
	}
	db.known = map[string]map[netip.Prefix]entry{}
	for id, full := range db.full {
		key, began := family+" "+id, now.Add(-time.Duration(full)*time.Second)
		last := h.all[key]
		if slices.Contains(db.behind, id) {
			last.held = common(last.held, db.held) // it may have heard of the end of the others
		} else {
			last = acknowledged{now, db.held}
			if own := db.age >= 0 && db.age <= full+1+db.early && !db.alone; own && full >= settles {
				h.at[key] = now
			}
		}
		if h.at[key].After(began) {
			db.settled = append(db.settled, id)
		}
		if h.all[key] = last; last.at.After(began) {
			db.known[id] = last.held
		}
	}
}

// common gives what is in both.
func common(a, b map[netip.Prefix]entry) map[netip.Prefix]entry {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(p netip.Prefix, _ entry) bool { _, there := b[p]; return !there })
	return a
}
