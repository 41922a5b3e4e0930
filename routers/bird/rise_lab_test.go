package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// coreWaits waits until the core has all of the prefixes, or none.
func (p *pair) coreWaits(t *testing.T, has bool, ps ...netip.Prefix) {
	t.Helper()
	sceneWait(t, fmt.Sprintf("the core to have %v: %t", ps, has), func() error {
		for _, q := range ps {
			if text := p.coreHas(t.Context(), q); strings.Contains(text, q.String()) != has {
				return errors.New(text)
			}
		}
		return nil
	})
}

// A service that was withdrawn at run time, and is well again, is announced at run time: the configuration that keeps
// the file from coming into force may stay broken for long.
func TestWellAgainInSpiteOfTheFile(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Announced)
				was := p.breakConfiguration(t)
				for range 2 {
					if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "disabled at run time") {
						t.Errorf("withdrawing: %v", err)
					}
					p.coreWaits(t, false, both...)
					if err := p.apply(t, changes(routers.Announced)); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "enabled at run time again") {
						t.Errorf("announcing: %v", err)
					}
					p.coreWaits(t, true, both...)
				}
				if err := p.apply(t, changes(routers.Announced)); strings.Contains(err.Error(), "at run time") {
					t.Errorf("enabled more than once: %v", err)
				}
				for i, b := range p.birds { // as the message says
					fatal(t, b.WriteConfig(was[i]))
					fatal(t, b.Configure(t.Context()))
				}
				for _, o := range p.observed(t) {
					if o.Stage != routers.Advertised || o.Broken {
						t.Errorf("once it is mended: %+v", o)
					}
				}
				p.coreWaits(t, true, both...)
				p.settle(t, routers.Withdrawn)
				p.settle(t, routers.Announced)
			})
		}
	}
}

// A protocol that has one which is to stay away is not enabled for the other, nor one that BIRD has been told to have
// off, nor for what is to be degraded.
func TestRisesWithNothingElse(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleRoutes)
	other := netip.MustParsePrefix("10.53.53.54/32")
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, other: {Service: "other"}})
	only := func(q netip.Prefix, w routers.Want) []routers.Change { return []routers.Change{{Prefix: q, Want: w}} }
	fatal(t, p.apply(t, only(other, routers.Announced)))
	p.settle(t, routers.Announced)
	p.breakConfiguration(t)
	_ = p.apply(t, append(changes(routers.Withdrawn), only(other, routers.Withdrawn)...))
	p.coreWaits(t, false, four, six, other)
	for _, q := range both {
		if err := p.apply(t, only(q, routers.Degraded)); strings.Contains(err.Error(), "enabled at run time") {
			t.Errorf("%s as usual, though it is to be degraded: %v", q, err)
		}
	}
	if err := p.apply(t, only(four, routers.Announced)); strings.Contains(err.Error(), "enabled at run time") {
		t.Errorf("with one that is sick: %v", err)
	}
	if err := p.apply(t, only(other, routers.Announced)); !strings.Contains(err.Error(), "protocol vouch4 is enabled at run time again") {
		t.Errorf("both are well: %v", err)
	}
	p.coreWaits(t, true, four, other)
}

// What BIRD has been told to have off is not enabled, whoever enabled it before that.
func TestRisesOnlyByWhatIsInForce(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Withdrawn)
	_, err := p.birds[0].Birdc(t.Context(), `enable "anycast*"`)
	fatal(t, err)
	p.coreWaits(t, true, both...)
	fatal(t, os.WriteFile(p.options.Include, []byte("# theirs\n"), 0o644))
	if err := p.apply(t, changes(routers.Withdrawn)); err == nil || !strings.Contains(err.Error(), "disabled at run time") {
		t.Errorf("withdrawing: %v", err)
	}
	p.coreWaits(t, false, both...)
	if err := p.apply(t, changes(routers.Announced)); err == nil || strings.Contains(err.Error(), "enabled at run time") {
		t.Errorf("announcing: %v", err)
	}
}
