package file

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A path is followed as the kernel does.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("a/b"), 0o755))
	write(t, at("a/b/flag"), "")
	for name, to := range map[string]string{"up": "a/b/../..", "far": at("a/b"), "one": "a/./b/flag", "chain": "far/flag", "root": "/", "around": "up/up/far/../../one"} {
		must(t, os.Symlink(to, at(name)))
	}
	for _, name := range []string{"a/b/flag", "up", "far", "one", "chain", "root", "around", "up/a/b/flag", "far/flag"} {
		want, err := filepath.EvalSymlinks(at(name))
		must(t, err)
		got := walk(at(name))
		info, err := os.Stat(at(name))
		must(t, err)
		if got.err != nil || got.end != want || !os.SameFile(got.info, info) {
			t.Errorf("%s: %s, %v, want %s", name, got.end, got.err, want)
		}
	}
	for _, name := range []string{"a/b/flag/", "one/", "a/b/flag/.", "a/b/flag/x", "around//", "far/", "up//a/./b/flag"} {
		_, err := os.Stat(at("") + "/" + name)
		if got := walk(at("") + "/" + name); errors.Is(err, syscall.ENOTDIR) != errors.Is(got.err, syscall.ENOTDIR) || (err == nil) != (got.err == nil) {
			t.Errorf("%s: %v, the kernel says %v", name, got.err, err)
		}
	}
}
