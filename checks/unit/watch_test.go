package unit

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

func TestWatch(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	w := watch(t, on(t, s.Socket, Spec{Unit: "unbound"}))
	w.becomes(checks.OK, "it runs")
	s.Set(dead(running))
	w.becomes(checks.Failed, "it died")
	if err := check(t, w.checker).Err; err.Error() != "unusable: has failed; last: signal, SIGKILL" {
		t.Errorf("%v", err)
	}
	s.Set(running)
	w.becomes(checks.OK, "it runs again")
	before := w.count.Load()
	other := running.With("Id", "other.service")
	for range 100 {
		s.Set(other)
	}
	s.Set(dead(running)) // comes behind all of them
	w.becomes(checks.Failed, "it died again")
	if n := w.count.Load() - before; n > 1 {
		t.Errorf("%d hints, with another unit's", n)
	}
}

// The changes of an alias come from another object; and after a reload a name may mean another unit.
func TestWatchAliasAndReload(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running.With("Names", "unbound.service resolver.service"))
	w := watch(t, on(t, s.Socket, Spec{Unit: "resolver"}))
	w.becomes(checks.OK, "it runs")
	s.Set(dead(running).With("Names", "unbound.service resolver.service"))
	w.becomes(checks.Failed, "it died")
	s.Reloaded()
	w.becomes(checks.Failed, "its file is gone")
	if r := check(t, w.checker); r.Reason() != checks.ReasonAbsent {
		t.Errorf("%v", r.Err)
	}
	s.Reloaded(running.With("Id", "resolver.service"))
	w.becomes(checks.OK, "another unit has the name")
	s.Set(dead(running).With("Id", "resolver.service"))
	w.becomes(checks.Failed, "that one died")
}

// systemctl daemon-reexec: systemd leaves the bus and comes back, and knows nobody.
func TestReexec(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	w := watch(t, on(t, s.Socket, Spec{Unit: "unbound"}))
	w.becomes(checks.OK, "it runs")
	s.Vanish()
	w.becomes(checks.Unknown, "systemd is away")
	if err := check(t, w.checker).Err; err.Error() != "unknown: systemd is not on the bus" {
		t.Errorf("%v", err)
	}
	s.Appear()
	w.becomes(checks.OK, "systemd is back")
	until(t, "subscribed again", func() bool { return s.Subscribers() == 1 })
	s.Set(dead(running))
	w.becomes(checks.Failed, "it died")
}

// A bus that goes ends the watch with an error, and the check says that it does not know; with the bus both
// come back.
func TestBusRestart(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	c := on(t, s.Socket, Spec{Unit: "unbound"})
	w := watch(t, c)
	w.becomes(checks.OK, "it runs")
	s.StopBus()
	select {
	case err := <-w.ended:
		if !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
	case <-time.After(patientTest):
		t.Fatal("the watch goes on without a bus")
	}
	r := check(t, c)
	if r.Status() != checks.Unknown || !strings.Contains(r.Err.Error(), "systemd cannot be asked: dial unix "+s.Socket) {
		t.Errorf("%v", r.Err)
	}
	s.StartBus()
	s.Appear()
	w = watch(t, c)
	w.becomes(checks.OK, "the bus is back")
	s.Set(dead(running))
	w.becomes(checks.Failed, "it died")
}

