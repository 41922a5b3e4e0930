package state

import (
	"slices"
	"sync"
)

// How many events are kept in memory: of all, and of each kind and level at least, so that a thousand prefixes
// that change their stage push neither the failures nor the verdicts out.
const (
	keepEvents = 512
	keepOfEach = 128
)

// A Store holds the recent events and tells those who wait that something changed. It may be used by
// many at the same time.
type Store struct {
	mu      sync.Mutex
	seq     uint64
	events  []Event // those to be kept, and a few more
	crowded int     // how many events are too many
	changed chan struct{}
}

// NewStore gives an empty Store.
func NewStore() *Store {
	return &Store{crowded: 2 * keepEvents, changed: make(chan struct{})}
}

// Touch tells those who wait that something changed which is no event.
func (s *Store) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announce()
}

// Add numbers the event and keeps it.
func (s *Store) Add(e Event) Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	e.Seq = s.seq
	s.keep(e)
	s.announce()
	return e
}

// Restore puts back the events of an earlier run; numbering goes on after them.
func (s *Store) Restore(old []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range old {
		s.seq = max(s.seq, e.Seq)
		s.keep(e)
	}
}

// Events gives the kept events numbered above after, oldest first.
func (s *Store) Events(after uint64) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(latest(s.events, keepEvents, keepOfEach), func(e Event) bool { return e.Seq <= after })
}

// Changed gives a channel that is closed at the next Add or Touch.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) keep(e Event) {
	if s.events = append(s.events, e); len(s.events) >= s.crowded {
		s.events = latest(s.events, keepEvents, keepOfEach)
		s.crowded = len(s.events) + keepEvents
	}
}

func (s *Store) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// latest gives, of events from the oldest on, a copy of the last ones: so many of all, and so many of each kind and level.
func latest(es []Event, all, each int) []Event {
	type class struct{ kind, level string }
	count := map[class]int{}
	var kept []Event
	for i, e := range slices.Backward(es) {
		c := class{e.Kind, e.Level}
		if count[c]++; len(es)-i <= all || count[c] <= each {
			kept = append(kept, e)
		}
	}
	slices.Reverse(kept)
	return kept
}
