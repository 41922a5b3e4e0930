package bird

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

const stubNode = `
router id 10.0.1.2;
protocol device { }
4: protocol ospf v2 o4 { ipv4 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; interface "lo" { stub yes; }; }; }
6: protocol ospf v3 o6 { ipv6 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; interface "lo" { stub yes; }; }; }
`

const stubCore = `
router id 10.0.1.1;
protocol device { }
4: protocol ospf v2 o4 { ipv4 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; }; }
6: protocol ospf v3 o6 { ipv6 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; }; }
`

// Addresses of a stub interface are announced without a route and without a filter, on every release. OSPFv3 needs a
// link-local address there.
func TestStubs(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			net := lab.Open(t, r)
			ctx := sceneWithin(t, 30*time.Second)
			core, err := net.Node("core")
			fatal(t, err)
			node, err := net.Node("node")
			fatal(t, err)
			fatal(t, net.Link(node, "eth0", []string{"10.0.1.2/29"}, core, "eth0", []string{"10.0.1.1/29"}))
			p := &pair{node: node, options: pairOptions(MethodAddress)}
			p.options.Interface = "lo"
			_, err = core.BIRD(ctx, r, sceneConfig(stubCore, r, "4"))
			fatal(t, err)
			b, err := node.BIRD(ctx, r, sceneConfig(stubNode, r, "4"))
			fatal(t, err)
			p.options.Socket, p.options.Socket6 = b.Socket(), b.Socket()+".none"
			if r.Split() {
				_, err = core.BIRD6(ctx, r, sceneConfig(stubCore, r, "6"))
				fatal(t, err)
				b6, err := node.BIRD6(ctx, r, sceneConfig(stubNode, r, "6"))
				fatal(t, err)
				p.options.Socket6 = b6.Socket()
			}
			p.router = New(p.options)
			t.Cleanup(func() { _ = p.router.Close() })
			p.stubs(t)
		})
	}
}

func (p *pair) stubs(t *testing.T) {
	stage := func(i int, want routers.Stage) {
		t.Helper()
		sceneWait(t, fmt.Sprintf("%s to be %s", both[i], want), func() error {
			if o := p.observed(t)[i]; o.Stage != want {
				return fmt.Errorf("%+v", o)
			}
			return nil
		})
	}
	fatal(t, p.apply(t, changes(routers.Announced)))
	stage(0, routers.Advertised)
	stage(1, routers.Configured)
	p.hindered(t, "")
	if o := p.observed(t)[1]; !strings.Contains(o.Detail, "OSPFv3 passes over an interface that has no link-local address") {
		t.Errorf("the hint: %+v", o)
	}
	p.finds(t, routers.Failing, "bird", "nothing in it takes IPv6 addresses of lo")
	fatal(t, p.node.Address(t.Context(), "add", "fe80::1/64", "lo"))
	stage(1, routers.Advertised)
	for _, o := range p.observed(t) {
		if o.Detail != "" || o.Broken {
			t.Errorf("of what is well: %+v", o)
		}
	}
	sceneWait(t, "nothing to be found", func() error {
		for _, f := range p.examined(t) {
			if f.Severity > routers.Notice {
				return fmt.Errorf("%+v", f)
			}
		}
		return nil
	})
	fatal(t, p.apply(t, changes(routers.Withdrawn)))
	stage(0, routers.Absent)
	stage(1, routers.Absent)
	p.findsNothing(t, "")
	fatal(t, p.node.Address(t.Context(), "del", "fe80::1/64", "lo"))
	sceneWait(t, "it to be told before the address is there", func() error {
		if all := p.examined(t); !says(all, routers.Failing, "bird", "nothing in it takes IPv6 addresses of lo") {
			return fmt.Errorf("%s", findings(all))
		}
		return nil
	})
}
