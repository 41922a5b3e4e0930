package bird

import (
	"errors"
	"fmt"
	"net/netip"

	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// The symbols are others than before, as after a restart of vouch with another configuration, while bird.conf
// has the old ones. What is announced is withdrawn by them, and announced: the file has both, until bird.conf
// needs the old ones no more.
func TestOtherSymbols(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Announced)
				p.renamed()
				for i, o := range p.observed(t) {
					if o.Stage == routers.Absent || !o.Broken && kind != StyleRoutes || !strings.Contains(o.Detail, "by other symbols") {
						t.Errorf("%s after the renaming: %+v", both[i], o)
					}
				}
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Announced)
				p.says(t, kind != StyleRoutes)
				p.mendNames(t)
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Announced)
				p.renamed() // a run that asks anew whether the old ones are needed
				fatal(t, p.apply(t, changes(routers.Announced)))
				p.says(t, false)
				p.settle(t, routers.Announced)
			})
		}
	}
}

// The names that the operator's configuration has at first, and those that renamed makes of them.
var oldNames = map[string][2]string{
	StyleSwitch:   {"DNS_OFF", "DNS_OFF"},
	StyleList:     {"PFX4", "PFX6"},
	StyleFunction: {"match_route", "match_route"},
}

// says looks whether the file still has the old names.
func (p *pair) says(t *testing.T, old bool) {
	t.Helper()
	text := readFile(t, p.options.Include)
	if name := oldNames[p.options.Style][0]; name != "" && strings.Contains(text, name) != old {
		t.Errorf("%s in the file: %t, want %t\n%s", name, !old, old, text)
	}
}

// mendNames has the operator write the new names into bird.conf.
func (p *pair) mendNames(t *testing.T) {
	t.Helper()
	names, filtered := oldNames[p.options.Style]
	if !filtered {
		return
	}
	for _, b := range p.birds {
		text, err := b.Config()
		fatal(t, err)
		if names[0] == names[1] {
			text = strings.ReplaceAll(text, names[0], "NEW4")
		} else {
			text = strings.NewReplacer(names[0], "NEW4", names[1], "NEW6").Replace(text)
		}
		fatal(t, b.WriteConfig(text))
		fatal(t, b.Configure(t.Context()))
	}
}

// A protocol that vouch is not told of is not disabled, but named.
func TestOtherProtocol(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, MethodProtocol)
			p.settle(t, routers.Announced)
			p.renamed()
			err := p.apply(t, changes(routers.Withdrawn))
			for i, q := range both {
				name := []string{"dns", "dns6"}[i]
				if has := p.coreHas(t.Context(), q); !strings.Contains(has, q.String()) {
					t.Errorf("%s was disabled", name)
				}
				want := fmt.Sprintf("%s is a route of protocol %s, which vouch is not told of", q, name)
				if about := routers.About(err, q); !errors.Is(err, routers.ErrRefused) || !strings.Contains(fmt.Sprint(about), want) {
					t.Errorf("%s: %v", q, about)
				}
			}
		})
	}
}

// renamed has the driver be another one, with other symbols.
func (p *pair) renamed() {
	_ = p.router.Close()
	o := p.options
	o.Symbol, o.Symbol6 = "NEW4", "NEW6"
	if o.Style == StyleSwitch || o.Style == StyleFunction {
		o.Symbol6 = ""
	}
	p.router = New(o)
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
}

// A prefix that is not in vouch's configuration any more goes by the number of one that is: the other stays, and
// it goes as far as it can, also with a driver that was started since.
func TestLeftWithAnother(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprint(r, "/anew:", anew), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, StyleSwitch)
				p.settle(t, routers.Announced)
				if anew {
					all := p.router.names.known()
					_ = p.router.Close()
					p.router = New(p.options)
					p.router.SetLabels(all)
				}
				p.router.SetLabels(map[netip.Prefix]routers.Label{six: {Service: "dns"}})
				err := p.apply(t, []routers.Change{{Prefix: four, Want: routers.Withdrawn}})
				if bound := !r.Split(); bound != (errors.Is(err, routers.ErrRefused) && strings.Contains(fmt.Sprint(routers.About(err, four)), "take its route out of bird.conf")) {
					t.Errorf("withdrawing the one: %v", err)
				}
				p.only(t, r)
				fatal(t, p.apply(t, []routers.Change{{Prefix: six, Want: routers.Withdrawn}}))
				p.bothAre(t, map[bool]routers.Stage{true: routers.Absent, false: routers.Configured}[r.Split()], routers.Absent)
				fatal(t, p.apply(t, []routers.Change{{Prefix: six, Want: routers.Announced}}))
				p.without(t, "route 10.53.53.53/32 blackhole;", "route 10.53.53.53/32 blackhole { bgp_community.add((65001,666)); };")
				p.bothAre(t, routers.Absent, routers.Advertised)
			})
		}
	}
}

