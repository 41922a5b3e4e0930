package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

// patience bounds what ought to come at once.
const patience = 20 * time.Second

// A watched is a check that is being watched, as a Runner would.
type watched struct {
	*checker
	tb    testing.TB
	hints chan struct{}
	ended chan error
	count atomic.Int64
	stop  context.CancelFunc
}

func watch(tb testing.TB, c *checker) *watched {
	tb.Helper()
	w := &watched{checker: c, tb: tb, hints: make(chan struct{}, 1), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = sync.OnceFunc(func() { stop(); <-w.ended })
	go func() {
		w.ended <- c.Watch(ctx, func() {
			w.count.Add(1)
			select {
			case w.hints <- struct{}{}:
			default:
			}
		})
		close(w.ended)
	}()
	tb.Cleanup(w.stop)
	return w
}

// becomes waits until the check has that result, and looks only when it is told to.
func (w *watched) becomes(want checks.Status, what string) {
	w.tb.Helper()
	late := time.After(patience)
	for {
		select {
		case <-w.hints:
			if got := (checks.Result{Start: time.Now(), Err: w.Check(w.tb.Context())}).Status(); got == want {
				return
			}
		case err := <-w.ended:
			w.tb.Fatalf("%s: the watch ended: %v", what, err)
		case <-late:
			w.tb.Fatalf("%s: no hint led to %s: now %v", what, want, w.Check(w.tb.Context()))
		}
	}
}

// A path comes to be there and goes again in every way there is, and each is told of.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	w := watch(t, fresh(t, Spec{Path: at("a/b/flag")}))
	w.becomes(checks.Failed, "nothing there yet")
	must(t, os.Mkdir(at("a"), 0o755))
	must(t, os.Mkdir(at("a/b"), 0o755))
	write(t, at("a/b/flag"), "")
	w.becomes(checks.OK, "directories and file created")
	must(t, os.Remove(at("a/b/flag")))
	w.becomes(checks.Failed, "removed")
	write(t, at("a/b/new"), "")
	must(t, os.Rename(at("a/b/new"), at("a/b/flag")))
	w.becomes(checks.OK, "moved to its name")
	must(t, os.Rename(at("a/b/flag"), at("a/b/flag.off")))
	w.becomes(checks.Failed, "moved away")
	must(t, os.Rename(at("a/b/flag.off"), at("a/b/flag")))
	w.becomes(checks.OK, "moved back")
	must(t, os.Rename(at("a"), at("z")))
	w.becomes(checks.Failed, "a directory above moved away")
	must(t, os.MkdirAll(at("y/b"), 0o755))
	write(t, at("y/b/flag"), "")
	must(t, os.Rename(at("y"), at("a")))
	w.becomes(checks.OK, "another directory took its place")
	must(t, os.Remove(at("z/b/flag"))) // of the one that has gone: it must not matter
	must(t, os.RemoveAll(at("a")))
	w.becomes(checks.Failed, "the tree was removed")
	must(t, os.Rename(at("z"), at("a")))
	write(t, at("a/b/flag"), "")
	w.becomes(checks.OK, "the first directory is back")
}

// Kubernetes and config management swap a link to a directory.
func TestWatchLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"v1", "v2"} {
		must(t, os.Mkdir(at(d), 0o755))
		write(t, at(d+"/state"), map[string]string{"v1": "up", "v2": "down"}[d])
	}
	swap := func(to string) {
		must(t, os.Symlink(to, at("..new")))
		must(t, os.Rename(at("..new"), at("..data")))
	}
	swap("v1")
	must(t, os.Symlink("..data/state", at("state")))
	w := watch(t, fresh(t, Spec{Path: at("state"), Contains: "up"}))
	w.becomes(checks.OK, "through two links")
	swap(at("v2"))
	w.becomes(checks.Failed, "the link leads elsewhere")
	write(t, at("v2/state"), "up")
	w.becomes(checks.OK, "written where it leads now")
	must(t, os.Remove(at("v2/state")))
	w.becomes(checks.Failed, "removed where it leads")
	swap("v1/../v1")
	w.becomes(checks.OK, "over a dot-dot")
}

