package program

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
)

// wait asks until it is so.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s has not come about", what)
		case <-tick.C:
		}
	}
}

// read gives what is in a file, "" when it is not there.
func read(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name))
	return string(b)
}

// One prefix's command hangs, with a child that ignores signals; the others are done meanwhile, and
// nothing of it lives on.
func TestHungOneHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	r := New(Options{Down: sh(dir, `if [ "$ANYCAST_PREFIX" = 192.0.2.53/32 ]; then (trap '' TERM; sleep 300) & echo $! >child; wait; fi; echo yes >"done-${ANYCAST_PREFIX%/*}"`),
		Timeout: 5 * time.Second})
	done := make(chan error, 1)
	go func() { done <- apply(t, r, routers.Withdrawn, v4, v6) }()
	child := func() string { return strings.TrimSuffix(read(dir, "child"), "\n") }
	wait(t, "the other one's end", func() bool { return child() != "" && read(dir, "done-2001:db8::53") != "" })
	if ended(child()) {
		t.Error("the other one was done after the hung one")
	}
	if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "program: down 192.0.2.53/32: killed after ") || !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	wait(t, "the child's end", func() bool { return ended(child()) })
}

// ended says whether a process is gone, or dead and not reaped by whoever adopts orphans here.
func ended(pid string) bool {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// When more hang than run at once until there is no time left, those that had no turn have it first the
// next time; and withdraws are begun before anything else.
func TestNobodyStarves(t *testing.T) {
	dir := t.TempDir()
	log := sh(dir, `echo "$ANYCAST_ACTION $ANYCAST_PREFIX" >>log; case $ANYCAST_PREFIX in 192.*) exec sleep 300;; esac`)
	r := New(Options{Up: log, Down: log})
	cs := []routers.Change{{Prefix: netip.MustParsePrefix("198.51.100.1/32"), Want: routers.Announced}}
	for i := range abreast {
		cs = append(cs, routers.Change{Prefix: netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", i)), Want: routers.Withdrawn})
	}
	last := netip.MustParsePrefix("198.51.100.2/32")
	cs = append(cs, routers.Change{Prefix: last, Want: routers.Withdrawn})
	begun := func() []string { return strings.Split(strings.TrimSuffix(read(dir, "log"), "\n"), "\n") }
	for _, most := range []int{abreast, 2*abreast + 1} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Apply(ctx, cs) }()
		wait(t, fmt.Sprintf("the beginning of %d", most), func() bool { return len(begun()) == most })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	for i, l := range begun() {
		if !strings.HasPrefix(l, "down ") || i < abreast && strings.Contains(l, last.String()) {
			t.Errorf("%d. was begun: %s", i, l)
		}
	}
	if !slices.Contains(begun(), "down "+last.String()) {
		t.Errorf("the last one never has its turn: %q", begun())
	}
}

// A command that became another user cannot be killed. It is not waited for, and not started twice; and
// once it has ended, what it did is not known.
func TestCannotBeKilled(t *testing.T) {
	if dir := os.Getenv("PROGRAM_TEST_DIR"); dir != "" {
		unprivileged(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, to have a program that its caller cannot kill")
		}
		t.Skip("NOT TESTED: needs root, to have a program that its caller cannot kill")
	}
	dir, err := os.MkdirTemp("/tmp", "vouch-program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, c := range []struct {
		from, to string
		mode     os.FileMode
	}{{"/usr/bin/setpriv", "setpriv", os.ModeSetuid | 0o755}, {os.Args[0], "test", 0o755}} {
		b, err := os.ReadFile(c.from)
		if err == nil {
			err = errors.Join(os.WriteFile(filepath.Join(dir, c.to), b, 0o700), os.Chmod(filepath.Join(dir, c.to), c.mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(filepath.Join(dir, "test"), "-test.run=^TestCannotBeKilled$")
	agent.Dir, agent.Env = dir, append(os.Environ(), "PROGRAM_TEST_DIR="+dir)
	agent.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out strings.Builder
	agent.Stdout, agent.Stderr = &out, &out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- agent.Wait() }()
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	wait(t, "what the unprivileged one has to see", func() bool { return exists("seen") || len(gone) > 0 })
	if b, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
		for line := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if err := <-gone; err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// unprivileged is the part of TestCannotBeKilled that is no root.
func unprivileged(t *testing.T, dir string) {
	own := sh(dir, `if [ -e seen ]; then exit 0; fi; echo $$ >>pid; exec sleep 300`)
	r := New(Options{Up: append([]string{filepath.Join(dir, "setpriv"), "--reuid=0", "--clear-groups"}, own...),
		Down: sh(dir, "echo ran >>down"), Timeout: 3 * time.Second})
	if err := apply(t, r, routers.Announced, v4); err == nil || !strings.Contains(err.Error(), "cannot be killed") || !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("up: %v", err)
	}
	if err := apply(t, r, routers.Announced, v4); !errors.Is(err, routers.ErrBusy) || !strings.Contains(err.Error(), "an earlier up command still runs") {
		t.Errorf("up beside up: %v", err)
	}
	if err := apply(t, r, routers.Announced, v6); !strings.Contains(fmt.Sprint(err), "cannot be killed") {
		t.Errorf("another prefix: %v", err)
	}
	if err := apply(t, r, routers.Withdrawn, v4); err != nil {
		t.Errorf("a withdraw waits for an announce: %v", err)
	}
	if o := observe(t, r, v4)[0]; !o.Broken || !strings.Contains(o.Detail, "a command up still runs") {
		t.Errorf("counts as withdrawn while an announce runs: %+v", o)
	}
	if err := os.WriteFile(filepath.Join(dir, "seen"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end of the command", func() bool { return strings.Contains(observe(t, r, v6)[0].Detail, "has ended") })
	if err := apply(t, r, routers.Withdrawn, v6); err != nil {
		t.Fatal(err)
	}
	if o := observe(t, r, v6)[0]; o.Stage != routers.Absent {
		t.Errorf("%+v", o)
	}
}
