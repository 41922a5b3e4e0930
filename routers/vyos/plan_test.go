package vyos

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr"
)

func TestPlan(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.53/32")
	const route = "protocols static route 192.0.2.53/32"
	plain, tagged := node{there: true, blackhole: true}, node{there: true, blackhole: true, tag: 666}
	foreign := node{there: true, blackhole: true, others: []string{"next-hop"}}
	strange := node{there: true, blackhole: true, tag: 5, distance: 9, strange: true, others: []string{"blackhole tag 5"}}
	far := node{there: true, blackhole: true, distance: 9, strange: true, others: []string{"blackhole distance 9"}}
	his := frr.Origin{There: true, Tags: []uint32{5}}
	inFRR := frr.Origin{There: true, Tags: []uint32{0}}
	worse := frr.Origin{There: true, Tags: []uint32{666}}
	dark := frr.Origin{There: true, Unread: errors.New("no")}
	usual := rules{leaves: leaves{tag: 666}}
	for _, c := range []struct {
		name   string
		want   routers.Want
		node   node
		origin frr.Origin
		rules  rules
		ops    []string
		add    []frr.Static
		drop   bool
		class  error
	}{
		{name: "new", want: routers.Announced, rules: usual, ops: []string{"set " + route + " blackhole"}},
		{name: "new, distance", want: routers.Announced, rules: rules{leaves: leaves{distance: 7}}, ops: []string{"set " + route + " blackhole", "set " + route + " blackhole distance 7"}},
		{name: "new, worse", want: routers.Degraded, rules: usual, ops: []string{"set " + route + " blackhole", "set " + route + " blackhole tag 666"}},
		{name: "there", want: routers.Announced, node: plain, origin: inFRR, rules: usual},
		{name: "there, FRR unread", want: routers.Announced, node: plain, origin: dark, rules: usual},
		{name: "there, FRR lost it", want: routers.Announced, node: plain, rules: usual, add: []frr.Static{{Prefix: p}}},
		{name: "there, FRR has another tag", want: routers.Announced, node: plain, origin: worse, rules: usual, add: []frr.Static{{Prefix: p}}},
		{name: "worse", want: routers.Degraded, node: plain, origin: inFRR, rules: usual, ops: []string{"set " + route + " blackhole tag 666"}},
		{name: "worse already", want: routers.Degraded, node: tagged, origin: worse, rules: usual},
		{name: "worse already, FRR lost it", want: routers.Degraded, node: tagged, rules: usual, add: []frr.Static{{Prefix: p, Tag: 666}}},
		{name: "better", want: routers.Announced, node: tagged, origin: worse, rules: usual, ops: []string{"delete " + route + " blackhole tag"}},
		{name: "an operator's tag", want: routers.Announced, node: strange, origin: his, rules: usual, class: routers.ErrRefused},
		{name: "an operator's tag, FRR lost it", want: routers.Degraded, node: strange, rules: usual, add: []frr.Static{{Prefix: p, Tag: 5, Distance: 9}}, class: routers.ErrRefused},
		{name: "withdrawn, an operator's tag", want: routers.Withdrawn, node: strange, origin: his, rules: usual, class: routers.ErrRefused},
		{name: "an operator's distance", want: routers.Withdrawn, node: far, origin: inFRR, rules: usual, class: routers.ErrRefused},
		{name: "an operator's distance, FRR lost it", want: routers.Announced, node: far, rules: usual, add: []frr.Static{{Prefix: p, Distance: 9}}, class: routers.ErrRefused},
		{name: "withdrawn, without the distance", want: routers.Withdrawn, node: plain, origin: inFRR, rules: rules{leaves: leaves{distance: 9}}, ops: []string{"delete " + route}},
		{name: "empty node", want: routers.Announced, node: node{there: true}, rules: usual, ops: []string{"set " + route + " blackhole"}},
		{name: "new, FRR unread", want: routers.Announced, origin: dark, rules: usual, class: routers.ErrUnavailable},
		{name: "foreign", want: routers.Announced, node: foreign, origin: inFRR, rules: usual, class: routers.ErrRefused},
		{name: "unsettled", want: routers.Announced, rules: rules{unsettled: "why"}, class: routers.ErrBusy},
		{name: "unsettled, there", want: routers.Announced, node: plain, origin: inFRR, rules: rules{unsettled: "why"}},
		{name: "withdrawn", want: routers.Withdrawn, node: plain, origin: inFRR, rules: usual, ops: []string{"delete " + route}},
		{name: "withdrawn while unsettled", want: routers.Withdrawn, node: plain, rules: rules{unsettled: "why"}, ops: []string{"delete " + route}},
		{name: "withdrawn, worse", want: routers.Withdrawn, node: tagged, rules: usual, ops: []string{"delete " + route}},
		{name: "withdrawn, empty node", want: routers.Withdrawn, node: node{there: true}, rules: usual, ops: []string{"delete " + route}},
		{name: "withdrawn already", want: routers.Withdrawn, rules: usual},
		{name: "withdrawn, FRR has it", want: routers.Withdrawn, origin: inFRR, rules: usual, drop: true},
		{name: "withdrawn, FRR unread", want: routers.Withdrawn, origin: dark, rules: usual},
		{name: "withdrawn, foreign", want: routers.Withdrawn, node: foreign, origin: inFRR, rules: usual, ops: []string{"delete " + route + " blackhole"}},
		{name: "withdrawn, foreign, FRR has it", want: routers.Withdrawn, node: node{there: true, others: []string{"description"}}, origin: inFRR, rules: usual, drop: true},
		{name: "withdrawn, only foreign", want: routers.Withdrawn, node: node{there: true, others: []string{"next-hop"}}, rules: usual},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := makePlan([]routers.Change{{Prefix: p, Want: c.want}}, active{nodes: map[netip.Prefix]node{p: c.node}}, map[netip.Prefix]frr.Origin{p: c.origin}, c.rules)
			var ops []string
			for _, o := range got.ops {
				ops = append(ops, o.line())
			}
			if !slices.Equal(ops, c.ops) || !slices.Equal(got.add, c.add) || len(got.drop) == 1 != c.drop {
				t.Errorf("%q, add %v, drop %v", ops, got.add, got.drop)
			}
			if acts := len(c.ops)+len(c.add) > 0 || c.drop; acts != (len(got.changes) == 1) {
				t.Errorf("changes %v", got.changes)
			}
			if err := errors.Join(got.refused...); !errors.Is(err, c.class) {
				t.Errorf("%v, want %v", err, c.class)
			}
		})
	}
}

