package checks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What a Watch woke for just before its end does not pass for the end of the loss.
func TestHintBeforeLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		k.watch = func(_ context.Context, wake func()) error {
			wake()
			return errors.New("socket lost")
		}
		var told []string
		r := NewRunner("s", []Probe{{Checker: k, Timeout: time.Second}}, time.Second, nil,
			func(context.Context, Round) time.Duration { return time.Second })
		r.Lost = func(_ int, err error) { told = append(told, fmt.Sprint(err)) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		for i, text := range told {
			if want := []string{"socket lost", "<nil>"}[i%2]; text != want {
				t.Fatalf("told %q as number %d, want %q", text, i, want)
			}
		}
		if len(told) < 200 {
			t.Errorf("told %d times", len(told))
		}
	})
}

// An announcer is a kernel that is subscribed to.
type announcer struct {
	*kernel
	subscribe func(ctx context.Context, wake func(), over func(error))
}

func (a announcer) Subscribe(ctx context.Context, wake func(), over func(error)) {
	a.subscribe(ctx, wake, over)
}

// A subscription is made again when it is lost, also by a panic, and is waited for at the end like a watch.
func TestSubscriptionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		k.watch = func(context.Context, func()) error { t.Error("watched instead"); return nil }
		var tries []time.Duration
		var wake func()
		begin, ended := time.Now(), false
		a := announcer{k, func(ctx context.Context, w func(), over func(error)) {
			tries = append(tries, time.Since(begin))
			wake = w
			w()
			switch len(tries) {
			case 1:
				panic("kaboom")
			case 2:
				over(errors.New("not now"))
				panic("kaboom, and told twice")
			case 3:
				time.AfterFunc(time.Second, func() { over(errors.New("socket lost")) })
			case 4:
				runtime.Goexit()
			default:
				context.AfterFunc(ctx, func() { time.Sleep(500 * ms); ended = true; over(nil) })
			}
		}}
		var told []string
		rounds := make(chan Round, 100)
		r := NewRunner("s", []Probe{{Checker: a, Timeout: time.Second}}, time.Hour, nil,
			func(_ context.Context, r Round) time.Duration { rounds <- r; return time.Hour })
		r.Lost = func(_ int, err error) { told = append(told, fmt.Sprintf("%.15s", fmt.Sprint(err))) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 3 * time.Second, 8 * time.Second, 16 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("tried at %v, want %v", tries, want)
		}
		if want := []string{"panic: kaboom (", "<nil>", "not now", "<nil>", "socket lost", "<nil>", "panic: the goro", "<nil>"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		k.bad.Store(true)
		wake()
		synctest.Wait()
		if len(rounds) != 2 {
			t.Errorf("%d rounds, want one for the hint", len(rounds))
		}
		cancel()
		if err := <-done; err != nil || !ended {
			t.Errorf("%v, the subscription has ended: %t", err, ended)
		}
	})
}
