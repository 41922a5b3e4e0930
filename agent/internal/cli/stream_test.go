package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
)

// numbered gives events a second apart, with numbers from first on.
func numbered(first uint64, at time.Time, n int) (es []state.Event) {
	for i := range n {
		es = append(es, state.Event{Seq: first + uint64(i), Time: at.Add(time.Duration(i) * time.Second)})
	}
	return es
}

func TestUnseen(t *testing.T) {
	old := numbered(1, noon, 5)
	for name, c := range map[string]struct {
		events []state.Event
		last   state.Event
		want   []uint64
	}{
		"numbering goes on":         {slices.Concat(old, numbered(6, noon.Add(time.Minute), 2)), old[4], []uint64{6, 7}},
		"some were missed":          {old, old[2], []uint64{4, 5}},
		"numbered anew":             {numbered(1, noon.Add(time.Minute), 2), old[4], []uint64{1, 2}},
		"numbered anew, and beyond": {numbered(1, noon.Add(time.Minute), 7), old[4], []uint64{1, 2, 3, 4, 5, 6, 7}},
		"last is no longer kept":    {numbered(300, noon.Add(time.Hour), 2), old[4], []uint64{300, 301}},
		"none were seen":            {old[:2], state.Event{}, []uint64{1, 2}},
		"clock was set back":        {slices.Concat(old, numbered(6, noon.Add(-time.Hour), 1)), old[4], []uint64{6}},
		"nothing new":               {old, old[4], nil},
	} {
		var got []uint64
		for _, e := range unseen(c.events, c.last) {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// serveAgent serves the events at path until stop is called.
func serveAgent(t *testing.T, path string, events []state.Event) (r *recorded, stop func()) {
	t.Helper()
	r = &recorded{Store: state.NewStore()}
	r.snapshot.Store(situation(time.Now()))
	r.Restore(events)
	srv := control.NewServer(control.Options{Path: path}, r)
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// await gives what comes out of ch, unless ctx ends first.
func await[T any](ctx context.Context, t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-ctx.Done():
		t.Fatal("nothing came")
	}
	return v
}

// An agent that was restarted is followed on, its numbering lost or not, with nothing told twice.
func TestStreamSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	old := numbered(1, noon, 3)
	_, stop := serveAgent(t, path, old)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen, lost, found := make(chan state.Event), make(chan error, 1), make(chan bool, 1)
	s := stream{client: control.NewClient(path), last: old[1], lost: func(err error) { lost <- err }, found: func() { found <- true }}
	ended := make(chan error, 1)
	go func() {
		ended <- s.follow(ctx, func(e state.Event) error {
			select {
			case seen <- e:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	if e := await(ctx, t, seen); e.Seq != 3 {
		t.Errorf("first came %d, want 3", e.Seq)
	}
	stop()
	if err := await(ctx, t, lost); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("lost with %v", err)
	}
	r, stop := serveAgent(t, path, numbered(1, noon.Add(time.Hour), 2))
	defer stop()
	await(ctx, t, found)
	r.Add(state.Event{Time: noon.Add(2 * time.Hour)})
	for _, want := range []uint64{1, 2, 3} {
		if e := await(ctx, t, seen); e.Seq != want || e.Time.Before(noon.Add(time.Hour)) {
			t.Errorf("after the restart came %d of %s, want %d", e.Seq, e.Time, want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// What a reader refuses ends the stream; it is no agent that went away.
func TestStreamEndsWithItsReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	_, stop := serveAgent(t, path, numbered(1, noon, 1))
	defer stop()
	full := errors.New("disk full")
	s := stream{client: control.NewClient(path), lost: func(err error) { t.Errorf("lost: %v", err) }}
	if err := s.follow(t.Context(), func(state.Event) error { return full }); !errors.Is(err, full) {
		t.Errorf("ended with %v", err)
	}
}

// texts is a writer that passes on what is written.
type texts chan string

func (c texts) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

// A watch draws anew when the agent is back, also when that has no event to tell.
func TestWatchDrawsWhenTheAgentIsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	_, stop := serveAgent(t, path, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, told := make(texts, 10), make(texts, 10)
	v := view{client: control.NewClient(path), out: out, errOut: told}
	ended := make(chan error, 1)
	go func() { ended <- v.watch(ctx) }()
	await(ctx, t, out)
	stop()
	if got := await(ctx, t, told); !strings.Contains(got, "vouch is not running") {
		t.Errorf("told: %q", got)
	}
	_, stop = serveAgent(t, path, nil)
	defer stop()
	if got := await(ctx, t, out); !strings.Contains(got, "resolver  up") {
		t.Errorf("drawn: %q", got)
	}
	cancel()
	if err := await(t.Context(), t, ended); err != nil {
		t.Errorf("ended with %v", err)
	}
}
