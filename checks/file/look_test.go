package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// A look that hangs is waited for as long as each check has, and no second one is begun, whoever asks; what
// it brings at last is out of date, and all that came meanwhile share the next one.
func TestLookThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, gate := 0, make(chan finding)
		hanging := newTable(func(string, bool) finding { begun++; return <-gate })
		there, absent := fresh(t, Spec{Path: "/run/flag"}), fresh(t, Spec{Path: "/run/flag", Exists: no()})
		there.looks, absent.looks = hanging, hanging
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if r := (checks.Result{Start: time.Now(), Err: there.Check(ctx)}); r.Reason() != checks.ReasonTimeout {
				t.Errorf("must be there: %v", r.Err)
			}
			if err := absent.Check(ctx); err == nil || err.Error() != "unknown: its file system does not answer in time" {
				t.Errorf("must not be there: %v", err)
			}
			cancel()
			if r := (checks.Result{Start: time.Now(), Err: there.Check(ctx)}); r.Reason() != checks.ReasonTimeout {
				t.Errorf("too late: %v", r.Err)
			}
		}
		broken, cancel := context.WithCancel(t.Context())
		cancel()
		if r := (checks.Result{Start: time.Now(), Err: there.Check(broken)}); r.Status() != checks.Unknown {
			t.Errorf("broken off: %v", r.Err)
		}
		var one, other error
		var both sync.WaitGroup
		both.Go(func() { one = there.Check(t.Context()) })
		both.Go(func() { other = absent.Check(t.Context()) })
		synctest.Wait()
		gate <- finding{err: syscall.EIO} // of long ago
		synctest.Wait()
		gate <- finding{err: os.ErrNotExist}
		both.Wait()
		if begun != 2 || one == nil || one.Error() != "absent: is not there" || other != nil {
			t.Errorf("%d looks: %v, %v", begun, one, other)
		}
	})
}

// needsRoot skips a test for who may not mount.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("mounting needs root")
	}
	t.Skip("SKIPPED: mounting needs root")
}

// deadMount mounts a file system whose server never answers. bury ends it, and whatever waits for it.
func deadMount(t *testing.T) (dir string, bury func()) {
	t.Helper()
	needsRoot(t)
	dir = t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	bury = sync.OnceFunc(func() {
		must(t, unix.Unmount(dir, unix.MNT_DETACH))
		must(t, unix.Close(fd))
	})
	if err := unix.Mount("none", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		must(t, unix.Close(fd))
		t.Fatal(err)
	}
	t.Cleanup(bury)
	return dir, bury
}

// However often the configuration is read again, a file system that is dead holds two threads for a path: one
// that looks whether it is there, and one that would read it.
func TestDeadFileSystem(t *testing.T) {
	dir, bury := deadMount(t)
	flag := filepath.Join(dir, "flag")
	before := runtime.NumGoroutine()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		there, read := fresh(t, Spec{Path: flag}), fresh(t, Spec{Path: flag, Contains: "ok"})
		absent := fresh(t, Spec{Path: flag, Exists: no()})
		var all sync.WaitGroup
		for c, want := range map[*checker]checks.Reason{there: checks.ReasonTimeout, read: checks.ReasonTimeout, absent: checks.ReasonUnknown} {
			all.Go(func() {
				if r := (checks.Result{Start: time.Now(), Err: c.Check(ctx)}); r.Reason() != want {
					t.Errorf("%v, want %s", r.Err, want)
				}
			})
			all.Go(func() { must(t, c.Watch(ctx, func() { t.Error("it was watched") })) })
		}
		all.Wait()
		cancel()
	}
	s := Spec{Path: flag}
	if ps := s.Local(); len(ps) != 1 || ps[0].What != "its file system does not answer" {
		t.Errorf("%+v", ps)
	}
	until(t, "two looks are left", func() bool { return runtime.NumGoroutine() <= before+2 })
	bury()
	until(t, "none is left", func() bool { return runtime.NumGoroutine() <= before })
}

// A directory that cannot be watched for ever, for its file system died under our eyes, holds nobody else up.
func TestDeadWatch(t *testing.T) {
	dir, bury := deadMount(t)
	flag := filepath.Join(t.TempDir(), "flag")
	w := watch(t, fresh(t, Spec{Path: flag}))
	w.becomes(checks.Failed, "not there")
	s, err := w.kernel.join()
	must(t, err)
	stuck := make(chan struct{})
	go func() {
		_, _ = s.aim([]target{{path: filepath.Join(dir, "sub"), dir: true, mask: dirMask}})
		close(stuck)
	}()
	for range 20 { // the other one is held up by the first that it meets, or not at all
		write(t, flag, "")
		w.becomes(checks.OK, "there")
		must(t, os.Remove(flag))
		w.becomes(checks.Failed, "not there")
	}
	select {
	case <-stuck:
		t.Error("the file system is not dead")
	default:
	}
	bury()
	<-stuck
	s.leave()
}

