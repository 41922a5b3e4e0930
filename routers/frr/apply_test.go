package frr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr/vty"

	"github.com/google/go-cmp/cmp"
)

func announce(ps ...netip.Prefix) []routers.Change { return changes(routers.Announced, ps) }
func withdraw(ps ...netip.Prefix) []routers.Change { return changes(routers.Withdrawn, ps) }

func changes(w routers.Want, ps []netip.Prefix) []routers.Change {
	var cs []routers.Change
	for _, p := range ps {
		cs = append(cs, routers.Change{Prefix: p, Want: w})
	}
	return cs
}

// asked gives the changes asked for, one line for each session.
func (r *replay) asked() []string {
	var out []string
	for _, s := range r.changes {
		out = append(out, fmt.Sprintf("%s: %s: %s", s.daemon, strings.Join(s.enter, "/"), strings.Join(s.commands, ", ")))
	}
	return out
}

func checkApply(t *testing.T, r *replay, o Options, cs []routers.Change, want []string, class error) {
	t.Helper()
	if err := r.router(o).Apply(t.Context(), cs); !errors.Is(err, class) {
		t.Errorf("error %v, want %v", err, class)
	}
	if diff := cmp.Diff(want, r.asked()); diff != "" {
		t.Error(diff)
	}
}

func TestApplyNetwork(t *testing.T) {
	o := Options{Method: MethodNetwork}
	q4 := netip.MustParsePrefix("10.53.53.54/32")
	v4, v6 := "bgpd: configure terminal/router bgp/address-family ipv4 unicast: ", "bgpd: configure terminal/router bgp/address-family ipv6 unicast: "
	both := []netip.Prefix{p4, p6}
	for name, c := range map[string]struct {
		state string
		cs    []routers.Change
		want  []string
		class error
	}{
		"announce":                     {"bgpd-absent", announce(both...), []string{v4 + "network 10.53.53.53/32", v6 + "network 2001:db8:53::53/128"}, nil},
		"announce again":               {"bgpd-advertised", announce(p4), []string{v4 + "network 10.53.53.53/32"}, nil},
		"withdraw":                     {"bgpd-advertised", withdraw(both...), []string{v4 + "no network 10.53.53.53/32", v6 + "no network 2001:db8:53::53/128"}, nil},
		"withdraw what is not there":   {"bgpd-absent", withdraw(both...), nil, nil},
		"withdraw what a peer has":     {"bgpd-learned", withdraw(p4), nil, nil},
		"withdraw what is unused":      {"bgpd-import-check", withdraw(p4), []string{v4 + "no network 10.53.53.53/32"}, nil},
		"withdraws first":              {"bgpd-advertised", append(announce(q4), withdraw(p6, p4)...), []string{v4 + "no network 10.53.53.53/32", v6 + "no network 2001:db8:53::53/128", v4 + "network 10.53.53.54/32"}, nil},
		"options are not lost":         {"bgpd-denied", announce(p4, q4), []string{v4 + "network 10.53.53.54/32"}, nil},
		"but a withdrawal is one":      {"bgpd-denied", withdraw(p4), []string{v4 + "no network 10.53.53.53/32"}, nil},
		"which of two instances":       {"bgpd-instances", announce(p4), []string{"bgpd: configure terminal/router bgp 65001/address-family ipv4 unicast: network 10.53.53.53/32"}, nil},
		"never makes a bgp of its own": {"bgpd-unconfigured", announce(p4), nil, routers.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) { checkApply(t, recording(t, c.state), o, c.cs, c.want, c.class) })
	}
	checkApply(t, recording(t, "bgpd-absent").fail("bgpd"), o, announce(p4), nil, routers.ErrUnavailable)
}

