package unit

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// rounds has each check make so many rounds, all side by side, and gives how many results were not of that
// status, and the first of them.
func rounds(t *testing.T, all []*checker, n int, timeout time.Duration, want checks.Status) (others int, first error) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for range n {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				r := checks.Result{Start: time.Now(), Err: c.Check(ctx)}
				cancel()
				if r.Status() == want {
					continue
				}
				mu.Lock()
				if others++; first == nil {
					first = r.Err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return others, first
}

// crowd gives many checks on one bus; unit gives the name of each one's.
func crowd(t *testing.T, s *checktest.Systemd, n int, unit func(i int) string) (all []*checker) {
	t.Helper()
	b := busAt(s.Socket)
	for i := range n {
		s.Set(running.With("Id", unit(i)))
		c := on(t, s.Socket, Spec{Unit: unit(i)})
		c.bus = b
		all = append(all, c)
	}
	return all
}

// A bus that hangs holds up nobody longer than he has time, however much was sent to it, and all is well when
// it goes on.
func TestHungBus(t *testing.T) {
	s := checktest.NewSystemd(t)
	all := crowd(t, s, 10, func(i int) string { return fmt.Sprintf("u%d.service", i) })
	l, err := all[0].bus.acquire(t.Context()) // as a watch does
	must(t, err)
	defer all[0].bus.release(l)
	must(t, syscall.Kill(s.Pid(), syscall.SIGSTOP))
	goroutines := runtime.NumGoroutine()
	late := time.AfterFunc(patientTest, func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) }) // so that the test ends
	defer late.Stop()
	n, first := rounds(t, all, 100, 20*time.Millisecond, checks.Unknown)
	if n > 0 || !late.Stop() {
		t.Errorf("%d rounds were not unknown, or they took too long: %v", n, first)
	}
	if n := len(l.calls); n != callsMax {
		t.Errorf("%d calls are without an answer", n)
	}
	until(t, "nothing is left of them", func() bool { return runtime.NumGoroutine() <= goroutines })
	must(t, syscall.Kill(s.Pid(), syscall.SIGCONT))
	if n, first := rounds(t, all, 2, patientTest, checks.OK); n > 0 {
		t.Errorf("it goes on: %d rounds: %v", n, first)
	}
	until(t, "what was given up is answered", func() bool { return len(l.calls) == 0 })
}

// Writing waits for nobody, and what waits to be written is bounded.
func TestPipeTakesAll(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "bus"))
	must(t, err)
	defer ln.Close()
	raw, err := net.Dial("unix", ln.Addr().String())
	must(t, err)
	p := newPipe(raw)
	sent := make(chan error, 1)
	go func() {
		message := make([]byte, 1024)
		for range 1000 {
			if _, err := p.Write(message); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		must(t, err)
	case <-time.After(patience * 4 / 5):
		t.Error("writing waits for who does not read")
	}
	if _, err := p.Write(make([]byte, queueMax+1)); err == nil {
		t.Error("there is no bound")
	}
	_ = p.Close() // it may have been already
	if _, err := p.Write([]byte{0}); err == nil {
		t.Error("it was closed")
	}
}

// A connection on which nothing is answered any more is replaced.
func TestDoubt(t *testing.T) {
	s := checktest.NewSystemd(t)
	c := crowd(t, s, 1, func(int) string { return "unbound.service" })[0]
	l, err := c.bus.acquire(t.Context())
	must(t, err)
	defer c.bus.release(l)
	speak := s.Silence()
	defer speak()
	soon := func() {
		if n, first := rounds(t, []*checker{c}, 1, 20*time.Millisecond, checks.Unknown); n > 0 {
			t.Fatal(first)
		}
	}
	soon()
	soon()
	if l.broken() {
		t.Fatal("it was given up at once")
	}
	l.mu.Lock()
	l.doubted = l.doubted.Add(-patience)
	l.mu.Unlock()
	soon()
	until(t, "it is given up", l.broken)
	speak()
	if r := check(t, c); r.Err != nil {
		t.Errorf("there is another: %v", r.Err)
	}
}

