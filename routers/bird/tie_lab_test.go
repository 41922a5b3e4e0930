package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// withThird has the node's BIRD have a third prefix in a protocol of its own, by the number of the others.
func (p *pair) withThird(t *testing.T) netip.Prefix {
	t.Helper()
	text, err := p.birds[0].Config()
	fatal(t, err)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "protocol static anycast4 ") {
			text += strings.NewReplacer("anycast4", "third", four.String(), "10.53.53.54/32").Replace(line)
		}
	}
	fatal(t, p.birds[0].WriteConfig(text))
	fatal(t, p.birds[0].Configure(t.Context()))
	return netip.MustParsePrefix("10.53.53.54/32")
}

// anew has a driver that was just started, and knows of both prefixes alone, announce them.
func (p *pair) anew(t *testing.T) {
	t.Helper()
	_ = p.router.Close()
	p.router = New(p.options)
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
	fatal(t, p.apply(t, changes(routers.Announced)))
}

// A prefix that is not managed any more, and goes by the number of one that is, stays in the file and is told of while
// BIRD has its route, also by a driver that knows nothing else of it.
func TestLeftIsToldAfterAllIsLost(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			third := p.withThird(t)
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, third: {Service: "dns"}})
			p.settle(t, routers.Announced)
			for range 2 {
				p.anew(t)
				if text := readFile(t, p.options.Include); !strings.Contains(text, third.String()+" left DNS_OFF") {
					t.Errorf("the file: %s", text)
				}
				sceneWait(t, "the core to have the third", func() error {
					if has := p.coreHas(t.Context(), third); !strings.Contains(has, third.String()) {
						return errors.New(has)
					}
					return nil
				})
				p.finds(t, routers.Failing, third.String(), "goes by DNS_OFF as "+four.String()+" does: it is announced when that is, and now given to core4")
			}
			p.settle(t, routers.Withdrawn)
			p.finds(t, routers.Warning, third.String(), "it is announced when that is")
			p.settle(t, routers.Announced)
			p.rewriteFour(t, "static third { disabled DNS_OFF;", "static third {")
			p.findsNothing(t, third.String()) // the operator has taken it over
		})
	}
}

// Once BIRD has the route no more, the prefix is in the file no more.
func TestLeftGoesWithItsRoute(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	third := p.withThird(t)
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, third: {Service: "dns"}})
	p.settle(t, routers.Announced)
	p.without(t, fmt.Sprintf("route %s blackhole;", third))
	p.anew(t)
	if text := readFile(t, p.options.Include); strings.Contains(text, third.String()) {
		t.Errorf("the file: %s", text)
	}
	p.findsNothing(t, third.String())
}
