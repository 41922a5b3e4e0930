package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// lostBoth waits until the core has neither prefix, and both are read to be more than absent, disabled at run time
// by vouch: they are asked for again and again.
func (p *pair) lostBoth(t *testing.T) {
	t.Helper()
	sceneWait(t, "the core to have lost both", func() error {
		for i, o := range p.observed(t) {
			if has := p.coreHas(t.Context(), both[i]); strings.Contains(has, both[i].String()) || o.Stage != routers.Configured {
				return fmt.Errorf("%+v: %s", o, has)
			}
			if !strings.Contains(o.Detail, "was disabled at run time by vouch") || strings.Contains(o.Detail, "does a static protocol") {
				t.Fatalf("told of it: %+v", o)
			}
		}
		return nil
	})
}

// Whatever keeps a withdraw out of the file, it is made at run time.
func TestWithdrawnInSpiteOfTheFile(t *testing.T) {
	const foreign = "# theirs\n"
	for _, r := range lab.BIRDs {
		for what, spoil := range map[string]func(t *testing.T, p *pair, path string){
			"foreign": func(t *testing.T, _ *pair, path string) { fatal(t, os.WriteFile(path, []byte(foreign), 0o644)) },
			"a link to a foreign one": func(t *testing.T, p *pair, path string) {
				fatal(t, os.WriteFile(path+".theirs", []byte(foreign), 0o644))
				fatal(t, errors.Join(os.Remove(path), os.Symlink(path+".theirs", path)))
			},
			"a directory": func(t *testing.T, _ *pair, path string) {
				fatal(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o755)))
			},
			"a named pipe": func(t *testing.T, _ *pair, path string) {
				fatal(t, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)))
			},
		} {
			t.Run(fmt.Sprint(r, "/", what), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, StyleSwitch)
				p.settle(t, routers.Announced)
				paths := []string{p.options.Include}
				if r.Split() {
					paths = append(paths, p.options.Include6)
				}
				for _, path := range paths {
					spoil(t, p, path)
				}
				err := p.apply(t, changes(routers.Withdrawn))
				if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "disabled at run time") {
					t.Errorf("withdrawing: %v", err)
				}
				p.lostBoth(t)
				for _, path := range paths {
					fatal(t, os.RemoveAll(path))
				}
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Announced)
			})
		}
	}
}

// With the styles whose filter withdraws, a broken bird.conf has the protocol disabled that has the routes, static
// or direct.
func TestFilteredWithBrokenConfiguration(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleList, StyleFunction} {
			for _, direct := range []bool{false, true} {
				t.Run(fmt.Sprint(r, "/", kind, "/direct:", direct), func(t *testing.T) {
					t.Parallel()
					p := openPair(t, r, kind)
					if direct {
						p.goDirect(t)
					}
					p.settle(t, routers.Announced)
					was := p.breakConfiguration(t)
					if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "mend it") {
						t.Errorf("withdrawing: %v", err)
					}
					sceneWait(t, "the core to have lost both", func() error {
						for _, q := range both {
							if has := p.coreHas(t.Context(), q); strings.Contains(has, q.String()) {
								return errors.New(has)
							}
						}
						return nil
					})
					for i, b := range p.birds {
						fatal(t, b.WriteConfig(was[i]))
					}
					p.settle(t, routers.Withdrawn)
					p.settle(t, routers.Announced)
				})
			}
		}
	}
}

// goDirect has the routes come from addresses on lo.
func (p *pair) goDirect(t *testing.T) {
	t.Helper()
	for _, q := range both {
		_, err := p.node.Run(t.Context(), "ip", "addr", "add", q.String(), "dev", "lo")
		fatal(t, err)
	}
	for _, b := range p.birds {
		text, err := b.Config()
		fatal(t, err)
		for _, q := range both {
			text = strings.ReplaceAll(text, "route "+q.String()+" blackhole;", `interface "lo";`)
		}
		text = strings.ReplaceAll(text, "protocol static anycast", "protocol direct anycast")
		fatal(t, b.WriteConfig(text))
		fatal(t, b.Configure(t.Context()))
	}
}

