package state

import (
	"path/filepath"
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
