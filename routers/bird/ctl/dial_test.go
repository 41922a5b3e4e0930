package ctl

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"

	"golang.org/x/sys/unix"
)

// as runs f with another user's rights to files. Only the calling thread changes.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, to become another user")
		}
		t.Skip("NOT TESTED: needs root, to become another user")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(unix.Setfsgid(uid), unix.Setfsuid(uid)); err != nil {
		t.Fatal(err)
	}
	f()
	if err := errors.Join(unix.Setfsuid(0), unix.Setfsgid(0)); err != nil {
		t.Fatal(err)
	}
}

// F11: missing, refused and denied are three errors, each with its way out.
func TestDialErrors(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path(name)})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		return l
	}
	listen("left").Close()
	listen("group")
	listen("owner")
	inner := path("inner")
	err := errors.Join(os.Chown(path("group"), 0, 1), os.Chmod(path("group"), 0o660), os.Chmod(path("owner"), 0o600),
		os.Mkdir(inner, 0o750), os.Chown(inner, 0, 2))
	if err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	dial := func(path string) error {
		s, err := Dial(context.Background(), path, 100*time.Millisecond)
		if err == nil {
			s.Close()
		}
		return err
	}
	check := func(err, cause error, text string) {
		t.Helper()
		if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, cause) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v", err)
		}
	}
	check(dial(path("none")), os.ErrNotExist, path("none")+": no such socket: is bird started")
	check(dial(path("left")), syscall.ECONNREFUSED, path("left")+": refused: bird is not running")
	check(dial(path(strings.Repeat("x", 200))), syscall.EINVAL, "cannot connect: invalid argument")
	var group, owner, within error
	as(t, 65534, func() {
		group, owner, within = dial(path("group")), dial(path("owner")), dial(filepath.Join(inner, "bird.ctl"))
	})
	check(group, os.ErrPermission, "permission denied: join group "+groupName(1)+", which may use "+path("group"))
	check(owner, os.ErrPermission, "permission denied: "+path("owner")+" has mode 0600: give its group the right (bird makes it 0660), or become user root")
	check(within, os.ErrPermission, "permission denied: join group "+groupName(2)+", which may use "+inner)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ended, path("group"), time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("when ctx has ended: %v", err)
	}
}

// A stopped BIRD accepts nothing, and once its queue is full connecting fails at once.
func TestDialFullQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bird.ctl")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, err := Dial(t.Context(), path, 10*time.Millisecond)
		if !errors.Is(err, routers.ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
		if errors.Is(err, syscall.EAGAIN) {
			if !strings.Contains(err.Error(), "its queue of connections is full: bird hangs") {
				t.Errorf("error %v", err)
			}
			return
		}
	}
	t.Error("five connections to a queue of one were taken")
}
