package vyos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What vyos-configd wrote meanwhile is read, and nothing that somebody else put in its place.
func TestSaid(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(path string) error
		want          string
	}{
		"nothing":     {none, none, ""},
		"new":         {none, write("no room"), "no room"},
		"more":        {write("old"), add("no room"), "no room"},
		"as it was":   {write("old"), none, ""},
		"anew":        {write("old, and long"), write("new"), "new"},
		"long":        {none, write(strings.Repeat("x", 1<<20) + "end"), "end"},
		"a link":      {none, func(path string) error { return os.Symlink("/etc/hostname", path) }, ""},
		"a pipe":      {none, func(path string) error { return syscall.Mkfifo(path, 0o600) }, ""},
		"a directory": {none, func(path string) error { return os.Mkdir(path, 0o700) }, ""},
	} {
		s := system{t.TempDir()}
		path := s.path(configdSays)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), c.before(path)); err != nil {
			t.Fatal(err)
		}
		said := s.said()
		if err := c.after(path); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(string(said.since()))
		if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) || strings.Contains(got, "old") || len(got) > mostSaid {
			t.Errorf("%s: %.100q", name, got)
		}
	}
}

func none(string) error { return nil }

// write makes a file of another time than any was before.
func write(text string) func(string) error {
	return func(path string) error {
		_ = os.Remove(path)
		return errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, time.Time{}, time.Unix(int64(len(text)), 0)))
	}
}

func add(text string) func(string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		return err
	}
}
