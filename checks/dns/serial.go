package dns

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
)

// ahead is how far a date in a serial may lie in the future: it is that of the writer's time zone, and a
// hundred changes a day make it that of the next.
const ahead = 48 * time.Hour

// judgeSerial looks at the serial of the SOA record in a reply, and asks the reference for its.
func (c *checker) judgeSerial(ctx context.Context, query, reply *dns.Msg, allowed string) error {
	own, ok := serial(query, reply)
	if !ok {
		return mismatch("the answer has no SOA record")
	}
	if c.maxAge > 0 {
		if f := judgeAge(own, time.Now(), c.maxAge); f != nil {
			return f
		}
	}
	if c.reference == nil {
		return nil
	}
	again := query.Copy()
	again.Id = dns.Id()
	theirs, _, err := c.reference.fetch(ctx, again, allowed)
	what := "the serial of " + c.reference.server.String() + " is not known"
	if err != nil {
		f := prefixed(what, err)
		f.Reason = checks.ReasonUnknown
		return f
	}
	other, ok := serial(query, theirs)
	if !ok {
		return &checks.Failure{Reason: checks.ReasonUnknown,
			Detail: fmt.Sprintf("%s: it answers %s%s without an SOA record", what, rcodeName(theirs.Rcode), extended(theirs))}
	}
	return judgeLag(own, other, c.lag, c.reference.server.String())
}

// serial gives the serial of the SOA record that answers the question.
func serial(query, reply *dns.Msg) (uint32, bool) {
	rrs, _ := records(query.Question[0], reply)
	if len(rrs) == 0 {
		return 0, false
	}
	soa, ok := rrs[0].(*dns.SOA)
	if !ok {
		return 0, false
	}
	return soa.Serial, true
}

// judgeLag wants a serial not to be more than lag behind another (RFC 1982, section 3.2).
func judgeLag(own, other, lag uint32, server string) error {
	behind := other - own
	if behind <= lag || behind > 1<<31 {
		return nil
	}
	return mismatch("serial %d is behind %d of %s; serial_lag is %d", own, other, server, lag)
}

// judgeAge wants a serial not to be older than most.
func judgeAge(own uint32, now time.Time, most time.Duration) *checks.Failure {
	at, ok := moment(own, now)
	switch {
	case !ok:
		return mismatch("serial %d is neither a date up to now nor the seconds since 1970, so that serial_max_age cannot be judged", own)
	case now.Sub(at) > most:
		return mismatch("serial %d is of %s, longer ago than serial_max_age, %s", own, at.UTC().Format(time.RFC3339), most)
	}
	return nil
}

// moment gives the time that a serial stands for: the begin of a day, as in 2026010101, or a second.
func moment(own uint32, now time.Time) (time.Time, bool) {
	digits := strconv.FormatUint(uint64(own), 10)
	if len(digits) != 10 {
		return time.Time{}, false
	}
	limit := now.Add(ahead)
	if day, err := time.Parse("20060102", digits[:8]); err == nil && day.Year() >= 1980 && day.Before(limit) {
		return day, true
	}
	second := time.Unix(int64(own), 0)
	return second, second.Before(limit)
}
