package frr

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// A seen is what is expected of one observation.
type seen struct {
	stage  routers.Stage
	peers  string
	detail string // a part of it; empty: there must be none
}

func checkObserve(t *testing.T, r *Router, ps []netip.Prefix, want []seen, class error) {
	t.Helper()
	os, err := r.Observe(t.Context(), ps)
	if !errors.Is(err, class) {
		t.Errorf("error %v, want %v", err, class)
	}
	checkSeen(t, ps, os, want)
}

func checkSeen(t *testing.T, ps []netip.Prefix, os []routers.Observation, want []seen) {
	t.Helper()
	if len(os) != len(ps) {
		t.Fatalf("%d observations of %d prefixes", len(os), len(ps))
	}
	for i, o := range os {
		w := want[i]
		if o.Prefix != ps[i] || o.Stage != w.stage || strings.Join(o.Reached(), " ") != w.peers ||
			!strings.Contains(o.Detail, w.detail) || w.detail == "" && o.Detail != "" {
			t.Errorf("%s: got %v by %q, %q\nwant %v by %q, %q", ps[i], o.Stage, o.Reached(), o.Detail, w.stage, w.peers, w.detail)
		}
	}
}

const core = "10.0.0.1"

// An addressCase is what daemons and kernel say of p4 and p6, and what is to be made of it.
type addressCase struct {
	replay *replay
	kernel *kernel
	want   []seen
	class  error
}

// The states that were recorded, zebra's included.
var (
	absent = []string{"ospfd-absent", "ospf6d-absent", "zebra-absent"}
	stub   = []string{"ospfd-stub", "ospf6d-stub", "zebra-address"}
)

func checkAddress(t *testing.T, cases map[string]addressCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			checkObserve(t, c.replay.router(Options{}).with(c.kernel), []netip.Prefix{p4, p6}, c.want, c.class)
		})
	}
}

