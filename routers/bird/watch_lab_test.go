package bird

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

// Whatever somebody else does to an include file, or to what it is a link to, wakes, and what vouch writes does not
// count.
func TestFileIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bird")
	path, other := filepath.Join(dir, "vouch.conf"), filepath.Join(t.TempDir(), "real.conf")
	b := newInclude(Options{Method: MethodInclude, Include: path}.withDefaults(), daemons{}, newNames(Options{}), &memo{})
	if b.memo.knows(path) {
		t.Error("a file that was never read is known")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hints atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.watch(ctx, func() { hints.Add(1) })
	}()
	wakes := func(what string, do func() error) {
		t.Helper()
		before := hints.Load()
		fatal(t, do())
		sceneWait(t, what, func() error {
			if hints.Load() == before {
				return errors.New("no hint")
			}
			return nil
		})
	}
	put := func(path, text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	wakes("the directory that has come", func() error { return os.Mkdir(dir, 0o755) })
	wakes("a file", put(path, "one"))
	fatal(t, b.memo.write(path, []byte("ours")))
	if !b.memo.knows(path) {
		t.Error("what was written is not known")
	}
	wakes("one that is written over", put(path, "two"))
	wakes("one that is moved there", func() error { return errors.Join(put(other, "three")(), os.Rename(other, path)) })
	wakes("one that is a link now", func() error {
		return errors.Join(put(other, "four")(), os.Symlink(other, path+".new"), os.Rename(path+".new", path))
	})
	fatal(t, b.memo.write(path, []byte("ours")))
	wakes("what it is a link to", put(other, "five"))
	wakes("one that is taken away", func() error { return os.Remove(path) })
	wakes("the directory that is another", func() error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755), put(path, "six")())
	})
	wakes("a file in that", put(path, "seven"))
	cancel()
	<-ended
}

// A directory far above a file, a link on the way to it, or what is above the end of that, may become another: what is
// in the place of the file then wakes, and so does what happens to that later.
func TestWayToFileIsWatched(t *testing.T) {
	put := func(path string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(path), 0o600))
	}
	for name, swap := range map[string]func() error{
		"a directory on the way": func() error {
			return errors.Join(put("new/bird/vouch.conf"), os.Rename("etc", "old"), os.Rename("new", "etc"))
		},
		"a link on the way": func() error {
			return errors.Join(put("other/vouch.conf"), os.Symlink("../other", "next"), os.Rename("next", "etc/bird"))
		},
		"a link that a link leads to": func() error {
			return errors.Join(put("other/vouch.conf"), os.Symlink("../other", "next"), os.Rename("next", "releases/now"))
		},
		"a directory above what a link leads to": func() error {
			return errors.Join(put("new/one/conf/vouch.conf"), os.Symlink("one/conf", "new/now"), os.Rename("releases", "old"), os.Rename("new", "releases"))
		},
		"a directory that a link goes through": func() error {
			return errors.Join(put("new/conf/vouch.conf"), os.Rename("releases/one", "old"), os.Rename("new", "releases/one"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			fatal(t, errors.Join(put("releases/one/conf/vouch.conf"), os.Symlink("one/conf", "releases/now"), os.Mkdir("etc", 0o755), os.Symlink("../releases/now", "etc/bird")))
			path, err := filepath.Abs("etc/bird/vouch.conf")
			fatal(t, err)
			for _, do := range []func() error{swap, func() error { return put(path) }} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				fatal(t, awaitFiles(ctx, []string{path}, func() { fatal(t, do()) }))
				cancel()
			}
		})
	}
}

