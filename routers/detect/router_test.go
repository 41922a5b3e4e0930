package detect

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
)

// A stand is a daemon that is nothing but a socket, and its driver.
type stand struct {
	name, path string
	listener   net.Listener

	mu     sync.Mutex
	fails  error
	labels map[netip.Prefix]routers.Label // all that were ever set
	named  map[netip.Prefix]routers.Label // as they were last set
	closed int
	opened int
	asked  []routers.Change
	wakes  chan func() // of each Watch that began
}

func newStand(t *testing.T, name string) *stand {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "vouch-detect")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &stand{name: name, path: filepath.Join(dir, name+".sock"), wakes: make(chan func(), 10)}
}

func (s *stand) start(t *testing.T) {
	t.Helper()
	_ = os.Remove(s.path)
	l, err := net.Listen("unix", s.path)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s.listener = l
	t.Cleanup(func() { _ = l.Close() })
	s.fail(nil)
}

func (s *stand) stop() {
	_ = s.listener.Close()
	s.fail(routers.Errorf(routers.ErrUnavailable, "%s is away", s.name))
}

func (s *stand) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *stand) row() row {
	return row{name: s.name, sockets: func(Options) []string { return []string{s.path} },
		look: func(ctx context.Context, _ Options, heard listening) Found {
			at, _ := probe(ctx, s.path, heard, "start it", func(context.Context, net.Conn) (string, error) { return "1", nil })
			return Found{Daemon: s.name, Running: at.live(), Version: "1", By: s.path, Sockets: []Socket{at}}
		},
		open: func(Options, Found) routers.Router {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.opened++
			return s
		}}
}

func (s *stand) Observe(_ context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = routers.Observation{Prefix: p, Stage: routers.Selected, Detail: s.name}
	}
	return os, s.fails
}

func (s *stand) Apply(_ context.Context, cs []routers.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, cs...)
	return nil
}

func (s *stand) Goal() routers.Stage { return routers.Selected }
func (s *stand) Close() error        { s.closed++; return nil }
func (s *stand) String() string      { return s.name + " (stand)" }
func (s *stand) Examine(context.Context, []netip.Prefix) []routers.Finding {
	return []routers.Finding{{Subject: s.name}}
}

func (s *stand) SetLabels(labels map[netip.Prefix]routers.Label) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named = labels; s.labels == nil {
		s.labels = map[netip.Prefix]routers.Label{}
	}
	maps.Copy(s.labels, labels)
}

func (s *stand) Watch(ctx context.Context, wake func()) error {
	s.wakes <- wake
	<-ctx.Done()
	return nil
}

// between gives a router that may choose one of two.
func between(t *testing.T) (*Router, *stand, *stand) {
	a, b := newStand(t, "a"), newStand(t, "b")
	r := New(Options{})
	r.rows = []row{a.row(), b.row()}
	return r, a, b
}

func read(t *testing.T, r *Router) error {
	t.Helper()
	_, err := r.Observe(within(t), []netip.Prefix{v4})
	return err
}

func TestHandsOn(t *testing.T) {
	r, a, _ := between(t)
	r.SetLabels(map[netip.Prefix]routers.Label{v4: {Service: "one"}})
	if r.Goal() != routers.Advertised || r.String() != "auto (no daemon chosen)" || r.Close() != nil {
		t.Errorf("before there is a choice: %s, %s", r, r.Goal())
	}
	if _, ok := r.Chosen(); ok {
		t.Error("chosen before the first use")
	}
	a.start(t)
	must(t, read(t, r))
	if a.labels[v4].Service != "one" {
		t.Errorf("the driver was made with the labels %v", a.labels)
	}
	r.SetLabels(map[netip.Prefix]routers.Label{v6: {Service: "two"}})
	want := map[netip.Prefix]routers.Label{v4: {Service: "one"}, v6: {Service: "two"}}
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if d := cmp.Diff(want, a.labels, same); d != "" {
		t.Error(d)
	}
	delete(want, v4)
	if d := cmp.Diff(want, a.named, same); d != "" {
		t.Error(d)
	}
	if r.Goal() != routers.Selected || r.String() != "a 1 (stand), found by "+a.path || r.Examine(within(t), nil)[0].Subject != "a" {
		t.Errorf("%s, %s", r, r.Goal())
	}
	if f, ok := r.Chosen(); !ok || f.Daemon != "a" {
		t.Errorf("chosen %+v", f)
	}
	if must(t, r.Close()); a.closed != 1 {
		t.Error("the driver was not closed")
	}
}

