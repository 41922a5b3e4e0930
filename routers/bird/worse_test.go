package bird

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

func TestArrives(t *testing.T) {
	external := protocol{name: "core4", kind: kindBGP, details: []string{"Neighbor AS:      65000", "Local AS:         65001"}}
	internal := protocol{name: "core4", kind: kindBGP, details: []string{"Neighbor AS:      65001", "Local AS:         65001"}}
	ospf := protocol{name: "ospf4", kind: kindOSPF}
	versions := map[string]ctl.Version{"1": {Major: 1, Minor: 6, Patch: 8}, "2": {Major: 2, Minor: 17, Patch: 6}, "3": {Major: 3, Minor: 1, Patch: 8}}
	all := Degraded{MED: 500, Prepend: []uint32{65009}, Community: []string{"65001:666"}, Metric2: 70}
	med, prepend, metric2 := Degraded{MED: 500}, Degraded{Prepend: []uint32{65001, 65001}}, Degraded{Metric2: 70}
	for _, c := range []struct {
		version    string
		d          Degraded
		peer       protocol
		sent, says string
	}{
		{"1", all, external, "community med", "to core4 only its community and med tells: bird 1.6.8 keeps back the prepend of a static route, unless the export filter sets it"},
		{"2", all, external, "community prepend", "to core4 only its community and prepend tells: bird 2.17.6 keeps back the med"},
		{"3", all, external, "community prepend", "to core4 only its community and prepend tells: bird 3.1.8 keeps back the med"},
		{"3", all, ospf, "metric2", ""},
		{"1", med, external, "med", ""},
		{"2", med, external, "med", ""},
		{"3", med, external, "", "it is no worse to core4: bird 3.1.8 keeps back the med"},
		{"3", med, internal, "med", ""},
		{"1", prepend, external, "", "it is no worse to core4: bird 1.6.8 keeps back the prepend"},
		{"2", prepend, external, "prepend", ""},
		{"2", prepend, internal, "prepend", "core4 drops it, as prepend puts that neighbour's own AS 65001 into the path"},
		{"2", metric2, external, "", "it is no worse to core4: nothing in [router.degraded] is for BGP"},
		{"2", med, ospf, "", "it is no worse to ospf4: nothing in [router.degraded] is for OSPF"},
	} {
		v := versions[c.version]
		sent, _ := c.d.arrives(v, c.peer)
		said := c.d.shortfall(v, c.peer)
		if got := strings.Join(sent, " "); got != c.sent || !strings.HasPrefix(said, c.says) || c.says == "" && said != "" {
			t.Errorf("%s, %+v, %s: %q is sent, %q", v, c.d, c.peer.kind, got, said)
		}
	}
}

func TestShortfallsAreSaid(t *testing.T) {
	p := protocol{name: "core4", kind: kindBGP, details: []string{"Neighbor AS: 65000", "Local AS: 65001"}}
	rd := reading{peers: []protocol{p, {name: "quiet4", kind: kindBGP}, {name: "kernel4", kind: "Kernel"}}}
	rd.shortfalls = Degraded{MED: 500}.shortfalls(ctl.Version{Major: 3, Minor: 1, Patch: 8}, rd.peers)
	s := sight{shortfalls: rd.shortfalls, peers: []routers.Peer{{Name: "core4", Stage: routers.Advertised}, {Name: "quiet4"}}}
	if got := s.worse(); !strings.HasPrefix(got, "it is no worse to core4: ") || strings.Contains(got, "quiet4") {
		t.Errorf("of the prefix: %q", got)
	}
	if all := rd.examineWorse(); len(all) != 2 || all[0].Severity != routers.Warning || all[0].Subject != "protocol core4" || all[0].WayOut == "" {
		t.Errorf("found: %+v", all)
	}
	rd.shortfalls = Degraded{Prepend: []uint32{65000}}.shortfalls(ctl.Version{Major: 2}, rd.peers[:1])
	if all := rd.examineWorse(); len(all) != 1 || all[0].Severity != routers.Failing || !strings.Contains(all[0].Text, "own AS 65000") {
		t.Errorf("of the neighbour's own AS: %+v", all)
	}
	rd.shortfalls = Degraded{}.shortfalls(ctl.Version{Major: 3}, rd.peers)
	if all := rd.examineWorse(); len(all) > 0 {
		t.Errorf("without a worse way: %+v", all)
	}
}

// received names the attributes of a worse way that the core has.
func (p *pair) received(t *testing.T, q netip.Prefix) []string {
	t.Helper()
	has := strings.NewReplacer(".", "_", "as_path", "path", " ", "").Replace(strings.ToLower(p.coreHas(t.Context(), q)))
	var names []string
	for _, c := range []struct{ name, text string }{{"community", "(65001,666)"}, {"prepend", "65009\n"}, {"med", "bgp_med:500\n"}} {
		if strings.Contains(has, c.text) {
			names = append(names, c.name)
		}
	}
	return names
}

// What arrives says reaches the neighbour, and nothing else, in another AS and in our own one. What
// does not is said beside the prefix.
func TestAttributesReachTheNeighbour(t *testing.T) {
	community := []string{"65001:666"}
	prepend := []uint32{65009}
	for _, r := range lab.BIRDs {
		for _, internal := range []bool{false, true} {
			t.Run(fmt.Sprint(r, "/internal:", internal), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, StyleRoutes)
				if internal {
					p.sameAS(t)
				}
				p.settle(t, routers.Announced)
				for _, d := range []Degraded{{MED: 500}, {Prepend: prepend}, {Community: community}, {MED: 500, Prepend: prepend},
					{MED: 500, Community: community}, {Prepend: prepend, Community: community}, {MED: 500, Prepend: prepend, Community: community}} {
					p.degrade(t, d)
				}
			})
		}
	}
}

// sameAS makes the core a neighbour of the node's own AS.
func (p *pair) sameAS(t *testing.T) {
	t.Helper()
	for _, b := range slices.Concat(p.cores, p.birds) {
		text, err := b.Config()
		fatal(t, err)
		fatal(t, b.WriteConfig(strings.ReplaceAll(text, "as 65000", "as 65001")))
		fatal(t, b.Configure(t.Context()))
	}
}

// degrade has both prefixes degraded by the attributes, and looks at what the core has then.
func (p *pair) degrade(t *testing.T, d Degraded) {
	t.Helper()
	o := p.options
	o.Degraded = d
	router := New(o)
	defer func() { _ = router.Close() }()
	router.SetLabels(p.router.names.known())
	var err error
	p.inNode(t, func() { err = router.Apply(t.Context(), changes(routers.Degraded)) })
	fatal(t, err)
	sceneWait(t, fmt.Sprintf("the core to have what arrives of %+v", d), func() error {
		ctx := sceneWithin(t, 5*time.Second)
		var os []routers.Observation
		var rd reading
		var v ctl.Version
		p.inNode(t, func() {
			os, err = router.Observe(ctx, both)
			v, _ = router.daemons.main.version(ctx)
			rd, _ = look(ctx, router.daemons.main, o, both[:1])
		})
		if err != nil || len(rd.peers) == 0 {
			return fmt.Errorf("%+v, %w", os, err)
		}
		sent, kept := d.arrives(v, rd.peers[0])
		for i, q := range both {
			got := p.received(t, q)
			if !os[i].Degraded || os[i].Stage != routers.Advertised || !slices.Equal(got, sent) || len(kept) > 0 != (os[i].Detail != "") {
				return fmt.Errorf("%s: the core has %v, and %v arrives; read: %+v", q, got, sent, os[i])
			}
		}
		return nil
	})
}