func TestWatchContent(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	write(t, flag, "up")
	w := watch(t, fresh(t, Spec{Path: flag, Match: "^up$"}))
	w.becomes(checks.OK, "as it is")
	f, err := os.OpenFile(flag, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("no"), 0)
	must(t, err)
	w.becomes(checks.Failed, "written in place")
	must(t, os.Truncate(flag, 0))
	_, err = f.WriteAt([]byte("up"), 0)
	must(t, err)
	w.becomes(checks.OK, "written again")
}

// A file that nobody touches gets too old without any event; one that is touched stays. What is fresh is looked at
// while it is.
func TestWatchAge(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	write(t, flag, "")
	w := watch(t, fresh(t, Spec{Path: flag, MaxAge: 3 * time.Second}))
	w.becomes(checks.Failed, "too old")
	now := time.Now()
	must(t, os.Chtimes(flag, now, now))
	w.becomes(checks.OK, "touched")
	w.becomes(checks.Failed, "too old again")
	write(t, flag, "x")
	w.becomes(checks.OK, "written")
}

// What is written to a file that is fresh anyway wakes nobody.
func TestFreshIsQuiet(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "log")
	write(t, flag, "")
	c := fresh(t, Spec{Path: flag, MaxAge: time.Hour})
	now := time.Now()
	for age, want := range map[time.Duration]uint32{0: moved, 2 * time.Hour: dirMask | fileMask} {
		all := c.targets(walk(flag), now.Add(age))
		if got := all[len(all)-1]; got.path != flag || got.mask != want {
			t.Errorf("after %s: %+v, want mask %x", age, got, want)
		}
	}
	p := &interest{mask: moved}
	if p.wants(unix.IN_MODIFY, "") || !p.wants(unix.IN_ATTRIB, "") || !p.wants(unix.IN_IGNORED, "") {
		t.Error("the wrong events are of interest")
	}
}

// Others' files in the same directories wake nobody.
func TestNeighboursAreQuiet(t *testing.T) {
	dir := t.TempDir()
	flag := filepath.Join(dir, "flag")
	w := watch(t, fresh(t, Spec{Path: flag}))
	w.becomes(checks.Failed, "not there")
	before := w.count.Load()
	for i := range 500 {
		write(t, filepath.Join(dir, fmt.Sprint("other", i)), "")
	}
	write(t, flag, "") // comes behind all of them
	w.becomes(checks.OK, "there")
	if n := w.count.Load() - before; n > 2 {
		t.Errorf("%d hints", n)
	}
}

// Many watch, of one and of several files, over one descriptor; it goes with the last.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	k := new(kernel)
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	var all []*watched
	for i := range 200 {
		c := fresh(t, Spec{Path: filepath.Join(dir, fmt.Sprint("flag", i%2))})
		c.kernel = k
		w := watch(t, c)
		w.becomes(checks.Failed, "not there")
		all = append(all, w)
	}
	if n := descriptors(t) - before; n > 3 { // the runtime's epoll may be among them
		t.Errorf("%d descriptors for 200 watches", n)
	}
	write(t, filepath.Join(dir, "flag0"), "")
	for _, w := range all[100:] {
		w.stop()
	}
	write(t, filepath.Join(dir, "flag1"), "")
	for _, w := range all[:100] {
		w.becomes(checks.OK, "there")
	}
	k.open.mu.Lock()
	watches := len(k.open.watches)
	k.open.mu.Unlock()
	if steps := len(walk(filepath.Join(dir, "flag0")).steps); watches != steps {
		t.Errorf("%d watches for a path of %d directories", watches, steps)
	}
	for _, w := range all[:100] {
		w.stop()
	}
	if k.open != nil {
		t.Error("the last one left the instance open")
	}
	until(t, "all is given back", func() bool { return descriptors(t) <= before+2 && runtime.NumGoroutine() <= goroutines })
}

