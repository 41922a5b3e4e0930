package frr

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/rtnl"
)

func TestObserveNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		replay *replay
		peers  int
		want   []seen
		class  error
	}{
		"absent":       {recording(t, "bgpd-absent"), 0, []seen{{routers.Absent, "", ""}, {routers.Absent, "", ""}}, nil},
		"import check": {recording(t, "bgpd-import-check"), 0, []seen{{routers.Configured, "", "import-check"}, {routers.Configured, "", "import-check"}}, nil},
		"advertised":   {recording(t, "bgpd-advertised"), 0, []seen{{routers.Advertised, "10.0.1.1", ""}, {routers.Advertised, "10.0.1.1", ""}}, nil},
		"few peers":    {recording(t, "bgpd-advertised"), 2, []seen{{routers.Selected, "10.0.1.1", "sent to 1 established peers, at least 2"}, {routers.Selected, "10.0.1.1", "sent to 1"}}, nil},
		"no peer":      {recording(t, "bgpd-nopeer"), 0, []seen{{routers.Selected, "", "sent to 0"}, {routers.Selected, "", "sent to 0"}}, nil},
		"a peer's":     {recording(t, "bgpd-learned"), 0, []seen{{routers.Absent, "", "learned from 10.0.2.1"}, {routers.Absent, "", "learned from 10.0.2.1"}}, nil},
		"denied":       {recording(t, "bgpd-denied"), 0, []seen{{routers.Configured, "", "a network statement, but no path for it; the statement has options (route-map NONE)"}, {routers.Absent, "", ""}}, nil},
		"unconfigured": {recording(t, "bgpd-unconfigured"), 0, []seen{{routers.Unknown, "", "not configured yet: router bgp"}, {routers.Unknown, "", "not configured yet"}}, routers.ErrUnavailable},
		"away":         {recording(t, "bgpd-absent").fail("bgpd"), 0, []seen{{routers.Unknown, "", "bgpd.vty: unavailable"}, {routers.Unknown, "", "bgpd"}}, routers.ErrUnavailable},
		"config unreadable": {
			recording(t, "bgpd-absent").edit("bgpd", "running", func(string) string { return "" }), 0,
			[]seen{{routers.Unknown, "", "no path, but the configuration cannot be read"}, {routers.Unknown, "", "no path"}}, routers.ErrUnavailable,
		},
		"not taken": {
			recording(t, "bgpd-advertised").edit("bgpd", "ipv4", replace(`"overall":true`, `"overall":false`)), 0,
			[]seen{{routers.Configured, "", "bgpd does not take the path"}, {routers.Advertised, "10.0.1.1", ""}}, nil,
		},
		"short form": {
			recording(t, "bgpd-advertised").edit("bgpd", "ipv4", func(s string) string {
				i := strings.Index(s, `"bestpath":{`)
				if i < 0 {
					return s
				}
				j := i + strings.Index(s[i:], "}")
				return s[:i] + `"bestpath":true` + s[j+1:]
			}), 0,
			[]seen{{routers.Advertised, "10.0.1.1", ""}, {routers.Advertised, "10.0.1.1", ""}}, nil,
		},
		"about another prefix": {
			recording(t, "bgpd-advertised").edit("bgpd", "ipv4", replace(`"prefix":"10.53.53.53/32"`, `"prefix":"0.0.0.0/0"`)), 0,
			[]seen{{routers.Unknown, "", "about another prefix"}, {routers.Advertised, "10.0.1.1", ""}}, routers.ErrUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkObserve(t, c.replay.router(Options{Method: MethodNetwork, MinPeers: c.peers}), []netip.Prefix{p4, p6}, c.want, c.class)
		})
	}
}

