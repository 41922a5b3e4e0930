package bird

import (
	"errors"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// A switch that the protocol does not say "disabled" by withdraws nothing. The protocol is disabled at run time, each
// time that somebody's configure enables it, and a service that is well again is announced.
func TestSwitchThatDisablesNothing(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			for _, b := range p.birds {
				text, err := b.Config()
				fatal(t, err)
				unwired := strings.ReplaceAll(text, "disabled DNS_OFF;", "")
				if unwired == text {
					t.Fatalf("nothing to take out of\n%s", text)
				}
				fatal(t, b.WriteConfig(unwired))
				fatal(t, b.Configure(t.Context()))
			}
			p.settle(t, routers.Announced)
			for _, again := range []string{"first", "after another's configure"} {
				err := p.apply(t, changes(routers.Withdrawn))
				if err == nil || !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "DNS_OFF is 1, which does not disable") ||
					!strings.Contains(err.Error(), "disabled at run time") {
					t.Errorf("%s: withdrawing: %v", again, err)
				}
				sceneWait(t, "the core to have lost both", func() error {
					for _, q := range both {
						if has := p.coreHas(t.Context(), q); strings.Contains(has, q.String()) {
							return errors.New(has)
						}
					}
					return nil
				})
				for _, b := range p.birds {
					fatal(t, b.Configure(t.Context()))
				}
				sceneWait(t, "the core to have both", func() error {
					for _, q := range both {
						if has := p.coreHas(t.Context(), q); !strings.Contains(has, q.String()) {
							return errors.New(has)
						}
					}
					return nil
				})
			}
			p.settle(t, routers.Announced)
		})
	}
}

// A healthy prefix that is there though the file and BIRD say off, as when somebody enabled its protocol, is not as it
// ought to be: the next configure would take it away.
func TestOnByHandIsBroken(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			p.settle(t, routers.Announced)
			p.settle(t, routers.Withdrawn)
			for _, b := range p.birds {
				_, err := b.Birdc(t.Context(), `enable "anycast*"`)
				fatal(t, err)
			}
			sceneWait(t, "both to be there and broken", func() error {
				for _, o := range p.observed(t) {
					if o.Stage != routers.Advertised || !o.Broken {
						return errors.New(o.Detail)
					}
				}
				return nil
			})
			p.settle(t, routers.Announced)
			for _, b := range p.birds {
				fatal(t, b.Configure(t.Context()))
			}
			p.settle(t, routers.Announced)
			for i, q := range both {
				if has := p.coreHas(t.Context(), q); !strings.Contains(has, q.String()) {
					t.Errorf("%d: another's configure took it away: %s", i, has)
				}
			}
		})
	}
}
