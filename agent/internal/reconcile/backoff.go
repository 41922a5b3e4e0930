package reconcile

import (
	"errors"
	"time"

	"vouch/routers"
)

// The waits after an attempt that failed for a reason which has its own pace.
const (
	busyMin    = 100 * time.Millisecond
	busyMax    = 2 * time.Second
	refusedMin = 5 * time.Second
	refusedMax = 5 * time.Minute
)

// eagerness says by how much the longest wait is shorter for w than for an announce.
func eagerness(w routers.Want) time.Duration {
	switch w {
	case routers.Withdrawn:
		return 4
	case routers.Degraded:
		return 2
	}
	return 1
}

// A class of errors is waited out at its own pace.
type class uint8

const (
	ordinary class = iota // unavailable, not taken, or anything else
	busy                  // locked: soon
	refused               // not hammered
)

func classOf(err error) class {
	switch {
	case errors.Is(err, routers.ErrBusy):
		return busy
	case errors.Is(err, routers.ErrRefused):
		return refused
	}
	return ordinary
}

// A backoff is how long was waited last, and for what. The zero backoff has not waited.
type backoff struct {
	class class
	wait  time.Duration
}

// grow doubles the wait before w is asked for again between the shortest and the longest of its class;
// a class that is new starts anew. A withdraw that was refused keeps the ordinary pace: until it is taken a
// sick node draws traffic, and asking costs the daemon little.
func (b *backoff) grow(c class, o Options, w routers.Want) {
	shortest, longest := o.RetryMin, o.RetryMax
	switch c {
	case busy:
		shortest, longest = busyMin, busyMax
	case refused:
		if w != routers.Withdrawn {
			shortest, longest = refusedMin, refusedMax
		}
	}
	if c != busy {
		longest /= eagerness(w)
	}
	if b.class != c || b.wait == 0 {
		b.wait = shortest / 2
	}
	b.class, b.wait = c, max(min(b.wait*2, longest), shortest)
}

// jittered shortens the wait by up to a fifth, by a random number below 1: agents that failed
// together do not come back together, and no wait exceeds its cap.
func (b *backoff) jittered(random float64) time.Duration {
	return b.wait - time.Duration(random*float64(b.wait/5))
}

// A bucket lets a number of things happen at once, and one a second in the long run. The zero bucket
// is full.
type bucket struct{ free time.Time } // when the oldest debt will have been paid

// next gives the time at which the next one may happen.
func (b *bucket) next(now time.Time) time.Time {
	if at := b.free.Add(time.Second - burst*time.Second); at.After(now) {
		return at
	}
	return now
}

// burst is how many repairs of one prefix are made without delay.
const burst = 5

// take gives the time at which the next one may happen, and counts it.
func (b *bucket) take(now time.Time) time.Time {
	at := b.next(now)
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(time.Second)
	return at
}
