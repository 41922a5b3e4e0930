package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// observed reads both prefixes once.
func (p *pair) observed(t *testing.T) []routers.Observation {
	t.Helper()
	var os []routers.Observation
	p.inNode(t, func() { os, _ = p.router.Observe(sceneWithin(t, 10*time.Second), both) })
	return os
}

func (p *pair) apply(t *testing.T, cs []routers.Change) (err error) {
	t.Helper()
	p.inNode(t, func() { err = p.router.Apply(sceneWithin(t, 2*time.Minute), cs) })
	return err
}

// Anybody's configure enables a protocol that was disabled at run time, on every release. It is seen, and
// disabled again. What is switched off in the file stays off, also over a restart of BIRD.
func TestAnothersConfigure(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r, "/", MethodProtocol), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, MethodProtocol)
			p.settle(t, routers.Announced)
			p.settle(t, routers.Withdrawn)
			for i, b := range p.birds { // the operator's configuration has it enabled
				text, err := b.Config()
				fatal(t, err)
				fatal(t, b.WriteConfig(strings.ReplaceAll(text, "{ disabled;", "{")))
				fatal(t, p.birds[i].Configure(t.Context()))
			}
			sceneWait(t, "the undo to be seen", func() error {
				if os := p.observed(t); os[0].Stage < routers.Selected || os[1].Stage < routers.Selected {
					return fmt.Errorf("%+v", os)
				}
				return nil
			})
			p.settle(t, routers.Withdrawn)
		})
		t.Run(fmt.Sprint(r, "/", StyleSwitch), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			p.settle(t, routers.Announced)
			p.settle(t, routers.Withdrawn)
			for _, b := range p.birds {
				fatal(t, b.Configure(t.Context()))
				fatal(t, b.Restart(t.Context()))
			}
			for i, o := range p.observed(t) {
				if o.Stage != routers.Absent {
					t.Errorf("%s after a configure and a restart: %+v", both[i], o)
				}
			}
			p.settle(t, routers.Announced)
			for _, b := range p.birds {
				fatal(t, errors.Join(b.Kill(), b.Start(t.Context())))
			}
			sceneWait(t, "what was announced to be so again", func() error {
				if os := p.observed(t); os[0].Stage != routers.Advertised || os[1].Stage != routers.Advertised {
					return fmt.Errorf("%+v", os)
				}
				return nil
			})
		})
	}
}

// A mistake of the operator's in bird.conf keeps no withdraw: it is made at run time, and is in the file for
// when the mistake is mended. Until then the prefix is read to be more than absent, so that it is asked for
// again and again.
func TestBrokenConfiguration(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			p.settle(t, routers.Announced)
			was := p.breakConfiguration(t)
			p.withdrawsInSpite(t)
			for i, b := range p.birds {
				fatal(t, b.WriteConfig(was[i]))
				fatal(t, b.Configure(t.Context()))
			}
			for i, o := range p.observed(t) {
				if o.Stage != routers.Absent {
					t.Errorf("%s after it was mended: %+v", both[i], o)
				}
			}
			p.settle(t, routers.Announced)
		})
	}
}

// breakConfiguration has the operator make a mistake, and gives the text of each configuration from before.
func (p *pair) breakConfiguration(t *testing.T) []string {
	t.Helper()
	was := make([]string, len(p.birds))
	for i, b := range p.birds {
		text, err := b.Config()
		fatal(t, err)
		was[i] = text
		fatal(t, b.WriteConfig(text+"\nprotocol nonsense {\n"))
	}
	return was
}

// withdrawsInSpite has what is announced withdrawn with style switch, though the operator's mistake keeps BIRD
// from reading the file.
func (p *pair) withdrawsInSpite(t *testing.T) {
	t.Helper()
	err := p.apply(t, changes(routers.Withdrawn))
	if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "mend it") {
		t.Errorf("the refusal: %v", err)
	}
	sceneWait(t, "the core to have lost both", func() error {
		os := p.observed(t)
		for i, o := range os { // its switch is still on in what BIRD runs with
			if o.Stage != routers.Configured || len(o.Reached()) > 0 || strings.Contains(p.coreHas(t.Context(), both[i]), both[i].String()) {
				return fmt.Errorf("%+v", o)
			}
		}
		return nil
	})
}

