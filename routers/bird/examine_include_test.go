package bird

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// servingPair is a pair whose node has the addresses.
func servingPair(t *testing.T, r lab.Release, kind string) *pair {
	t.Helper()
	p := openPair(t, r, kind)
	for _, q := range both {
		fatal(t, p.node.Address(t.Context(), "add", q.String(), "lo"))
	}
	return p
}

// examined is what the pair's driver finds, in the node.
func (p *pair) examined(t *testing.T) []routers.Finding {
	t.Helper()
	var all []routers.Finding
	p.inNode(t, func() { all = p.router.Examine(t.Context(), both) })
	return all
}

// finds fails unless something of that severity and subject is found.
func (p *pair) finds(t *testing.T, severity routers.Severity, subject, text string) {
	t.Helper()
	if all := p.examined(t); !says(all, severity, subject, text) {
		t.Errorf("no %s of %s that says %q:\n%s", severity, subject, text, findings(all))
	}
}

// findsNothing fails when something of that subject is found that is worse than a note.
func (p *pair) findsNothing(t *testing.T, subject string) {
	t.Helper()
	for _, f := range p.examined(t) {
		if f.Severity > routers.Notice && strings.HasPrefix(f.Subject, subject) && !inPart(f) {
			t.Errorf("%s %s: %s", f.Severity, f.Subject, f.Text)
		}
	}
}

// hindered fails unless exactly those prefixes are read to be hindered, with that text.
func (p *pair) hindered(t *testing.T, text string, ps ...netip.Prefix) {
	t.Helper()
	for _, o := range p.observed(t) {
		if want := slices.Contains(ps, o.Prefix); o.Hindered != "" != want || want && !strings.HasPrefix(o.Hindered, text) {
			t.Errorf("%s: hindered: %q", o.Prefix, o.Hindered)
		}
	}
}

// inFile gives the prefixes that the include file is for.
func (p *pair) inFile() []netip.Prefix {
	if len(p.birds) > 1 {
		return both[:1]
	}
	return both
}

// inPart says that only some of what is worse about a degraded prefix reaches a neighbour (worse.go).
func inPart(f routers.Finding) bool { return strings.HasPrefix(f.Text, "when a prefix is degraded") }

// settled waits until nothing of the session's beginning is found any more.
func (p *pair) settled(t *testing.T) {
	t.Helper()
	sceneWait(t, "the sessions", func() error {
		for _, f := range p.examined(t) {
			if strings.HasPrefix(f.Subject, "protocol core") && f.Severity > routers.Fine && !inPart(f) {
				return fmt.Errorf("%s: %s", f.Subject, f.Text)
			}
		}
		return nil
	})
}

// rewrite changes the node's configuration, and has BIRD read it where that is wanted.
func (p *pair) rewrite(t *testing.T, old, text string, configure bool) {
	t.Helper()
	for _, b := range p.birds {
		was, err := b.Config()
		fatal(t, err)
		if !strings.Contains(was, old) {
			t.Fatalf("there is no %q in %s", old, was)
		}
		fatal(t, b.WriteConfig(strings.ReplaceAll(was, old, text)))
		if configure {
			fatal(t, b.Configure(t.Context()))
		}
	}
}

// Every style in health, on every release: nothing worse than a note is found, announced or not.
func TestExamineWaysInHealth(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{MethodProtocol, StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := servingPair(t, r, kind)
				for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
					p.settle(t, want)
					p.settled(t)
					p.findsNothing(t, "")
					p.hindered(t, "")
				}
				if p.options.Method == MethodInclude {
					p.finds(t, routers.Fine, p.options.Include, "is vouch's to write")
					symbol, _ := p.router.names.of(four)
					subject := map[bool]string{true: "protocol " + symbol, false: symbol}[kind == StyleRoutes]
					p.finds(t, routers.Fine, subject, "is in force, for "+four.String())
				} else {
					p.finds(t, routers.Fine, "protocol dns", "has "+four.String())
				}
			})
		}
	}
}

