package bird

import (
	"net/netip"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/include"
)

// What is asked of one prefix is asked of all that go by its number, but for what has left; in sets each has its
// own.
func TestChangeOfOne(t *testing.T) {
	third := netip.MustParsePrefix("10.53.53.54/32")
	labels := map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}, third: {Service: "left"}}
	for _, c := range []struct {
		style     string
		was, want routers.Want
		six       routers.Want
	}{
		{StyleSwitch, routers.Announced, routers.Withdrawn, routers.Withdrawn},
		{StyleSwitch, routers.Withdrawn, routers.Announced, routers.Announced},
		{StyleSwitch, routers.Announced, routers.Degraded, routers.Degraded},
		{StyleList, routers.Announced, routers.Withdrawn, routers.Announced},
		{StyleRoutes, routers.Withdrawn, routers.Announced, routers.Withdrawn},
	} {
		n := labelled(Options{Method: MethodInclude, Style: c.style}, labels)
		n.set(map[netip.Prefix]routers.Label{four: labels[four], six: labels[six]})
		es := entries{}
		for p := range labels {
			es.add(n, p)
			es.want(p, c.was)
		}
		es.name(n, netip.Prefix{})
		es.change(c.style, []routers.Change{{Prefix: four, Want: c.want}})
		if es[four].Want != c.want || es[six].Want != c.six || es[third].Want != routers.Withdrawn || es[third].Standing != include.Left {
			t.Errorf("%s, %s of %s: %+v", c.style, c.want, c.was, es)
		}
	}
}

// What has left and goes by the number of what is managed has no say in it, and nothing to gain by it.
func TestLeftHasNoSay(t *testing.T) {
	labels := map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}}
	n := labelled(Options{Method: MethodInclude, Style: StyleSwitch}, labels)
	n.set(map[netip.Prefix]routers.Label{four: labels[four]})
	es := entries{}
	es.add(n, four)
	es.add(n, six)
	es.name(n, netip.Prefix{})
	es.change(StyleSwitch, []routers.Change{{Prefix: four, Want: routers.Announced}, {Prefix: six, Want: routers.Withdrawn}})
	if es[four].Want != routers.Announced || es[six].Want != routers.Withdrawn {
		t.Errorf("%+v", es)
	}
}

// Of what was asked for only that stays by which less is announced.
func TestLowered(t *testing.T) {
	third := netip.MustParsePrefix("10.53.53.54/32")
	n := labelled(Options{Method: MethodInclude, Style: StyleList}, map[netip.Prefix]routers.Label{four: {Service: "a"}, six: {Service: "b"}, third: {Service: "c"}})
	es := entries{}
	es.name(n, netip.Prefix{})
	es.want(six, routers.Announced)
	es.want(third, routers.Announced)
	low := es.lowered(StyleList, []routers.Change{{Prefix: four, Want: routers.Announced}, {Prefix: six, Want: routers.Degraded}, {Prefix: third, Want: routers.Withdrawn}})
	if low[four].Want != routers.Withdrawn || low[six].Want != routers.Degraded || low[third].Want != routers.Withdrawn || es[third].Want != routers.Announced {
		t.Errorf("%+v of %+v", low, es)
	}
}

// What goes by the number of one that is not asked for is not changed with it, nor what is not there.
func TestApart(t *testing.T) {
	third := netip.MustParsePrefix("10.53.53.54/32")
	n := labelled(Options{Method: MethodInclude, Symbol: "OFF", Symbol6: "OFF6"}.withDefaults(), map[netip.Prefix]routers.Label{four: {}, six: {}, third: {}})
	es := entries{}
	for _, p := range []netip.Prefix{four, six, third} {
		es.want(p, routers.Withdrawn)
		e := es[p]
		e.rename(n.of(p))
		e.Standing = include.Managed
		es[p] = e
	}
	wants := map[netip.Prefix]routers.Want{four: routers.Announced, six: routers.Announced, netip.MustParsePrefix("10.53.53.55/32"): routers.Announced}
	if cs := es.apart(StyleSwitch, wants); len(cs) != 1 || cs[0].Prefix != six || cs[0].Want != routers.Announced {
		t.Errorf("by number: %+v", cs)
	}
	if cs := es.apart(StyleList, wants); len(cs) != 2 {
		t.Errorf("each for itself: %+v", cs)
	}
}

// Names that a prefix went by stay, each once, and what it goes by now is none of them.
func TestRename(t *testing.T) {
	e := entry{}
	e.rename("A", "")
	for _, s := range []string{"B", "C", "B"} {
		e.rename(s, "")
	}
	if e.Symbol != "B" || len(e.former) != 2 || e.former[0].Symbol != "A" || e.former[1].Symbol != "C" {
		t.Errorf("%+v", e)
	}
}
