package health

import (
	"math"
	"time"
)

// gapMargin is what a pause between rounds may last beyond three intervals and the longest round
// before the rounds ahead of it say nothing any more: a busy machine is late by less, a suspended one
// by more.
const gapMargin = 5 * time.Second

// Step takes in a round that was decided at now and came to o, and gives the state after it. It is pure.
//
//   - A decided round counts when it is the first of its outcome, or comes at least half of Fast
//     after the last one that counted: several events of one fault are one round, and so are answers
//     that were held up and come together.
//   - A good round resets the bad ones and the other way round; an undecided one counts for neither
//     and resets neither, but when it goes on for UnknownAfter, OnUnknown says what follows.
//   - After a pause of more than three intervals and the longest round (the machine was suspended, the
//     state is of an earlier run) or a clock set back, the count starts again.
//   - Fall bad rounds bring the verdict to down at once; Rise good ones to up, but not before
//     HoldUntil. Nothing delays down.
//   - Going from up to down holds down: for HoldDown at first, for twice as long as the last time
//     when up lasted less than HoldDownCalm, for half as long for each HoldDownCalm that it lasted.
func (s Settings) Step(st State, now time.Time, o Outcome) State {
	st = s.mend(st, now)
	st.LastRound = now
	if o == Undecided {
		return s.undecided(st, now)
	}
	st.UnknownSince = time.Time{}
	st = s.count(st, now, o)
	switch {
	case st.Bad >= s.fall() && st.Verdict != Down:
		return s.toDown(st, now)
	case st.Good >= s.rise() && st.Verdict != Up && !now.Before(st.HoldUntil):
		st.Verdict, st.Since, st.HoldUntil = Up, now, time.Time{}
	}
	return st
}

// mend drops what the passage of time made worthless: counts from before a pause, and a hold-down
// that a clock set back would stretch beyond its length.
func (s Settings) mend(st State, now time.Time) State {
	pause := pauseBetween(st.LastRound, now)
	if !st.LastRound.IsZero() && (pause < 0 || pause > 3*s.Interval+s.Longest+gapMargin) {
		st.Good, st.Bad = 0, 0
		st.UnknownSince = time.Time{}
	}
	if st.HoldUntil.Sub(now) > st.Hold {
		st.HoldUntil = now.Add(st.Hold)
	}
	return st
}

// pauseBetween gives the time between two rounds. The monotonic clock stands still while the machine
// is suspended, so the wall clock is asked too; one that was set forward costs no more than counting
// anew.
func pauseBetween(last, now time.Time) time.Duration {
	return max(now.Sub(last), now.Round(0).Sub(last.Round(0)))
}

func (s Settings) undecided(st State, now time.Time) State {
	if st.UnknownSince.IsZero() {
		st.UnknownSince = now
	}
	lasted := now.Sub(st.UnknownSince)
	if s.UnknownAfter > 0 && lasted >= s.UnknownAfter && s.OnUnknown == Withdraw && st.Verdict != Down {
		return s.toDown(st, now)
	}
	return st
}

func (s Settings) count(st State, now time.Time, o Outcome) State {
	same, other := &st.Good, &st.Bad
	if o == Bad {
		same, other = other, same
	}
	if *same > 0 && now.Sub(st.LastCounted) < s.fast()/2 {
		return st
	}
	if *same < math.MaxInt {
		*same++
	}
	*other, st.LastCounted = 0, now
	return st
}

// toDown resets the good rounds, because an undecided round may be what brings the service down.
func (s Settings) toDown(st State, now time.Time) State {
	if st.Verdict == Up {
		st.Hold = s.nextHold(st.Hold, now.Sub(st.Since))
		st.HoldUntil = time.Time{}
		if st.Hold > 0 {
			st.HoldUntil = now.Add(st.Hold)
		}
	}
	st.Verdict, st.Since, st.Good = Down, now, 0
	return st
}

// nextHold gives the hold-down that follows on last after up has lasted for up.
func (s Settings) nextHold(last, up time.Duration) time.Duration {
	if s.HoldDown <= 0 {
		return 0
	}
	h := max(last, s.HoldDown)
	switch {
	case last <= 0 || s.HoldDownCalm <= 0:
		h = s.HoldDown
	case up >= s.HoldDownCalm:
		h = max(h>>min(up/s.HoldDownCalm, 62), s.HoldDown)
	case h <= math.MaxInt64/4:
		h *= 2
	}
	if s.HoldDownMax > 0 {
		h = min(h, max(s.HoldDownMax, s.HoldDown))
	}
	return h
}

// Next gives the time from the start of the round that Step was last given, whose outcome was o, to
// the start of the next one. It is Fast while rounds differ from the verdict and are not settled,
// and Interval otherwise; the end of a hold-down that good rounds wait for is not overslept.
func (s Settings) Next(st State, o Outcome) time.Duration {
	pending := st.Bad > 0
	switch st.Verdict {
	case Unknown:
		pending = st.Good+st.Bad > 0
	case Down:
		pending = st.Good > 0
	}
	if !pending {
		return max(s.Interval, s.fast())
	}
	if wait := st.HoldUntil.Sub(st.LastRound); o == Good && st.Good >= s.rise() && wait > 0 {
		return max(min(s.Interval, wait), s.fast())
	}
	return s.fast()
}

// fast is Fast, or Interval when there is none.
func (s Settings) fast() time.Duration {
	if s.Fast > 0 {
		return s.Fast
	}
	return s.Interval
}

func (s Settings) rise() int { return max(s.Rise, 1) }
func (s Settings) fall() int { return max(s.Fall, 1) }
