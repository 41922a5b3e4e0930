package bird

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
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
	for range mostChanges {
		p.findsNothing(t, p.options.Include)
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
	p.finds(t, routers.Warning, p.options.Include, "something else than vouch has changed it, or put another in its place, at least 3 times in 5 minutes")
	cancel()
	<-ended
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
