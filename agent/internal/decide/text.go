package decide

import (
	"fmt"
	"strings"
	"time"

	"vouch/agent/internal/health"
)

// standing tells how the checks and the counts of one side stand, such as "dns failed: timeout; 3 bad
// rounds in a row (fall 3); held down until 12:00:05 (40s more)". fallen is the word for its being down.
func standing(side Side, s health.Settings, fallen string, now time.Time) string {
	parts := append(append([]string{}, side.Failing...), side.Unknown...)
	parts = append(parts, rounds(side.State, s))
	if t := heldUntil(side.State, now); !t.IsZero() {
		parts = append(parts, "held "+fallen+" until "+until(t, now))
	}
	if t := side.State.UnknownSince; !t.IsZero() {
		parts = append(parts, undecided(s, side.State.Verdict, fallen, now.Sub(t)))
	}
	return strings.Join(parts, "; ")
}

// rounds counts what is in a row, against what it takes.
func rounds(st health.State, s health.Settings) string {
	switch {
	case st.Good > 0 && st.Good < s.Rise:
		return fmt.Sprintf("%d of %d good rounds (rise %d)", st.Good, s.Rise, s.Rise)
	case st.Good > 0:
		return inARow(st.Good, "good") + fmt.Sprintf(" (rise %d)", s.Rise)
	case st.Bad > 0 && st.Bad < s.Fall:
		return fmt.Sprintf("%d of %d bad rounds (fall %d)", st.Bad, s.Fall, s.Fall)
	case st.Bad > 0:
		return inARow(st.Bad, "bad") + fmt.Sprintf(" (fall %d)", s.Fall)
	}
	return fmt.Sprintf("no round counted yet (rise %d, fall %d)", s.Rise, s.Fall)
}

func inARow(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " round"
	}
	return fmt.Sprintf("%d %s rounds in a row", n, kind)
}

// undecided tells how long nothing could be concluded, and what will come of it.
func undecided(s health.Settings, v health.Verdict, fallen string, lasted time.Duration) string {
	text := "undecided for " + span(lasted)
	switch {
	case s.OnUnknown != health.Withdraw || s.UnknownAfter <= 0:
		return text + ", which changes nothing"
	case v == health.Down:
		return text
	}
	return text + ", " + fallen + " after " + span(s.UnknownAfter)
}

// heldUntil gives the end of the hold-down in force, or zero.
func heldUntil(st health.State, now time.Time) time.Time {
	if t := st.HoldUntil; st.Verdict == health.Down && now.Before(t) {
		return t
	}
	return time.Time{}
}

// until gives a time to come, such as "12:00:05 (40s more)".
func until(t, now time.Time) string {
	return clock(t, now) + " (" + span(t.Sub(now)) + " more)"
}

// clock gives the time of day at now's place, with the date when it is another day's.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// span gives a length of time as whole seconds, or less than one as milliseconds.
func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