// What may be chosen again is looked at again: not while all is well, but when a socket is another one,
// and another daemon only when the chosen one has been away for long.
func TestLooksAgain(t *testing.T) {
	r, a, b := between(t)
	a.start(t)
	for range 3 {
		must(t, read(t, r))
	}
	if a.opened != 1 {
		t.Errorf("in steady state the driver was made %d times", a.opened)
	}
	a.stop()
	a.start(t)
	must(t, read(t, r))
	if a.opened != 2 || a.closed != 1 {
		t.Errorf("started anew, the driver was made %d times and closed %d times", a.opened, a.closed)
	}
	b.start(t)
	a.fail(routers.Errorf(routers.ErrUnavailable, "it hangs"))
	for range 3 {
		_ = read(t, r)
		if r.String()[0] != 'a' || !r.gone.IsZero() {
			t.Fatalf("one that hangs is left for %s", r)
		}
	}
	a.stop()
	_, _ = read(t, r), read(t, r)
	if r.gone.IsZero() {
		t.Fatal("that it has gone is not noticed")
	}
	r.gone = r.gone.Add(-takeover / 2)
	if err := read(t, r); err == nil || r.String()[0] != 'a' {
		t.Errorf("too early it drives %s (%v)", r, err)
	}
	must(t, r.Apply(within(t), nil)) // that the kernel takes a change says nothing of the daemon
	r.gone = r.gone.Add(-takeover / 2)
	if must(t, read(t, r)); r.String()[0] != 'b' {
		t.Errorf("after long it drives %s", r)
	}
	b.stop()
	_, _ = read(t, r), read(t, r)
	r.gone = r.gone.Add(-takeover)
	if err := read(t, r); err == nil || r.String()[0] != 'b' {
		t.Errorf("with no other there it drives %s (%v)", r, err)
	}
	b.start(t)
	a.start(t)
	if must(t, read(t, r)); r.String()[0] != 'b' || !r.gone.IsZero() {
		t.Errorf("back again it drives %s", r)
	}
}

// Another daemon that comes is told of at once, and what would become of the next start.
func TestAnotherComes(t *testing.T) {
	r, a, b := between(t)
	a.start(t)
	must(t, read(t, r))
	must(t, read(t, r))
	if alone := "a 1 (stand), found by " + a.path; r.String() != alone || len(r.Examine(within(t), nil)) != 1 {
		t.Errorf("alone: %s, %+v", r, r.Examine(within(t), nil))
	}
	b.start(t)
	must(t, read(t, r))
	all := r.Examine(within(t), nil)
	want := "a is driven, and b 1 runs too (" + b.path + "): started anew, vouch would choose neither"
	if !strings.HasSuffix(r.String(), "; b runs too") || len(all) != 2 || all[1].Severity != routers.Warning || all[1].Text != want || a.opened != 1 {
		t.Errorf("%s, %+v", r, all)
	}
	b.stop()
	if must(t, read(t, r)); strings.Contains(r.String(), "too") {
		t.Errorf("gone again: %s", r)
	}
}

// What is to be withdrawn is so with none chosen, and nothing is announced.
func TestWithdrawsWithNoneChosen(t *testing.T) {
	r, a, b := between(t)
	a.start(t)
	b.start(t)
	w := routers.Change{Prefix: v4, Want: routers.Withdrawn}
	err := r.Apply(within(t), []routers.Change{w, {Prefix: v6, Want: routers.Announced}})
	if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("%v", err)
	}
	for _, s := range []*stand{a, b} {
		if len(s.asked) != 1 || s.asked[0] != w {
			t.Errorf("%s was asked for %v", s.name, s.asked)
		}
	}
	if _ = r.Apply(within(t), []routers.Change{{Prefix: v6, Want: routers.Announced}}); len(a.asked)+len(b.asked) != 2 {
		t.Error("something is announced by none chosen")
	}
}

// A daemon away for a moment twice has not been away for long.
func TestGoneIsForgotten(t *testing.T) {
	r, a, b := between(t)
	a.start(t)
	must(t, read(t, r))
	b.start(t)
	a.stop()
	_, _ = read(t, r), read(t, r)
	r.gone = r.gone.Add(-takeover / 2)
	a.start(t)
	must(t, read(t, r))
	a.stop()
	_, _ = read(t, r), read(t, r)
	r.gone = r.gone.Add(-takeover / 2)
	if _ = read(t, r); r.String()[0] != 'a' {
		t.Errorf("it drives %s", r)
	}
	a.fail(nil) // its program reaches it
	if _, _ = read(t, r), read(t, r); !r.gone.IsZero() {
		t.Error("it can be read, and counts as gone")
	}
}

// Hints come from the driver that there is, and without one from the kernel.
func TestWatch(t *testing.T) {
	r, a, b := between(t)
	ctx, cancel := context.WithCancel(within(t))
	hints, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- r.Watch(ctx, func() { hints <- struct{}{} }) }()
	hinted := func() {
		t.Helper()
		select {
		case <-hints:
		case <-within(t).Done():
			t.Fatal("no hint")
		}
	}
	hinted() // of the kernel
	for _, s := range []*stand{a, b} {
		s.start(t)
		_ = read(t, r)
		if s == b {
			a.stop()
			_, _ = read(t, r), read(t, r)
			r.gone = r.gone.Add(-takeover)
			_ = read(t, r)
		}
		select {
		case wake := <-s.wakes:
			wake()
			hinted()
		case <-within(t).Done():
			t.Fatalf("%s is not watched", s.name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchIsLost(t *testing.T) {
	lost := errors.New("lost")
	for want, watch := range map[string]func(context.Context, func()) error{
		"lost":                         func(context.Context, func()) error { return lost },
		"the driver's watch has ended": func(context.Context, func()) error { return nil },
	} {
		if err := until(t.Context(), nil, func() {}, watch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	changed := make(chan struct{})
	close(changed)
	if err := until(t.Context(), changed, func() {}, func(ctx context.Context, _ func()) error { <-ctx.Done(); return lost }); err != nil {
		t.Errorf("another driver is no loss: %v", err)
	}
}
