package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deadSocket leaves a socket file on which nobody listens.
func deadSocket(t *testing.T, path string) string {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListenMakesDirectoryAndSocketWithTheirModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "vouch", "control.sock")
	serve(t, Options{Path: path, Group: "daemon"}, newFakeAgent())
	gid, err := groupID("daemon")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o660, filepath.Dir(path): fs.ModeDir | 0o755, path + ".lock": 0o600} {
		st, err := os.Lstat(name)
		if err != nil || st.Mode() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
	st, _ := os.Lstat(path)
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Gid) != gid {
		t.Errorf("group %d, want %d", sys.Gid, gid)
	}
}

// The mode holds from the very bind, whatever the umask: there is no moment in which others connect.
func TestSocketIsNeverWider(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenPrivate(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, _ := os.Lstat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v right after bind, want 0600", st.Mode().Perm())
	}
}

func TestSecondAgentIsToldOfTheFirst(t *testing.T) {
	a := newFakeAgent()
	path, _ := serve(t, Options{}, a)
	before, _ := os.Lstat(path)
	err := NewServer(Options{Path: path}, a).Listen()
	want := fmt.Sprintf("another vouch runs here (pid %d, control socket %s): stop it first (systemctl stop vouch); nothing was changed", os.Getpid(), path)
	if text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if after, _ := os.Lstat(path); !os.SameFile(before, after) {
		t.Error("the socket was replaced")
	}
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Errorf("the first agent does not answer any more: %v", err)
	}
}

func TestLockFileOfAnyContentNamesNoPid(t *testing.T) {
	for content, want := range map[string]string{"": "pid unknown", "99999999999\n": "pid unknown", "\x00\xff": "pid unknown", "0": "pid unknown", "42\n": "pid 42"} {
		name := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := holder(f); got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
		_ = f.Close()
	}
}

func TestDeadAgentsSocketIsTakenOver(t *testing.T) {
	path := deadSocket(t, filepath.Join(t.TempDir(), "control.sock"))
	if err := os.WriteFile(path+".lock", []byte("99999999999"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, Options{Path: path}, newFakeAgent())
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotADeadSocketIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file, sub, link, live := filepath.Join(dir, "f"), filepath.Join(dir, "d"), filepath.Join(dir, "l"), filepath.Join(dir, "s")
	l, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{os.WriteFile(file, []byte("keep"), 0o600), os.Mkdir(sub, 0o755), os.Symlink("/dev/null", link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		file: "there is a file at this path, which is left alone: move it away or set another control.socket",
		sub:  "there is a directory at this path",
		link: "there is a symbolic link at this path",
		live: "another program listens on it, which is left alone: set another control.socket",
	} {
		before, _ := os.Lstat(path)
		err := NewServer(Options{Path: path}, newFakeAgent()).Listen()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was touched", path)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 108))
	if err := NewServer(Options{Path: long}, newFakeAgent()).Listen(); err == nil || !strings.Contains(err.Error(), "at most 107: set a shorter control.socket") {
		t.Errorf("too long a path: %v", err)
	}
	err = NewServer(Options{Path: filepath.Join(dir, "new"), Group: "no-such-group"}, newFakeAgent()).Listen()
	if want := `control.group: there is no group "no-such-group": create it (groupadd --system no-such-group) or name another`; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStopRemovesOnlyItsOwnSocket(t *testing.T) {
	path, stop := serve(t, Options{}, newFakeAgent())
	stop()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
	path = filepath.Join(t.TempDir(), "control.sock")
	s := NewServer(Options{Path: path}, newFakeAgent()) // which does not look after its socket, and take it back
	if err := errors.Join(s.Listen(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	deadSocket(t, path)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a socket of somebody else was removed: %v", err)
	}
}

func TestCloseWithoutServeGivesThePathBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	for range 2 {
		s := NewServer(Options{Path: path}, newFakeAgent())
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

func TestServeAgainAfterTheSocketBroke(t *testing.T) {
	s := NewServer(Options{Path: filepath.Join(t.TempDir(), "control.sock")}, newFakeAgent())
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.socket.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), s.opts.Path) {
		t.Errorf("Serve on a broken socket: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	within(t, "an answer again", func() bool {
		_, err := NewClient(s.opts.Path).Status(t.Context())
		return err == nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client that never finishes its request, and one that reads a stream, do not hold up the end.
func TestStopDoesNotWaitForClients(t *testing.T) {
	path, stop := serve(t, Options{}, newFakeAgent())
	half, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := half.Write([]byte("POST /v1/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(path).do(context.Background(), "GET", "/v1/events?follow=1", nil); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	stop()
	if took := time.Since(start); took > readPatience-time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// A child of the agent that is between fork and exec holds a copy of the lock's file.
func TestCloseUnlocksForCopiesToo(t *testing.T) {
	s := NewServer(Options{Path: filepath.Join(t.TempDir(), "control.sock")}, newFakeAgent())
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(s.socket.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A user who may not write there is told the ways out.
func TestListenTellsWhoMayNotHowTo(t *testing.T) {
	needRoot(t)
	dir := socketDir(t)
	for name, path := range map[string]string{"lock": filepath.Join(dir, "s"), "directory": filepath.Join(dir, "new", "s")} {
		got := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if err := become(nobody, nobody, nil); err != nil {
				got <- err
				return
			}
			_, err := listen(path, "")
			got <- err
		}()
		err := <-got
		want := "permission denied: run vouch as root, or set [control] socket (or --socket) to a path in a directory which user "
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
