// Package checks defines what a check is: one probe of one thing, whose result is ok, failed for a
// reason, or unknown. The kinds live in their own packages below this one; package kinds lists them.
package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Checker probes one target once. A nil error means that it answered as configured; any other
// error is best a *Failure. Check returns soon after ctx ends and is never called concurrently with
// itself. Its String names the target for people, such as "udp 127.0.0.1:53 example.com. A".
type Checker interface {
	Check(ctx context.Context) error
	fmt.Stringer
}

// A Watcher is a Checker that can tell when its target may have changed. Watch calls wake for every
// hint until ctx ends; a hint says "read again", never what is so. Watch returns an error when the
// source of hints is lost; its caller starts it again, and polls in any case. ErrNoHints is for when there
// is none, as is to be expected of the target or of the kernel: nobody is told then.
type Watcher interface {
	Watch(ctx context.Context, wake func()) error
}

// A Subscriber is a Watcher that many may be of without a goroutine for each: Subscribe is Watch that does not
// wait. It may take a moment, as to ask the kernel. It calls wake from any goroutine, and over once, after the
// last wake, with what Watch would return; both perhaps before it returns. Neither blocks.
type Subscriber interface {
	Watcher
	Subscribe(ctx context.Context, wake func(), over func(error))
}

// ErrNoHints says that a Watcher has no source of hints where it is, which is no fault.
var ErrNoHints = errors.New("nothing here tells of changes")

// A Reason is the closed set of causes a check can give, safe as a metric label.
type Reason string

// The reasons.
const (
	ReasonTimeout     Reason = "timeout"     // no answer in time
	ReasonRefused     Reason = "refused"     // actively refused: connection refused, ICMP port unreachable
	ReasonUnreachable Reason = "unreachable" // no route, host or network unreachable, local address missing
	ReasonDenied      Reason = "denied"      // forbidden on this node: rights that are missing, a firewall, a prohibit route
	ReasonTLS         Reason = "tls"         // no secure connection: handshake, certificate, name, chain
	ReasonMismatch    Reason = "mismatch"    // answered, but not as configured
	ReasonStatus      Reason = "status"      // a status or exit code that is not accepted
	ReasonAbsent      Reason = "absent"      // the thing looked for is not there
	ReasonUnusable    Reason = "unusable"    // there, but of no use: blackhole route, link down, address tentative
	ReasonExec        Reason = "exec"        // a program could not be run
	ReasonProtocol    Reason = "protocol"    // an answer that could not be understood
	ReasonPanic       Reason = "panic"       // the check itself broke
	ReasonError       Reason = "error"       // any other failure
	ReasonUnknown     Reason = "unknown"     // could not be found out: neither ok nor failed
	ReasonPending     Reason = "pending"     // not finished yet: neither ok nor failed
)

// A Failure says why a check did not succeed. Detail and Aside are for people and may hold anything the target
// sent; whoever prints them escapes them.
type Failure struct {
	Reason Reason
	Detail string
	Err    error  // the cause, or nil
	Sent   string // from where it was asked, as Origin.Sent gives it; empty: nothing was, or it is no matter
	Aside  string // what else belongs in parentheses, such as "0 of 1 replies"
}

// Error gives "reason: detail: cause (sent, aside)", leaving out what is empty.
func (f *Failure) Error() string {
	s := string(f.Reason)
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	switch aside := strings.TrimPrefix(f.Sent+", "+f.Aside, ", "); {
	case aside == "":
		return s
	case f.Detail == "" && f.Err == nil:
		return s + ": " + strings.TrimSuffix(aside, ", ")
	default:
		return s + " (" + strings.TrimSuffix(aside, ", ") + ")"
	}
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// A Status is what a check found.
type Status uint8

// The statuses.
const (
	Unknown Status = iota // not found out, or not yet
	OK
	Failed
)

var statusNames = [...]string{Unknown: "unknown", OK: "ok", Failed: "failed"}

// String gives the spec's word.
func (s Status) String() string { return statusNames[s] }

// MarshalText gives the spec's word.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the spec's word.
func (s *Status) UnmarshalText(b []byte) error {
	for i, n := range statusNames {
		if n == string(b) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("status %q is not one of ok, failed, unknown", b)
}

// A Result is the outcome of one Check.
type Result struct {
	Start time.Time // zero: never ran
	Took  time.Duration
	Err   error
}

// Reason classifies the result's error; it is empty for ok.
func (r Result) Reason() Reason {
	var f *Failure
	switch {
	case r.Start.IsZero():
		return ReasonPending
	case r.Err == nil:
		return ""
	case errors.As(r.Err, &f):
		return f.Reason
	case errors.Is(r.Err, context.DeadlineExceeded):
		return ReasonTimeout
	}
	return ReasonError
}

// Status says whether the result is ok, failed or unknown.
func (r Result) Status() Status {
	switch r.Reason() {
	case "":
		return OK
	case ReasonUnknown, ReasonPending:
		return Unknown
	}
	return Failed
}

// A Problem is one mistake in a configuration table. The loader adds file, line and column.
type Problem struct {
	Key    string // relative to the table, such as "server"; empty: the table itself
	What   string // such as "must be an address and a port"
	Got    string // the value as written, or empty
	WayOut string // what to do, such as `write "127.0.0.1:53"`
}

// A Spec is the configuration of one kind of check, decoded from TOML by its `toml` tags. Validate
// applies nothing and reads nothing outside the Spec; it also sets defaults. New is called only
// after Validate found nothing. The loader refuses a key that is written and holds nothing, such as "", 0 or
// [], unless its field is a pointer or has the tag `empty:"ok"`: there that is a value like any other.
type Spec interface {
	Validate() []Problem
	New() (Checker, error)
}
