package hub

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A subscriber is one Subscribe.
type subscriber struct {
	hints int
	stop  context.CancelFunc

	mu   sync.Mutex
	told []error
}

// over gives what it was told of its end.
func (s *subscriber) over() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (b *bench) subscribe(t *testing.T, want int) *subscriber {
	ctx, cancel := context.WithCancel(t.Context())
	s := &subscriber{stop: cancel}
	b.Subscribe(ctx, want, func() {
		if s.hints++; len(s.over()) > 0 {
			t.Error("woken after it was over")
		}
	}, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, err)
	})
	synctest.Wait()
	return s
}

// TestSubscribe has many without a goroutine for each, which are told once of the end, whichever it is.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		before := runtime.NumGoroutine()
		var all []*subscriber
		for i := range 100 {
			all = append(all, b.subscribe(t, i%2+1))
		}
		if n := runtime.NumGoroutine() - before; n > 10 { // one for all of them, and perhaps one of the runtime's
			t.Errorf("%d goroutines for 100 subscriptions", n)
		}
		f := b.opened[0]
		f.change(1)
		if all[0].hints != 2 || all[1].hints != 1 {
			t.Errorf("hints %d and %d, want 2 and 1", all[0].hints, all[1].hints)
		}
		for _, s := range all[2:] {
			s.stop()
		}
		synctest.Wait()
		if !slices.Equal(f.wanted(), []int{1, 2}) || f.closed.Load() != 0 || !slices.Equal(all[2].over(), []error{nil}) {
			t.Errorf("wanted are %v, closed %d times, over %v", f.wanted(), f.closed.Load(), all[2].over())
		}
		f.change(0)
		if all[0].hints != 3 || all[2].hints != 2 {
			t.Errorf("hints %d, and of one that ended %d, want 3 and 2", all[0].hints, all[2].hints)
		}
		lost := errors.New("socket lost")
		f.broken <- lost
		synctest.Wait()
		for _, s := range all {
			s.stop()
		}
		synctest.Wait()
		if want := []error{lost}; !slices.Equal(all[0].over(), want) || !slices.Equal(all[1].over(), want) || f.closed.Load() != 1 {
			t.Errorf("over %v and %v, closed %d times", all[0].over(), all[1].over(), f.closed.Load())
		}
	})
}

// TestEndsAtOnce has subscriptions end while their Source is lost: each is told of one of it.
func TestEndsAtOnce(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			all := []*subscriber{b.subscribe(t, 1), b.subscribe(t, 1)}
			go func() { b.opened[0].broken <- errors.New("socket lost") }()
			go all[0].stop()
			all[1].stop()
			synctest.Wait()
			for _, s := range all {
				if len(s.over()) != 1 {
					t.Errorf("over %v", s.over())
				}
			}
			if n := b.opened[0].closed.Load(); n != 1 || len(b.feeds) != 0 {
				t.Errorf("closed %d times, %d feeds left", n, len(b.feeds))
			}
			b.opened[0].drain()
		})
	}
}

// drain takes a loss that came after the end.
func (f *fake) drain() {
	select {
	case <-f.broken:
	default:
	}
}

// TestLastWaits has the last one told only when the Source is closed.
func TestLastWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		s := b.subscribe(t, 1)
		f := b.opened[0]
		f.late = time.Second
		s.stop()
		synctest.Wait()
		if len(s.over()) > 0 || len(b.feeds) > 0 {
			t.Errorf("over %v, %d feeds left, want none while it is still followed", s.over(), len(b.feeds))
		}
		time.Sleep(f.late)
		synctest.Wait()
		if !slices.Equal(s.over(), []error{nil}) || f.closed.Load() != 1 {
			t.Errorf("over %v, closed %d times", s.over(), f.closed.Load())
		}
	})
}

// TestLeavesALostSource has one leave a Source that was lost meanwhile, and another one stay.
func TestLeavesALostSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.subscribe(t, 1)
		f := b.feeds[Here()]
		b.forget(f)
		b.opened[0].closed.Add(1)
		if !b.part(f, &member[int]{want: 1}) {
			t.Error("there is nobody left, and it says otherwise")
		}
		f.cancel()
		synctest.Wait()
	})
}

func TestSubscribeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.fail = errors.New("no socket")
		if s := b.subscribe(t, 1); s.hints != 0 || !slices.Equal(s.over(), []error{b.fail}) {
			t.Errorf("%d hints, over %v", s.hints, s.over())
		}
	})
}