// What may become of an include file, on every release.
func TestExamineIncludeFile(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, StyleSwitch)
			p.settled(t)
			path, version := p.options.Include, "bird "
			text, err := os.ReadFile(path)
			fatal(t, err)
			put := func(what string, do func() error) {
				t.Helper()
				fatal(t, os.RemoveAll(path))
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			put("missing", func() error { return nil })
			p.finds(t, routers.Failing, path, "is not there, though bird.conf includes it")
			p.findsNothing(t, "DNS_OFF") // that it is not in the file is told
			p.hindered(t, "")
			put("a directory", func() error { return os.Mkdir(path, 0o755) })
			p.finds(t, routers.Failing, path, "is a directory")
			p.hindered(t, path+" is no file that vouch can keep", p.inFile()...)
			put("a named pipe", func() error { return syscall.Mkfifo(path, 0o644) })
			p.finds(t, routers.Failing, path, "is no file, but p")
			put("another's", func() error { return os.WriteFile(path, []byte("define DNS_OFF = 0;\n"), 0o644) })
			p.finds(t, routers.Failing, path, "was not written by vouch")
			p.hindered(t, path+" was not written by vouch", p.inFile()...)
			elsewhere := filepath.Join(t.TempDir(), "elsewhere.conf")
			put("a link to nothing", func() error { return os.Symlink(elsewhere, path) })
			p.finds(t, routers.Notice, path, "is a link to "+elsewhere+", which is not there")
			p.finds(t, routers.Failing, path, "is not there, though bird.conf includes it")
			fatal(t, os.WriteFile(elsewhere, text, 0o644))
			p.finds(t, routers.Notice, path, "is a link to "+elsewhere+", which is written in its place")
			put("damaged", func() error { return os.WriteFile(path, text[:len(text)-60], 0o644) })
			p.finds(t, routers.Warning, path, "is damaged: ")
			put("put back", func() error { return os.WriteFile(path, text, 0o644) })
			p.findsNothing(t, "")

			p.rewrite(t, "router id", "nonsense;\nrouter id", false)
			p.finds(t, routers.Failing, version, "would not start with its configuration as it is in the files")
			p.rewrite(t, "nonsense;\n", "", true)
			p.findsNothing(t, "")
		})
	}
}

// What BIRD knows of what is in the file, and who uses it, on every release.
func TestExamineSymbols(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, StyleSwitch)
			p.settled(t)
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns", Symbol: "OTHER"}, six: {Service: "dns", Symbol: "OTHER"}})
			p.finds(t, routers.Failing, "OTHER", "is not known to bird, and is what 10.53.53.53/32")
			p.hindered(t, "") // the file gets it with the next change
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
			p.findsNothing(t, "")

			p.rewrite(t, "disabled DNS_OFF;", "", true) // nobody heeds the switch
			sceneWait(t, "the prefix to be given", func() error {
				if os := p.observed(t); os[0].Stage != routers.Advertised {
					return fmt.Errorf("%+v", os)
				}
				return nil
			})
			p.finds(t, routers.Failing, four.String(), "DNS_OFF is 1, and yet it is given to core4")

			p.rewrite(t, "include \"vouch", "define DNS_OFF = 1; define DNS_WORSE_OFF = 1; # \"vouch", true)
			fatal(t, os.WriteFile(p.options.Include, nil, 0o644))
			p.finds(t, routers.Warning, "DNS_OFF", "is known to bird, and is not in "+p.options.Include)
		})
	}
}

// A file that is included in the place of ours, and says the same now, is not ours, on every release and in every style.
func TestExamineAnotherIncluded(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := servingPair(t, r, kind)
				p.settled(t)
				fatal(t, p.birds[0].WriteFile("theirs.conf", readFile(t, p.options.Include)))
				p.rewriteFour(t, `include "vouch.conf"`, `include "theirs.conf"`)
				symbol, _ := p.router.names.of(four)
				subject := map[bool]string{true: "protocol " + symbol, false: symbol}[kind == StyleRoutes]
				p.finds(t, routers.Failing, subject, "is known to bird, but "+p.birds[0].ConfigFile()+" does not include "+p.options.Include)
			})
		}
	}
}

