package kinds

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/checktest"
)

var rounds = flag.Int("rounds", 200, "how many rounds of each kind of check the soak makes")

const (
	// workers make rounds side by side, each with a checker of its own.
	workers = 16
	// warm is how many rounds of a variant each worker makes before anything is counted: what is made
	// once, and kept, is no leak.
	warm = 2
	// plenty is in what time a round ends whose time is not to run out.
	plenty = 20 * time.Second
	// often is how many rounds are worth a progress line now and then. In fewer, no garbage is collected.
	often = 5000
)

// A variant is one way in which a check of a kind goes, again and again.
type variant struct {
	name string
	toml string
	want []checks.Reason // what a round comes to: one of these; "": ok
	// timeout of a round; 0: plenty. A variant that waits for it is given a short one.
	timeout time.Duration
}

// ok and fails are variants that can come to one end only.
func ok(name, format string, args ...any) variant { return fails(name, "", format, args...) }

func fails(name string, reason checks.Reason, format string, args ...any) variant {
	v := variant{name: name, toml: fmt.Sprintf(format, args...), want: []checks.Reason{reason}}
	if reason == checks.ReasonTimeout {
		v.timeout = 20 * time.Millisecond
		v.want = append(v.want, checks.ReasonUnknown) // on a busy machine not even our own files were read in that time
	}
	return v
}

// orOK is for what is noticed only where this process gets to run in time.
func orOK(v variant) variant { v.want = append(v.want, ""); return v }

// slow gives a variant time enough for a handshake.
func slow(v variant) variant { v.timeout = 200 * time.Millisecond; return v }

// No kind of check leaves anything behind, however its rounds end: descriptors, goroutines and memory are
// as before. "make soak" makes a hundred thousand rounds of each.
func TestSoak(t *testing.T) {
	for _, kind := range Names() {
		t.Run(kind, func(t *testing.T) {
			variants, found := soaks[kind]
			if !found {
				t.Fatalf("%s is not in the table of the soak: add it there", kind)
			}
			all := variants(t)
			for _, v := range all {
				t.Run(v.name, func(t *testing.T) { soakVariant(t, kind, v, max(*rounds/len(all), workers)) })
			}
		})
	}
}

func soakVariant(t *testing.T, kind string, v variant, n int) {
	s := soak{name: kind + "/" + v.name, timeout: v.timeout, want: v.want, patience: 30 * time.Second}
	if s.timeout == 0 {
		s.timeout = plenty
	}
	for range workers {
		s.checkers = append(s.checkers, made(t, kind, v.toml))
	}
	watching := max(n/50, workers)
	t.Log(s.run(t.Context(), t.Errorf, n, s.check))
	if _, watches := s.checkers[0].(checks.Watcher); watches {
		t.Log("watches: " + s.run(t.Context(), t.Errorf, watching, s.watch))
	}
}

// made makes a checker as the agent does.
func made(t *testing.T, kind, text string) checks.Checker {
	t.Helper()
	spec, found := New(kind)
	if !found {
		t.Fatalf("%s is missing", kind)
	}
	if md, err := toml.Decode(text, spec); err != nil || len(md.Undecoded()) > 0 {
		t.Fatalf("%s: %v, not decoded %v", text, err, md.Undecoded())
	}
	if named, is := spec.(checks.Named); is {
		named.SetName("soak", kind)
	}
	if ps := spec.Validate(); ps != nil {
		t.Fatalf("%s: %+v", text, ps)
	}
	c, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A soak makes rounds with each of its checkers.
type soak struct {
	name     string
	timeout  time.Duration // of a round
	want     []checks.Reason
	checkers []checks.Checker
	patience time.Duration // how long the servers have to learn that all connections are gone

	done  atomic.Int64
	mu    sync.Mutex
	wrong int   // rounds that came to something else
	first error // of those
}

// run makes n rounds, tells of what is wrong, and gives a line about what there was before and after.
func (s *soak) run(ctx context.Context, wrong func(string, ...any), n int, round func(context.Context, checks.Checker)) string {
	s.each(ctx, warm*len(s.checkers), round)
	before := take()
	s.done.Store(0)
	if n < often {
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
	}
	start := time.Now()
	stop := s.progress(n)
	s.each(ctx, n, round)
	stop()
	took := time.Since(start)
	after := settled(before, s.patience)
	if s.wrong > 0 {
		wrong("%s: %d of %d rounds came to something else than %q; the first: %v", s.name, s.wrong, n, s.want, s.first)
	}
	for _, leak := range leaks(before, after) {
		wrong("%s: after %d rounds: %s", s.name, n, leak)
	}
	return fmt.Sprintf("%s: %d rounds in %s: %s", s.name, n, took.Round(time.Millisecond), compare(before, after))
}

// each shares n rounds out to the checkers, and waits for all.
func (s *soak) each(ctx context.Context, n int, round func(context.Context, checks.Checker)) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for _, c := range s.checkers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				round(ctx, c)
				s.done.Add(1)
			}
		})
	}
	wg.Wait()
}

