package reconcile

import (
	"context"
	"maps"
	"time"
)

// beatEvery is the time between signs of life.
const beatEvery = 500 * time.Millisecond

// repeatEvery is how far apart the repetitions of a withdraw are that hints ask for.
const repeatEvery = 100 * time.Millisecond

// rest waits until there is a reason for the next step.
func (l *Loop) rest(ctx context.Context) {
	for {
		wait := beatEvery
		if l.latest() != nil {
			wait = min(time.Until(l.nextStep()), beatEvery)
		}
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.changed:
			l.now = l.now || !maps.Equal(l.latest(), l.led.want) || l.led.want == nil
		case <-l.hint:
			l.hinted = true
		case <-timer.C:
			l.opt.Beat()
		}
		timer.Stop()
	}
}

// nextStep gives the time of the next reading.
func (l *Loop) nextStep() time.Time {
	last := l.pace.last
	at := last.Add(l.verify)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if l.led.err != nil {
		sooner(last.Add(l.retry))
	}
	if l.led.polls() {
		sooner(last.Add(l.poll))
		if t := l.led.deadline(); !t.IsZero() {
			sooner(t)
		}
	}
	if t := l.led.nextAttempt(); !t.IsZero() && !l.alone { // else what is polled for comes first
		sooner(t)
	}
	if l.hinted {
		sooner(l.pace.next())
	}
	if l.now {
		sooner(last)
	}
	return at
}

// takeHint notes a hint that was given before now; one given later asks for another reading.
func (l *Loop) takeHint() {
	select {
	case <-l.hint:
		l.hinted = true
	default:
	}
}
