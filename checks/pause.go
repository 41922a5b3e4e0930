package checks

import (
	"fmt"
	"time"
)

// A pauses adds up by how much a loop was late: in that time this process did not get to run, as it or the machine was
// stopped, or had no CPU for it, and neither did the checks that the loop waits for.
type pauses struct {
	total time.Duration
	due   time.Time // when the loop means to run next; its own work takes no time
}

// look takes in that the loop runs now.
func (p *pauses) look() {
	now := time.Now()
	p.total += max(0, now.Sub(p.due))
	p.due = now
}

// stride bounds how long a loop sleeps while a check runs: a pause that passes unseen is little of its timeout then.
func stride(timeout time.Duration) time.Duration {
	return min(max(timeout/8, 5*time.Millisecond), grace/2)
}

// excuses is how many ends of runs in a row pauses may have broken: what is dead must not stand for as long as the
// machine is busy.
const excuses = 8

// broken says whether a pause took so much of a run that its failure says nothing of what was asked: that no answer came
// in time, or anything, where the pause was as long as all that time. A run that was made anew for that is given up less
// easily.
func broken(res Result, paused, timeout time.Duration, anew bool) bool {
	switch {
	case res.Err == nil:
		return false
	case res.Reason() != ReasonTimeout:
		return paused >= timeout
	case anew:
		return paused >= timeout/2
	}
	return paused >= timeout/4
}

// nothingKnown is what becomes of the failure of such a run.
func nothingKnown(res Result, paused, timeout time.Duration) Result {
	res.Err = &Failure{Reason: ReasonUnknown, Err: res.Err, Detail: fmt.Sprintf(
		"vouch was stopped, or had no CPU, for %s of a run that may take %s", plain(paused), timeout)}
	return res
}
