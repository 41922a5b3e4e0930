package unit

import (
	"sync"
	"time"
)

// An alarm is when a watch wakes by itself, because what is said of the unit changes with time.
type alarm struct {
	mu    sync.Mutex
	at    time.Time     // zero: never
	moved chan struct{} // holds one when it was set
}

func newAlarm() *alarm { return &alarm{moved: make(chan struct{}, 1)} }

// set has it ring at that time, and then only.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.at.Equal(at) {
		a.at = at
		poke(a.moved)
	}
}

// next gives the time at which it rings.
func (a *alarm) next() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// rang takes it back, if it was set for that time.
func (a *alarm) rang(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.Equal(at) {
		a.at = time.Time{}
	}
}
