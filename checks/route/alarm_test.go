package route

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vouch/checks"
)

// The end of a lifetime is acted on at once, and not half a minute later when the kernel takes the route out.
func TestLifetimeWakes(t *testing.T) {
	ns := node(t)
	ip(t, "route add ::/0 via fd00:1::1 expires 2")
	c := checker(t, Spec{Family: "ipv6"})
	ctx, cancel := context.WithCancel(t.Context())
	woken, over := make(chan struct{}, 1), make(chan error, 1)
	c.(checks.Subscriber).Subscribe(ctx, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}, func(err error) { over <- err })
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("at first: %v", err)
	}
	var err error
	ns.Wait("a hint has it read that the lifetime has ended", func() bool {
		select {
		case <-woken:
			err = c.Check(t.Context())
			return err != nil
		default:
			return false
		}
	})
	var f *checks.Failure
	if !errors.As(err, &f) || f.Reason != checks.ReasonUnusable ||
		f.Detail != `no usable default route for IPv6 in table main (254): only "default via fd00:1::1 dev eth0: its lifetime has ended"` {
		t.Error(err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if a := &c.(*check).alarm; a.timer != nil || a.wake != nil {
		t.Error("the alarm outlives the watch")
	}
}

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm
		var rings atomic.Int32
		rung := func(want int32, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := rings.Load(); got != want {
				t.Errorf("it rang %d times, want %d", got, want)
			}
		}
		a.set(time.Minute) // before anybody watches
		a.on(func() { rings.Add(1); a.set(0) })
		rung(0, time.Minute)
		rung(1, late)
		rung(1, time.Hour)
		a.set(time.Minute)
		a.set(time.Hour) // the lifetime was prolonged
		rung(1, 30*time.Minute)
		rung(2, time.Hour)
		a.set(time.Minute)
		a.off()
		rung(2, time.Hour)
	})
}
