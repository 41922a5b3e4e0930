package ntp

import (
	"errors"
	"fmt"
	"time"

	"github.com/beevik/ntp"

	"vouch/checks"
)

// limits are what an answer must keep to.
type limits struct {
	stratum          int
	distance, offset time.Duration // offset 0: any
}

// never is what a reference timestamp of zero reads as: the start of NTP's second era.
var never = time.Date(2036, 2, 7, 6, 28, 16, 0, time.UTC)

// judge gives nil if the answer is that of a server that is synchronised within the limits.
func (l limits) judge(r *ntp.Response) *checks.Failure {
	switch {
	case r.Leap == ntp.LeapNotInSync:
		return mismatch("the server is not synchronised: leap indicator 3, stratum %d", r.Stratum)
	case r.Stratum > mostStratum:
		return mismatch("the server is not synchronised: stratum %d", r.Stratum)
	case ownClock(r):
		return mismatch("the server is not synchronised: it goes by its own clock alone (reference id %s, stratum %d)", r.ReferenceString(), r.Stratum)
	case r.Stratum > 1 && r.ReferenceTime.Equal(never):
		return mismatch("the server is not synchronised: stratum %d, but its clock was never set (reference timestamp 0)", r.Stratum)
	case int(r.Stratum) > l.stratum:
		return mismatch("stratum %d is more than max_stratum, %d", r.Stratum, l.stratum)
	case r.RootDistance > l.distance:
		return mismatch("the root distance is more than max_root_distance, %s: about %s", l.distance, coarse(r.RootDistance))
	case l.offset > 0 && r.ClockOffset.Abs() > l.offset:
		return mismatch("this node's clock and the server's are further apart than max_offset, %s: this one is about %s", l.offset, ahead(r.ClockOffset))
	}
	if err := r.Validate(); err != nil && !(errors.Is(err, ntp.ErrInvalidTime) && r.ReferenceTime.Equal(never)) {
		return mismatch("the answer is not fit to set a clock by: %v", err)
	}
	return nil
}

// ownClock says whether a server has no source but its own clock: that is the driver of address 127.127.1.x of ntpd, and what
// chrony gives as its source by "local stratum"; "LOCL" at stratum 1 (RFC 5905, section 7.3).
func ownClock(r *ntp.Response) bool {
	if r.Stratum == 1 {
		return r.ReferenceID == 0x4c4f434c
	}
	return r.ReferenceID>>8 == 127<<16|127<<8|1
}

func mismatch(format string, args ...any) *checks.Failure {
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf(format, args...)}
}

// ahead tells where this node's clock is, given what must be added to it.
func ahead(offset time.Duration) string {
	if offset < 0 {
		return coarse(-offset) + " ahead"
	}
	return coarse(offset) + " behind"
}

// coarse gives the first digit that counts, so that the text stays the same while the value wavers: "300ms".
func coarse(d time.Duration) string {
	unit := time.Nanosecond
	for _, u := range []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
		100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 10 * time.Hour, 100 * time.Hour} {
		if u <= d {
			unit = u
		}
	}
	return d.Round(unit).String()
}
