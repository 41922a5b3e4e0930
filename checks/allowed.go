package checks

import (
	"context"
	"time"
)

// Allowed tells people how long a check that began at start may take, or noDeadline if ctx has no end:
// "1s". It is what was configured and not what has gone by, so that the text of a failure stays the same
// from round to round.
func Allowed(ctx context.Context, start time.Time) string {
	end, ok := ctx.Deadline()
	if !ok {
		return noDeadline.String()
	}
	return plain(end.Sub(start)).String()
}

// plain rounds d to a fourteenth of it, or less: that much may have gone by between the setting of a deadline and
// the start of what it is for.
func plain(d time.Duration) time.Duration {
	unit, five := time.Millisecond, true
	for {
		next := unit * 2
		if five {
			next = unit * 5
		}
		if next > d/14 {
			return d.Round(unit)
		}
		unit, five = next, !five
	}
}