func (s *soak) check(ctx context.Context, c checks.Checker) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := c.Check(ctx)
	if got := (checks.Result{Start: time.Now(), Err: err}).Reason(); !slices.Contains(s.want, got) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wrong++; s.first == nil {
			s.first = err
			if err == nil {
				s.first = errors.New("ok")
			}
		}
	}
}

// watch begins to watch, checks once, and ends it. What the watch says of itself is no matter here.
func (s *soak) watch(ctx context.Context, c checks.Checker) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.(checks.Watcher).Watch(ctx, func() {})
	}()
	s.check(ctx, c)
	cancel()
	<-ended
}

// progress tells on stderr how far a long soak has come, until stop is called.
func (s *soak) progress(n int) (stop func()) {
	if n < often {
		return func() {}
	}
	start, end := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "soak: %s: %d of %d rounds, %s\n", s.name, s.done.Load(), n, time.Since(start).Round(time.Second))
			}
		}
	})
	return func() { close(end); wg.Wait() }
}

// A level is what this process holds.
type level struct {
	fds, goroutines int
	heap            int // bytes that are still in use, after a collection
	resident        int // bytes of memory
}

// slack is how much more may be there at the end than at the beginning: what the runtime, a connection
// pool of a test server, or a map that has grown, keep.
var slack = level{fds: 4, goroutines: 4, heap: 512 << 10}

// take reads the level, after what is garbage is gone.
func take() level {
	runtime.GC()
	runtime.GC() // empties the pools
	return look()
}

// look reads the level as it is.
func look() (l level) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap, l.goroutines = int(m.HeapAlloc), runtime.NumGoroutine()
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		l.fds = len(fds)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages int
		if _, err := fmt.Sscan(string(text), &size, &pages); err == nil {
			l.resident = pages * os.Getpagesize()
		}
	}
	return l
}

// settled waits until nothing more is there than before, since the servers, which are in this process too,
// learn a little later that a connection has ended. It gives what there is in the end: of descriptors and
// goroutines before any garbage is collected, as the collector also closes what was forgotten.
func settled(before level, patience time.Duration) level {
	open := wait(before, patience, look, func(now level) level { return level{fds: now.fds, goroutines: now.goroutines} })
	now := wait(before, patience, take, func(now level) level { return now })
	now.fds, now.goroutines = max(now.fds, open.fds), max(now.goroutines, open.goroutines)
	return now
}

// wait looks until no leak is left in what counts, or the time is over.
func wait(before level, within time.Duration, look func() level, counts func(level) level) (now level) {
	checktest.Becomes(within, func() bool {
		now = look()
		return len(leaks(before, counts(now))) == 0
	})
	return now
}

// leaks says what is more than the slack.
func leaks(before, after level) (all []string) {
	for _, l := range []struct {
		what               string
		before, after, may int
	}{
		{"descriptors", before.fds, after.fds, slack.fds},
		{"goroutines", before.goroutines, after.goroutines, slack.goroutines},
		{"bytes in use", before.heap, after.heap, slack.heap},
	} {
		if l.after > l.before+l.may {
			all = append(all, fmt.Sprintf("%d %s, %d before", l.after, l.what, l.before))
		}
	}
	return all
}

func compare(before, after level) string {
	return fmt.Sprintf("descriptors %d, %d; goroutines %d, %d; in use %d, %d KiB; resident %d, %d KiB (before, after)",
		before.fds, after.fds, before.goroutines, after.goroutines, before.heap>>10, after.heap>>10, before.resident>>10, after.resident>>10)
}

// leaky leaves something behind in each round.
type leaky struct {
	leave func()
	err   error
}

func (l leaky) Check(context.Context) error { l.leave(); return l.err }
func (leaky) String() string                { return "leaky" }

// The soak itself can say no.
func TestSoakTellsOfLeaks(t *testing.T) {
	end := make(chan struct{})
	var files []*os.File
	var kept [][]byte
	var wg sync.WaitGroup
	defer func() {
		close(end)
		wg.Wait()
		for _, f := range files {
			f.Close()
		}
		runtime.KeepAlive(kept)
	}()
	for words, l := range map[string]leaky{
		"descriptors": {leave: func() {
			if f, err := os.Open("/proc/self/stat"); err == nil {
				files = append(files, f)
			}
		}},
		"goroutines":   {leave: func() { wg.Go(func() { <-end }) }},
		"bytes in use": {leave: func() { kept = append(kept, make([]byte, 32<<10)) }},
		`something else than [""]; the first: it broke`: {leave: func() {}, err: errors.New("it broke")},
		"": {leave: func() {}},
	} {
		var told []string
		s := soak{name: "leaky", timeout: plenty, want: []checks.Reason{""}, checkers: []checks.Checker{l}}
		s.run(t.Context(), func(f string, args ...any) { told = append(told, fmt.Sprintf(f, args...)) }, 100, s.check)
		if got := strings.Join(told, "\n"); !strings.Contains(got, words) || words == "" && got != "" {
			t.Errorf("got %q, want %q", got, words)
		}
	}
}