// only waits until the core has the one of IPv6 alone, and it is read so.
func (p *pair) only(t *testing.T, r lab.Release) {
	t.Helper()
	p.bothAre(t, map[bool]routers.Stage{true: routers.Absent, false: routers.Configured}[r.Split()], routers.Advertised)
	if !r.Split() {
		if o := p.observed(t)[0]; !strings.Contains(o.Detail, "goes by DNS_OFF as "+six.String()+" does") {
			t.Errorf("told of it: %+v", o)
		}
	}
	sceneWait(t, "the core to have the one alone", func() error {
		if has, lacks := p.coreHas(t.Context(), six), p.coreHas(t.Context(), four); !strings.Contains(has, six.String()) || strings.Contains(lacks, four.String()) {
			return errors.New(has + lacks)
		}
		return nil
	})
}

func (p *pair) bothAre(t *testing.T, stages ...routers.Stage) {
	t.Helper()
	sceneWait(t, fmt.Sprint("them to be ", stages), func() error {
		if os := p.observed(t); os[0].Stage != stages[0] || os[1].Stage != stages[1] {
			return fmt.Errorf("%+v", os)
		}
		return nil
	})
}

// without has the operator take a text out of bird.conf.
func (p *pair) without(t *testing.T, texts ...string) {
	t.Helper()
	text, err := p.birds[0].Config()
	fatal(t, err)
	for _, one := range texts {
		text = strings.ReplaceAll(text, one, "")
	}
	fatal(t, p.birds[0].WriteConfig(text))
	fatal(t, p.birds[0].Configure(t.Context()))
}

// The same of a protocol that has both: it stays as the other wants it.
func TestLeftWithAnotherInProtocol(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, MethodProtocol)
			const route = "route 10.53.53.54/32 blackhole;"
			left := netip.MustParsePrefix("10.53.53.54/32")
			text, err := p.birds[0].Config()
			fatal(t, err)
			fatal(t, p.birds[0].WriteConfig(strings.Replace(text, "route 10.53.53.53/32 blackhole;", "route 10.53.53.53/32 blackhole; "+route, 1)))
			fatal(t, p.birds[0].Configure(t.Context()))
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, left: {Service: "dns"}})
			p.settle(t, routers.Announced)
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
			is := func(stage routers.Stage) {
				t.Helper()
				sceneWait(t, "the one that is left to be "+stage.String(), func() error {
					os, err := p.router.Observe(sceneWithin(t, 5*time.Second), []netip.Prefix{left})
					if os[0].Stage != stage || stage != routers.Absent && !strings.Contains(os[0].Detail, "take its route out") {
						return fmt.Errorf("%+v, %w", os, err)
					}
					return nil
				})
			}
			is(routers.Advertised)
			if err := p.apply(t, []routers.Change{{Prefix: left, Want: routers.Withdrawn}}); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "goes by dns as "+four.String()+" does") {
				t.Errorf("withdrawing it: %v", err)
			}
			p.bothAre(t, routers.Advertised, routers.Advertised)
			p.settle(t, routers.Withdrawn)
			is(routers.Configured)
			p.without(t, route)
			is(routers.Absent)
		})
	}
}

// What is left of a service with a number of its own is off, and stays defined for as long as bird.conf says it,
// also for a driver that knows nothing of it.
func TestLeftAlone(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Announced)
	_ = p.router.Close()
	p.router = New(p.options)
	third := netip.MustParsePrefix("10.53.53.54/32")
	p.router.SetLabels(map[netip.Prefix]routers.Label{third: {Service: "other"}})
	fatal(t, p.apply(t, []routers.Change{{Prefix: third, Want: routers.Announced}}))
	if text := readFile(t, p.options.Include); !strings.Contains(text, "define DNS_OFF = 1;\n") || !strings.Contains(text, "define OTHER_OFF = 0;\n") {
		t.Errorf("the file: %s", text)
	}
	p.bothAre(t, routers.Absent, routers.Absent)
	fatal(t, p.birds[0].Restart(t.Context()))
	for _, b := range p.birds {
		text, err := b.Config()
		fatal(t, err)
		fatal(t, b.WriteConfig(strings.NewReplacer("disabled DNS_OFF; ", "", "disabled DNS_WORSE_OFF; ", "").Replace(text)))
	}
	_ = p.router.Close()
	p.router = New(p.options)
	p.router.SetLabels(map[netip.Prefix]routers.Label{third: {Service: "other"}})
	fatal(t, p.apply(t, []routers.Change{{Prefix: third, Want: routers.Announced}}))
	if text := readFile(t, p.options.Include); strings.Contains(text, "DNS_OFF") {
		t.Errorf("bird.conf does not say it any more: %s", text)
	}
}