// What vbash takes for ours to delete is what makeNode does.
func TestPattern(t *testing.T) {
	for own, ours := range map[leaves][]string{
		{}:            {" blackhole"},
		{tag: 666}:    {" blackhole", " blackhole tag 666"},
		{distance: 9}: {" blackhole", " blackhole distance 9"},
		{666, 9}:      {" blackhole", " blackhole tag 666", " blackhole distance 9"},
	} {
		is := regexp.MustCompile(own.pattern())
		for _, end := range []string{" blackhole", " blackhole tag 666", " blackhole distance 9", " blackhole distance 99", " blackhole tag 6", " description a blackhole"} {
			if is.MatchString("set static route 192.0.2.53/32"+end) != slices.Contains(ours, end) {
				t.Errorf("%+v: %s matches %s", own, end, own.pattern())
			}
		}
	}
}

func TestPlanWithdrawsFirst(t *testing.T) {
	a := active{nodes: map[netip.Prefix]node{two: {there: true, blackhole: true}}}
	got := makePlan([]routers.Change{{Prefix: one, Want: routers.Announced}, {Prefix: two, Want: routers.Withdrawn}}, a, nil, rules{})
	if len(got.ops) != 2 || !got.ops[0].remove || got.ops[0].prefix != two {
		t.Errorf("%+v", got.ops)
	}
}

