package systemd

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLate(t *testing.T) {
	now := time.Now()
	beats := []Beat{
		{name: "router", limit: time.Second, last: now.Add(-1001 * time.Millisecond)},
		{name: "core", limit: time.Second, last: now.Add(-time.Second)},
		{name: "check dns", limit: 3 * time.Second, last: now.Add(-time.Minute)},
		{name: "future", limit: 0, last: now.Add(time.Hour)},
	}
	if diff := cmp.Diff([]string{"check dns", "router"}, late(beats, now)); diff != "" {
		t.Error(diff)
	}
	if got := late(nil, now); got != nil {
		t.Errorf("nothing registered: %v is late", got)
	}
}

// watch runs a watchdog without a unit in the bubble, and collects what it tells.
func watch(t *testing.T, b *Beats) *[]string {
	t.Helper()
	var told []string
	w := &Watchdog{Beats: b, Notifier: &Notifier{}, Late: func(n string) { told = append(told, n) }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &told
}

// pass lets time go by, the beat given going on, and waits until all is quiet.
func pass(d time.Duration, beats ...*Beat) {
	for range d / time.Second {
		for _, e := range beats {
			e.Beat()
		}
		<-time.After(time.Second)
	}
	synctest.Wait()
}

func TestWatchdogTellsOnceWhichLoopIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBeats()
		core, router := b.Register("core", 2*time.Second), b.Register("router", 2*time.Second)
		told := watch(t, b)
		pass(10*time.Second, core, router)
		if len(*told) != 0 {
			t.Fatalf("told of %v while all beat", *told)
		}
		pass(10*time.Second, core)
		if diff := cmp.Diff([]string{"router"}, *told); diff != "" {
			t.Fatal(diff)
		}
		pass(3*time.Second, core, router)
		pass(10 * time.Second)
		slices.Sort((*told)[1:])
		if diff := cmp.Diff([]string{"router", "core", "router"}, *told); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchdogForgetsAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBeats()
		gone := b.Register("service gone", time.Second)
		told := watch(t, b)
		gone.Close()
		gone.Beat()
		pass(10 * time.Second)
		if len(*told) != 0 {
			t.Errorf("told of %v", *told)
		}
	})
}

// The pings stop with the loop and come back with it, on a real socket.
func TestWatchdogPings(t *testing.T) {
	next := manager(t, socketNames(t)["path"])
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", "")
	b := NewBeats()
	loop := b.Register("core", time.Hour)
	w, err := NewWatchdog(b, NewNotifier())
	if err != nil {
		t.Fatal(err)
	}
	if w.Interval() != 10*time.Millisecond {
		t.Errorf("pings every %s, want a third of 30ms", w.Interval())
	}
	late := make(chan string, 10)
	w.Late = func(n string) { late <- n }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("sent %q", got)
		}
	}
	b.mu.Lock()
	loop.limit = -time.Hour // late from now on
	b.mu.Unlock()
	if got := <-late; got != "core" {
		t.Errorf("%q is late, want core", got)
	}
	// It stays late: the manager is told, once. Nothing else may come before the loop is back: this order
	// proves that no ping was sent.
	got := next()
	for got == "WATCHDOG=1" { // sent before it was late
		got = next()
	}
	if got != "WATCHDOG=trigger" {
		t.Errorf("sent %q while a loop hangs", got)
	}
	ticks := time.NewTicker(w.Interval())
	for range 5 {
		<-ticks.C
	}
	ticks.Stop()
	if err := w.Notifier.Status("back"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "STATUS=back" {
		t.Errorf("sent %q while a loop was late", got)
	}
	b.mu.Lock()
	loop.limit = time.Hour
	b.mu.Unlock()
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("sent %q, want pings again", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchdogTellsOnceThatPingsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		w := &Watchdog{Beats: NewBeats(), Notifier: &Notifier{socket: "/nonexistent/notify"}, timeout: 3 * time.Second,
			Failed: func(error) { failed++ }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if failed != 1 {
			t.Errorf("told %d times, want once", failed)
		}
	})
}

func TestNewWatchdogReadsTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
		bad       bool
	}{
		{"", "", watchInterval, false},
		{"3000000", "", time.Second, false},
		{"3000000", "1", watchInterval, false}, // meant for another process
		{"soon", "", 0, true},
		{"-5", "", 0, true},
	} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		w, err := NewWatchdog(NewBeats(), &Notifier{})
		switch {
		case c.bad != (err != nil):
			t.Errorf("USEC %q PID %q: error %v", c.usec, c.pid, err)
		case err == nil && w.Interval() != c.want:
			t.Errorf("USEC %q PID %q: interval %s, want %s", c.usec, c.pid, w.Interval(), c.want)
		}
	}
}
