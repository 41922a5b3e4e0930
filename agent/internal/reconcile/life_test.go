package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

func (r *rig) beaten() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beats
}

// beatsIn gives how many signs of life there are within d.
func (r *rig) beatsIn(d time.Duration) int {
	before := r.beaten()
	r.pass(d)
	return r.beaten() - before
}

func TestBeatsProveProgress(t *testing.T) {
	run(t, Options{ApplyTimeout: 10 * time.Second, VerifyInterval: time.Hour}, stages{a: routers.Advertised}, func(r *rig) {
		if n := r.beatsIn(10 * time.Second); n < 10 {
			t.Errorf("%d beats in 10s ahead of the first want", n)
		}
		settledUp(r)
		if n := r.beatsIn(10 * time.Second); n < 10 || n > 40 {
			t.Errorf("%d beats in 10s of steady state", n)
		}
		deaf := make(chan struct{})
		r.f.do(func() { r.f.deaf = deaf })
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		if n := r.beatsIn(10 * time.Second); n < 10 {
			t.Errorf("%d beats in 10s of an Apply within its bound", n)
		}
		r.pass(overrun)
		if n := r.beatsIn(time.Minute); n != 0 {
			t.Errorf("%d beats while the driver is stuck", n)
		}
		r.f.do(func() { r.f.deaf = nil })
		close(deaf)
		r.until(time.Second, "synced", synced)
		if n := r.beatsIn(10 * time.Second); n < 10 {
			t.Errorf("%d beats in 10s after it came back", n)
		}
	})
}

func TestAHungDaemonIsNoStuckLoop(t *testing.T) {
	run(t, Options{}, stages{a: routers.Advertised}, func(r *rig) {
		settledUp(r)
		r.f.do(func() { r.f.readTake = time.Hour })
		r.loop.Want(Desired{a: withdrawn, b: withdrawn})
		if n := r.beatsIn(time.Minute); n < 60 {
			t.Errorf("%d beats in a minute with a daemon that does not answer", n)
		}
		if err := r.report().ReadErr; !errors.Is(err, context.DeadlineExceeded) || err.Error() != "fake: reading is not done after 1s: context deadline exceeded" {
			t.Errorf("read error: %v", err)
		}
	})
}

// TestRunEndsAnywhere: the bubble ends only when no goroutine is left.
func TestRunEndsAnywhere(t *testing.T) {
	for after := time.Duration(0); after < 40*time.Millisecond; after += 3 * time.Millisecond {
		runRouter(t, Options{}, nil, func(f *fake) routers.Router { return watcher{f} }, func(r *rig) {
			r.f.do(func() { r.f.readTake, r.f.applyTake = 5*time.Millisecond, 10*time.Millisecond })
			r.loop.Want(Desired{a: announced, b: announced})
			r.pass(after)
			at := time.Now()
			r.stop()
			if took := time.Since(at); took != 0 {
				t.Errorf("stopped after %s: took %s", after, took)
			}
			_, before := r.made()
			r.loop.Wake()
			r.loop.Want(Desired{a: withdrawn})
			r.pass(time.Minute)
			if _, n := r.made(); n != before {
				t.Error("read after Run had returned")
			}
		})
	}
}

// TestRunWaitsForTheDriver: what does not heed its ctx is waited for all the same.
func TestRunWaitsForTheDriver(t *testing.T) {
	run(t, Options{}, nil, func(r *rig) {
		deaf := make(chan struct{})
		r.f.do(func() { r.f.deaf = deaf })
		r.loop.Want(Desired{a: withdrawn})
		r.pass(time.Millisecond)
		time.AfterFunc(time.Minute, func() { close(deaf) })
		at := time.Now()
		if r.stop(); time.Since(at) != time.Minute {
			t.Errorf("Run returned %s ahead of the driver", time.Minute-time.Since(at))
		}
	})
}

func TestRunWaitsForTheWatch(t *testing.T) {
	of := func(f *fake) routers.Router {
		f.watch = func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Minute)
			return ctx.Err()
		}
		return watcher{f}
	}
	runRouter(t, Options{}, nil, of, func(r *rig) {
		r.loop.Want(Desired{a: withdrawn})
		r.pass(time.Millisecond)
		at := time.Now()
		if r.stop(); time.Since(at) != time.Minute {
			t.Errorf("Run returned %s ahead of the watch", time.Minute-time.Since(at))
		}
	})
}

func TestHintsOfTheRouter(t *testing.T) {
	runRouter(t, Options{VerifyInterval: time.Hour}, nil, func(f *fake) routers.Router { return watcher{f} }, func(r *rig) {
		settledUp(r)
		r.pass(time.Minute)
		r.drift(b, routers.Advertised)
		var wake func()
		r.f.do(func() { wake = r.f.wake })
		wake()
		synctest.Wait()
		if n, _ := r.made(); n != 2 {
			t.Errorf("asked %d times: %v", n, r.applied())
		}
	})
}

func TestWatchIsStartedAgain(t *testing.T) {
	errLost := errors.New("no buffer space available")
	var mu sync.Mutex
	var starts []time.Duration
	began := time.Time{}
	lost := true
	watch := func(ctx context.Context) error {
		mu.Lock()
		if began.IsZero() {
			began = time.Now()
		}
		starts = append(starts, time.Since(began))
		fail, n := lost, len(starts)
		mu.Unlock()
		switch {
		case fail && n == 2:
			panic("watch broke")
		case fail && n == 3:
			return nil
		case fail:
			return errLost
		}
		<-ctx.Done()
		return ctx.Err()
	}
	of := func(f *fake) routers.Router { f.watch = watch; return watcher{f} }
	runRouter(t, Options{VerifyInterval: time.Hour}, nil, of, func(r *rig) {
		var seen []string
		r.mu.Lock()
		r.onTell = func(rep Report) {
			if e := rep.WatchErr; e != nil && (len(seen) == 0 || seen[len(seen)-1] != e.Error()) {
				seen = append(seen, e.Error())
			}
		}
		r.mu.Unlock()
		settledUp(r)
		r.pass(2 * time.Minute)
		mu.Lock()
		got := len(starts)
		if got != 8 || starts[1] != time.Second || starts[2] != 3*time.Second || starts[7]-starts[6] != watchMax {
			t.Errorf("started at %v", starts)
		}
		lost = false
		mu.Unlock()
		r.mu.Lock()
		if want := []string{errLost.Error(), "fake: panic: watch broke", errWatchEnded.Error(), errLost.Error()}; len(seen) != 4 || seen[1] != want[1] || seen[2] != want[2] {
			t.Errorf("reported %q, want %q", seen, want)
		}
		r.mu.Unlock()
		_, before := r.made()
		r.until(watchMax+2*time.Second, "watched again", func(rep Report) bool { return rep.WatchErr == nil })
		if _, after := r.made(); after-before < 2 {
			t.Errorf("%d readings when the watch was started again, want one at its start and one when it is good", after-before)
		}
	})
}
