package bird

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// A thousand prefixes are one configure.
func TestThousandAtOnce(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleRoutes)
	const n = 1000
	ps := make([]netip.Prefix, n)
	labels := map[netip.Prefix]routers.Label{}
	for i := range ps {
		ps[i] = netip.MustParsePrefix(fmt.Sprintf("10.60.%d.%d/32", i/250, i%250))
		labels[ps[i]] = routers.Label{Service: "dns"}
	}
	p.router.SetLabels(labels)
	for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
		cs := make([]routers.Change, n)
		for i, q := range ps {
			cs[i] = routers.Change{Prefix: q, Want: want}
		}
		before := strings.Count(p.birds[0].Log(), "> Reconfigured")
		began := time.Now()
		fatal(t, p.apply(t, cs))
		goal := map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent}[want]
		sceneWait(t, "all of them "+want.String(), func() error {
			os, err := p.router.Observe(sceneWithin(t, 5*time.Second), ps)
			for _, o := range os {
				if o.Stage != goal {
					return fmt.Errorf("%+v, %w", o, err)
				}
			}
			return err
		})
		t.Logf("%d %s and read to be so in %v", n, want, time.Since(began))
		if asked := strings.Count(p.birds[0].Log(), "> Reconfigured") - before; asked != 1 {
			t.Errorf("%s: %d configures", want, asked)
		}
	}
}
