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
// has the old ones. With an include file what is announced is withdrawn all the same, at run time; a protocol
// that vouch is not told of is not disabled. What is found says what is wrong, and so does the refusal.
func TestOtherSymbols(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{MethodProtocol, StyleSwitch, StyleRoutes, StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Announced)
				p.renamed()
				var asked error
				ctx := sceneWithin(t, 15*time.Second)
				there := func() bool {
					return strings.Contains(p.coreHas(ctx, four), four.String()) || strings.Contains(p.coreHas(ctx, six), six.String())
				}
				if kind != StyleRoutes {
					name := map[bool]string{true: "protocol NEW4", false: "NEW4"}[kind == MethodProtocol]
					p.finds(t, routers.Failing, name, "")
				}
				if kind == MethodProtocol {
					p.finds(t, routers.Failing, four.String(), "is given to core4 by protocol dns, which vouch does not disable")
					if asked = p.apply(t, changes(routers.Withdrawn)); !errors.Is(asked, routers.ErrRefused) || !there() {
						t.Errorf("a protocol that is not ours was disabled: %v", asked)
					}
					return
				}
				fatal(t, lab.Wait(ctx, "the core to lose them", 50*time.Millisecond, func() (bool, error) {
					asked = p.apply(t, changes(routers.Withdrawn))
					return !there(), nil
				}))
				if told := errors.Is(asked, routers.ErrRefused); told != (kind != StyleRoutes) {
					t.Errorf("told: %v", asked)
				}
			})
		}
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