// A protocol that has another service's prefix too is not disabled for the sick one, which is told.
func TestSharedProtocolIsNotDisabled(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleRoutes)
			well := netip.MustParsePrefix("10.53.53.54/32")
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, well: {Service: "well"}})
			fatal(t, p.apply(t, []routers.Change{{Prefix: well, Want: routers.Announced}}))
			p.settle(t, routers.Announced)
			was := p.breakConfiguration(t)
			err := p.apply(t, changes(routers.Withdrawn))
			if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "protocol vouch4 has "+well.String()+" beside "+four.String()) ||
				!strings.Contains(err.Error(), "`birdc disable vouch4` withdraws all of them") || !strings.Contains(err.Error(), "protocol vouch6 is disabled at run time") {
				t.Errorf("withdrawing: %v", err)
			}
			if !strings.Contains(p.coreHas(t.Context(), well), well.String()) {
				t.Error("the core has lost the one that is well")
			}
			for i, b := range p.birds {
				fatal(t, b.WriteConfig(was[i]))
			}
			p.settle(t, routers.Withdrawn)
		})
	}
}

// Where BIRD refuses what is to be announced, what is to be withdrawn does not wait for that.
func TestWithdrawsAreTriedAlone(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleRoutes)
	o := p.options
	o.Degraded.Community = []string{"65001:99999"} // none: of 16 bits
	p.router = New(o)
	defer func() { _ = p.router.Close() }()
	other := netip.MustParsePrefix("10.53.53.54/32")
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, other: {Service: "other"}})
	fatal(t, p.apply(t, []routers.Change{{Prefix: other, Want: routers.Announced}}))
	p.settle(t, routers.Announced)
	err := p.apply(t, append(changes(routers.Withdrawn), routers.Change{Prefix: other, Want: routers.Degraded}))
	if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "put back") {
		t.Errorf("the refusal: %v", err)
	}
	p.bothAre(t, routers.Absent, routers.Absent)
	if !strings.Contains(p.coreHas(t.Context(), other), other.String()) {
		t.Error("the core has lost the other one")
	}
}

// What was refused for somebody else's mistake is not in the file when that is mended: it may be sick by then.
func TestRefusedAnnounceIsNotLeftBehind(t *testing.T) {
	for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRDHost, kind)
			p.settle(t, routers.Withdrawn)
			before := readFile(t, p.options.Include)
			was := p.breakConfiguration(t)
			if err := p.apply(t, changes(routers.Announced)); !errors.Is(err, routers.ErrRefused) {
				t.Errorf("announcing: %v", err)
			}
			if got := readFile(t, p.options.Include); got != before {
				t.Errorf("the file is now\n%s\nand was\n%s", got, before)
			}
			fatal(t, p.birds[0].WriteConfig(was[0]))
			fatal(t, p.birds[0].Configure(t.Context()))
			p.bothAre(t, routers.Absent, routers.Absent)
		})
	}
}

// An old file that somebody has copied back is seen before BIRD reads it, and written anew.
func TestOldFileComesBack(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Announced)
				files, old := []string{"vouch.conf", "vouch6.conf"}, make([]string, len(p.birds))
				for i, b := range p.birds {
					old[i] = readFile(t, b.Path(files[i]))
				}
				p.settle(t, routers.Withdrawn)
				for i, b := range p.birds {
					fatal(t, b.WriteFile(files[i], old[i]))
				}
				for _, o := range p.observed(t) {
					if o.Stage != routers.Configured || !strings.Contains(o.Detail, "says that it is announced, for when bird reads that") {
						t.Errorf("it would be announced by the next configure: %+v", o)
					}
				}
				fatal(t, p.apply(t, changes(routers.Withdrawn)))
				for _, b := range p.birds {
					fatal(t, b.Restart(t.Context()))
				}
				p.bothAre(t, routers.Absent, routers.Absent)
			})
		}
	}
}

// A file that is lost while BIRD is away is made, so that BIRD can come. One that hangs is left as it is.
func TestFileIsMadeForBIRD(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			p.settle(t, routers.Announced)
			paths := []string{p.options.Include}
			if r.Split() {
				paths = append(paths, p.options.Include6)
			}
			for _, path := range paths {
				fatal(t, os.Remove(path))
			}
			for _, b := range p.birds {
				fatal(t, b.Signal(syscall.SIGSTOP))
			}
			fatal(t, p.router.Prepare(sceneWithin(t, 30*time.Second), both))
			for i, b := range p.birds {
				if _, err := os.Stat(paths[i]); err == nil {
					t.Errorf("made for one that hangs: %s", paths[i])
				}
				fatal(t, b.Signal(syscall.SIGCONT))
				fatal(t, b.Stop())
			}
			if os := p.observed(t); os[0].Stage != routers.Unknown || os[1].Stage != routers.Unknown {
				t.Errorf("with bird away: %+v", os)
			}
			fatal(t, p.router.Prepare(sceneWithin(t, 30*time.Second), both))
			for _, b := range p.birds {
				fatal(t, b.Start(t.Context()))
			}
			p.bothAre(t, routers.Absent, routers.Absent)
			p.settle(t, routers.Announced)
		})
	}
}
