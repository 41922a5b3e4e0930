package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A kernel is a fake with a state that it reads, and hints.
type kernel struct {
	fake
	bad   atomic.Bool
	wake  chan struct{}
	watch func(ctx context.Context, wake func()) error // instead of relaying wake
}

func newKernel() *kernel {
	k := &kernel{wake: make(chan struct{})}
	k.check = func(context.Context, int64) error {
		if k.bad.Load() {
			return errBad
		}
		return nil
	}
	return k
}

func (k *kernel) Watch(ctx context.Context, wake func()) error {
	if k.watch != nil {
		return k.watch(ctx, wake)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
			wake()
		}
	}
}

// hint is sent and heeded before it returns.
func (k *kernel) hint() {
	k.wake <- struct{}{}
	synctest.Wait()
}

func TestHintThatChangesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, dns := newKernel(), &fake{check: takes(20*ms, nil)}
		slow := &fake{}
		b := run(t, time.Second, nil, Probe{Checker: k}, Probe{Checker: dns}, Probe{Checker: slow, Interval: time.Hour})
		b.until(400 * ms)
		k.bad.Store(true)
		k.hint()
		b.until(1700 * ms)
		// A round at once, in which the others run as well that run in each, and from there a new cadence. The
		// probe that saw it counts without being run again.
		at := 400*ms + time.Microsecond
		b.want(t, seen{0, 20 * ms, "ok* ok* ok*"}, seen{at, 20 * ms, "failed* ok* ok"},
			seen{at + time.Second, 20 * ms, "failed* ok* ok"})
		if n := k.runs.Load(); n != 3 {
			t.Errorf("the watched probe ran %d times, want 3", n)
		}
		if b.notes != nil {
			t.Errorf("notes %q", b.notes)
		}
		k.bad.Store(false)
		k.hint()
		b.until(1800 * ms)
		if got := b.seen[len(b.seen)-1].Found; got != "ok* ok* ok" {
			t.Errorf("back again: %q", got)
		}
		b.stop(t)
	})
}

func TestHintThatChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, dns := newKernel(), &fake{}
		b := run(t, time.Second, nil, Probe{Checker: k}, Probe{Checker: dns})
		b.until(400 * ms)
		k.hint()
		b.until(1500 * ms)
		b.want(t, seen{0, 0, "ok* ok*"}, seen{1000 * ms, 0, "ok* ok*"})
		if want := []string{"400.001ms c0 ok"}; !slices.Equal(b.notes, want) {
			t.Errorf("notes %q, want %q", b.notes, want)
		}
		if k.runs.Load() != 3 || dns.runs.Load() != 2 {
			t.Errorf("runs %d and %d, want 3 and 2", k.runs.Load(), dns.runs.Load())
		}
		b.stop(t)
	})
}

// A thousand hints a second cost a hundred reads of one probe, no round, and no cadence.
func TestStormOfHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, dns := newKernel(), &fake{}
		k.watch = func(ctx context.Context, wake func()) error {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
					wake()
				}
			}
		}
		b := run(t, time.Second, nil, Probe{Checker: k}, Probe{Checker: dns})
		b.until(10*time.Second - ms)
		if len(b.seen) != 10 || dns.runs.Load() != 10 {
			t.Errorf("%d rounds, %d runs of the other probe, want 10", len(b.seen), dns.runs.Load())
		}
		for i, s := range b.seen {
			if s.At != time.Duration(i)*time.Second {
				t.Errorf("round %d at %s", i, s.At)
			}
		}
		if n := k.runs.Load(); n < 900 || n > 1012 {
			t.Errorf("%d runs of the watched probe in 10 s", n)
		}
		if k.twice.Load() {
			t.Error("run twice at once")
		}
		b.stop(t)
	})
}

// A hint during a run is followed by one more run after it.
func TestHintWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		k.check = func(ctx context.Context, n int64) error {
			bad := k.bad.Load() // read at once, told late
			time.Sleep(100 * ms)
			if bad {
				return errBad
			}
			return nil
		}
		b := run(t, time.Second, nil, Probe{Checker: k})
		b.until(50 * ms)
		k.bad.Store(true)
		for range 5 {
			k.hint()
		}
		b.until(900 * ms)
		at := 200 * ms
		b.want(t, seen{0, 100 * ms, "ok*"}, seen{at, 0, "failed*"})
		if n := k.runs.Load(); n != 2 || k.twice.Load() {
			t.Errorf("%d runs, twice at once: %v", n, k.twice.Load())
		}
		b.stop(t)
	})
}

// The round in flight takes a fresh result in, and need not wait for the rest if that decides it.
func TestHintDuringRound(t *testing.T) {
	settled := func(rs []Result) bool { return rs[0].Status() == Failed }
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		b := run(t, time.Second, settled, Probe{Checker: k}, Probe{Checker: &fake{check: takes(800*ms, nil)}})
		b.until(300 * ms)
		k.bad.Store(true)
		k.hint()
		b.until(900 * ms)
		b.want(t, seen{0, 300*ms + time.Microsecond, "failed* pending"})
		if want := []string{"800ms c1 ok"}; !slices.Equal(b.notes, want) {
			t.Errorf("notes %q, want %q", b.notes, want)
		}
		b.stop(t)
	})
}

