package state

import (
	"slices"
	"sync"
)

// How many events are kept in memory: of all kinds, and warnings and errors apart, so that a
// stream of ordinary changes does not push the failures out.
const (
	keepEvents   = 512
	keepFailures = 256
)

// A Store holds the recent events and tells those who wait that something changed. It may be used by
// many at the same time.
type Store struct {
	mu       sync.Mutex
	seq      uint64
	recent   []Event
	failures []Event
	changed  chan struct{}
}

// NewStore gives an empty Store.
func NewStore() *Store {
	return &Store{changed: make(chan struct{})}
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
	all := slices.Concat(s.failures, s.recent)
	slices.SortFunc(all, func(a, b Event) int { return int(int64(a.Seq) - int64(b.Seq)) })
	all = slices.CompactFunc(all, func(a, b Event) bool { return a.Seq == b.Seq })
	return slices.DeleteFunc(all, func(e Event) bool { return e.Seq <= after })
}

// Changed gives a channel that is closed at the next Add or Touch.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) keep(e Event) {
	s.recent = capped(append(s.recent, e), keepEvents)
	if e.Level != "info" {
		s.failures = capped(append(s.failures, e), keepFailures)
	}
}

func (s *Store) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// capped drops the oldest beyond n. Appending to what is left makes a new array from time to time,
// so that memory stays bounded.
func capped(es []Event, n int) []Event { return es[max(0, len(es)-n):] }