// A thousand checks of one unit share the readings.
func TestCrowdOfOneUnit(t *testing.T) {
	s := checktest.NewSystemd(t)
	all := crowd(t, s, 1000, func(int) string { return "unbound.service" })
	var watches []*watched
	for _, c := range all {
		watches = append(watches, watch(t, c))
	}
	until(t, "all are told of changes", func() bool {
		for _, w := range watches {
			if w.count.Load() == 0 {
				return false
			}
		}
		return true
	})
	if n, first := rounds(t, all, 3, 3*patientTest, checks.OK); n > 0 {
		t.Errorf("%d rounds: %v", n, first)
	}
	if n := s.Asked(); n > 4000 {
		t.Errorf("%d calls for 4,000 readings of one unit", n)
	}
	s.Set(dead(running))
	for _, w := range watches {
		w.becomes(checks.Failed, "it died")
	}
}

// A thousand units are asked for and watched within the limits of the bus.
func TestCrowdOfUnits(t *testing.T) {
	s := checktest.NewSystemd(t)
	all := crowd(t, s, 1000, func(i int) string { return fmt.Sprintf("u%d.service", i) })
	var watches []*watched
	for some := range slices.Chunk(all, 2*rulesMax) { // those that begin at the same time have setup for it together
		for _, c := range some {
			watches = append(watches, watch(t, c))
		}
		for _, w := range watches[len(watches)-len(some):] {
			w.becomes(checks.OK, "it runs")
		}
	}
	if n, first := rounds(t, all, 3, 3*patientTest, checks.OK); n > 0 {
		t.Errorf("%d rounds: %v", n, first)
	}
	b := all[0].bus
	if n := len(b.open.matches); n > rulesMax+1 || b.open.matches[allRule] == 0 {
		t.Errorf("%d match rules", n)
	}
	for i, w := range watches {
		s.Set(dead(running.With("Id", fmt.Sprintf("u%d.service", i))))
		w.becomes(checks.Failed, "it died")
	}
	for _, w := range watches {
		w.stop()
	}
	if b.open != nil || len(b.desks) > 0 {
		t.Error("something is left")
	}
}

// Who comes while somebody reads waits for the next reading, for the unit may have changed since that began.
func TestLatecomersReadAnew(t *testing.T) {
	s := checktest.NewSystemd(t)
	all := crowd(t, s, 2, func(int) string { return "unbound.service" })
	speak := s.Silence()
	first := make(chan error, 1)
	go func() { first <- all[0].Check(t.Context()) }()
	until(t, "the first is being read", func() bool { return s.Asked() == 2 })
	second := make(chan error, 1)
	go func() { second <- all[1].Check(t.Context()) }()
	until(t, "the second waits", func() bool {
		all[1].bus.mu.Lock()
		defer all[1].bus.mu.Unlock()
		return all[1].bus.desks["unbound.service"].users == 2
	})
	speak()
	must(t, <-first)
	must(t, <-second)
	if n := s.Asked(); n != 4 {
		t.Errorf("%d calls for two readings", n)
	}
}

// Who shares a reading that was broken off, as for want of its reader's time, reads himself.
func TestCutReadingIsNotShared(t *testing.T) {
	s := checktest.NewSystemd(t)
	all := crowd(t, s, 3, func(int) string { return "unbound.service" })
	b := all[0].bus
	speak := s.Silence()
	defer speak()
	var ends []context.CancelFunc
	var results []chan error
	for i, c := range all {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- c.Check(ctx) }()
		until(t, "it has come", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.desks["unbound.service"] != nil && b.desks["unbound.service"].users == i+1
		})
		until(t, "the first reads", func() bool { return s.Asked() == 2 })
		ends, results = append(ends, cancel), append(results, result)
	}
	ends[0]()
	<-results[0]
	until(t, "another reads", func() bool { return s.Asked() == 4 })
	ends[1]()
	<-results[1]
	speak()
	if err := <-results[2]; err != nil {
		t.Errorf("the last one: %v", err)
	}
}
