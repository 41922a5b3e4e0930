package program

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"vouch/checks"
)

func checkerOf(tb testing.TB, s *Spec) checks.Checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// Whatever becomes of the program, nothing of the round is left.
func TestNoLeak(t *testing.T) {
	ends := []checks.Checker{
		checkerOf(t, list("true")), checkerOf(t, list("false")), checkerOf(t, list("/nonexistent/x")),
		checkerOf(t, shell("sleep 60 & echo left; exit 1")), checkerOf(t, shell("exec sleep 60")),
	}
	rounds := func(n int) {
		for range n {
			for i, c := range ends {
				timeout := 10 * time.Second
				if i == len(ends)-1 {
					timeout = 5 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				_ = c.Check(ctx) // how each ends is told by the tests of it
				cancel()
			}
		}
	}
	rounds(2)
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	rounds(20)
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}

func BenchmarkCheck(b *testing.B) {
	c := checkerOf(b, list("true"))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