func TestApplyStatic(t *testing.T) {
	o := Options{Method: MethodStatic, SocketDir: t.TempDir()}
	node := "staticd: configure terminal: "
	absent := func() *replay { return recording(t, "zebra-absent", "staticd-empty") }
	checkApply(t, absent(), o, announce(s4, s6), []string{node + "ip route 10.53.54.1/32 blackhole, ipv6 route 2001:db8:54::1/128 blackhole"}, nil)
	checkApply(t, absent(), o, append(announce(s4), withdraw(s6)...), []string{node + "no ipv6 route 2001:db8:54::1/128 blackhole", node + "ip route 10.53.54.1/32 blackhole"}, nil)
	foreign := func() *replay { return recording(t, "zebra-absent", "zebra-static-foreign", "staticd-foreign") }
	checkApply(t, foreign(), o, announce(s4, s6), []string{node + "ipv6 route 2001:db8:54::1/128 blackhole"}, routers.ErrRefused)
	checkApply(t, foreign(), o, withdraw(s4), []string{node + "no ip route 10.53.54.1/32 blackhole"}, nil)
	checkApply(t, absent().fail("zebra"), o, append(announce(s4), withdraw(s6)...), []string{node + "no ipv6 route 2001:db8:54::1/128 blackhole"}, routers.ErrUnavailable)
}

// Nothing is announced by a daemon that was never started; a withdraw needs none.
func TestApplyAddressWithoutDaemon(t *testing.T) {
	k := on(p4, p6)
	k.without = "ospf6d"
	d := recording(t, stub...).router(Options{Unpaced: true}).with(k)
	if err := d.Apply(t.Context(), withdraw(p4, p6)); err != nil || k.stages[p4] != routers.Absent || k.stages[p6] != routers.Absent {
		t.Errorf("withdraw: %v, %v", err, k.stages)
	}
	err := d.Apply(t.Context(), announce(p4, p6, s6))
	if want := "frr: nothing is announced into a table that cannot be read: ospf6d has no socket"; !errors.Is(err, routers.ErrUnavailable) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if k.stages[p4] != routers.Selected || k.stages[p6] != routers.Absent {
		t.Errorf("announced: %v", k.stages)
	}
}

