package route

import (
	"sync"
	"time"
)

// late is how much after the end of a lifetime it is looked again: the kernel counts in steps of up to 10 ms.
const late = 50 * time.Millisecond

// An alarm wakes who watches when the lifetime of a route ends, for the kernel tells of it up to half a minute later.
type alarm struct {
	calls sync.Mutex // held while wake runs, which may set the alarm

	mu    sync.Mutex
	wake  func() // nil: nobody watches
	at    time.Time
	timer *time.Timer // nil: no lifetime ends, or nobody watches
}

// set has the alarm go off when this much time is over, in place of what was set before; 0: not at all.
func (a *alarm) set(left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
	if left > 0 {
		a.at = time.Now().Add(left + late)
	}
	a.arm()
}

// on gives what is to be called in place of wake, so that there is one call at a time. It ends with off.
func (a *alarm) on(wake func()) func() {
	a.become(wake)
	return a.ring
}

func (a *alarm) become(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
	a.arm()
}

func (a *alarm) ring() {
	a.calls.Lock()
	defer a.calls.Unlock()
	a.mu.Lock()
	wake := a.wake
	a.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// off has no call come any more once it returned. Wake may not call it.
func (a *alarm) off() {
	a.become(nil)
	a.calls.Lock() // one that runs is the last
	defer a.calls.Unlock()
}

// arm starts the timer again, where there is somebody to wake. A call of an earlier one that comes late does no harm.
func (a *alarm) arm() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.wake != nil && !a.at.IsZero() {
		a.timer = time.AfterFunc(time.Until(a.at), a.ring)
	}
}