func TestObserveAddress(t *testing.T) {
	checkAddress(t, map[string]addressCase{
		"absent": {
			recording(t, absent...), on(),
			[]seen{{routers.Absent, "", "not on"}, {routers.Absent, "", "not on"}}, nil,
		},
		"advertised": {
			recording(t, stub...), on(p4, p6),
			[]seen{{routers.Advertised, core, "stub link, cost 0"}, {routers.Advertised, core, "intra-area prefix, cost 10"}}, nil,
		},
		"on the interface only": {
			recording(t, absent...).edit("zebra", "route", func(string) string { return "{}\n" }), on(p4, p6),
			[]seen{{routers.Configured, "", "zebra does not have the address"}, {routers.Configured, "", "zebra does not have the address"}}, nil,
		},
		"another node's route": {
			recording(t, absent...), on(p4, p6),
			[]seen{{routers.Configured, "", "zebra selected the ospf route"}, {routers.Configured, "", "zebra selected the ospf6 route"}}, nil,
		},
		"with zebra, not with ospf": {
			recording(t, append(absent, "zebra-address")...), on(p4, p6),
			[]seen{{routers.Selected, "", "does the protocol cover 10.53.53.53/32 on lo"}, {routers.Selected, "", "not announced"}}, nil,
		},
		"still in the LSA": {
			recording(t, stub...), on(),
			[]seen{
				{routers.Advertised, core, `cost 0; announced although not on interface "lo"; if that lasts, ospfd missed the change (was zebra restarted alone?): restart ospfd`},
				{routers.Advertised, core, `cost 10; announced although not on interface "lo"; if that lasts, ospf6d missed the change (was zebra restarted alone?): restart ospf6d`},
			}, nil,
		},
		"of another length": {
			recording(t, stub...), &kernel{here: []rtnl.Address{{Prefix: netip.PrefixFrom(p4.Addr(), 24), Interface: "lo"}, {Prefix: p6, Interface: "eth0"}}},
			[]seen{
				{routers.Advertised, core, "cost 0; announced although it is not on lo: lo has 10.53.53.53/24, which somebody else put there"},
				{routers.Advertised, core, "if that lasts, ospf6d missed the change"},
			}, nil,
		},
		"tentative": {
			recording(t, absent...), &kernel{stages: map[netip.Prefix]routers.Stage{p4: routers.Configured, p6: routers.Configured}},
			[]seen{{routers.Configured, "", ""}, {routers.Configured, "", ""}}, nil,
		},
		"zebra away": {
			recording(t, stub...).fail("zebra"), on(p4, p6),
			[]seen{{routers.Advertised, core, "cost 0; zebra cannot be asked, so that a change may not take effect: /run/frr/zebra.vty: unavailable"}, {routers.Advertised, core, "zebra cannot be asked"}}, routers.ErrUnavailable,
		},
		"another length in the LSA": {
			recording(t, stub...).edit("ospfd", "router", replace(`"10.53.53.53", "networkMask": "255.255.255.255"`, `"10.53.53.0", "networkMask": "255.255.255.0"`)).
				edit("ospf6d", "intra", replace(p6.String(), "2001:db8:53::/64")), on(p4, p6),
			[]seen{{routers.Selected, "", "OSPF holds 10.53.53.0/24, but not 10.53.53.53/32"}, {routers.Selected, "", "OSPF holds 2001:db8:53::/64, but not 2001:db8:53::53/128"}}, nil,
		},
		"no neighbour": {
			recording(t, stub...).edit("ospfd", "neighbor", func(string) string { return "{\n}\n" }), on(p4, p6),
			[]seen{{routers.Selected, "", "stub link, cost 0, no full neighbour to tell"}, {routers.Advertised, core, "cost"}}, nil,
		},
		"no IPv6 neighbour": {
			recording(t, stub...).edit("ospf6d", "neighbor", replace(`"Full"`, `"ExStart"`)), on(p4, p6),
			[]seen{{routers.Advertised, core, "cost"}, {routers.Selected, "", "intra-area prefix, cost 10, no full neighbour to tell"}}, nil,
		},
		"absent without a neighbour": {
			recording(t, absent...).edit("ospfd", "neighbor", func(string) string { return "{\n}\n" }), on(),
			[]seen{{routers.Absent, "", "not on"}, {routers.Absent, "", "not on"}}, nil,
		},
		"not acknowledged": {
			recording(t, stub...).edit("ospfd", "neighbor", behind), on(p4, p6),
			[]seen{{routers.Advertised, core, "not yet acknowledged by 10.0.0.1"}, {routers.Advertised, core, "cost"}}, nil,
		},
		"a withdrawal not acknowledged": {
			recording(t, absent...).edit("ospfd", "neighbor", behind), on(),
			[]seen{{routers.Absent, "", `not on interface "lo"; the last change is not yet acknowledged by 10.0.0.1`}, {routers.Absent, "", "not on"}}, nil,
		},
		"LSA being flushed": {
			recording(t, stub...).edit("ospfd", "router", replace(`"lsaAge": `, `"lsaAge": 3600, "was": `)), on(p6),
			[]seen{{routers.Absent, "", "not on"}, {routers.Advertised, core, "cost"}}, nil,
		},
		"written differently": {
			recording(t, stub...).edit("ospf6d", "intra", replace(p6.String(), "2001:DB8:0053:0:0::0053/128")), on(p4, p6),
			[]seen{{routers.Advertised, core, "cost"}, {routers.Advertised, core, "cost"}}, nil,
		},
	})
}

