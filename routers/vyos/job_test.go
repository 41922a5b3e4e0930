package vyos

import (
	"context"
	"errors"
	"strings"
	"testing"
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
