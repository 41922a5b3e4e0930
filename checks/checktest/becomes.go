package checktest

import "time"

// Becomes looks again and again until ok says yes, and tells whether it did within the time.
func Becomes(within time.Duration, ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(within); !ok(); <-tick.C {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}
