package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// A router that is examined with a session of its own.
type examined func(context.Context, []netip.Prefix) []routers.Finding

func (e examined) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	return e(ctx, ps)
}

// examineWith runs an examination by e in a bubble until test returns. It gives how often it was examined.
func examineWith(t *testing.T, e examined, test func(x *examination, n *atomic.Int32)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		x := &examination{asked: make(chan struct{}, 1), ps: func() []netip.Prefix { return []netip.Prefix{vip} },
			found:  func(fs []routers.Finding, _ bool) outlook { return min(outlook(len(fs)), sameFound) },
			router: examined(func(ctx context.Context, ps []netip.Prefix) []routers.Finding { n.Add(1); return e(ctx, ps) })}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- x.run(ctx) }()
		test(x, &n)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestExaminedWhenAsked(t *testing.T) {
	nothing := func(_ context.Context, ps []netip.Prefix) []routers.Finding {
		if !slices.Equal(ps, []netip.Prefix{vip}) {
			t.Errorf("examined for %v", ps)
		}
		return nil
	}
	examineWith(t, nothing, func(x *examination, n *atomic.Int32) {
		time.Sleep(time.Hour)
		if n.Load() != 0 {
			t.Error("examined before it was asked for")
		}
		for range 100 { // a daemon that comes and goes
			x.ask()
			time.Sleep(2900 * time.Millisecond)
		}
		during := n.Load()
		if most := int32(100*2900*time.Millisecond/mostPause) + 4; during > most || during < most-4 {
			t.Errorf("examined %d times in 5 minutes, want about %d", during, most)
		}
		time.Sleep(mostPause)
		if got := n.Load(); got > during+1 {
			t.Errorf("examined %d times, want once more for the last time it was asked", got-during)
		}
	})
}

// What is asked for after a long time of quiet, and once more shortly after, is looked at soon.
func TestExaminedSoonAfterQuiet(t *testing.T) {
	nothing := func(context.Context, []netip.Prefix) []routers.Finding { return nil }
	examineWith(t, nothing, func(x *examination, n *atomic.Int32) {
		for range 3 {
			before := n.Load()
			x.ask()
			time.Sleep(time.Second)
			x.ask() // a session that comes up behind the daemon
			time.Sleep(leastPause)
			if got := n.Load() - before; got != 2 {
				t.Errorf("examined %d times within %s of being asked, want both", got, leastPause+time.Second)
			}
			time.Sleep(2 * examineCalm)
		}
	})
}

// Often while something new is found, ever less often while it stays, and seldom when all is well.
func TestExaminedAgainWhileSomethingIsFound(t *testing.T) {
	var mended atomic.Bool
	examineWith(t, func(context.Context, []netip.Prefix) []routers.Finding {
		if mended.Load() {
			return nil
		}
		return []routers.Finding{atBoot}
	}, func(x *examination, n *atomic.Int32) {
		x.ask()
		time.Sleep(examineSoon + time.Second)
		if got := n.Load(); got != 2 {
			t.Errorf("examined %d times, want again after %s", got, examineSoon)
		}
		time.Sleep(2*examineSoon + 4*examineSoon)
		if got := n.Load(); got != 4 {
			t.Errorf("examined %d times, want every time after twice as long", got)
		}
		time.Sleep(10 * examineEvery)
		if got := n.Load(); got != 14 {
			t.Errorf("examined %d times, want at least every %s", got, examineEvery)
		}
		mended.Store(true)
		time.Sleep(examineEvery)
		was := n.Load()
		time.Sleep(24 * time.Hour)
		if got, want := n.Load()-was, int32(24*time.Hour/examineRest); got < want-1 || got > want {
			t.Errorf("examined %d times, want every %s once nothing is found", got, examineRest)
		}
	})
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		o    outlook
		want time.Duration
	}{
		{0, allWell, examineRest}, {examineEvery, allWell, examineRest}, {0, sameFound, examineSoon}, {examineRest, sameFound, examineSoon},
		{examineSoon, sameFound, 2 * examineSoon}, {examineEvery, sameFound, examineEvery}, {examineEvery, otherFound, examineSoon},
	} {
		if got := next(c.wait, c.o); got != c.want {
			t.Errorf("after %s, outlook %d: %s, want %s", c.wait, c.o, got, c.want)
		}
	}
}

// A routerOf is examined like examined, and has a name.
type routerOf struct {
	examined
	name *atomic.Value
}

func (r routerOf) String() string { return r.name.Load().(string) }

// Another daemon is examined at once: what was found of the one before is not true any more.
func TestAnotherRouterIsExaminedAtOnce(t *testing.T) {
	var name atomic.Value
	name.Store("frr")
	var seen []string
	examineWith(t, nil, func(x *examination, _ *atomic.Int32) {
		x.router = routerOf{func(context.Context, []netip.Prefix) []routers.Finding {
			seen = append(seen, name.Load().(string))
			return nil
		}, &name}
		x.ask()
		time.Sleep(leastPause / 4)
		x.ask() // the same one waits
		time.Sleep(leastPause / 4)
		name.Store("bird")
		x.ask()
		synctest.Wait()
		if !slices.Equal(seen, []string{"frr", "bird"}) {
			t.Errorf("examined %v", seen)
		}
		time.Sleep(2 * mostPause)
		if len(seen) != 2 {
			t.Errorf("examined %v", seen)
		}
	})
}

// An examination that hangs is ended, and one that panics is an error and no more.
func TestExaminationIsBounded(t *testing.T) {
	var all []bool
	hangs := func(ctx context.Context, _ []netip.Prefix) []routers.Finding { <-ctx.Done(); return nil }
	examineWith(t, hangs, func(x *examination, _ *atomic.Int32) {
		x.found = func(_ []routers.Finding, done bool) outlook { all = append(all, done); return allWell }
		x.ask()
		time.Sleep(examinePatience + time.Second)
		synctest.Wait()
	})
	if !slices.Equal(all, []bool{false}) {
		t.Errorf("done to the end: %v, want once false", all)
	}
	x := examination{ps: func() []netip.Prefix { return nil }, router: examined(func(context.Context, []netip.Prefix) []routers.Finding { panic("odd") })}
	if _, _, err := x.examine(t.Context()); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("a panic gives %v", err)
	}
}