// What a hint found is compared with what the rounds know, not with what was only noted.
func TestHintComparesWithCounted(t *testing.T) {
	settled := func(rs []Result) bool { return rs[1].Status() == OK } // any
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		read := k.check
		k.check = func(ctx context.Context, n int64) error {
			if n > 1 && n < 4 {
				time.Sleep(100 * ms)
			}
			return read(ctx, n)
		}
		b := run(t, time.Second, settled, Probe{Checker: k}, Probe{Checker: &fake{check: takes(50*ms, nil)}})
		b.until(1020 * ms)
		k.bad.Store(true) // the next two rounds do not wait for this; its ends are noted
		b.until(2300 * ms)
		k.hint() // and now it counts, though it is failed as noted before
		b.until(2900 * ms)
		at := 2300*ms + time.Microsecond
		b.want(t, seen{0, 50 * ms, "ok* ok*"}, seen{1000 * ms, 50 * ms, "pending ok*"},
			seen{2000 * ms, 50 * ms, "pending ok*"}, seen{at, 50 * ms, "failed* ok*"})
		if want := []string{"1.1s c0 failed", "2.1s c0 failed"}; !slices.Equal(b.notes, want) {
			t.Errorf("notes %q, want %q", b.notes, want)
		}
		b.stop(t)
	})
}

// A round that did not wait for the probe did not make what is known of it new.
func TestHintAfterRoundWithoutIt(t *testing.T) {
	settled := func(rs []Result) bool { return rs[1].Status() == OK }
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		k.check = func(_ context.Context, n int64) error {
			if n == 2 {
				time.Sleep(100 * ms)
			}
			return nil
		}
		b := run(t, time.Second, settled, Probe{Checker: k}, Probe{Checker: &fake{check: takes(50*ms, nil)}})
		b.until(1300 * ms)
		k.hint()
		b.until(1900 * ms)
		b.want(t, seen{0, 50 * ms, "ok* ok*"}, seen{1000 * ms, 50 * ms, "pending ok*"})
		if want := []string{"1.1s c0 ok", "1.300001s c0 ok"}; !slices.Equal(b.notes, want) {
			t.Errorf("notes %q, want %q", b.notes, want)
		}
		b.stop(t)
	})
}

// A probe that hangs when a hint asks for it is found out, and starts a round.
func TestHintLeadsToHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		k := newKernel()
		k.check = func(_ context.Context, n int64) error {
			if n == 2 {
				<-free
			}
			return nil
		}
		b := run(t, 10*time.Second, nil, Probe{Checker: k, Timeout: 500 * ms}, Probe{Checker: &fake{}})
		b.until(time.Second)
		k.hint()
		k.hint() // waits until it came back
		b.until(2 * time.Second)
		b.want(t, seen{0, 0, "ok* ok*"}, seen{1750*ms + time.Microsecond, 0, "failed* ok*"})
		close(free)
		synctest.Wait()
		b.want(t, seen{0, 0, "ok* ok*"}, seen{1750*ms + time.Microsecond, 0, "failed* ok*"},
			seen{2000*ms + time.Microsecond, 0, "ok* ok*"})
		b.stop(t)
	})
}

func TestWatchIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		var tries []time.Duration
		begin := time.Now()
		k.watch = func(ctx context.Context, wake func()) error {
			tries = append(tries, time.Since(begin))
			switch len(tries) {
			case 1:
				return errors.New("socket lost")
			case 2:
				panic("kaboom")
			case 3:
				return nil
			case 9: // held for long, so the next loss is a first one again
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
			}
			return errors.New("lost again")
		}
		var lost []string
		r := NewRunner("s", []Probe{{Checker: k, Timeout: time.Second}}, time.Second, nil,
			func(context.Context, Round) time.Duration { return time.Second })
		r.Lost = func(i int, err error) { lost = append(lost, fmt.Sprintf("c%d %.15s", i, err)) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(185 * time.Second)
		synctest.Wait()
		want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 91, 121, 182, 184}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(tries, want) {
			t.Errorf("started at %v, want %v", tries, want)
		}
		if len(lost) < 3 || !slices.Equal(lost[:3], []string{"c0 socket lost", "c0 panic: kaboom (", "c0 the watch ended"}) {
			t.Errorf("told of %q", lost)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A Watch that is back wakes at once, which ends the loss.
func TestHintsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		tries := 0
		k.watch = func(ctx context.Context, wake func()) error {
			if tries++; tries < 3 {
				return errors.New("socket lost")
			}
			wake()
			<-ctx.Done()
			return nil
		}
		var told []string
		r := NewRunner("s", []Probe{{Checker: k, Timeout: time.Second}}, time.Second, nil,
			func(context.Context, Round) time.Duration { return time.Second })
		r.Lost = func(_ int, err error) { told = append(told, fmt.Sprint(err)) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []string{"socket lost", "socket lost", "<nil>"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A hint after the end, from a watcher that goes on, meets nobody and blocks nobody.
func TestHintAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		var late func()
		k.watch = func(ctx context.Context, wake func()) error {
			late = wake
			<-ctx.Done()
			return ctx.Err()
		}
		b := run(t, time.Second, nil, Probe{Checker: k})
		b.until(100 * ms)
		b.stop(t)
		late()
		late()
	})
}

// What the end of ctx broke off says nothing of the target.
func TestBrokenOffIsNotCounted(t *testing.T) {
	r := NewRunner("s", []Probe{{Checker: &fake{}}}, time.Second, nil, nil)
	r.Note = func(_ int, res Result) { t.Errorf("noted %v", res.Err) }
	r.open, r.tasks[0].running = 1, true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.receive(ctx, message{err: ctx.Err()})
	if r.open != 0 || r.tasks[0].running || r.tasks[0].last.Err != nil {
		t.Errorf("%d open, %+v", r.open, r.tasks[0].last)
	}
}