// A daemon has no socket only when it was never started: one that died leaves its socket behind.
func TestNoSocket(t *testing.T) {
	dir := t.TempDir()
	for _, daemon := range []string{"ospfd", "bgpd"} {
		if err := os.WriteFile(vty.Path(dir, daemon), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir, protocol string
		p             netip.Prefix
		want          string
	}{
		{dir, "", p4, ""},
		{dir, "", p6, "ospf6d has no socket (not enabled in /etc/frr/daemons?)"},
		{dir, ProtocolBGP, p6, ""},
		{dir + "/nowhere", ProtocolBGP, p6, "bgpd has no socket (not enabled in /etc/frr/daemons?)"},
		{vty.Path(dir, "bgpd"), "", p4, ""}, // not a directory: nothing is known
	} {
		if got := (Options{SocketDir: c.dir, Protocol: c.protocol}).withDefaults().noSocket(c.p); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// What is not a canonical prefix and a change never reaches a daemon.
func TestApplyRefuses(t *testing.T) {
	for name, c := range map[string]routers.Change{
		"keep":      {Prefix: p4},
		"zero":      {Want: routers.Announced},
		"host bits": {Prefix: netip.MustParsePrefix("10.53.53.53/24"), Want: routers.Withdrawn},
		"mapped":    {Prefix: netip.MustParsePrefix("::ffff:10.53.53.53/128"), Want: routers.Announced},
	} {
		for _, m := range []string{MethodNetwork, MethodStatic} {
			r := recording(t, "bgpd-absent", "zebra-absent", "staticd-empty")
			err := r.router(Options{Method: m, SocketDir: t.TempDir()}).Apply(t.Context(), []routers.Change{{Prefix: p4, Want: routers.Announced}, c})
			if !errors.Is(err, routers.ErrRefused) || len(r.changes) > 0 {
				t.Errorf("%s %s: %v, asked %v", m, name, err, r.asked())
			}
		}
	}
}

// FRR 10 has mgmtd, and keeps static routes there.
func TestApplyStaticMgmtd(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(vty.Path(dir, "mgmtd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	checkApply(t, recording(t, "10.3/zebra-absent", "10.3/mgmtd-empty"), Options{Method: MethodStatic, SocketDir: dir}, announce(s4),
		[]string{"mgmtd: configure terminal: ip route 10.53.54.1/32 blackhole"}, nil)
}

// A refusal counts only when the tables do not say what was wanted. A recorded status 13 is answered
// to a withdrawal, once while the statement is gone already and once while it is not.
func TestRefusalsAreJudgedByTheTable(t *testing.T) {
	const command = "no network 10.53.53.53/32"
	refused := vty.Reply{Status: 13, Text: "% Can't find static route specified\n"}
	r := recording(t, "bgpd-advertised")
	r.replies["bgpd"][command] = refused
	if err := r.router(Options{Method: MethodNetwork}).Apply(t.Context(), withdraw(p4)); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "bgpd: \"no network 10.53.53.53/32\": status 13: % Can't find") {
		t.Errorf("error %v", err)
	}
	gone := recording(t, "bgpd-absent")
	gone.replies["bgpd"][command] = refused
	reads := 0
	late := func(ctx context.Context, s session) ([]vty.Reply, error) {
		if reads++; reads == 1 { // the configuration as it was
			return r.talk(ctx, s)
		}
		return gone.talk(ctx, s)
	}
	if err := newRouter(Options{Method: MethodNetwork}.withDefaults(), late).Apply(t.Context(), withdraw(p4)); err != nil {
		t.Errorf("withdrawn by somebody else meanwhile: %v", err)
	}
	if len(gone.changes) != 1 {
		t.Errorf("asked %v", gone.asked())
	}
}

func TestBusy(t *testing.T) {
	r := recording(t, "zebra-absent", "staticd-empty")
	locked := vty.Reply{Status: 255, Text: "% command failed, could not lock candidate DS\n"}
	r.replies["staticd"]["ip route 10.53.54.1/32 blackhole"] = locked
	r.replies["staticd"]["ip route 10.53.54.2/32 blackhole"] = locked
	o := Options{Method: MethodStatic, SocketDir: t.TempDir()}
	q := netip.MustParsePrefix("10.53.54.2/32")
	r.replies["zebra"]["show ip route 10.53.54.2/32 json"] = vty.Reply{Text: "{}\n"}
	err := r.router(o).Apply(t.Context(), announce(s4, q))
	if !errors.Is(err, routers.ErrBusy) || errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "and 1 more refused") {
		t.Errorf("error %v", err)
	}
}

func TestParseBGPConfig(t *testing.T) {
	c := parseBGPConfig(`frr version 8.4.4
router bgp 65001
 network 192.0.2.1/32
 neighbor 10.0.1.1 remote-as 65000
 !
 address-family ipv4 unicast
  network 10.53.53.53/32
  network 10.53.53.54/32 route-map X
 exit-address-family
 !
 address-family ipv6 unicast
  network 2001:DB8:53:0::53/128
 exit-address-family
 address-family ipv4 vpn
  network 10.1.1.1/32 rd 1:1 label 3
 exit-address-family
exit
!
router bgp 65002 vrf red
 address-family ipv4 unicast
  network 10.66.66.66/32
 exit-address-family
exit
router bgp 65003 view blue
 network 10.77.77.77/32
`)
	var got []string
	for p, options := range c.statements {
		got = append(got, strings.TrimSpace(p.String()+" "+options))
	}
	slices.Sort(got)
	want := []string{"10.53.53.53/32", "10.53.53.54/32 route-map X", "192.0.2.1/32", "2001:db8:53::53/128"}
	if diff := cmp.Diff(want, got); diff != "" || c.as != "65001" || c.instances != 3 {
		t.Errorf("AS %s, %d instances\n%s", c.as, c.instances, diff)
	}
}

// Our route is a blackhole of the usual distance, with our tag or none; with another it is somebody else's.
func TestReadTable(t *testing.T) {
	hole, via := nexthop{Blackhole: true}, nexthop{Interface: "eth0"}
	static1 := func(selected bool, distance int, tag uint32, nexthops ...nexthop) route {
		return route{Protocol: "static", Selected: selected, Distance: distance, Tag: tag, Nexthops: nexthops}
	}
	for name, c := range map[string]struct {
		rs   []route
		want routing
	}{
		"ours":          {[]route{static1(true, 1, 0, hole)}, routing{ours: true, selected: true, winner: "static"}},
		"tagged":        {[]route{static1(true, 1, 66, hole)}, routing{ours: true, selected: true, tag: 66, winner: "static"}},
		"another's tag": {[]route{static1(true, 1, 5, hole)}, routing{foreign: true, winner: "static"}},
		"distance":      {[]route{static1(true, 200, 0, hole)}, routing{foreign: true, winner: "static"}},
		"both":          {[]route{static1(true, 1, 0, hole), static1(false, 200, 0, via)}, routing{ours: true, selected: true, foreign: true, winner: "static"}},
		"joined":        {[]route{static1(true, 1, 0, via, hole)}, routing{ours: true, selected: true, foreign: true, winner: "static"}},
		"another's":     {[]route{static1(true, 1, 0, via)}, routing{foreign: true, winner: "static"}},
		"not static":    {[]route{{Protocol: "bgp", Selected: true, Distance: 20, Nexthops: []nexthop{hole}}}, routing{winner: "bgp"}},
	} {
		var got routing
		if (static{tag: 66}).readTable(&got, c.rs); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestParseStatics(t *testing.T) {
	got := static{tag: 66}.parse(`ip route 10.53.54.1/32 blackhole
ip route 10.53.54.2/32 Null0
ip route 10.53.54.3/32 blackhole 200
ip route 10.53.54.4/32 10.0.0.1
ip route 10.53.54.5/32
ip route 10.53.54.6/32 blackhole tag 66
ip route 10.53.54.7/32 blackhole tag 5
ip route 10.53.54.8/32 reject
ipv6 route 2001:DB8:54:0::1/128 blackhole
vrf red
 ip route 10.53.54.9/32 blackhole
exit-vrf
ip prefix-list X permit 10.0.0.0/8
`)
	ours, kin, other := routing{stated: true}, routing{foreign: true, kin: true}, routing{foreign: true}
	want := map[string]routing{
		"10.53.54.1/32": ours, "10.53.54.2/32": ours, "10.53.54.6/32": ours, "2001:db8:54::1/128": ours,
		"10.53.54.3/32": kin, "10.53.54.7/32": kin, "10.53.54.8/32": kin, "10.53.54.4/32": other,
	}
	for p, r := range got {
		if want[p.String()] != r {
			t.Errorf("%s: %+v, want %+v", p, r, want[p.String()])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d routes, want %d", len(got), len(want))
	}
}

func TestStrings(t *testing.T) {
	for want, o := range map[string]Options{
		"frr (address on lo, ospf)":        {},
		"frr (address on anycast, bgp)":    {Protocol: ProtocolBGP, Interface: "anycast"},
		"frr (network, bgp)":               {Method: MethodNetwork},
		"frr (static, ospf)":               {Method: MethodStatic},
		"frr (address on lo by frr, ospf)": {Owner: OwnerFRR},
	} {
		r := New(o)
		if r.String() != want || r.Goal() != routers.Advertised || r.Close() != nil {
			t.Errorf("%s: %s, goal %v", want, r, r.Goal())
		}
		if os, err := r.Observe(t.Context(), nil); os != nil || err != nil {
			t.Errorf("%s: observing nothing: %v, %v", want, os, err)
		}
		if err := r.Apply(t.Context(), nil); err != nil {
			t.Errorf("%s: changing nothing: %v", want, err)
		}
	}
}
