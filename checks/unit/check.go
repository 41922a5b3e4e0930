package unit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"

	"vouch/checks"
)

// The interfaces of systemd on the bus (org.freedesktop.systemd1(5)).
const (
	systemd     = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	unitsPath   = string(managerPath) + "/unit"
	managerName = systemd + ".Manager"
	unitName    = systemd + ".Unit"
	serviceName = systemd + ".Service"
	properties  = "org.freedesktop.DBus.Properties"
)

type checker struct {
	unit  string
	bus   *bus
	rules rules
	alarm *alarm

	history restarts
	last    string // how it ended when it was last seen to have ended
}

var (
	_ checks.Checker = (*checker)(nil)
	_ checks.Watcher = (*checker)(nil)
)

// String gives the unit's full name.
func (c *checker) String() string { return c.unit }

// Check asks systemd once. What cannot be asked is unknown: whatever is wrong with the bus, the unit goes on
// as it is.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	checks.Tracef(ctx, checks.Sent, "ListUnitsByNames %s", c.unit)
	s, err := c.bus.ask(ctx, c.unit)
	if err != nil {
		return unknown(ctx, start, err)
	}
	s.trace(ctx)
	now, first := time.Now(), len(c.history.seen) == 0
	looping := c.rules.within > 0 && c.history.see(now, s, c.rules.maxRestarts, c.rules.within)
	if first && c.rules.within > 0 && !looping && int64(s.restarts) > int64(c.rules.maxRestarts) {
		checks.Tracef(ctx, checks.Note, "it was restarted %d times since it was started by hand; whether that was more than %d times within %s is seen only by the agent, which looks again and again",
			s.restarts, c.rules.maxRestarts, c.rules.within)
	}
	if e := s.ending(); e != "" {
		c.last = e
	} else if s.restarts == 0 {
		c.last = "" // it was started by hand since
	}
	c.alarm.set(c.changes(now, s, looping))
	if f := c.rules.judge(c.unit, s, looping, c.last); f != nil {
		return f
	}
	return nil
}

// changes gives the time at which something else is said of the unit, though nothing happens to it; zero: never.
func (c *checker) changes(now time.Time, s state, looping bool) time.Time {
	switch {
	case looping:
		return c.history.calm(c.rules.within)
	case s.active == "activating" && c.rules.grace > 0 && s.since < c.rules.grace:
		return now.Add(c.rules.grace - s.since)
	}
	return time.Time{}
}

// unknown says why systemd could not be asked by a check that began at start.
func unknown(ctx context.Context, start time.Time, err error) *checks.Failure {
	f := &checks.Failure{Reason: checks.ReasonUnknown, Detail: "systemd cannot be asked", Err: err}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Detail, f.Err = "broken off", ctx.Err()
	case ctx.Err() != nil:
		f.Detail, f.Err = "systemd did not answer within "+checks.Allowed(ctx, start), nil
	case unlessAway(err) == nil:
		f.Detail, f.Err = "systemd is not on the bus", nil
	}
	return f
}

// trace tells what systemd has said.
func (s state) trace(ctx context.Context) {
	checks.Tracef(ctx, checks.Got, "%s: LoadState=%s ActiveState=%s SubState=%s NRestarts=%d", s.name, s.load, s.active, s.sub, s.restarts)
	if !s.runs() {
		left := "never left inactive"
		if s.began > 0 {
			left = fmt.Sprintf("left inactive %s ago", s.since.Round(time.Millisecond))
		}
		checks.Tracef(ctx, checks.Got, "Type=%s Result=%s ExecMainCode=%d ExecMainStatus=%d, %s", s.kind, s.result, s.code, s.status, left)
	}
}
