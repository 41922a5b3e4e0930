package owner

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// In a directory of somebody's the file is his; in one of root's it stays root's, whatever the group.
func TestShare(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("SKIPPED: needs root")
	}
	for _, c := range []struct{ uid, gid, wantUID, wantGID int }{{61001, 61002, 61001, 61002}, {0, 61002, 0, 0}} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, c.uid, c.gid)); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		err = Share(f)
		st, statErr := f.Stat()
		if err := errors.Join(err, statErr, f.Close()); err != nil {
			t.Fatal(err)
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != c.wantUID || int(sys.Gid) != c.wantGID {
			t.Errorf("in a directory of %d:%d it is %d:%d, want %d:%d", c.uid, c.gid, sys.Uid, sys.Gid, c.wantUID, c.wantGID)
		}
	}
}

func TestShareOfWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := Share(f); os.Geteuid() == 0 && err == nil {
		t.Error("no error")
	}
}
