package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers/rtnl/rtnltest"
)

// A fake is a Source that a test makes tell of changes.
type fake struct {
	changes chan int
	broken  chan error
	closed  atomic.Int32
	refuse  atomic.Bool
	late    time.Duration // from the end of its context to that of Follow

	mu    sync.Mutex
	wants []int
}

func (f *fake) Follow(ctx context.Context, hint func(func(int) bool)) error {
	for {
		select {
		case <-ctx.Done():
			time.Sleep(f.late)
			return nil
		case err := <-f.broken:
			return err
		case c := <-f.changes:
			hint(func(want int) bool { return want == c || c == 0 })
		}
	}
}

func (f *fake) Add(want int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse.Load() {
		return errors.New("no")
	}
	f.wants = append(f.wants, want)
	slices.Sort(f.wants)
	return nil
}

func (f *fake) Remove(want int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() > 0 {
		panic("closed already")
	}
	i := slices.Index(f.wants, want)
	f.wants = slices.Delete(f.wants, i, i+1)
}

func (f *fake) wanted() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.wants)
}

func (f *fake) Close() { f.closed.Add(1) }

// A bench is a Hub whose Sources are fakes.
type bench struct {
	Hub[int]
	opened []*fake
	fail   error
}

func newBench() *bench {
	b := &bench{}
	b.Open = func() (Source[int], error) {
		if b.fail != nil {
			return nil, b.fail
		}
		f := &fake{changes: make(chan int), broken: make(chan error)}
		b.opened = append(b.opened, f)
		return f, nil
	}
	return b
}

// A watcher is one Watch.
type watcher struct {
	hints int
	stop  context.CancelFunc
	ended chan error
}

func (b *bench) watch(t *testing.T, want int) *watcher {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{stop: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- b.Watch(ctx, want, func() { w.hints++ }) }()
	synctest.Wait()
	return w
}

// change is told and heeded before it returns.
func (f *fake) change(c int) {
	f.changes <- c
	synctest.Wait()
}

func TestOneSourceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		one, two := b.watch(t, 1), b.watch(t, 2)
		if len(b.opened) != 1 || one.hints != 1 || two.hints != 1 {
			t.Fatalf("%d sources, hints %d and %d, want one of each", len(b.opened), one.hints, two.hints)
		}
		f := b.opened[0]
		if !slices.Equal(f.wanted(), []int{1, 2}) {
			t.Errorf("wanted are %v", f.wanted())
		}
		for _, c := range []int{1, 0, 3, 1} {
			f.change(c)
		}
		if one.hints != 4 || two.hints != 2 {
			t.Errorf("hints %d and %d, want 4 and 2", one.hints, two.hints)
		}
		one.stop()
		if err := <-one.ended; err != nil || f.closed.Load() != 0 || !slices.Equal(f.wanted(), []int{2}) {
			t.Errorf("after one left: %v, closed %d times, wanted are %v", err, f.closed.Load(), f.wanted())
		}
		two.stop()
		if err := <-two.ended; err != nil || f.closed.Load() != 1 {
			t.Errorf("after the last left: %v, closed %d times", err, f.closed.Load())
		}
		three := b.watch(t, 3)
		if len(b.opened) != 2 {
			t.Errorf("%d sources, want another one", len(b.opened))
		}
		three.stop()
		<-three.ended
	})
}

// TestLost has all told, and the next begin anew.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		for _, lost := range []error{errors.New("socket lost"), nil} {
			one, two := b.watch(t, 1), b.watch(t, 2)
			f := b.opened[len(b.opened)-1]
			f.broken <- lost
			for _, w := range []*watcher{one, two} {
				if err := <-w.ended; err == nil || lost != nil && err != lost {
					t.Errorf("Watch: %v, want %v", err, lost)
				}
			}
			if f.closed.Load() != 1 {
				t.Errorf("closed %d times", f.closed.Load())
			}
		}
		b.watch(t, 1).stop()
		if len(b.opened) != 3 {
			t.Errorf("%d sources, want one after each loss", len(b.opened))
		}
		synctest.Wait()
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.fail = errors.New("no socket")
		if err := <-b.watch(t, 1).ended; err != b.fail {
			t.Errorf("Watch: %v", err)
		}
		b.fail = nil
		one := b.watch(t, 1)
		b.opened[0].refuse.Store(true)
		if err := <-b.watch(t, 2).ended; err == nil || !strings.Contains(err.Error(), "no") {
			t.Errorf("what could not be added: %v", err)
		}
		b.opened[0].change(0)
		if one.hints != 2 {
			t.Errorf("%d hints for the first, want 2", one.hints)
		}
		one.stop()
		if err := <-one.ended; err != nil || b.opened[0].closed.Load() != 1 {
			t.Errorf("%v, closed %d times", err, b.opened[0].closed.Load())
		}
	})
}

// TestSlow has one that is held up in its wake: the others are not.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		held, release, hints := make(chan struct{}, 1), make(chan struct{}), 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- b.Watch(ctx, 1, func() {
				if hints++; hints == 1 {
					held <- struct{}{}
					<-release
				}
			})
		}()
		<-held
		quick := b.watch(t, 1)
		for range 10 {
			b.opened[0].change(1)
		}
		if quick.hints != 11 || hints != 1 {
			t.Errorf("hints %d and %d, want 11 and 1", quick.hints, hints)
		}
		close(release)
		synctest.Wait()
		if hints != 2 {
			t.Errorf("%d hints in the end, want those missed as one", hints)
		}
		cancel()
		quick.stop()
		<-ended
		<-quick.ended
	})
}

func TestNamespaces(t *testing.T) {
	before := Here()
	if before == (Namespace{}) {
		t.Fatal("the namespace of the test cannot be told")
	}
	ns := rtnltest.New(t)
	inside := Here()
	if inside == before || inside != Here() {
		t.Errorf("%v is the namespace before, %v the new one", before, inside)
	}
	found := make(chan Namespace, 1)
	ns.Go(func() { found <- Here() })
	if got := <-found; got != inside {
		t.Errorf("another thread in it: %v, want %v", got, inside)
	}
	b := newBench()
	for _, enter := range []func(func()){ns.Go, rtnltest.New(t).Go} {
		started := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		enter(func() { _ = b.Watch(ctx, 1, func() { started <- struct{}{} }) })
		<-started
	}
	if len(b.opened) != 2 {
		t.Errorf("%d sources for two namespaces", len(b.opened))
	}
}