// Directories that come and go leave no watches behind.
func TestNoWatchIsLeft(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, fresh(t, Spec{Path: filepath.Join(dir, "d/flag")}))
	for i := range 50 {
		must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
		write(t, filepath.Join(dir, "d/flag"), "")
		w.becomes(checks.OK, "there")
		must(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, fmt.Sprint("gone", i))))
		w.becomes(checks.Failed, "gone")
	}
	steps := len(walk(dir).steps) + 1
	until(t, fmt.Sprintf("%d watches in the kernel", steps), func() bool {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.kernel.open.fd))
		must(t, err)
		return strings.Count(string(info), "inotify wd:") == steps
	})
}

func TestUnmount(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	must(t, syscall.Mount("none", dir, "tmpfs", 0, ""))
	mounted := true
	t.Cleanup(func() {
		if mounted {
			must(t, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
	})
	write(t, filepath.Join(dir, "flag"), "")
	w := watch(t, fresh(t, Spec{Path: filepath.Join(dir, "flag")}))
	w.becomes(checks.OK, "mounted")
	must(t, syscall.Unmount(dir, 0))
	mounted = false
	w.becomes(checks.Failed, "unmounted")
	write(t, filepath.Join(dir, "flag"), "")
	w.becomes(checks.OK, "written where it was mounted")
}

// A queue that ran over wakes all, and no more events end each watch with an error.
func TestOverflowAndEnd(t *testing.T) {
	k := new(kernel)
	s, err := k.join()
	must(t, err)
	s.in.mu.Lock()
	s.in.event(-1, unix.IN_Q_OVERFLOW, "")
	s.in.mu.Unlock()
	select {
	case <-s.events:
	default:
		t.Error("an overflow woke nobody")
	}
	c := fresh(t, Spec{Path: filepath.Join(t.TempDir(), "flag")})
	c.kernel = k
	w := watch(t, c)
	w.becomes(checks.Failed, "not there")
	s.in.file.Close()
	select {
	case err := <-w.ended:
		if err == nil || !strings.HasPrefix(err.Error(), "inotify: ") {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("the watch goes on without events")
	}
	s.leave()
	again, err := k.join()
	must(t, err)
	again.leave()
}

// A directory that may not be read can be looked into, and not be watched: the watch says so.
func TestWatchDenied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed")
	must(t, os.Mkdir(dir, 0o711))
	write(t, filepath.Join(dir, "flag"), "")
	for d := filepath.Dir(dir); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755))
	}
	c := fresh(t, Spec{Path: filepath.Join(dir, "flag")})
	s, err := c.kernel.join()
	must(t, err)
	defer s.leave()
	unprivileged(t, func() { _, err = c.aim(s) })
	if os.Geteuid() == 0 && (err == nil || err.Error() != dir+" cannot be watched: the agent's user may not read it") {
		t.Errorf("%v", err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	write(t, filepath.Join(dir, "sub/flag"), "")
	below := fresh(t, Spec{Path: filepath.Join(dir, "sub/flag")})
	unprivileged(t, func() { _, err = below.aim(s) })
	if os.Geteuid() == 0 && (err == nil || err.Error() != dir+" cannot be watched: the agent's user may not read it") {
		t.Errorf("on the way: %v", err)
	}
	must(t, os.Chmod(dir, 0o700))
	unprivileged(t, func() { _, err = c.aim(s) })
	must(t, err) // that it may not be entered is seen, and the way to it is watched
}

// What the limits say leads to an error that names them.
func TestLimits(t *testing.T) {
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}))
	err := fresh(t, Spec{Path: "/run/flag"}).Watch(t.Context(), func() {})
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	if err == nil || !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "max_user_instances") {
		t.Errorf("%v", err)
	}
}

// Rounds that pass and rounds that fail leave nothing behind.
func TestNoLeak(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "flag"), "ok")
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	for _, s := range []Spec{{Path: filepath.Join(dir, "flag"), Contains: "ok"}, {Path: filepath.Join(dir, "flag"), Contains: "no"}, {Path: filepath.Join(dir, "none/x")}} {
		c := fresh(t, s)
		for range 300 {
			_ = c.Check(t.Context())
		}
	}
	until(t, "all is given back", func() bool { return descriptors(t) <= before+1 && runtime.NumGoroutine() <= goroutines })
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(tb, err)
	return len(entries)
}

// until waits for a state.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("not yet: %s", what)
		}
	}
}
