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
			os, err := p.router.Observe(sceneWithin(t, 30*time.Second), ps)
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

// A thousand services, each with a number of its own, are announced and withdrawn in one go too: what each goes by
// is known without looking at all the others.
func TestThousandServices(t *testing.T) {
	for _, kind := range []string{StyleSwitch, StyleList} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lab.BIRDHost, kind)
			const n = 1000
			ps, labels := make([]netip.Prefix, n), map[netip.Prefix]routers.Label{}
			var origin strings.Builder
			for i := range ps {
				ps[i] = netip.MustParsePrefix(fmt.Sprintf("10.60.%d.%d/32", i/250, i%250))
				labels[ps[i]] = routers.Label{Service: fmt.Sprintf("s-%d", i)}
				off := map[bool]string{true: fmt.Sprintf("disabled S_%d_OFF; ", i)}[kind == StyleSwitch]
				fmt.Fprintf(&origin, "protocol static s%d { %sipv4; route %s blackhole; }\n", i, off, ps[i])
			}
			p.router.SetLabels(labels)
			all := func(want routers.Want) (cs []routers.Change) {
				for _, q := range ps {
					cs = append(cs, routers.Change{Prefix: q, Want: want})
				}
				return cs
			}
			fatal(t, p.apply(t, all(routers.Withdrawn))) // the file has the numbers before they are used
			text, err := p.birds[0].Config()
			fatal(t, err)
			fatal(t, p.birds[0].WriteConfig(text+origin.String()))
			fatal(t, p.birds[0].Configure(sceneWithin(t, time.Minute)))
			for want, goal := range map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent} {
				began := time.Now()
				fatal(t, p.apply(t, all(want)))
				sceneWait(t, "all of them "+want.String(), func() error {
					os, err := p.router.Observe(sceneWithin(t, 30*time.Second), ps)
					for _, o := range os {
						if o.Stage != goal || o.Broken {
							return fmt.Errorf("%+v, %w", o, err)
						}
					}
					return err
				})
				t.Logf("%d services %s and read to be so in %v", n, want, time.Since(began))
			}
		})
	}
}