// What nobody wants any more stays while somebody adds watches, who may have been given it.
func TestSweepWaits(t *testing.T) {
	dir := t.TempDir()
	k := new(kernel)
	one, err := k.join()
	must(t, err)
	other, err := k.join()
	must(t, err)
	watches := func() int {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", one.in.fd))
		must(t, err)
		return strings.Count(string(info), "inotify wd:")
	}
	_, err = one.aim([]target{{path: dir, dir: true, mask: dirMask}})
	must(t, err)
	must(t, other.in.begin())
	_, err = one.aim(nil)
	must(t, err)
	one.leave()
	if n := watches(); n != 1 {
		t.Errorf("%d watches while one is being added", n)
	}
	other.in.finish(other, nil)
	if n := watches(); n != 0 {
		t.Errorf("%d watches that nobody wants", n)
	}
	other.leave()
}

// What one takes away is not lost to another who adds it in that instant.
func TestAddAgainstDrop(t *testing.T) {
	dir := t.TempDir()
	k := new(kernel)
	here := []target{{path: dir, name: "flag", dir: true, mask: dirMask}}
	one, err := k.join()
	must(t, err)
	other, err := k.join()
	must(t, err)
	var both sync.WaitGroup
	stop := make(chan struct{})
	both.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = one.aim(here)
				_, _ = one.aim(nil)
			}
		}
	})
	for range 200 {
		_, err := other.aim(here)
		must(t, err)
		select {
		case <-other.events: // of a watch that was taken away
		default:
		}
		write(t, filepath.Join(dir, "flag"), "")
		select {
		case <-other.events:
		case <-time.After(patience):
			t.Fatal("an event was lost")
		}
		must(t, os.Remove(filepath.Join(dir, "flag")))
		_, err = other.aim(nil)
		must(t, err)
	}
	close(stop)
	both.Wait()
	one.leave()
	other.leave()
}

// What is created while somebody adds to the same watch is told of: a mask that replaces another loses some of it.
func TestAddToWatchLosesNothing(t *testing.T) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	at := target{path: t.TempDir(), name: "flag", dir: true, mask: dirMask}
	add := func() { _, _ = unix.InotifyAddWatch(fd, at.path, at.kernelMask()) }
	add()
	var adding sync.WaitGroup
	stop := make(chan struct{})
	adding.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				add()
			}
		}
	})
	buf := make([]byte, 4096)
	for range 20000 {
		write(t, filepath.Join(at.path, "flag"), "")
		must(t, events.SetReadDeadline(time.Now().Add(patience)))
		if _, err := events.Read(buf); err != nil {
			t.Errorf("the creation of a file was not told of: %v", err)
			break
		}
		must(t, os.Remove(filepath.Join(at.path, "flag")))
		_, _ = events.Read(buf) // of its end, or of both by now
	}
	close(stop)
	adding.Wait()
}

// A directory of its own that systemd has given this process is told of, and one that it hides.
func TestHidden(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	for from, want := range map[string]string{
		"systemd-private-1-vouch.service-x/tmp": "is not what others see: this process has a ",
		"systemd/inaccessible/dir":              "cannot be seen: ",
		"any/dir":                               "",
	} {
		seen := filepath.Join(dir, "seen "+filepath.Base(filepath.Dir(from)))
		must(t, os.MkdirAll(filepath.Join(dir, from), 0o755))
		must(t, os.Mkdir(seen, 0o755))
		must(t, unix.Mount(filepath.Join(dir, from), seen, "", unix.MS_BIND, ""))
		t.Cleanup(func() { must(t, unix.Unmount(seen, unix.MNT_DETACH)) })
		s := Spec{Path: seen + "//flag"}
		ps := s.Local()
		if len(ps) > 0 != (want != "") || len(ps) > 0 && (!strings.HasPrefix(ps[0].What, want) || !strings.Contains(ps[0].What, seen) || ps[0].WayOut == "") {
			t.Errorf("%s: %+v", from, ps)
		}
	}
}

func TestMountOf(t *testing.T) {
	const mounts = `21 30 0:20 / /proc rw - proc proc rw
30 1 8:1 / / rw - ext4 /dev/sda1 rw
31 30 0:30 / /tmp rw - tmpfs tmpfs rw
32 31 0:30 /systemd-private-12-vouch.service-ab/tmp /tmp rw - tmpfs tmpfs rw
33 30 0:22 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw
34 30 8:2 /a\040b /mnt/c\040d rw - ext4 /dev/sdb rw
broken
`
	for path, want := range map[string][2]string{
		"/run/flag":     {"/", "/"},
		"/tmp/flag":     {"/systemd-private-12-vouch.service-ab/tmp", "/tmp"},
		"/tmpfile":      {"/", "/"},
		"/home/me/flag": {"/systemd/inaccessible/dir", "/home"},
		"/home":         {"/systemd/inaccessible/dir", "/home"},
		"/mnt/c d/flag": {"/a b", "/mnt/c d"},
	} {
		if root, point := mountOf(mounts, path); root != want[0] || point != want[1] {
			t.Errorf("%s: %s on %s", path, root, point)
		}
	}
}
