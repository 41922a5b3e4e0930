package unit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"
)

// The signals that are heard, and the match rules that ask the bus for them. After a reload a unit may be
// another, and one that systemd was executed anew for may have to be asked for again.
const (
	ownerSignal   = "org.freedesktop.DBus.NameOwnerChanged"
	reloadSignal  = managerName + ".Reloading"
	changedSignal = properties + ".PropertiesChanged"

	ownerRule  = "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" + systemd + "'"
	reloadRule = "type='signal',sender='" + systemd + "',path='" + string(managerPath) + "',interface='" + managerName + "',member='Reloading'"
)

// changeRule asks for the changes of one unit only: of all there are many.
func changeRule(path dbus.ObjectPath) string {
	return fmt.Sprintf("type='signal',sender='%s',path='%s',interface='%s',member='PropertiesChanged'", systemd, path, properties)
}

// parting is how long the end of a watch waits for its match rules to be taken back. Those that stay ask for
// signals that nobody hears, until the connection ends.
const parting = 500 * time.Millisecond

var errLost = errors.New("the connection to the system bus was lost")

// An ear hears of the changes of one unit.
type ear struct {
	paths  []dbus.ObjectPath // whose changes; the link guards it
	rules  []string          // that it has asked for
	events chan struct{}     // holds one when the unit may have changed
	again  chan struct{}     // holds one when systemd itself may be another
}

// Watch wakes when systemd tells of a change of the unit, and when it was reloaded or executed anew. It ends
// with an error when the bus is lost.
func (c *checker) Watch(ctx context.Context, wake func()) error {
	err := c.watch(ctx, wake)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("systemd, or the system bus, did not answer within %s", patience)
	}
	return err
}

func (c *checker) watch(ctx context.Context, wake func()) error {
	l, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer c.bus.release(l)
	e := &ear{events: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	l.mu.Lock()
	l.ears[e] = true
	l.mu.Unlock()
	defer l.mute(e)
	for {
		switch err := l.listen(ctx, e, c.unit); {
		case err != nil && l.broken():
			return errLost
		case err != nil:
			return err
		}
		if err := e.follow(ctx, l, wake); err != nil {
			return err
		}
	}
}

func (c *checker) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.bus.acquire(ctx)
}

// follow wakes at once and for each event. It returns nil when systemd may be another.
func (e *ear) follow(ctx context.Context, l *link, wake func()) error {
	for {
		wake()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.pipe.ended:
			return errLost
		case <-e.again:
			return nil
		case <-e.events:
		}
	}
}

// listen has systemd tell of the unit's changes. They come from the object of its own name, which for an
// alias is another one. While systemd is not on the bus there is only its return to hear of.
func (l *link) listen(ctx context.Context, e *ear, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	paths := []dbus.ObjectPath{pathOf(unit)}
	if err := l.want(ctx, e, paths); err != nil {
		return err
	}
	err := await(l.send(ctx, managerPath, managerName+".Subscribe")).Err
	if err != nil && !named(err, systemd+".AlreadySubscribed") {
		return unlessAway(err)
	}
	u, err := theOne(await(l.send(ctx, managerPath, managerName+".ListUnitsByNames", []string{unit})))
	if err != nil {
		return unlessAway(err)
	}
	if own := pathOf(u.Name); own != paths[0] {
		return l.want(ctx, e, append(paths, own))
	}
	return nil
}

// want has the ear hear of these units, and of systemd.
func (l *link) want(ctx context.Context, e *ear, paths []dbus.ObjectPath) error {
	l.mu.Lock()
	e.paths = paths
	l.mu.Unlock()
	rules := []string{ownerRule, reloadRule}
	for _, p := range paths {
		rules = append(rules, changeRule(p))
	}
	select {
	case l.matching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.matching }()
	for _, r := range rules {
		if slices.Contains(e.rules, r) {
			continue
		}
		if l.matches[r] == 0 {
			if err := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.AddMatch", 0, r).Err; err != nil {
				return err
			}
		}
		l.matches[r]++
		e.rules = append(e.rules, r)
	}
	return nil
}

// mute takes an ear away, and the match rules that nobody else wants.
func (l *link) mute(e *ear) {
	l.mu.Lock()
	delete(l.ears, e)
	l.mu.Unlock()
	late := time.NewTimer(parting)
	defer late.Stop()
	select {
	case l.matching <- struct{}{}:
	case <-late.C:
		return
	}
	defer func() { <-l.matching }()
	for _, r := range e.rules {
		if l.matches[r]--; l.matches[r] == 0 {
			delete(l.matches, r)
			l.conn.BusObject().Go("org.freedesktop.DBus.RemoveMatch", dbus.FlagNoReplyExpected, nil, r)
		}
	}
}

// DeliverSignal tells the ears whom a signal concerns. It is called by the goroutine that reads the
// connection, and never waits.
func (l *link) DeliverSignal(_, _ string, s *dbus.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.ears {
		switch s.Name {
		case ownerSignal, reloadSignal:
			poke(e.again)
		case changedSignal:
			if slices.Contains(e.paths, s.Path) {
				poke(e.events)
			}
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one to come
	}
}

// unlessAway gives err, unless it says that systemd is not on the bus.
func unlessAway(err error) error {
	if named(err, "org.freedesktop.DBus.Error.ServiceUnknown") || named(err, "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return nil
	}
	return err
}

// named says whether err is the bus's error of that name.
func named(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == name
}
