package checks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type once func(context.Context) error

func (f once) Check(ctx context.Context) error { return f(ctx) }
func (f once) String() string                  { return "once" }

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		got := Once(t.Context(), []Probe{
			{Name: "ok", Timeout: time.Second, Checker: once(func(context.Context) error { return nil })},
			{Name: "slow", Timeout: time.Second, Checker: once(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })},
			{Name: "panic", Timeout: time.Second, Checker: once(func(context.Context) error { panic("broken") })},
			{Name: "deaf", Timeout: time.Second, Checker: once(func(context.Context) error { <-release; return nil })},
			{Name: "no", Timeout: time.Second, Checker: once(func(context.Context) error { return errors.New("no") })},
		})
		if took := time.Since(start); took != time.Second+grace {
			t.Errorf("took %s, want the one timeout and the grace", took)
		}
		for i, want := range []Reason{"", ReasonTimeout, ReasonPanic, ReasonTimeout, ReasonError} {
			if r := got[i].Reason(); r != want {
				t.Errorf("result %d is %q, want %q", i, r, want)
			}
		}
		close(release)
	})
}
