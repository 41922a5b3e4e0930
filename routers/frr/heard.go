package frr

import (
	"slices"
	"sync"
	"time"
)

// heard keeps when each neighbour was last read to have acknowledged everything: the daemons tell only what is
// outstanding now. It may be used concurrently; a nil one keeps nothing.
type heard struct {
	mu sync.Mutex
	at map[string]time.Time // by family and neighbour
}

// settles is for how many seconds an adjacency has to be full before nothing outstanding says anything: right at
// its beginning the LSA that it leads to may not have been made yet.
const settles = 2

// note takes in a reading, and marks in it the neighbours that have acknowledged everything once since they became
// full. From then on they have a way to this node, whatever is outstanding later.
func (h *heard) note(family string, db *lsdb, now time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[string]time.Time{}
	}
	for id, full := range db.full {
		key := family + " " + id
		own := db.age >= 0 && db.age <= full+1+db.early && !db.alone
		if full >= settles && own && !slices.Contains(db.behind, id) {
			h.at[key] = now
		}
		if h.at[key].After(now.Add(-time.Duration(full) * time.Second)) {
			db.settled = append(db.settled, id)
		}
	}
}
