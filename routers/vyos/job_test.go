package vyos

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// A commit is as old as itself, not as what was waited for before it, and one text as long as it lasts.
func TestUnfinishedIsOneText(t *testing.T) {
	s := &static{system: system{t.TempDir()}}
	j := &job{began: time.Date(2026, 1, 1, 10, 0, 0, 0, time.Local)}
	text := func(want string) {
		t.Helper()
		err := s.unfinished(j, nil)
		if !errors.Is(err, routers.ErrBusy) || !errors.Is(err, routers.ErrUnderway) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	text("session, begun at 10:00:00, is not committed yet")
	since := j.began.Add(time.Minute)
	j.committing.Store(&since)
	text("still committing, since 10:01:00")
}

// What cannot be read is asked for by nobody: a reading tells that its commit goes on, and what it came to, or nothing.
func TestEndOfACommitIsRead(t *testing.T) {
	s := New(Options{Method: MethodStatic, Root: t.TempDir()}).method.(*static)
	read := func() []routers.Observation {
		os, _ := s.observe(t.Context(), []netip.Prefix{one, two}) // there is no FRR
		return os
	}
	before, since := read(), time.Date(2026, 1, 1, 10, 0, 0, 0, time.Local)
	for _, c := range []struct {
		err   error
		ago   time.Duration
		words string
	}{
		{nil, 0, ""},
		{&routers.PrefixError{Prefix: one, Err: routers.ErrRefused}, 0, "refused"},
		{&routers.PrefixError{Prefix: one, Err: routers.ErrRefused}, 2 * stale, ""},
		{&routers.PrefixError{Prefix: two, Err: routers.ErrRefused}, 0, ""},
	} {
		s.running = &job{done: make(chan struct{}), makes: map[netip.Prefix]routers.Want{one: routers.Announced}}
		s.running.committing.Store(&since)
		if o := read(); !strings.Contains(o[0].Detail, "still committing, since 10:00:00") || o[1].Detail != before[1].Detail {
			t.Errorf("while it commits: %+v", o)
		}
		s.running.err, s.running.ended = c.err, time.Now().Add(-c.ago)
		close(s.running.done)
		if o := read(); o[0].Detail != join(before[0].Detail, c.words) || o[0].Broken {
			t.Errorf("%v: %+v", c.err, o)
		}
	}
}

// A route that comes back is taken out at once, and not at the next tick. So is what a commit of others may have brought
// back, when the lock has gone to another or to nobody, and each second while somebody has it.
func TestKeepOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, stirred, done := time.Now(), make(chan struct{}, 1), make(chan struct{})
		var committer atomic.Int64
		var looks []int
		go func() {
			defer close(done)
			keepOut(ctx, stirred, func() int { return int(committer.Load()) }, func() { looks = append(looks, int(time.Since(began).Milliseconds())) })
		}()
		for _, step := range []struct{ at, committer int }{{120, -1}, {130, -1}, {210, -1}, {310, 7}, {1260, 0}, {3010, 7}, {3060, 8}, {3110, 0}} {
			time.Sleep(time.Duration(step.at)*time.Millisecond - time.Since(began))
			if step.committer < 0 {
				stirred <- struct{}{}
			} else {
				committer.Store(int64(step.committer))
			}
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		cancel()
		<-done
		if want := []int{120, 150, 210, 1250, 1300, 3050, 3100, 3150}; !slices.Equal(looks, want) {
			t.Errorf("it looked at %v ms, want %v", looks, want)
		}
	})
}

// Whoever has no time left is told nothing of FRR: what it has become is read next.
func TestVerifyHasTheTimeThatIsLeft(t *testing.T) {
	s := New(Options{Method: MethodStatic, Root: t.TempDir()}).method.(*static)
	cs := []routers.Change{{Prefix: one, Want: routers.Announced}}
	if err := s.verify(t.Context(), cs); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("FRR is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.verify(ctx, cs); err != nil {
		t.Error(err)
	}
}
