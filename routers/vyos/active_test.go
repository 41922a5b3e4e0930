package vyos

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr"
)

// VyOS names nodes from the last of the path on that was asked for, puts quotes about each as it is, and fails where
// there is nothing at all.
func TestActiveIsReadInOneQuestion(t *testing.T) {
	s := fake(t, `echo "$*" >>calls
cat <<'END'
set 'static' 'arp' '192.0.2.9' 'mac' 'x'
set 'static' 'route' '192.0.2.53/32' 'blackhole' 'tag' '666'
set 'static' 'route' '192.0.2.53/32' 'blackhole' 'distance' '7'
set 'static' 'route' '192.0.2.53/32' 'description' 'it's 'quoted''
set 'static' 'route' '192.0.2.54/32'
set 'static' 'route' '192.0.2.55/32' 'blackhole' 'tag' '5'
set 'static' 'route' '192.0.2.56/32' 'blackhole' 'distance' '9'
set 'static' 'route' '192.0.2.57/32' 'blackhole' 'new-leaf'
comment 'static' 'it is'
END
`)
	ps := []netip.Prefix{netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("192.0.2.54/32"), netip.MustParsePrefix("192.0.2.55/32"),
		netip.MustParsePrefix("192.0.2.56/32"), netip.MustParsePrefix("192.0.2.57/32"), one6}
	a, err := s.readActive(t.Context(), ps, leaves{666, 7})
	if err != nil {
		t.Fatal(err)
	}
	if n := a.nodes[ps[0]]; !n.blackhole || n.tag != 666 || n.strange || n.distance != 7 || !slices.Equal(n.others, []string{"description"}) {
		t.Errorf("%+v", n)
	}
	if n := a.nodes[ps[1]]; !n.there || n.blackhole || !n.ours() {
		t.Errorf("%+v", n)
	}
	for i, other := range map[int]string{2: "blackhole tag 5", 3: "blackhole distance 9", 4: "blackhole new-leaf"} {
		if n := a.nodes[ps[i]]; !n.strange || n.ours() || n.beside() || !slices.Equal(n.others, []string{other}) {
			t.Errorf("somebody's own: %+v", n)
		}
	}
	if a.nodes[one6].there || !slices.Equal(a.static, []string{"arp", "route"}) || len(a.routes[route4]) != 5 || len(a.routes[route6]) != 0 {
		t.Errorf("%+v", a)
	}
	for script, there := range map[string]bool{
		`echo "_get_cmds_diff error (both config NULL)" >&2; exit 1`: false,
		`echo "set 'static'"`: false,
		`echo "set 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'"`:         true,
		`echo "set 'static' 'route6' '::ffff:c000:235/128' 'blackhole'"`:              false,
		`echo "set 'static' 'route' '192.0.2.53/24' 'blackhole'"`:                     false,
		`echo "set 'static' 'table' '7' 'route' '192.0.2.53/32' 'blackhole'"`:         false,
		`echo "set 'static' 'route' '192.0.2.53/32' 'blackhole'"; echo a warning >&2`: true,
	} {
		a, err := fake(t, script).readActive(t.Context(), ps, leaves{})
		if err != nil || a.nodes[ps[0]].blackhole != there {
			t.Errorf("%s: %+v, %v", script, a.nodes, err)
		}
	}
}

// What an operator is told to delete is a whole node where there is nothing but a blackhole: VyOS 1.3 refuses one that
// is left empty.
func TestDeletes(t *testing.T) {
	const at = "delete protocols static route 10.53.54.1/32"
	for want, n := range map[string]node{
		at:                {there: true, blackhole: true, strange: true, others: []string{"blackhole tag 5"}},
		at + " blackhole": {there: true, blackhole: true, others: []string{"blackhole tag 5", "next-hop"}},
		"":                {there: true, others: []string{"next-hop"}},
	} {
		if got := strings.Join(deletes(one, n), "|"); got != want {
			t.Errorf("%+v: %q", n, got)
		}
	}
}

// One prefix in more than one spelling is taken out by each of its names, and judged by all of them.
func TestSpellings(t *testing.T) {
	const upper, long = "2001:DB8:54::1/128", "2001:db8:54:0:0:0:0:1/128"
	read := func(lines string) active {
		t.Helper()
		a, err := fake(t, "cat <<'END'\n"+lines+"END\n").readActive(t.Context(), both, leaves{tag: 666})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	line := func(name, rest string) string { return "set 'static' 'route6' '" + name + "' " + rest + "\n" }
	at := func(name string) string { return "protocols static route6 " + name }
	inFRR := map[netip.Prefix]frr.Origin{one6: {There: true, Tags: []uint32{0}}}
	for _, c := range []struct {
		name, config string
		want         routers.Want
		ops          []string
		refused      bool
	}{
		{"announced by another name", line(upper, "'blackhole'"), routers.Announced, nil, false},
		{"withdrawn", line(upper, "'blackhole'"), routers.Withdrawn, []string{"delete " + at(upper)}, false},
		{"two names", line(upper, "'blackhole'") + line(long, "'blackhole'"), routers.Withdrawn, []string{"delete " + at(upper), "delete " + at(long)}, false},
		{"two names, degraded", line(upper, "'blackhole'") + line(long, "'blackhole' 'tag' '666'"), routers.Degraded, []string{"set " + at(upper) + " blackhole tag 666"}, false},
		{"one is not ours", line(upper, "'blackhole'") + line(long, "'next-hop' '::1'"), routers.Announced, nil, true},
		{"one is not ours, withdrawn", line(upper, "'blackhole'") + line(long, "'next-hop' '::1'"), routers.Withdrawn, []string{"delete " + at(upper)}, false},
		{"new", "", routers.Announced, []string{"set " + at(one6.String()) + " blackhole"}, false},
	} {
		a := read(c.config)
		p := makePlan([]routers.Change{{Prefix: one6, Want: c.want}}, a, inFRR, rules{leaves: leaves{tag: 666}})
		var ops []string
		for _, o := range p.ops {
			ops = append(ops, o.line())
			if o.made(a.nodes[one6].by(o.path[3])) {
				t.Errorf("%s: %s is made already", c.name, o.line())
			}
		}
		if !slices.Equal(ops, c.ops) || len(p.refused) > 0 != c.refused {
			t.Errorf("%s: %q, %v", c.name, ops, p.refused)
		}
		if c.want == routers.Withdrawn && !c.refused && c.name != "one is not ours, withdrawn" {
			s := makeScope(p.ops, a.routes, a.static, []string{"static"})
			if !s["delete protocols static route6"] {
				t.Errorf("%s: nothing is left, and the scope is %v", c.name, s)
			}
		}
	}
}