// What BIRD does not take of ours is left nowhere: the file is as it was.
func TestRefusedFile(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleRoutes)
	p.settle(t, routers.Withdrawn)
	before := readFile(t, p.options.Include)
	bad := New(func() Options { o := p.options; o.Symbol = "core4"; return o }()) // the name of a protocol that is there
	defer func() { _ = bad.Close() }()
	bad.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}})
	var err error
	p.inNode(t, func() { err = bad.Apply(t.Context(), []routers.Change{{Prefix: four, Want: routers.Announced}}) })
	if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "put back") || !strings.Contains(err.Error(), "already defined") {
		t.Errorf("the refusal: %v", err)
	}
	if got := readFile(t, p.options.Include); got != before {
		t.Errorf("the file is now\n%s\nand was\n%s", got, before)
	}
	fatal(t, p.birds[0].Restart(t.Context()))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal(t, err)
	return string(b)
}

// A file of somebody else's is never overwritten.
func TestForeignFile(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	const theirs = "define DNS_OFF = 1;\ndefine DNS_WORSE_OFF = 1;\n"
	fatal(t, p.birds[0].WriteFile("vouch.conf", theirs))
	err := p.apply(t, changes(routers.Announced))
	if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "not vouch's") || readFile(t, p.options.Include) != theirs {
		t.Errorf("%v; the file: %s", err, readFile(t, p.options.Include))
	}
}

// The file may be a link to one elsewhere, and keeps its mode and owner.
func TestLinkedFile(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Withdrawn)
	real := filepath.Join(t.TempDir(), "real.conf")
	fatal(t, os.WriteFile(real, []byte(readFile(t, p.options.Include)), 0o604))
	fatal(t, os.Chmod(real, 0o604))
	fatal(t, os.Chown(real, 7, 9))
	for dir := filepath.Dir(real); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		fatal(t, os.Chmod(dir, 0o755))
	}
	fatal(t, os.Remove(p.options.Include))
	fatal(t, os.Symlink(real, p.options.Include))
	p.settle(t, routers.Announced)
	if to, err := os.Readlink(p.options.Include); err != nil || to != real {
		t.Errorf("the link: %q, %v", to, err)
	}
	info, err := os.Stat(real)
	fatal(t, err)
	if info.Mode().Perm() != 0o604 || info.Sys().(*syscall.Stat_t).Uid != 7 || info.Sys().(*syscall.Stat_t).Gid != 9 {
		t.Errorf("the file: %v, %+v", info.Mode(), info.Sys())
	}
}

// With the file lost, a change of one service leaves the others as BIRD has them.
func TestLostFile(t *testing.T) {
	for _, kind := range []string{StyleRoutes, StyleList, StyleFunction} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRDHost, kind)
			p.router.SetLabels(map[netip.Prefix]routers.Label{six: {Service: "other"}})
			p.settle(t, routers.Announced)
			fatal(t, os.Remove(p.options.Include))
			fatal(t, p.apply(t, []routers.Change{{Prefix: four, Want: routers.Withdrawn}}))
			sceneWait(t, "only the one to be gone", func() error {
				if os := p.observed(t); os[0].Stage != routers.Absent || os[1].Stage != routers.Advertised {
					return fmt.Errorf("%+v", os)
				}
				return nil
			})
			if !strings.Contains(p.coreHas(t.Context(), six), six.String()) {
				t.Error("the core has lost the other one")
			}
		})
	}
}

// BIRD does not start without the file that it is to include. A withdraw makes it, also for a BIRD that is
// away.
func TestFileForBIRDThatIsAway(t *testing.T) {
	for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRD217, kind)
			fatal(t, errors.Join(p.birds[0].Stop(), os.Remove(p.options.Include)))
			if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, routers.ErrUnavailable) {
				t.Errorf("with BIRD away: %v", err)
			}
			fatal(t, p.birds[0].Start(t.Context()))
			p.settle(t, routers.Withdrawn)
			p.settle(t, routers.Announced)
		})
	}
}

// A BIRD that ends and comes back is a hint each time, and no reason to stop watching.
func TestWatchRestart(t *testing.T) {
	p := openPair(t, lab.BIRDHost, MethodProtocol)
	ctx := sceneWithin(t, time.Minute)
	var hints atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- p.node.Do(func() error { return p.router.Watch(ctx, func() { hints.Add(1) }) })
	}()
	waitFor := func(what string, more int64) {
		sceneWait(t, what, func() error {
			if got := hints.Load(); got < more {
				return fmt.Errorf("%d hints", got)
			}
			return nil
		})
	}
	waitFor("the watch to begin", 1)
	before := hints.Load()
	fatal(t, p.birds[0].Kill())
	waitFor("the end to be told", before+1)
	before = hints.Load()
	fatal(t, p.birds[0].Start(t.Context()))
	waitFor("the return to be told", before+1)
	select {
	case err := <-done:
		t.Errorf("the watch has ended: %v", err)
	default:
	}
}