func TestObserveAddressUnreadable(t *testing.T) {
	checkAddress(t, map[string]addressCase{
		"ospf6d away": {
			recording(t, stub...).fail("ospf6d"), on(p4, p6),
			[]seen{{routers.Advertised, core, "cost 0"}, {routers.Unknown, "", "ospf6d.vty: unavailable; the address is on lo"}}, routers.ErrUnavailable,
		},
		"ospfd away": {
			recording(t, stub...).fail("ospfd"), on(p6),
			[]seen{{routers.Unknown, "", "ospfd.vty: unavailable; not on interface"}, {routers.Advertised, core, "cost 10"}}, routers.ErrUnavailable,
		},
		"zebra away while it is needed": {
			recording(t, absent...).fail("zebra"), on(p4),
			[]seen{{routers.Unknown, "", "the address is on lo; zebra cannot be asked"}, {routers.Absent, "", "not on"}}, routers.ErrUnavailable,
		},
		"zebra about another prefix": {
			recording(t, absent...).edit("zebra", "route", replace(`"10.53.53.53/32":[`, `"10.0.0.0/8":[`)), on(p4),
			[]seen{{routers.Unknown, "", "about another prefix"}, {routers.Absent, "", "not on"}}, routers.ErrUnavailable,
		},
		"ospf6d not enabled": {
			recording(t, stub...).fail("ospf6d"), &kernel{stages: on(p4).stages, without: "ospf6d"},
			[]seen{{routers.Advertised, core, "cost 0"}, {routers.Absent, "", `not on interface "lo"; ospf6d has no socket`}}, routers.ErrUnavailable,
		},
		"ospf6d not enabled, but the address is there": {
			recording(t, stub...).fail("ospf6d"), &kernel{stages: on(p4, p6).stages, without: "ospf6d"},
			[]seen{{routers.Advertised, core, "cost 0"}, {routers.Unknown, "", "ospf6d.vty: unavailable; the address is on lo"}}, routers.ErrUnavailable,
		},
		"absent while zebra is away": {
			recording(t, absent...).fail("zebra"), on(),
			[]seen{{routers.Absent, "", "not on interface \"lo\"; zebra cannot be asked"}, {routers.Absent, "", "zebra cannot be asked"}}, routers.ErrUnavailable,
		},
		"kernel unreadable": {
			recording(t, "ospfd-stub", "ospf6d-absent", "zebra-address"), &kernel{err: routers.ErrUnavailable},
			[]seen{{routers.Advertised, core, "addresses cannot be read"}, {routers.Unknown, "", "addresses cannot be read"}}, routers.ErrUnavailable,
		},
		"not configured": {
			recording(t, "ospfd-unconfigured", "ospf6d-unconfigured", "zebra-address"), on(p4, p6),
			[]seen{{routers.Unknown, "", "not configured yet"}, {routers.Unknown, "", "is the protocol configured"}}, routers.ErrUnavailable,
		},
	})
}

func TestObserveAddressExternal(t *testing.T) {
	// An interface without OSPF, redistributed connected routes: the LSA is an external one.
	r := recording(t, "ospfd-external", "ospf6d-external", "zebra-static").router(Options{}).with(on(s4, s6))
	checkObserve(t, r, []netip.Prefix{s4, s6}, []seen{
		{routers.Advertised, core, "external LSA, cost 20"}, {routers.Advertised, core, "external LSA, cost 20"},
	}, nil)
	// Such an LSA comes from a route, which may have another reason than the address.
	r = recording(t, "ospfd-external", "ospf6d-external", "zebra-static").router(Options{}).with(on())
	os, err := r.Observe(t.Context(), []netip.Prefix{s4})
	if want := `external LSA, cost 20; announced although not on interface "lo"`; err != nil || os[0].Detail != want {
		t.Errorf("%v, %+v, want %s", err, os, want)
	}
	r = recording(t, "ospfd-external", "ospf6d-external", "zebra-absent").router(Options{}).with(on())
	if os, err = r.Observe(t.Context(), []netip.Prefix{s4, s6}); err != nil || !strings.HasSuffix(os[0].Detail, ": restart ospfd") || !strings.HasSuffix(os[1].Detail, ": restart ospf6d") {
		t.Errorf("made of nothing: %v, %+v", err, os)
	}
	r = recording(t, "ospfd-maxage", "ospf6d-absent", "zebra-absent").router(Options{}).with(on())
	checkObserve(t, r, []netip.Prefix{s6}, []seen{{routers.Absent, "", "not on"}}, nil)
}

