package unit

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// A state is what systemd says of a unit. The names are those of its properties (org.freedesktop.systemd1(5)).
type state struct {
	name              string        // Id
	load, active, sub string        // LoadState, ActiveState, SubState
	restarts          uint32        // NRestarts
	uptime            time.Duration // since the machine was started

	// The rest is read only where the unit is not simply running; began and since also where it was restarted.
	kind         string        // Type
	result       string        // Result
	code, status int32         // ExecMainCode, ExecMainStatus
	began        time.Duration // InactiveExitTimestampMonotonic
	since        time.Duration // since then: since it began to be activating
}

// rules say what is accepted of a unit.
type rules struct {
	exitedOK    bool
	grace       time.Duration
	maxRestarts int
	within      time.Duration // 0: restarts do not matter, as of a unit that is no service
}

// runs says whether the unit does its work, so that no more need be known of it. One whose file was removed
// or masked meanwhile goes on running.
func (s state) runs() bool {
	switch s.active {
	case "active":
		return s.sub != "exited"
	case "reloading", "refreshing":
		return true
	}
	return false
}

// judge says what is wrong with a unit, or nil. looping says that it is in a crash loop; last, how it ended
// the last time, if that is known.
func (r rules) judge(unit string, s state, looping bool, last string) *checks.Failure {
	unusable := func(format string, args ...any) *checks.Failure {
		return &checks.Failure{Reason: checks.ReasonUnusable, Detail: fmt.Sprintf(format, args...)}
	}
	switch stopped := s.active == "inactive" || s.active == "failed"; {
	case looping && !stopped: // the same text whatever the moment
		return unusable("is in a crash loop: restarted more than %d times within %s%s", r.maxRestarts, r.within, last)
	case s.runs():
		return nil
	case s.load == "not-found" && stopped:
		return &checks.Failure{Reason: checks.ReasonAbsent, Detail: "there is no unit " + unit + " (systemctl daemon-reload, if it is new)"}
	case s.load == "masked" && stopped:
		return unusable("is masked (systemctl unmask %s)", unit)
	case s.load != "loaded" && stopped:
		return unusable("cannot be loaded: %s (systemctl status %s)", s.load, unit)
	case s.active == "active":
		return r.exited(s)
	case s.active == "activating":
		return r.activating(s, last)
	case s.active == "failed" && s.result == "start-limit-hit":
		return unusable("has failed too often to be started again (systemctl reset-failed %s)", unit)
	case s.active == "failed" && s.restarts > 0:
		return unusable("has failed after %d restarts%s", s.restarts, last)
	case s.active == "failed":
		return unusable("has failed%s", last)
	}
	return unusable("is %s (%s)%s", s.active, s.sub, s.ending()) // what a process that died has left is stopped first
}

// exited judges a service whose process has ended, and which counts as active all the same. Of one whose file
// was removed meanwhile systemd does not know the type any more.
func (r rules) exited(s state) *checks.Failure {
	f := &checks.Failure{Reason: checks.ReasonUnusable, Detail: "is active (exited): its process has ended"}
	if s.kind != "oneshot" && s.kind != "" {
		return f
	}
	if r.exitedOK {
		return nil
	}
	f.Detail = "is active (exited): it has done its work and nothing runs; exited_ok = true accepts that"
	return f
}

// activating judges a unit that is not there yet: neither ok nor failed within the grace.
func (r rules) activating(s state, last string) *checks.Failure {
	f := &checks.Failure{Reason: checks.ReasonUnusable, Detail: fmt.Sprintf("is activating (%s)", s.sub)}
	switch {
	case s.sub == "auto-restart" || s.sub == "auto-restart-queued":
		f.Detail += last
	case r.grace > 0 && s.since < r.grace:
		f.Reason = checks.ReasonUnknown
		f.Detail += fmt.Sprintf(", for which activating_grace gives it %s", r.grace)
	case r.grace > 0:
		f.Detail += fmt.Sprintf(" for %s or longer", r.grace)
	}
	return f
}

// ending tells how a service ended, such as "; last: exit-code, status 1"; "" if it did not.
func (s state) ending() string {
	if s.result == "" || s.result == "success" {
		return ""
	}
	text := "; last: " + s.result
	switch s.code { // si_code of SIGCHLD
	case 1:
		text += fmt.Sprintf(", status %d", s.status)
	case 2, 3:
		if name := unix.SignalName(unix.Signal(s.status)); name != "" {
			text += ", " + name
		}
	}
	return text
}

// restarts remembers when systemd was seen to have restarted a service by itself.
type restarts struct {
	seen []sighting // oldest first
}

// A sighting is when NRestarts was first seen to be so much.
type sighting struct {
	at time.Time
	n  uint32
}

// see takes a reading, and says whether there were more than most restarts within the time before it. A number
// that went down was reset: the unit was started by hand.
func (r *restarts) see(now time.Time, s state, most int, within time.Duration) bool {
	n := s.restarts
	switch l := len(r.seen); {
	case l == 0:
		r.seen = before(now, s)
	case n < r.seen[l-1].n:
		r.seen = []sighting{{now, n}}
	case n > r.seen[l-1].n:
		r.seen = append(r.seen, sighting{now, n})
	}
	for len(r.seen) > 1 && now.Sub(r.seen[1].at) >= within {
		r.seen = r.seen[1:]
	}
	// One that lies further back than most+1 restarts says no more than the one after it.
	for len(r.seen) > 1 && int64(n)-int64(r.seen[1].n) > int64(most) {
		r.seen = r.seen[1:]
	}
	return int64(n)-int64(r.seen[0].n) > int64(most)
}

// before gives what the first reading tells of the restarts before it, as long ago as they may have been.
// systemd remembers their number only: all were since the machine was started, and the last one of a unit that
// runs was after it last ceased to be inactive. So one in a crash loop when the agent starts is found to be
// so after most more restarts.
func before(now time.Time, s state) []sighting {
	if s.restarts == 0 {
		return []sighting{{now, 0}}
	}
	boot := now.Add(-s.uptime)
	last := boot
	if s.runs() && s.since >= 0 && s.since < s.uptime {
		last = now.Add(-s.since)
	}
	return []sighting{{boot, 0}, {boot, s.restarts - 1}, {last, s.restarts}}
}

// calm gives the time at which those seen are no crash loop any more, if they are one.
func (r *restarts) calm(within time.Duration) time.Time { return r.seen[1].at.Add(within) }