func TestObserveStatic(t *testing.T) {
	ps := []netip.Prefix{s4, s6}
	for name, c := range map[string]struct {
		protocol string
		replay   *replay
		want     []seen
		class    error
	}{
		"absent": {
			"", recording(t, "ospfd-absent", "ospf6d-absent", "zebra-absent", "staticd-empty"),
			[]seen{{routers.Absent, "", ""}, {routers.Absent, "", ""}}, nil,
		},
		"ospf": {
			"", recording(t, "ospfd-external", "ospf6d-external", "zebra-static", "staticd-static"),
			[]seen{{routers.Advertised, core, "external LSA, cost 20"}, {routers.Advertised, core, "external LSA"}}, nil,
		},
		"bgp": {
			ProtocolBGP, recording(t, "bgpd-static", "zebra-static", "staticd-static"),
			[]seen{{routers.Advertised, "10.0.1.1", ""}, {routers.Advertised, "10.0.1.1", ""}}, nil,
		},
		"not redistributed": {
			ProtocolBGP, recording(t, "bgpd-absent", "zebra-static", "staticd-static"),
			[]seen{{routers.Selected, "", "selected, but not redistributed"}, {routers.Selected, "", "not redistributed"}}, nil,
		},
		"hidden by the address": {
			"", recording(t, "ospfd-absent", "ospf6d-absent", "zebra-absent", "zebra-static-hidden", "staticd-static"),
			[]seen{{routers.Configured, "", "the connected route for it wins"}, {routers.Configured, "", "zebra does not have it"}}, nil,
		},
		"somebody else's": {
			"", recording(t, "ospfd-absent", "ospf6d-absent", "zebra-absent", "zebra-static-foreign", "staticd-foreign"),
			[]seen{{routers.Absent, "", "another static route for it, which is not ours"}, {routers.Absent, "", ""}}, nil,
		},
		"somebody else's is announced": {
			"", recording(t, "ospfd-external", "ospf6d-absent", "zebra-absent", "zebra-static-foreign", "staticd-foreign"),
			[]seen{{routers.Advertised, core, "although our static route is not in zebra's table; there is another"}, {routers.Absent, "", ""}}, nil,
		},
		"zebra away": {
			"", recording(t, "ospfd-external", "ospf6d-absent", "staticd-static").fail("zebra"),
			[]seen{{routers.Advertised, core, "the static route cannot be read"}, {routers.Unknown, "", "the static route cannot be read"}}, routers.ErrUnavailable,
		},
		"zebra away, no neighbour": {
			"", recording(t, "ospfd-external", "ospf6d-absent", "staticd-static").fail("zebra").edit("ospfd", "neighbor", func(string) string { return "{}" }),
			[]seen{{routers.Selected, "", "no full neighbour to tell; the static route cannot be read"}, {routers.Unknown, "", "cannot be read"}}, routers.ErrUnavailable,
		},
		"ospfd away": {
			"", recording(t, "ospf6d-external", "zebra-static", "staticd-static").fail("ospfd"),
			[]seen{{routers.Unknown, "", "ospfd.vty: unavailable; the static route is selected"}, {routers.Advertised, core, "cost"}}, routers.ErrUnavailable,
		},
		"staticd away": {
			"", recording(t, "ospfd-absent", "ospf6d-absent", "zebra-absent").fail("staticd"),
			[]seen{{routers.Unknown, "", "staticd.vty"}, {routers.Unknown, "", "staticd.vty"}}, routers.ErrUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.replay.router(Options{Method: MethodStatic, Protocol: c.protocol, SocketDir: t.TempDir()})
			checkObserve(t, r, ps, c.want, c.class)
		})
	}
}

// A statement alone announces where import-check is off: then it is told that the node has no address.
func TestObserveNetworkAddress(t *testing.T) {
	wide := netip.MustParsePrefix("10.53.53.0/24")
	at := func(texts ...string) (all []rtnl.Address) {
		for _, s := range texts {
			all = append(all, rtnl.Address{Prefix: netip.MustParsePrefix(s), Interface: "lo"})
		}
		return all
	}
	for name, c := range map[string]struct {
		replay string
		prefix netip.Prefix
		here   []rtnl.Address
		err    error
		want   seen
	}{
		"none":        {"bgpd-advertised", p4, at("10.53.53.54/32", "::1/128"), nil, seen{routers.Advertised, "10.0.1.1", "no address of it on this node"}},
		"to nobody":   {"bgpd-nopeer", p4, nil, nil, seen{routers.Selected, "", "at least 1 wanted; no address of it on this node"}},
		"exactly":     {"bgpd-advertised", p4, at("10.53.53.53/32"), nil, seen{routers.Advertised, "10.0.1.1", ""}},
		"in a subnet": {"bgpd-advertised", p4, at("10.53.53.53/24"), nil, seen{routers.Advertised, "10.0.1.1", ""}},
		"of a wide":   {"bgpd-advertised", wide, at("10.53.53.9/32"), nil, seen{routers.Advertised, "10.0.1.1", ""}},
		"unreadable":  {"bgpd-advertised", p4, nil, errors.New("no netlink"), seen{routers.Advertised, "10.0.1.1", "cannot be read: no netlink"}},
		"absent":      {"bgpd-absent", p4, nil, nil, seen{routers.Absent, "", ""}},
		"not used":    {"bgpd-import-check", p4, nil, nil, seen{routers.Configured, "", "put the address on lo"}},
	} {
		r := recording(t, c.replay)
		if c.prefix == wide {
			r.replies["bgpd"][showBGP(wide)] = r.replies["bgpd"][showBGP(p4)]
			r.edit("bgpd", showBGP(wide), replace(`"prefix":"10.53.53.53/32"`, `"prefix":"10.53.53.0/24"`))
		}
		d := r.router(Options{Method: MethodNetwork})
		m := d.method.(network)
		m.addresses = func(context.Context) ([]rtnl.Address, error) { return c.here, c.err }
		d.method = m
		t.Run(name, func(t *testing.T) { checkObserve(t, d, []netip.Prefix{c.prefix}, []seen{c.want}, nil) })
	}
}
