package bird

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

// What is withdrawn while BIRD is away is in the file when it comes: it announces nothing. A file that was
// never there is made, as BIRD could not come without it.
func TestWithdrawnWhileAway(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(r, "/lost:", lost), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, StyleSwitch)
				p.settle(t, routers.Announced)
				for _, b := range p.birds {
					fatal(t, b.Stop())
				}
				for _, path := range []string{p.options.Include, p.options.Include6} {
					if lost && path != "" {
						fatal(t, os.Remove(path))
					}
				}
				if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "for when bird reads it") {
					t.Errorf("withdrawing: %v", err)
				}
				if err := p.apply(t, changes(routers.Announced)); !errors.Is(err, routers.ErrUnavailable) {
					t.Errorf("announcing: %v", err)
				}
				for i, b := range p.birds {
					fatal(t, b.Start(t.Context()))
					if value, err := b.Show(t.Context(), "eval DNS_OFF"); err != nil || !strings.Contains(value, "0023 1") && !strings.Contains(value, "0023-1") {
						t.Errorf("%d: DNS_OFF is %q, %v", i, value, err)
					}
				}
				sceneWait(t, "both to be read", func() error {
					if os := p.observed(t); os[0].Stage != routers.Absent || os[1].Stage != routers.Absent {
						return fmt.Errorf("%+v", os)
					}
					return nil
				})
				p.settle(t, routers.Announced)
			})
		}
	}
}

// A BIRD that hangs may announce what a lost file said, and cannot be asked: no file is made up for it.
func TestLostFileOfHungBird(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Announced)
	fatal(t, p.birds[0].Signal(syscall.SIGSTOP))
	defer func() { _ = p.birds[0].Signal(syscall.SIGCONT) }()
	one := []routers.Change{{Prefix: four, Want: routers.Withdrawn}}
	if err := p.apply(t, one); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("withdrawing: %v", err)
	}
	if text := readFile(t, p.options.Include); !strings.Contains(text, "DNS_OFF = 1") {
		t.Errorf("the file: %s", text)
	}
	fatal(t, os.Remove(p.options.Include))
	if err := p.apply(t, one); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("withdrawing: %v", err)
	}
	if text, err := include.Read(p.options.Include); text != nil || err != nil {
		t.Errorf("made up: %s, %v", text, err)
	}
}

// Somebody's `configure soft` leaves a route at the peer that the file lets pass no more. It is withdrawn
// all the same.
func TestSoftConfigure(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleList)
			p.settle(t, routers.Withdrawn)
			withdrawn := make([]string, len(p.birds))
			files := []string{"vouch.conf", "vouch6.conf"}
			for i, b := range p.birds {
				withdrawn[i] = readFile(t, b.Path(files[i]))
			}
			p.settle(t, routers.Announced)
			for i, b := range p.birds {
				fatal(t, b.WriteFile(files[i], withdrawn[i]))
				_, err := b.Show(t.Context(), "configure soft")
				fatal(t, err)
			}
			sceneWait(t, "both to be read as left behind", func() error {
				for i, o := range p.observed(t) { // 1.6 and 2.0.7 do not tell what was sent
					if !strings.Contains(p.coreHas(t.Context(), both[i]), both[i].String()) || tellsSentOf(r) && o.Stage != routers.Advertised {
						return fmt.Errorf("%+v", o)
					}
				}
				return nil
			})
			fatal(t, p.apply(t, changes(routers.Withdrawn)))
			p.settle(t, routers.Withdrawn)
		})
	}
}

// Where the file cannot be written, it is whole and as it was, and the protocol is disabled.
func TestFullDisk(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Announced)
	dir := filepath.Join(filepath.Dir(p.options.Include), "full")
	fatal(t, os.Mkdir(dir, 0o755))
	fatal(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	before := readFile(t, p.options.Include)
	real := filepath.Join(dir, "vouch.conf")
	fatal(t, os.WriteFile(real, []byte(before), 0o644))
	_ = os.WriteFile(filepath.Join(dir, "filler"), bytes.Repeat([]byte{'x'}, 8<<10), 0o644)
	fatal(t, os.Remove(p.options.Include))
	fatal(t, os.Symlink(real, p.options.Include))
	if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, routers.ErrRefused) {
		t.Errorf("withdrawing: %v", err)
	}
	if got := readFile(t, real); got != before {
		t.Errorf("the file is now\n%s", got)
	}
	sceneWait(t, "the core to have lost both", func() error {
		for _, q := range both {
			if has := p.coreHas(t.Context(), q); strings.Contains(has, q.String()) {
				return errors.New(has)
			}
		}
		return nil
	})
	fatal(t, os.Remove(filepath.Join(dir, "filler")))
	p.settle(t, routers.Withdrawn)
	p.settle(t, routers.Announced)
}

// With BIRD 1.6 a dead bird6 keeps nothing of IPv4.
func TestDeadBird6(t *testing.T) {
	for _, kind := range []string{MethodAddress, MethodProtocol, StyleSwitch} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRD1, kind)
			p.settle(t, routers.Withdrawn)
			fatal(t, p.birds[1].Kill())
			for want, stage := range map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent} {
				if err := p.apply(t, changes(want)); want == routers.Announced && !errors.Is(err, routers.ErrUnavailable) {
					t.Errorf("%s: %v", want, err)
				}
				sceneWait(t, "IPv4 alone to be "+want.String(), func() error {
					if os := p.observed(t); os[0].Stage != stage || os[1].Stage != routers.Unknown {
						return fmt.Errorf("%+v", os)
					}
					return nil
				})
			}
		})
	}
}
