package program

import (
	"context"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
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
	checktest.Flat(t, func() { rounds(20) })
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
