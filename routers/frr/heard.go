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
	all map[string]acknowledged // the same, of all readings
}

// An acknowledged is what a neighbour had when nothing was outstanding for the last time, and was there ever since.
type acknowledged struct {
	read  time.Time // last
	since time.Time // something was outstanding in every reading; zero: nothing is
	held  map[netip.Prefix]entry
}

// overdue is how long something may be outstanding with a neighbour that is well. It acknowledges an LSA that it drops
// 12 s after at worst (8.4.4, 10.3).
const overdue = 15 * time.Second

// between is how much of the time between two readings counts: what is outstanding in both may be two things.
const between = 5 * time.Second

// settles is for how many seconds an adjacency has to be full before nothing outstanding says anything: right at
// its beginning the LSA that it leads to may not have been made yet.
const settles = 2

// note takes in a reading, and marks in it the neighbours that have acknowledged everything once since they became
// full: from then on they have a way to this node, whatever is outstanding later. And it marks those that hang.
func (h *heard) note(family string, db *lsdb, now time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at, h.all = map[string]time.Time{}, map[string]acknowledged{}
	}
	db.hung = map[string]map[netip.Prefix]entry{}
	for id, full := range db.full {
		key, began := family+" "+id, now.Add(-time.Duration(full)*time.Second)
		behind := slices.Contains(db.behind, id)
		if own := db.age >= 0 && db.age <= full+1+db.early && !db.alone; own && full >= settles && !behind {
			h.at[key] = now
		}
		last, known := h.all[key]
		switch {
		case known && !last.read.After(began): // that was another adjacency
			last = acknowledged{}
		case !known && now.Sub(began) > overdue: // it has what is there since before anybody looked
			last.held = db.held
		}
		h.all[key] = last.next(behind, db.held, now)
		if since := h.all[key].since; !since.IsZero() && now.Sub(since) > overdue {
			db.hung[id] = h.all[key].held
		}
		if h.at[key].After(began) {
			db.settled = append(db.settled, id)
		}
	}
}

// next is it after another reading.
func (a acknowledged) next(behind bool, held map[netip.Prefix]entry, now time.Time) acknowledged {
	switch {
	case !behind:
		return acknowledged{read: now, held: held}
	case a.since.IsZero():
		a.since = now
	default:
		a.since = a.since.Add(max(0, now.Sub(a.read)-between))
	}
	return acknowledged{now, a.since, common(a.held, held)} // of the end of the others it may have heard
}

// common gives what is in both.
func common(a, b map[netip.Prefix]entry) map[netip.Prefix]entry {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(p netip.Prefix, _ entry) bool { _, there := b[p]; return !there })
	return a
}
