package vty

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

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
	if err := unix.Setfsgid(uid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setfsuid(0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setfsgid(0); err != nil {
		t.Fatal(err)
	}
}

func TestDialErrors(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: Path(dir, "ospfd")})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	closed, err := net.Listen("unix", Path(dir, "zebra"))
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	if err := os.Chmod(Path(dir, "zebra"), 0); err != nil {
		t.Fatal(err)
	}
	dial := func(daemon string) error {
		conn, err := Dial(context.Background(), dir, daemon)
		if err == nil {
			conn.Close()
		}
		return err
	}
	check := func(daemon string, err, cause error, text string) {
		t.Helper()
		if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, cause) || err.Error() != Path(dir, daemon)+": "+text {
			t.Errorf("%s: %v", daemon, err)
		}
	}
	check("bgpd", dial("bgpd"), os.ErrNotExist, "no such socket: is bgpd enabled in /etc/frr/daemons, and started?")
	check("ospfd", dial("ospfd"), syscall.ECONNREFUSED, "refused: ospfd is not running (its socket was left behind): start it again")
	var denied error
	as(t, 65534, func() {
		if err := os.Chmod(dir, 0o755); err == nil {
			t.Error("changed the mode of another user's directory")
		}
		denied = dial("zebra")
	})
	check("zebra", denied, os.ErrPermission, "permission denied: join group frrvty (and group frr, for daemons in a path space of their own)")
	long := strings.Repeat("x", 200)
	check(long, dial(long), syscall.EINVAL, "cannot connect: invalid argument")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ended, dir, "zebra"); !errors.Is(err, context.Canceled) || err.Error() != "zebra had not answered yet: context canceled" {
		t.Errorf("when ctx has ended: %v", err)
	}
}

// A stopped daemon accepts nothing, and once its queue is full connecting fails at once.
func TestDialFullQueue(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: Path(dir, "bgpd")}), unix.Listen(fd, 5)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := Dial(t.Context(), dir, "bgpd")
		if err == nil {
			defer conn.Close()
			continue
		}
		if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "its queue of connections is full: bgpd hangs") {
			t.Errorf("error %v", err)
		}
		return
	}
	t.Error("ten connections to a queue of five were taken")
}
