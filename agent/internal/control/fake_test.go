package control

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
)

// fakeAgent is an Agent with one service, resolver, over a real Store.
type fakeAgent struct {
	*state.Store
	snapshot *state.Snapshot
	mu       sync.Mutex
	drains   []decide.Drain
	resumed  []string
}

type unknownService string

func (u unknownService) Error() string {
	return fmt.Sprintf("there is no service %q; there are: resolver", string(u))
}
func (u unknownService) Unknown() bool { return true }

func newFakeAgent() *fakeAgent {
	return &fakeAgent{Store: state.NewStore(),
		snapshot: &state.Snapshot{Version: "1.2.3", Node: "apu01", Services: []state.Service{{Name: "resolver"}}}}
}

func (f *fakeAgent) Snapshot() *state.Snapshot { return f.snapshot }

func (f *fakeAgent) Drain(_ context.Context, service string, d decide.Drain) error {
	if service != "resolver" {
		return unknownService(service)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drains = append(f.drains, d)
	return nil
}

func (f *fakeAgent) Resume(_ context.Context, service, by string) error {
	if service != "resolver" {
		return unknownService(service)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumed = append(f.resumed, by)
	return nil
}

// serve runs a server until the test ends or stop is called.
func serve(t *testing.T, o Options, a Agent) (path string, stop func()) {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(socketDir(t), "control.sock")
	}
	s := NewServer(o, a)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return o.Path, stop
}

// socketDir is a directory which every user may enter, unlike t.TempDir.
func socketDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := unix.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// clientOf gives a client whose one connection is made by a thread with the given identity.
func clientOf(t *testing.T, path string, uid, gid int, groups ...int) *Client {
	t.Helper()
	type dialled struct {
		conn net.Conn
		err  error
	}
	got := make(chan dialled, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := become(uid, gid, groups); err != nil {
			got <- dialled{nil, err}
			return
		}
		conn, err := net.Dial("unix", path)
		got <- dialled{conn, err}
	}()
	d := <-got
	if d.conn != nil {
		t.Cleanup(func() { _ = d.conn.Close() })
	}
	c := NewClient(path)
	c.dialer = func(context.Context, string) (net.Conn, error) { return d.conn, d.err }
	return c
}

// become changes the identity of the calling thread alone.
func become(uid, gid int, groups []int) error {
	if err := unix.Setgroups(groups); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
		return e
	}
	return nil
}

// within waits until ok says true.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