func TestScope(t *testing.T) {
	remove := func(family, p string) op { return op{remove: true, path: []string{"protocols", "static", family, p}} }
	set := op{path: []string{"protocols", "static", "route", "192.0.2.53/32", "blackhole"}}
	tag := op{path: append(slices.Clone(set.path), "tag", "666")}
	untag := op{remove: true, path: append(slices.Clone(set.path), "tag")}
	for _, c := range []struct {
		name              string
		ops               []op
		routes            map[string][]string
		static, protocols []string
		diff              string
		foreign           string // empty: it is all ours
	}{
		{name: "set", ops: []op{set}, diff: "set 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'\n"},
		{name: "without quotes", ops: []op{set}, diff: "set protocols static route 192.0.2.53/32 blackhole\n\n"},
		{name: "another set", ops: []op{set}, diff: "set 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'\nset 'system' 'host-name' 'r2'\n", foreign: "host-name"},
		{name: "erased", ops: []op{set}, diff: "delete 'protocols' 'bgp'\ndelete 'system'\nset 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'\n", foreign: "not ours (2, the first: delete 'protocols' 'bgp'"},
		{name: "delete in place of set", ops: []op{set}, diff: "delete 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'\n", foreign: "delete"},
		{name: "nothing", ops: []op{set}, foreign: "does not say"},
		{name: "no end", ops: []op{set}, diff: "set 'protocols\n", foreign: "set 'protocols"},
		{name: "tag", ops: []op{untag}, diff: "delete 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole' 'tag'\n"},
		{name: "tag and its value", ops: []op{untag}, diff: "delete 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole' 'tag' '666'\n"},
		{name: "tag of another", ops: []op{untag}, diff: "delete 'protocols' 'static' 'route' '192.0.2.54/32' 'blackhole' 'tag' '666'\n", foreign: "192.0.2.54"},
		{name: "set with its tag", ops: []op{set, tag}, diff: "set 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole' 'tag' '666'\n"},
		{name: "set without its tag", ops: []op{set, tag}, diff: "set 'protocols' 'static' 'route' '192.0.2.53/32' 'blackhole'\n", foreign: "'blackhole'"},
		{name: "one of two", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a", "b"}}, diff: "delete 'protocols' 'static' 'route' 'a'\n"},
		{name: "collapse with a foreign one", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a", "b"}}, diff: "delete 'protocols' 'static' 'route'\n", foreign: "'route'"},
		{name: "collapse", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a"}}, static: []string{"route", "table"}, diff: "delete 'protocols' 'static' 'route'\n"},
		{name: "collapse too far", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a"}}, static: []string{"route", "table"}, diff: "delete 'protocols' 'static'\n", foreign: "'static'"},
		{name: "collapse of unknown", ops: []op{remove("route", "a")}, diff: "delete 'protocols' 'static' 'route'\n", foreign: "'route'"},
		{name: "collapse of static", ops: []op{remove("route", "a"), remove("route6", "b")}, routes: map[string][]string{"route": {"a"}, "route6": {"b"}},
			static: []string{"route", "route6"}, protocols: []string{"static", "bgp"}, diff: "delete 'protocols' 'static'\n"},
		{name: "collapse of protocols", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a"}}, static: []string{"route"},
			protocols: []string{"static", "bgp"}, diff: "delete 'protocols'\n", foreign: "'protocols'"},
		{name: "collapse of protocols that are ours", ops: []op{remove("route", "a")}, routes: map[string][]string{"route": {"a"}}, static: []string{"route"},
			protocols: []string{"static"}, diff: "delete 'protocols'\n"},
	} {
		err := makeScope(c.ops, c.routes, c.static, c.protocols).check(c.diff)
		if (err != nil) != (c.foreign != "") || err != nil && !strings.Contains(err.Error(), c.foreign) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		"'10.99.0.0/16' '203.0.113.0/24'": {"10.99.0.0/16", "203.0.113.0/24"},
		"a 'b c' 'd'\\''e' ''\n":          {"a", "b c", "d'e", ""},
	} {
		if got, err := unquote(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := unquote("'a' 'b"); err == nil {
		t.Error("an open quote is taken")
	}
}

// The first of the variables has no semicolon behind it.
func TestParseEnv(t *testing.T) {
	got := parseEnv(" umask 002; { declare -x -r VYATTA_ACTIVE_CONFIGURATION_DIR=/a declare -x -r VYATTA_CHANGES_ONLY_DIR=/c_1; declare -x -r VYATTA_TEMP_CONFIG_DIR=/n_1; } >&/dev/null || true")
	for k, want := range map[string]string{"VYATTA_ACTIVE_CONFIGURATION_DIR": "/a", "VYATTA_CHANGES_ONLY_DIR": "/c_1", "VYATTA_TEMP_CONFIG_DIR": "/n_1"} {
		if got[k] != want {
			t.Errorf("%s is %q", k, got[k])
		}
	}
}

func TestScriptTextHoldsVerbsOnlyAtLineStarts(t *testing.T) {
	ops := []op{{path: []string{"protocols", "static", "route", "192.0.2.53/32", "blackhole"}}}
	text := scriptText(system{"/"}, ops, makeScope(ops, nil, nil, nil), leaves{})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, want := range []string{"set protocols static route 192.0.2.53/32 blackhole", "commit", "vouch_end 0"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if i, j := slices.Index(lines, "vouch_mounted"), slices.Index(lines, ops[0].line()); i < 0 || i > j {
		t.Errorf("it is edited before it is known to be mounted:\n%s", text)
	}
	if slices.Index(lines, "commit") != len(lines)-2 || lines[len(lines)-3] != "vouch_mounted" {
		t.Errorf("something is between the guards and the commit:\n%s", text)
	}
	for _, banned := range []string{"exit 0", "save", "; set ", "; commit"} {
		if strings.Contains(text, banned) {
			t.Errorf("%q is in\n%s", banned, text)
		}
	}
}
