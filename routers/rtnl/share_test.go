package rtnl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers/rtnl/hub"
)

// A counter is read by readings that take a second and give its number.
type counter struct {
	readings[int]
	n    atomic.Int64
	fail error
}

func (c *counter) read(ctx context.Context) (int, error) {
	n := int(c.n.Add(1))
	select {
	case <-time.After(time.Second):
		return n, c.fail
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (c *counter) ask(ctx context.Context, q question) chan string {
	answer := make(chan string, 1)
	go func() {
		n, err := c.readings.ask(ctx, q, c.read)
		answer <- fmt.Sprint(n, err)
	}()
	synctest.Wait()
	return answer
}

func wantAnswers(t *testing.T, want string, answers ...chan string) {
	t.Helper()
	for _, a := range answers {
		if got := <-a; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	}
}

// TestNobodyGetsAnOldReading has all who come during a reading share the next one.
func TestNobodyGetsAnOldReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		first := c.ask(t.Context(), question{})
		var late []chan string
		for range 100 {
			late = append(late, c.ask(t.Context(), question{}))
		}
		other := c.ask(t.Context(), question{table: 7})
		elsewhere := c.ask(t.Context(), question{here: hub.Here()})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		later := c.ask(t.Context(), question{}) // during the second
		wantAnswers(t, "1 <nil>", first)
		wantAnswers(t, "2 <nil>", other)
		wantAnswers(t, "3 <nil>", elsewhere)
		wantAnswers(t, "4 <nil>", late...)
		wantAnswers(t, "5 <nil>", later)
		synctest.Wait()
		if len(c.lines) != 0 {
			t.Errorf("%d lines are left", len(c.lines))
		}
	})
}

func TestErrorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counter{fail: errors.New("no")}
		first, a, b := c.ask(t.Context(), question{}), c.ask(t.Context(), question{}), c.ask(t.Context(), question{})
		wantAnswers(t, "1 no", first)
		wantAnswers(t, "2 no", a, b)
	})
}

// TestOneGivesUp has the context of the one who reads for the others end: another reads for them.
func TestOneGivesUp(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} { // waiting, reading
		synctest.Test(t, func(t *testing.T) {
			var c counter
			first := c.ask(t.Context(), question{})
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			leader := c.ask(ctx, question{})
			a, b := c.ask(t.Context(), question{}), c.ask(t.Context(), question{})
			hasty := c.ask(ctx, question{})
			wantAnswers(t, "1 <nil>", first)
			wantAnswers(t, "0 context deadline exceeded", leader, hasty)
			for _, got := range []string{<-a, <-b} { // the first to notice reads; the other may be too late for it
				if got != "2 <nil>" && got != "3 <nil>" && got != "4 <nil>" {
					t.Errorf("another got %q", got)
				}
			}
			synctest.Wait()
			if len(c.lines) != 0 {
				t.Errorf("%d lines are left", len(c.lines))
			}
		})
	}
}

// TestReadPanics has those who wait for a reading that panicked read for themselves.
func TestReadPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs readings[int]
		release := make(chan struct{})
		go func() {
			defer func() { _ = recover() }()
			_, _ = rs.ask(t.Context(), question{}, func(context.Context) (int, error) { <-release; panic("kaboom") })
		}()
		synctest.Wait()
		answer := make(chan int, 1)
		go func() {
			n, _ := rs.ask(t.Context(), question{}, func(context.Context) (int, error) { return 7, nil })
			answer <- n
		}()
		synctest.Wait()
		close(release)
		if got := <-answer; got != 7 {
			t.Errorf("got %d", got)
		}
	})
}
