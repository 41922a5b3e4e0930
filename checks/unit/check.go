package unit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"vouch/checks"
)

// The interfaces of systemd on the bus (org.freedesktop.systemd1(5)).
const (
	systemd     = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerName = systemd + ".Manager"
	unitName    = systemd + ".Unit"
	serviceName = systemd + ".Service"
	properties  = "org.freedesktop.DBus.Properties"
)

type checker struct {
	unit  string
	bus   *bus
	rules rules

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
	s, err := c.read(ctx)
	if err != nil {
		return unknown(ctx, err)
	}
	looping := c.rules.within > 0 && c.history.see(time.Now(), s.restarts, c.rules.maxRestarts, c.rules.within)
	if e := s.ending(); e != "" {
		c.last = e
	} else if s.restarts == 0 {
		c.last = "" // it was started by hand since
	}
	if f := c.rules.judge(c.unit, s, looping, c.last); f != nil {
		return f
	}
	return nil
}

func unknown(ctx context.Context, err error) *checks.Failure {
	f := &checks.Failure{Reason: checks.ReasonUnknown, Detail: "systemd cannot be asked", Err: err}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Detail, f.Err = "broken off", ctx.Err()
	case ctx.Err() != nil:
		f.Detail, f.Err = "systemd did not answer in time", nil
	case unlessAway(err) == nil:
		f.Detail, f.Err = "systemd is not on the bus", nil
	}
	return f
}

// read asks for the unit's state; and, where it does not simply run, for the rest too.
func (c *checker) read(ctx context.Context) (s state, err error) {
	l, err := c.bus.acquire(ctx)
	if err != nil {
		return s, err
	}
	defer c.bus.release(l)
	if s, err = c.readOver(ctx, l); err != nil && l.broken() {
		err = errLost
	}
	return s, err
}

func (c *checker) readOver(ctx context.Context, l *link) (s state, err error) {
	checks.Tracef(ctx, checks.Sent, "ListUnitsByNames %s", c.unit)
	listed := l.send(ctx, managerPath, managerName+".ListUnitsByNames", []string{c.unit})
	var counted *dbus.Call
	if c.rules.within > 0 {
		counted = l.get(ctx, c.unit, serviceName, "NRestarts")
	}
	u, err := theOne(await(listed))
	if err != nil {
		return s, err
	}
	s = state{load: u.Load, active: u.Active, sub: u.Sub}
	if counted != nil {
		if err := value(await(counted), &s.restarts); err != nil {
			return s, err
		}
	}
	checks.Tracef(ctx, checks.Got, "%s: LoadState=%s ActiveState=%s SubState=%s NRestarts=%d", u.Name, s.load, s.active, s.sub, s.restarts)
	if s.runs() {
		return s, nil
	}
	return s, c.rest(ctx, l, &s)
}

// rest asks for what tells why a unit does not simply run.
func (c *checker) rest(ctx context.Context, l *link, s *state) error {
	var began uint64
	want := []struct {
		iface, name string
		to          any
	}{{unitName, "InactiveExitTimestampMonotonic", &began}}
	if isService(c.unit) {
		want = append(want, []struct {
			iface, name string
			to          any
		}{{serviceName, "Type", &s.kind}, {serviceName, "Result", &s.result},
			{serviceName, "ExecMainCode", &s.code}, {serviceName, "ExecMainStatus", &s.status}}...)
	}
	calls := make([]*dbus.Call, len(want))
	for i, w := range want {
		calls[i] = l.get(ctx, c.unit, w.iface, w.name)
	}
	for i, w := range want {
		if err := value(await(calls[i]), w.to); err != nil {
			return err
		}
	}
	s.since = sinceBoot() - time.Duration(began)*time.Microsecond
	checks.Tracef(ctx, checks.Got, "Type=%s Result=%s ExecMainCode=%d ExecMainStatus=%d, left inactive %s ago",
		s.kind, s.result, s.code, s.status, s.since.Round(time.Millisecond))
	return nil
}

// sinceBoot reads the clock that systemd's monotonic timestamps are of.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it has no way to fail
	return time.Duration(ts.Nano())
}

// A listed is a unit in an answer of ListUnitsByNames.
type listed struct {
	Name, Description, Load, Active, Sub, Follows string
	Path                                          dbus.ObjectPath
	Job                                           uint32
	JobType                                       string
	JobPath                                       dbus.ObjectPath
}

func theOne(call *dbus.Call) (listed, error) {
	var all []listed
	if err := call.Store(&all); err != nil {
		return listed{}, err
	}
	if len(all) != 1 {
		return listed{}, fmt.Errorf("systemd told of %d units where it was asked for one", len(all))
	}
	return all[0], nil
}

// value reads the answer for one property.
func value(call *dbus.Call, to any) error {
	var v dbus.Variant
	if err := call.Store(&v); err != nil {
		return err
	}
	return v.Store(to)
}