func TestObserveAddressBGP(t *testing.T) {
	o := Options{Protocol: ProtocolBGP}
	checkObserve(t, recording(t, "bgpd-advertised", "zebra-address").router(o).with(on(p4, p6)), []netip.Prefix{p4, p6},
		[]seen{{routers.Advertised, "10.0.1.1", ""}, {routers.Advertised, "10.0.1.1", ""}}, nil)
	checkObserve(t, recording(t, "bgpd-learned", "zebra-absent").router(o).with(on()), []netip.Prefix{p4},
		[]seen{{routers.Absent, "", "learned from 10.0.2.1"}}, nil)
	checkObserve(t, recording(t, "bgpd-import-check", "zebra-absent").router(o).with(on()), []netip.Prefix{p4},
		[]seen{{routers.Absent, "", "not on interface \"lo\""}}, nil)
	os, _ := recording(t, "bgpd-import-check", "zebra-absent").router(o).with(on()).Observe(t.Context(), []netip.Prefix{p4})
	if os[0].Detail != `not on interface "lo"` { // it is not there, so that the operator's statement waits as it ought to
		t.Errorf("detail %q", os[0].Detail)
	}
	checkObserve(t, recording(t, "bgpd-nopeer", "zebra-absent").router(o).with(on()), []netip.Prefix{p4},
		[]seen{{routers.Selected, "", "sent to 0 established peers, at least 1 wanted; announced although not on"}}, nil)
	checkObserve(t, recording(t, "bgpd-import-check", "zebra-address").router(o).with(on(p4)), []netip.Prefix{p4},
		[]seen{{routers.Selected, "", "zebra has the route"}}, nil)
	checkObserve(t, recording(t, "bgpd-absent", "zebra-address").router(o).with(on(p4)), []netip.Prefix{p4},
		[]seen{{routers.Selected, "", "zebra has the route"}}, nil)
}

// behind has ospfd's neighbours owe an acknowledgement.
func behind(s string) string {
	return replace(`RetransmissionListCounter":0`, `RetransmissionListCounter":1`)(s)
}

func replace(from, to string) func(string) string {
	return func(s string) string { return strings.ReplaceAll(s, from, to) }
}

// What is not exactly one JSON object says nothing, least of all that the prefix is absent. Each
// question of each method is answered so in turn; what remains must say unknown, never absent.
func TestNotJSON(t *testing.T) {
	for name, spoil := range map[string]func(string) string{
		"empty":     func(string) string { return "" },
		"blank":     func(string) string { return "\n" },
		"cut":       func(s string) string { return s[:len(s)/2] },
		"cut short": func(s string) string { return strings.TrimRight(s, "}\n ") },
		"glued":     func(s string) string { return s + s },
		"colon":     func(s string) string { return ": " + s },
		"warning":   func(s string) string { return "% warning: something\n" + s },
		"array":     func(s string) string { return "[" + s + "]" },
		"null":      func(string) string { return "null" },
		"type": func(string) string {
			return `{"Router Link States": 3, "neighbors": 3, "AS External Link States": 3, "areaScopedLinkStateDb": 3, "asScopedLinkStateDb": 3, "paths": 3, "10.53.53.53/32": 3}`
		},
	} {
		for _, question := range []struct{ daemon, part string }{
			{"ospfd", "router"}, {"ospfd", "external"}, {"ospfd", "neighbor"},
			{"ospf6d", "intra"}, {"ospf6d", "external"}, {"ospf6d", "neighbor"}, {"bgpd", "show bgp"}, {"zebra", "route"},
		} {
			t.Run(name+"/"+question.daemon+" "+question.part, func(t *testing.T) {
				p, o, k := p4, Options{}, on()
				switch question.daemon {
				case "ospf6d":
					p = p6
				case "bgpd":
					o.Protocol = ProtocolBGP
				case "zebra":
					k = on(p4)
				}
				r := recording(t, "ospfd-absent", "ospf6d-absent", "bgpd-absent", "zebra-absent")
				r.edit(question.daemon, question.part, spoil)
				os, err := r.router(o).with(k).Observe(t.Context(), []netip.Prefix{p})
				if os[0].Stage != routers.Unknown || !errors.Is(err, routers.ErrUnavailable) || os[0].Detail == "" {
					t.Errorf("%v, %q, error %v", os[0].Stage, os[0].Detail, err)
				}
			})
		}
	}
}

// An empty object says that the table holds nothing.
func TestEmptyObject(t *testing.T) {
	empty := func(string) string { return "{}\n" }
	r := recording(t, "ospfd-stub", "ospf6d-stub", "zebra-absent").edit("ospfd", "", empty).edit("ospf6d", "", empty)
	checkObserve(t, r.router(Options{}).with(on()), []netip.Prefix{p4, p6}, []seen{{routers.Absent, "", "not on"}, {routers.Absent, "", "not on"}}, nil)
}