// Many checks that watch have one connection, which ends with the last.
func TestShared(t *testing.T) {
	s := checktest.NewSystemd(t)
	b := busAt(s.Socket)
	check(t, on(t, s.Socket, Spec{Unit: "unbound"})) // so that the poller's descriptors are there
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	var all []*watched
	for i := range 100 {
		u := running.With("Id", fmt.Sprintf("u%d.service", i%50))
		s.Set(u)
		c := on(t, s.Socket, Spec{Unit: u["Id"]})
		c.bus = b
		all = append(all, watch(t, c))
	}
	for _, w := range all {
		w.becomes(checks.OK, "it runs")
	}
	if n := s.Subscribers(); n != 1 {
		t.Errorf("%d connections", n)
	}
	for _, w := range all[50:] {
		w.stop()
	}
	for i := range 50 {
		s.Set(dead(running.With("Id", fmt.Sprintf("u%d.service", i))))
	}
	for _, w := range all[:50] {
		w.becomes(checks.Failed, "it died")
		if n := w.count.Load(); n > 3 {
			t.Errorf("%d hints, with those of other units", n)
		}
	}
	if n := len(b.open.matches); n != 52 {
		t.Errorf("%d match rules for 50 units", n)
	}
	for _, w := range all[:50] {
		w.stop()
	}
	if b.open != nil {
		t.Error("the last one left the connection open")
	}
	until(t, "all is given back", func() bool { return descriptors(t) <= before+1 && runtime.NumGoroutine() <= goroutines })
}

// A unit in a crash loop is active whenever it is looked at, and fails all the same, in the same words.
func TestCrashLoop(t *testing.T) {
	s := checktest.NewSystemd(t)
	c := on(t, s.Socket, Spec{Unit: "unbound"})
	waits := running.With("ActiveState", "activating", "SubState", "auto-restart", "Result", "exit-code", "ExecMainCode", "1", "ExecMainStatus", "3")
	texts := map[string]bool{}
	for n := range 10 {
		s.Set(waits.With("NRestarts", fmt.Sprint(n)))
		between := check(t, c)
		s.Set(running.With("NRestarts", fmt.Sprint(n)))
		r := check(t, c)
		if between.Status() != checks.Failed || (r.Status() == checks.Failed) != (n > 3) {
			t.Errorf("after %d restarts: %v; %v", n, between.Err, r.Err)
		}
		if n > 3 {
			texts[r.Err.Error()], texts[between.Err.Error()] = true, true
		}
	}
	if want := "unusable: is in a crash loop: restarted more than 3 times within 5m0s; last: exit-code, status 3"; len(texts) != 1 || !texts[want] {
		t.Errorf("%v", texts)
	}
	s.Set(running)
	if r := check(t, c); r.Err != nil || c.last != "" {
		t.Errorf("restarted by hand: %v, %q", r.Err, c.last)
	}
}

// What is said of a unit changes with time, and the watch wakes for that too, once.
func TestTimeWakes(t *testing.T) {
	s := checktest.NewSystemd(t)
	starts := running.With("ActiveState", "activating", "SubState", "start", "InactiveExitTimestampMonotonic", fmt.Sprint(sinceBoot().Microseconds()))
	s.Set(starts)
	w := watch(t, on(t, s.Socket, Spec{Unit: "unbound", ActivatingGrace: 5 * time.Second, RestartsWithin: time.Second}))
	w.becomes(checks.Unknown, "it starts")
	w.becomes(checks.Failed, "it has not come to run")
	s.Set(running)
	w.becomes(checks.OK, "it runs")
	s.Set(running.With("NRestarts", "7"))
	w.becomes(checks.Failed, "it is in a crash loop")
	before := w.count.Load()
	w.becomes(checks.OK, "it has calmed down")
	if n := w.count.Load() - before; n > 1 || !w.alarm.next().IsZero() {
		t.Errorf("%d hints, and the next at %s", n, w.alarm.next())
	}
}

// What is not waited for any more does not wake.
func TestAlarm(t *testing.T) {
	a := newAlarm()
	first := time.Now()
	a.set(first)
	a.set(first)
	if len(a.moved) != 1 || a.next() != first {
		t.Errorf("%d, %s", len(a.moved), a.next())
	}
	a.set(first.Add(time.Hour))
	a.rang(first)
	if a.next() != first.Add(time.Hour) {
		t.Error("the new time was taken back with the old one")
	}
	a.rang(first.Add(time.Hour))
	if !a.next().IsZero() {
		t.Error("it rings again")
	}
}
