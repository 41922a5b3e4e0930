package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a tmpfs of 64 KiB and gives a path in it.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return filepath.Join(dir, "state.json")
}

// The state that root's agent leaves can be read by the one that runs as the directory's owner.
func TestRootsStateIsTheDirectorysOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("SKIPPED: needs root")
	}
	dir := filepath.Join(t.TempDir(), "vouch")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 61001, 61002)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.json")
	if err := Write(path, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Uid != 61001 || sys.Gid != 61002 || st.Mode().Perm()&^0o640 != 0 {
		t.Errorf("it is %d:%d %v", sys.Uid, sys.Gid, st.Mode())
	}
}

// A temporary directory on the same disk is not used.
func TestTheNewFileIsBesideTheOldOne(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	f, err := pending(filepath.Join(dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Cleanup() }()
	if got := filepath.Dir(f.Name()); got != dir {
		t.Errorf("it is in %s, want %s", got, dir)
	}
}
