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

// busName and busPath are the bus's own (D-Bus specification, "Message Bus Messages").
const (
	busName = "org.freedesktop.DBus"
	busPath = dbus.ObjectPath("/org/freedesktop/DBus")
)

// rulesMax is how many match rules there may be before a single one asks for the changes of all further units.
// dbus-daemon lets a connection have 512 (max_match_rules_per_connection).
const rulesMax = 200

// allRule asks for the changes of all units.
const allRule = "type='signal',sender='" + systemd + "',path_namespace='" + unitsPath + "',interface='" + properties + "',member='PropertiesChanged'"

// changeRule asks for the changes of one unit only: of all there are many.
func changeRule(path dbus.ObjectPath) string {
	return fmt.Sprintf("type='signal',sender='%s',path='%s',interface='%s',member='PropertiesChanged'", systemd, path, properties)
}

// setup is how long a watch waits to be told of changes, among all that begin at the same time.
const setup = 20 * time.Second

// parting is how long the end of a watch waits for its match rules to be taken back. Those that stay ask for
// signals that nobody hears, until the connection ends.
const parting = 500 * time.Millisecond

// An ear hears of the changes of one unit.
type ear struct {
	paths  []dbus.ObjectPath // whose changes; the link guards it
	rules  []string          // that it has asked for
	events chan struct{}     // holds one when the unit may have changed
	again  chan struct{}     // holds one when systemd itself may be another
	alarm  *alarm
}

// Watch wakes when systemd tells of a change of the unit, and when it was reloaded or executed anew. It ends
// with an error when the bus is lost.
func (c *checker) Watch(ctx context.Context, wake func()) error {
	err := c.watch(ctx, wake)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("systemd, or the system bus, did not answer within %s", setup)
	}
	return err
}

func (c *checker) watch(ctx context.Context, wake func()) error {
	l, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer c.bus.release(l)
	e := &ear{events: make(chan struct{}, 1), again: make(chan struct{}, 1), alarm: c.alarm}
	l.mu.Lock()
	l.ears[e] = true
	l.mu.Unlock()
	defer l.mute(e)
	for {
		switch err := c.listen(ctx, l, e); {
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
	ctx, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	return c.bus.acquire(ctx)
}

// follow wakes at once and for each event. It returns nil when systemd may be another.
func (e *ear) follow(ctx context.Context, l *link, wake func()) error {
	for {
		wake()
		if again, err := e.wait(ctx, l); again || err != nil {
			return err
		}
	}
}

// wait returns when there is a reason to look at the unit; with again when systemd may be another.
func (e *ear) wait(ctx context.Context, l *link) (again bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := e.alarm.next()
		var due <-chan time.Time
		if !at.IsZero() {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-l.pipe.ended:
			return false, errLost
		case <-e.again:
			return true, nil
		case <-e.events:
			return false, nil
		case <-due:
			e.alarm.rang(at)
			return false, nil
		case <-e.alarm.moved:
		}
	}
}

// listen has systemd tell of the unit's changes. They come from the object of its own name, which for an
// alias is another one. While systemd is not on the bus there is only its return to hear of.
func (c *checker) listen(ctx context.Context, l *link, e *ear) error {
	ctx, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	paths := []dbus.ObjectPath{pathOf(c.unit)}
	if err := l.want(ctx, e, paths); err != nil {
		return unlessAway(err)
	}
	s, err := c.bus.ask(ctx, c.unit)
	if err != nil {
		return unlessAway(err)
	}
	if own := pathOf(s.name); own != paths[0] {
		return unlessAway(l.want(ctx, e, append(paths, own)))
	}
	return nil
}

// want has the ear hear of these units, and of systemd.
func (l *link) want(ctx context.Context, e *ear, paths []dbus.ObjectPath) error {
	l.mu.Lock()
	e.paths = paths
	l.mu.Unlock()
	select {
	case l.matching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.matching }()
	rules := []string{ownerRule, reloadRule}
	for _, p := range paths {
		rules = append(rules, l.ruleFor(p))
	}
	for _, r := range rules {
		if slices.Contains(e.rules, r) {
			continue
		}
		if l.matches[r] == 0 {
			if err := l.send(ctx, busName, busPath, busName+".AddMatch", r).store(ctx); err != nil {
				return err
			}
		}
		l.matches[r]++
		e.rules = append(e.rules, r)
	}
	return l.subscribe(ctx)
}

// ruleFor gives the rule that asks for a unit's changes. Whoever calls it has the turn to change rules.
func (l *link) ruleFor(path dbus.ObjectPath) string {
	r := changeRule(path)
	if l.matches[r] == 0 && len(l.matches) >= rulesMax {
		return allRule
	}
	return r
}

// subscribe has systemd tell of changes at all. Whoever calls it has the turn to change rules.
func (l *link) subscribe(ctx context.Context) error {
	l.mu.Lock()
	was := l.subscribed
	l.subscribed = true // before it is asked, for it may be another at any time
	l.mu.Unlock()
	if was {
		return nil
	}
	err := l.send(ctx, systemd, managerPath, managerName+".Subscribe").store(ctx)
	if err == nil || named(err, systemd+".AlreadySubscribed") {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribed = false
	return err
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
	anew := s.Name == ownerSignal || s.Name == reloadSignal
	if anew {
		l.subscribed = false
	}
	for e := range l.ears {
		switch {
		case anew:
			poke(e.again)
		case s.Name == changedSignal && slices.Contains(e.paths, s.Path):
			poke(e.events)
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
