package reconcile

import "time"

// Readings that hints ask for keep these distances.
const (
	paceMin = 10 * time.Millisecond
	paceMax = 100 * time.Millisecond
)

// A pace keeps a storm of hints from becoming a storm of readings. The zero pace is ready.
type pace struct {
	last time.Time     // end of the last reading
	gap  time.Duration // to the next one that a hint may cause
}

// next gives the earliest time for a reading that a hint asks for.
func (p *pace) next() time.Time { return p.last.Add(p.gap) }

// read takes in a reading that ended at now: whether a hint was there ahead of it, and whether it
// found anything changed. Hints that go on and bring nothing are followed less and less often.
func (p *pace) read(now time.Time, hinted, changed bool) {
	p.last = now
	if !hinted || changed || p.gap == 0 {
		p.gap = paceMin
		return
	}
	p.gap = min(2*p.gap, paceMax)
}
