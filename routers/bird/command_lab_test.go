package bird

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// byCommandOnly has the pair driven by the release's own birdc, and gives it no way to the socket.
func (p *pair) byCommandOnly(t *testing.T) {
	t.Helper()
	o := p.options
	o.Via, o.Timeout = ViaCommand, 10*time.Second
	programs := []*string{&o.Birdc, &o.Birdc6}
	for i, b := range p.birds {
		client := b.Client()
		*programs[i] = sceneScript(t, client[:len(client)-2]) // the socket is among what vouch gives it
	}
	p.options = o
	p.router = New(o)
	t.Cleanup(func() { _ = p.router.Close() })
	p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
}

// F02: a life by birdc, also that which ends with 0 when BIRD refuses (1.6, and 2.0 before 2.0.10).
func TestLifeByCommand(t *testing.T) {
	for _, r := range []lab.Release{lab.BIRD1, lab.BIRD207, lab.BIRD3} {
		for _, kind := range []string{MethodProtocol, StyleSwitch, StyleList} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.byCommandOnly(t)
				for _, want := range []routers.Want{routers.Withdrawn, routers.Announced, routers.Degraded, routers.Announced, routers.Withdrawn, routers.Withdrawn} {
					p.settle(t, want)
				}
			})
		}
	}
}

// F02: what BIRD refuses is an error by birdc too, in BIRD's own words, and the withdraw is made at run time.
func TestRefusedByCommand(t *testing.T) {
	for _, r := range []lab.Release{lab.BIRD207, lab.BIRDHost} {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			p.byCommandOnly(t)
			p.settle(t, routers.Announced)
			p.breakConfiguration(t)
			p.withdrawsInSpite(t)
		})
	}
}
