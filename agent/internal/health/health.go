// Package health turns rounds of check results into a verdict: rise, fall, fast rounds, hold-down
// and the handling of what is unknown. It is pure: time is an argument.
package health

import (
	"fmt"
	"slices"
	"time"
)

// An Outcome is what one round came to.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota // neither good nor bad could be concluded
	Good
	Bad
)

var outcomeNames = [...]string{"undecided", "good", "bad"}

// String gives the spec's word.
func (o Outcome) String() string { return outcomeNames[o] }

// A Verdict is what the rounds say of a service.
type Verdict uint8

// The verdicts. Step never comes to Degraded: it is what With makes of two states.
const (
	Unknown Verdict = iota // not decided since the start
	Up
	Down
	Degraded // up, but not as it should be
)

var verdictNames = [...]string{"unknown", "up", "down", "degraded"}

// String gives the spec's word.
func (v Verdict) String() string { return verdictNames[v] }

// MarshalText gives the spec's word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the spec's word.
func (v *Verdict) UnmarshalText(b []byte) error {
	i := slices.Index(verdictNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("verdict %q is not one of %v", b, verdictNames)
	}
	*v = Verdict(i)
	return nil
}

// With gives the verdict of a service whose own is v, and that of whose checks which can only degrade it
// is soft. What is not known of those changes nothing.
func (v Verdict) With(soft Verdict) Verdict {
	if v == Up && soft == Down {
		return Degraded
	}
	return v
}

// OnUnknown says what to do when a service has been unknown for UnknownAfter.
type OnUnknown uint8

// The ways to treat a lasting unknown.
const (
	Hold     OnUnknown = iota // keep the verdict
	Withdraw                  // the verdict becomes down
)

// Settings are the rules of one service. Durations are at least 0.
type Settings struct {
	Rise, Fall   int           // rounds in a row, at least 1
	Interval     time.Duration // between rounds that agree with the verdict
	Longest      time.Duration // that one round can take: the longest timeout of the checks
	Fast         time.Duration // between rounds that differ from it; at most Interval
	HoldDown     time.Duration // stays down at least this long; 0: off
	HoldDownMax  time.Duration // the cap of the doubling
	HoldDownCalm time.Duration // an up time this long halves the next hold-down
	UnknownAfter time.Duration // how long unknown is borne; 0: for ever
	OnUnknown    OnUnknown
}

// State is what a service's rounds have come to so far. It is a value: Step gives a new one.
// Its times carry a monotonic reading while in memory, so that a clock set back changes nothing.
// At most one of Good and Bad is above 0: it tells what the last counted round came to.
type State struct {
	Verdict      Verdict
	Since        time.Time     // when Verdict became so
	Good, Bad    int           // counted rounds in a row
	LastRound    time.Time     // when the last round was decided
	LastCounted  time.Time     // when the last round that was counted was decided
	UnknownSince time.Time     // start of the undecided rounds in a row; zero: none
	Hold         time.Duration // the hold-down in force or last in force
	HoldUntil    time.Time     // no rise before; zero: none
}