// Two files are watched, one of them on the way to the other, and a link to itself is an error.
func TestTwoFilesAreWatched(t *testing.T) {
	dir := t.TempDir()
	near, far := filepath.Join(dir, "vouch.conf"), filepath.Join(dir, "six", "vouch.conf")
	fatal(t, os.Mkdir(filepath.Dir(far), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, path := range []string{near, far} {
		fatal(t, awaitFiles(ctx, []string{near, far}, func() { fatal(t, os.WriteFile(path, nil, 0o600)) }))
	}
	fatal(t, errors.Join(os.Remove(near), os.Symlink("vouch.conf", near)))
	if err := awaitFiles(ctx, []string{near}, func() {}); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
}

// An old file that is put in place again and again is told of: the driver wakes for it, and says who may be at it.
func TestFileIsContested(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Announced)
	old := readFile(t, p.options.Include)
	p.settle(t, routers.Withdrawn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var hints atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- p.node.Do(func() error { return p.router.Watch(ctx, func() { hints.Add(1) }) }) }()
	for n := range 3 {
		if n < 2 {
			p.findsNothing(t, p.options.Include)
		}
		before := hints.Load()
		fatal(t, p.birds[0].WriteFile("vouch.conf", old))
		sceneWait(t, "a hint", func() error {
			if hints.Load() == before {
				return errors.New("none")
			}
			return nil
		})
		fatal(t, p.birds[0].Configure(t.Context()))
		p.settle(t, routers.Withdrawn)
	}
	p.finds(t, routers.Warning, p.options.Include, "something else than vouch changes it, or puts another in its place, again and again")
	cancel()
	<-ended
}

// Who changes a file once, or seldom, is not told of. Who does it again within a day is, in the same words until a day
// is over without it, however long it goes on.
func TestContested(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	synctest.Test(t, func(t *testing.T) {
		m := &memo{}
		write := func(text string) {
			t.Helper()
			fatal(t, os.WriteFile(path, []byte(text), 0o644))
			_, err := m.read(path)
			fatal(t, err)
			fatal(t, m.write(path, []byte("ours")))
		}
		told := map[string]bool{}
		is := func(when string, want bool) {
			t.Helper()
			found := m.examine(path)
			if len(found) > 0 != want {
				t.Errorf("%s: %v", when, found)
			}
			for _, f := range found {
				told[findings([]routers.Finding{f})] = true
			}
		}
		write("found at the start")
		is("at the start", false)
		write("theirs")
		is("once", false)
		time.Sleep(26 * time.Hour)
		write("theirs")
		is("after more than a day", false)
		for range 10 {
			time.Sleep(24*time.Hour + time.Minute)
			is("before the next", m.contested(path))
			write("theirs")
			is("every night", true)
		}
		time.Sleep(24*time.Hour + time.Minute)
		_, err := m.read(path)
		fatal(t, err)
		is("a day after the last", true)
		time.Sleep(time.Hour)
		is("more than that", false)
		write("theirs")
		is("another time", false)
		time.Sleep(time.Minute)
		write("theirs")
		is("a minute later", true)
		if len(told) != 1 {
			t.Errorf("told in other words: %v", told)
		}
	})
}

// A withdraw is made at run time where something puts an old file back at once, so that BIRD would read that.
func TestOldFileIsPutBackAtOnce(t *testing.T) {
	for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRDHost, kind)
			p.settle(t, routers.Announced)
			path, old := p.options.Include, readFile(t, p.options.Include)
			ctx, cancel := context.WithCancel(t.Context())
			ended, ready := make(chan struct{}), make(chan struct{}, 1)
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_ = awaitFiles(ctx, []string{path}, func() {
						if text, err := include.Read(path); err == nil && string(text) != old {
							_ = include.Write(path, []byte(old))
						}
						select {
						case ready <- struct{}{}:
						default:
						}
					})
				}
			}()
			defer func() { cancel(); <-ended }()
			<-ready
			sceneWait(t, "vouch to see it", func() error {
				err := p.apply(t, changes(routers.Withdrawn))
				p.coreWaits(t, false, both...)
				if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "something else has changed "+path) {
					return fmt.Errorf("applying: %w", err)
				}
				return nil
			})
			cancel()
			<-ended
			p.settle(t, routers.Withdrawn)
			p.settle(t, routers.Announced)
		})
	}
}
