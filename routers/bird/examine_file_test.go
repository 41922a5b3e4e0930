package bird

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

// What keeps a file from being replaced is its directory.
func TestExamineFileIsClosed(t *testing.T) {
	lab.Require(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "vouch.conf")
	if err := include.Write(path, include.Render(include.Format{}, nil)); err != nil {
		t.Fatal(err)
	}
	if all := lookAt(path).examine(); !says(all, routers.Fine, path, "is vouch's to write") {
		t.Error(findings(all))
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if all := lookAt(path).examine(); !says(all, routers.Failing, path, "cannot be replaced by user root: directory "+dir+": read-only file system") {
		t.Error(findings(all))
	}
	gone := filepath.Join(dir, "none", "vouch.conf")
	if all := lookAt(gone).examine(); !says(all, routers.Failing, gone, "no such file or directory") {
		t.Error(findings(all))
	}
}

// What is no file is not read: a pipe would never end.
func TestExamineFileIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if all := lookAt(path).examine(); !says(all, routers.Failing, path, "is no file") {
		t.Error(findings(all))
	}
	loop := filepath.Join(t.TempDir(), "loop.conf")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if all := lookAt(loop).examine(); !says(all, routers.Failing, loop, "cannot be read: ") {
		t.Error(findings(all))
	}
}

// An empty file may be taken over.
func TestExamineFileIsEmpty(t *testing.T) {
	f := file{path: "/etc/bird/vouch.conf", real: "/etc/bird/vouch.conf", text: []byte("\n")}
	f.parse()
	if all := f.examine(); f.foreign() || !says(all, routers.Fine, f.path, "") {
		t.Error(findings(all))
	}
	f.closed = syscall.EACCES
	if all := f.examine(); !says(all, routers.Failing, f.path, "directory /etc/bird: permission denied") {
		t.Error(findings(all))
	}
}

// Of a `configure check` that was not let, or not answered, the file can say nothing.
func TestExamineNotTaken(t *testing.T) {
	f := file{path: "/etc/bird/vouch.conf"}
	for _, err := range []error{nil, routers.ErrUnavailable, &ctl.Refusal{Code: ctl.AccessDenied}} {
		if all := f.examineTaken(err, "bird"); len(all) > 0 {
			t.Error(findings(all))
		}
	}
	f.none = true
	if all := f.examineTaken(&ctl.Refusal{Code: ctl.ConfigurationFailed, Text: "bird.conf:3:1 syntax error"}, "bird"); len(all) != 1 || !says(all, routers.Failing, "bird", "bird.conf:3:1 syntax error") {
		t.Error(findings(all))
	}
}
