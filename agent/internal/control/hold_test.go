package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// While the lock is held no agent starts, and nobody else holds it; afterwards both can.
func TestHoldKeepsAgentsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "control.sock")
	release, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := NewServer(Options{Path: path}, newFakeAgent()).Listen(); !errors.Is(err, ErrRunning) {
		t.Errorf("an agent beside it: %v", err)
	}
	if _, err := Hold(path); !errors.Is(err, ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has made a socket: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	serve(t, Options{Path: path}, newFakeAgent())
}

func TestHoldBesideAnAgent(t *testing.T) {
	path, _ := serve(t, Options{}, newFakeAgent())
	_, err := Hold(path)
	if !errors.Is(err, ErrRunning) || !strings.Contains(text(err), "nothing was changed") {
		t.Errorf("%v", err)
	}
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Errorf("the agent does not answer any more: %v", err)
	}
}

// Two agents with sockets of their own must not share a state file.
func TestHoldState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "state.json")
	release, err := HoldState(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = HoldState(path)
	want := fmt.Sprintf("another vouch runs here (pid %d, state file %s): stop it first (systemctl stop vouch), or give this one "+
		"a [agent] state_file of its own, and prefixes that the other does not have; nothing was changed", os.Getpid(), path)
	if !errors.Is(err, ErrRunning) || text(err) != want {
		t.Errorf("a second one: %v\nwant %s", err, want)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = HoldState(path); err != nil {
		t.Fatal(err)
	}
	_ = release()
	if _, err := HoldState("/dev/null/state.json"); err == nil || errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "/dev/null") {
		t.Errorf("where no lock can be: %v", err)
	}
}

// What root has begun in the directory of the agent's user must not lock that user out.
func TestRootsLockIsTheDirectorysOwner(t *testing.T) {
	needRoot(t)
	const uid, gid = 61001, 61002
	dir := filepath.Join(t.TempDir(), "vouch")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, uid, gid)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "control.sock")
	release, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	st, err := os.Stat(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Uid != uid || sys.Gid != gid || st.Mode().Perm() != lockMode {
		t.Errorf("the lock file is %d:%d %v", sys.Uid, sys.Gid, st.Mode())
	}
}