func TestExamineNotIncluded(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := servingPair(t, r, kind)
				for i, b := range p.birds {
					fatal(t, b.WriteConfig(sceneConfig(strings.NewReplacer("F4", "", "F6", "").Replace(pairNode), r, []string{"4", "6"}[i])))
					fatal(t, b.Configure(t.Context()))
				}
				symbol, _ := p.router.names.of(four)
				p.finds(t, routers.Failing, symbol, "bird does not know it: bird.conf does not include the file")
				p.hindered(t, "bird does not know ", both...)
				if kind != StyleRoutes {
					p.finds(t, routers.Warning, four.String(), "no static protocol has a route to it")
				}
				fatal(t, os.Remove(p.options.Include))
				p.finds(t, routers.Notice, p.options.Include, "is not there yet, and bird.conf does not include it")
				p.hindered(t, "bird does not know ", both...)
			})
		}
	}
}

// With a list or a function the route has to stay.
func TestExamineRouteIsDown(t *testing.T) {
	p := servingPair(t, lab.BIRDHost, StyleList)
	p.rewrite(t, "protocol static anycast4 {", "protocol static anycast4 { disabled;", true)
	p.finds(t, routers.Warning, four.String(), "its route is in protocol anycast4, which is down")
}

// BIRD is away: the file may be why.
func TestExamineFileWhileAway(t *testing.T) {
	dir := t.TempDir()
	o := Options{Method: MethodInclude, Include: filepath.Join(dir, "vouch.conf"), Via: ViaSocket, Socket: filepath.Join(dir, "none"), Socket6: filepath.Join(dir, "none")}
	r := New(o)
	defer r.Close()
	if all := r.Examine(t.Context(), both); !says(all, routers.Warning, o.Include, "is not there: a bird.conf that includes it") || !says(all, routers.Failing, "bird", "no such socket") {
		t.Error(findings(all))
	}
}

// Protocols that are to be enabled and disabled, on every release.
func TestExamineProtocols(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, MethodProtocol)
			p.settled(t)
			label := func(symbol string) {
				p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns", Symbol: symbol}})
			}
			label("nosuch")
			p.finds(t, routers.Failing, "protocol nosuch", "bird has no such protocol")
			p.hindered(t, "bird has no protocol nosuch: name the one that has 10.53.53.53/32", four)
			label("core4")
			p.finds(t, routers.Failing, "protocol core4", "is not a static protocol, but one of kind BGP")
			label("more4")
			text, err := p.birds[0].Config()
			fatal(t, err)
			fatal(t, p.birds[0].WriteConfig(text+sceneConfig("4: protocol static more4 { ipv4; route 10.77.0.0/16 blackhole; }\n", r, "4")))
			fatal(t, p.birds[0].Configure(t.Context()))
			p.finds(t, routers.Failing, "protocol more4", "has no route to 10.53.53.53/32")
			p.finds(t, routers.Warning, "protocol more4", "has routes beside 10.53.53.53/32, which go and come with them: 10.77.0.0/16")
			_, err = p.birds[0].Show(t.Context(), "enable dns")
			fatal(t, err)
			sceneWait(t, "the other protocol to be seen", func() error {
				if all := p.examined(t); !says(all, routers.Failing, four.String(), "is given to core4 by protocol dns, which vouch does not disable") {
					return fmt.Errorf("%s", findings(all))
				}
				return nil
			})
		})
	}
}

func TestExamineDirectProtocol(t *testing.T) {
	h := holders{kinds: map[string]string{"lo4": kindDirect}}
	got := h.examineProtocols([]use{{name: "lo4", prefixes: []netip.Prefix{four}}})
	if len(got) != 1 || !says(got, routers.Warning, "protocol lo4", "is a direct protocol") {
		t.Error(findings(got))
	}
}

func TestUses(t *testing.T) {
	n := noNames(Options{Symbol: "{SERVICE}_OFF", Symbol6: "{SERVICE}_OFF", Degraded: Degraded{Symbol: "WORSE"}})
	n.set(map[netip.Prefix]routers.Label{four: {Service: "a"}, six: {Service: "a"}})
	got := n.uses(both)
	if len(got) != 2 || got[0].name != "A_OFF" || !slices.Equal(got[0].prefixes, both) || got[1].name != "WORSE" || !got[1].worse || len(got[1].prefixes) != 1 {
		t.Errorf("%+v", got)
	}
}
