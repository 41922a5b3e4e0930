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

// F06: several services change in a burst while somebody's configure takes its time, so that BIRD puts ours off.
// None of the changes is lost, and each Apply returns when its own is in force.
func TestBurstBesideSlowConfigure(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleRoutes)
			p.options.Timeout = 20 * time.Second // BIRD answers nothing while it reads the many
			p.router = New(p.options)
			defer func() { _ = p.router.Close() }()
			const services, each = 4, 3
			var ps []netip.Prefix
			labels := map[netip.Prefix]routers.Label{}
			for i := range services * each {
				ps = append(ps, netip.MustParsePrefix(fmt.Sprintf("10.60.0.%d/32", i)))
				labels[ps[i]] = routers.Label{Service: fmt.Sprint("s", i/each)}
			}
			p.router.SetLabels(labels)
			slow := 0
			for _, want := range []routers.Want{routers.Announced, routers.Withdrawn, routers.Announced, routers.Withdrawn} {
				if p.beginSlowConfigure(t) {
					slow++
				}
				for s := range services {
					var cs []routers.Change
					for _, q := range ps[s*each : (s+1)*each] {
						cs = append(cs, routers.Change{Prefix: q, Want: want})
					}
					fatal(t, p.apply(t, cs))
					p.inForce(t, cs)
				}
				p.allAre(t, ps, want)
			}
			if slow == 0 {
				t.Error("no configure took its time: nothing was shown")
			}
		})
	}
}

// inForce looks at BIRD's own table: what Apply asked for is there when it returns.
func (p *pair) inForce(t *testing.T, cs []routers.Change) {
	t.Helper()
	for _, c := range cs {
		text, err := p.birds[0].Show(sceneWithin(t, 20*time.Second), "show route "+c.Prefix.String())
		if there := err == nil && strings.Contains(text, c.Prefix.String()); there != (c.Want == routers.Announced) {
			t.Errorf("%s is to be %s, and bird says: %s (%v)", c.Prefix, c.Want, strings.TrimSpace(text), err)
		}
	}
}

// beginSlowConfigure has the operator give BIRD many routes, and take them away again. Whether that is still
// going on is told.
func (p *pair) beginSlowConfigure(t *testing.T) bool {
	t.Helper()
	const many = 60_000
	b := p.birds[0]
	text, err := b.Config()
	fatal(t, err)
	text, _, _ = strings.Cut(text, "# many\n")
	channel := " ipv4 { table many; };"
	text += "# many\nipv4 table many;\n"
	if b.Release().Split() {
		channel, text = " table many;", strings.Replace(text, "ipv4 table many", "table many", 1)
	}
	var routes strings.Builder
	for i := range many {
		fmt.Fprintf(&routes, "route 10.%d.%d.%d/32 blackhole;\n", 100+i>>16, i>>8&255, i&255)
	}
	ctx := sceneWithin(t, time.Minute)
	fatal(t, b.WriteConfig(text+"protocol static many4 {"+channel+"\n"+routes.String()+"}\n"))
	fatal(t, b.Configure(ctx))
	fatal(t, b.WriteConfig(text))
	reply, err := b.Show(ctx, "configure")
	fatal(t, err)
	return strings.Contains(reply, "0004 ")
}

// allAre waits until all prefixes are read to be as wanted, and the core has them or not.
func (p *pair) allAre(t *testing.T, ps []netip.Prefix, want routers.Want) {
	t.Helper()
	stage := map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent}[want]
	sceneWait(t, "all to be "+want.String(), func() error {
		var os []routers.Observation
		var err error
		p.inNode(t, func() { os, err = p.router.Observe(sceneWithin(t, 20*time.Second), ps) })
		for _, o := range os {
			has := p.coreHas(t.Context(), o.Prefix)
			if o.Stage != stage || strings.Contains(has, o.Prefix.String()) != (want == routers.Announced) {
				return fmt.Errorf("%+v, the core: %s", o, has)
			}
		}
		return err
	})
}
