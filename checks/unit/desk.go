package unit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// A desk is where all that ask for one unit share the readings. It is there while somebody does.
type desk struct {
	turn  chan struct{} // holds one while somebody reads; he guards the rest
	users int           // the bus guards it
	begun atomic.Int64  // how many readings were begun

	last state
	err  error
	cut  bool // it came to no end, as for want of time of him who read
}

// ask gives the unit's state as read by somebody who began after ask was called.
func (b *bus) ask(ctx context.Context, unit string) (state, error) {
	d := b.sit(unit)
	defer b.rise(unit, d)
	came := d.begun.Load()
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return state{}, ctx.Err()
	}
	defer func() { <-d.turn }()
	if d.begun.Load() > came && !d.cut {
		return d.last, d.err
	}
	d.begun.Add(1)
	d.cut = true // unless it comes back
	d.last, d.err = b.read(ctx, unit)
	d.cut = ctx.Err() != nil
	return d.last, d.err
}

func (b *bus) sit(unit string) *desk {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.desks[unit]
	if d == nil {
		d = &desk{turn: make(chan struct{}, 1)}
		b.desks[unit] = d
	}
	d.users++
	return d
}

func (b *bus) rise(unit string, d *desk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.users--; d.users == 0 {
		delete(b.desks, unit)
	}
}

// read asks systemd. A connection that is lost meanwhile, as one that others had given up, is replaced once.
func (b *bus) read(ctx context.Context, unit string) (s state, err error) {
	for range 2 {
		if s, err = b.readOnce(ctx, unit); !errors.Is(err, errLost) {
			break
		}
	}
	return s, err
}

func (b *bus) readOnce(ctx context.Context, unit string) (s state, err error) {
	l, err := b.acquire(ctx)
	if err != nil {
		return s, err
	}
	defer b.release(l)
	if s, err = l.read(ctx, unit); err != nil && l.broken() {
		return s, errLost
	}
	s.uptime = b.uptime()
	s.since = s.uptime - s.began
	return s, err
}

// read asks for the unit's state; and, where it does not simply run, for the rest too.
func (l *link) read(ctx context.Context, unit string) (s state, err error) {
	list := l.list(ctx, unit)
	var count call
	if isService(unit) {
		count = l.get(ctx, unit, serviceName, "NRestarts")
		defer count.drop()
	}
	u, err := theOne(ctx, list)
	if err != nil {
		return s, err
	}
	s = state{name: u.Name, load: u.Load, active: u.Active, sub: u.Sub}
	if isService(unit) {
		if err := value(ctx, count, &s.restarts); err != nil {
			return s, err
		}
	}
	if s.runs() && s.restarts == 0 {
		return s, nil
	}
	return s, l.rest(ctx, unit, &s)
}

// rest asks for what tells why a unit does not simply run.
func (l *link) rest(ctx context.Context, unit string, s *state) error {
	var began uint64
	want := []struct {
		iface, name string
		to          any
	}{{unitName, "InactiveExitTimestampMonotonic", &began}}
	if isService(unit) && !s.runs() {
		want = append(want, []struct {
			iface, name string
			to          any
		}{{serviceName, "Type", &s.kind}, {serviceName, "Result", &s.result},
			{serviceName, "ExecMainCode", &s.code}, {serviceName, "ExecMainStatus", &s.status}}...)
	}
	calls := make([]call, len(want))
	for i, w := range want {
		calls[i] = l.get(ctx, unit, w.iface, w.name)
		defer calls[i].drop()
	}
	for i, w := range want {
		if err := value(ctx, calls[i], w.to); err != nil {
			return err
		}
	}
	s.began = time.Duration(began) * time.Microsecond
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

func theOne(ctx context.Context, c call) (listed, error) {
	var all []listed
	if err := c.store(ctx, &all); err != nil {
		return listed{}, err
	}
	if len(all) != 1 {
		return listed{}, fmt.Errorf("systemd told of %d units where it was asked for one", len(all))
	}
	return all[0], nil
}

// value reads the answer for one property.
func value(ctx context.Context, c call, to any) error {
	var v dbus.Variant
	if err := c.store(ctx, &v); err != nil {
		return err
	}
	return v.Store(to)
}
