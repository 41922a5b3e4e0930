package frr

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/rtnl"

	"github.com/google/go-cmp/cmp"
)

// told gives findings as lines.
func told(found []routers.Finding) []string {
	var lines []string
	for _, f := range found {
		severity, _ := f.Severity.MarshalText()
		line := fmt.Sprintf("%s %s: %s", severity, f.Subject, f.Text)
		if f.WayOut != "" {
			line += " > " + f.WayOut
		}
		lines = append(lines, line)
	}
	return lines
}

const (
	objectsOn  = "note zebra: installs its routes with kernel nexthop objects: when somebody deletes these (`ip nexthop flush`), the kernel loses the routes and zebra does not put them back; systemd-networkd, which would, has not run here since boot > put `no zebra nexthop kernel enable` into frr.conf and restart FRR; have a check of type route"
	objectsOff = "ok zebra: installs its routes without nexthop objects, so that nobody who deletes these takes them out of the kernel"
	checkOn    = "ok bgp network import-check: on: a network statement needs a route of the very prefix in the table, such as its address on lo"
	covered4   = "ok ospfd: covers the prefixes on lo"
	covered6   = "ok ospf6d: covers the prefixes on lo"
	idle       = "warn neighbor 10.0.1.9: the session is not established: Active"
)

// What recordings of both releases make known, per method.
func TestExamine(t *testing.T) {
	network := Options{Method: MethodNetwork}
	cost := Options{Degraded: Degraded{Cost: 5}}
	static := Options{Method: MethodStatic, Degraded: Degraded{Tag: 66}}
	for release, dir := range releases(t) {
		who := "ok frr " + release + ": zebra, %s have a part in announcing"
		redistribute := map[string]string{"8.4.4": "ospfd-redistribute", "10.3": "10.3/ospfd-external"}[release]
		daemon := map[string]string{"8.4.4": "staticd", "10.3": "mgmtd"}[release]
		for name, c := range map[string]struct {
			o     Options
			ps    []netip.Prefix
			state []string
			want  []string
		}{
			"bgp": {network, []netip.Prefix{p4, p6}, []string{"bgpd-peers"}, []string{fmt.Sprintf(who, "bgpd"), objectsOn, checkOn,
				"ok neighbor 10.0.1.1: established, ipv4 without an outbound filter", "ok neighbor 10.0.1.1: established, ipv6 without an outbound filter", idle}},
			"filter, no objects": {network, []netip.Prefix{p4}, []string{"bgpd-filtered", "zebra-no-objects"}, []string{fmt.Sprintf(who, "bgpd"), objectsOff, checkOn,
				"fail neighbor 10.0.1.1: established, ipv4: it is not sent 10.53.53.53/32: prefix-list NONE denies it > let it through, unless it is meant so", idle}},
			"policy": {Options{Method: MethodNetwork, Degraded: Degraded{RouteMap: "NONE"}}, []netip.Prefix{p4}, []string{"bgpd-policy"}, []string{fmt.Sprintf(who, "bgpd"), objectsOn, checkOn,
				"warn route-map NONE: does not exist, so that nothing can be degraded > configure `route-map NONE permit 10`",
				"fail neighbor 10.0.1.1: ipv4: nothing is sent to it, as it has no outbound policy and bgp ebgp-requires-policy is on > configure `neighbor 10.0.1.1 route-map NAME out`, or `no bgp ebgp-requires-policy`", idle}},
			"shut, graceful, unchecked": {network, []netip.Prefix{p4}, []string{"bgpd-shut"}, []string{fmt.Sprintf(who, "bgpd"), objectsOn,
				"note bgp network import-check: off: a network statement announces also what has no address on this node > configure `bgp network import-check`, unless it is meant so",
				"note neighbor 10.0.1.1: is shut down", idle, restarts("10.0.1.1"), restarts("10.0.1.9")}},
			"address by bgp": {Options{Protocol: ProtocolBGP}, []netip.Prefix{p4, s4}, []string{"bgpd-peers"}, []string{fmt.Sprintf(who, "bgpd"), objectsOn, checkOn,
				"fail bgpd: nothing takes 10.53.54.1/32 from the interface into BGP > configure a network statement for each, or `redistribute connected`, or use method network",
				"ok neighbor 10.0.1.1: established, ipv4 without an outbound filter", idle}},
			"ospf": {cost, []netip.Prefix{p4, p6}, plain(release), []string{fmt.Sprintf(who, "ospfd, ospf6d"), objectsOn, covered4, covered6}},
			"own costs": {cost, []netip.Prefix{p4, p6}, []string{"ospfd-own-cost", "ospf6d-own-cost"}, []string{fmt.Sprintf(who, "ospfd, ospf6d"), objectsOn, covered4,
				"warn ospfd: the cost 5 of a degraded prefix is not worse than that of lo itself, 7 > set a higher cost in [router.degraded]", covered6,
				"warn ospf6d: lo has a cost of its own, 7, which is not overwritten: IPv6 prefixes cannot be degraded > remove `ipv6 ospf6 cost`, or use another interface"}},
			"no area": {Options{Interface: "dummy0"}, []netip.Prefix{p4, p6}, plain(release), []string{fmt.Sprintf(who, "ospfd, ospf6d"), objectsOn,
				"fail ospfd: no area covers 10.53.53.53/32 on dummy0: not announced > configure `interface dummy0` with `ip ospf area 0`",
				"fail ospf6d: no area covers 2001:db8:53::53/128 on dummy0: not announced > configure `interface dummy0` with `ipv6 ospf6 area 0`"}},
			"static": {static, []netip.Prefix{s4}, []string{redistribute}, []string{fmt.Sprintf(who, daemon+", ospfd"), objectsOn,
				"warn ospfd: redistributes static routes without a route-map, so that the tag 66 of a degraded one makes it no worse > configure `redistribute static route-map NAME`, with an entry that has `match tag 66`"}},
			"static, not redistributed": {static, []netip.Prefix{s4}, plain(release), []string{fmt.Sprintf(who, daemon+", ospfd"), objectsOn,
				"fail ospfd: does not redistribute static routes, so that none is announced" + take + "static route-map NAME`, with a prefix-list of what is to be announced"}},
			"static by bgp": {Options{Method: MethodStatic, Protocol: ProtocolBGP}, []netip.Prefix{s4}, []string{"bgpd-peers"}, []string{fmt.Sprintf(who, daemon+", bgpd"), objectsOn,
				"fail bgpd: ipv4: does not redistribute static routes, so that none is announced" + take + "static route-map NAME`, with a prefix-list of what is to be announced",
				"ok neighbor 10.0.1.1: established, ipv4 without an outbound filter", idle}},
		} {
			t.Run(release+" "+name, func(t *testing.T) {
				names := []string{release + "/zebra-examine", release + "/" + daemon + "-static-tag"}
				for _, s := range c.state {
					if !strings.Contains(s, "/") && release != "8.4.4" {
						s = release + "/" + s
					}
					names = append(names, s)
				}
				o := c.o
				o.SocketDir, o.ConfigDir = dir, t.TempDir()
				got := told(recording(t, names...).router(o).Examine(t.Context(), c.ps))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func restarts(neighbor string) string {
	return "warn neighbor " + neighbor + ": graceful restart: it keeps routes of this node alive when bgpd dies, also those that ought to be withdrawn then > configure `bgp graceful-restart-disable`, or `neighbor " + neighbor + " graceful-restart-disable`"
}

// Daemons that are away are told, and the others examined all the same.
func TestExamineAway(t *testing.T) {
	o := Options{SocketDir: t.TempDir(), ConfigDir: t.TempDir()}
	got := told(recording(t, "ospfd-config").fail("zebra").fail("ospf6d").router(o).Examine(t.Context(), []netip.Prefix{p4, p6}))
	want := []string{"fail zebra: /run/frr/zebra.vty: unavailable", "fail ospf6d: /run/frr/ospf6d.vty: unavailable", "ok ospfd: covers the prefixes on lo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r := recording(t, "zebra-examine", "bgpd-unconfigured")
	r.replies["bgpd"]["show bgp neighbors json"] = vty.Reply{Text: "{}"}
	got = told(r.router(Options{Method: MethodNetwork, SocketDir: o.SocketDir, ConfigDir: o.ConfigDir}).Examine(t.Context(), []netip.Prefix{p4}))
	if last := got[len(got)-1]; last != "fail bgpd: it runs, but there is no router bgp > configure it" {
		t.Errorf("got %q", got)
	}
}

// Another address on the interface goes along (F27).
func TestExposed(t *testing.T) {
	rd := reading{addresses: []rtnl.Address{
		{Prefix: p6, Interface: "lo"}, {Prefix: netip.MustParsePrefix("2001:db8::1/128"), Interface: "lo"}, {Prefix: netip.MustParsePrefix("2001:db8:1::2/64"), Interface: "eth0"},
		{Prefix: netip.MustParsePrefix("::1/128"), Interface: "lo"}, {Prefix: netip.MustParsePrefix("fe80::1/64"), Interface: "lo"}, {Prefix: netip.MustParsePrefix("192.0.2.1/32"), Interface: "lo"},
	}}
	got := told(rd.exposed(ospfConfig{area: true}, "ospf6d", "lo", []netip.Prefix{p6}))
	if diff := cmp.Diff([]string{"note ospf6d: announces what else is on lo too: 2001:db8::1/128"}, got); diff != "" {
		t.Error(diff)
	}
	covers := ospfConfig{networks: []netip.Prefix{p4n}}
	if got := rd.exposed(covers, "ospfd", "lo", []netip.Prefix{p4}); got != nil {
		t.Errorf("what no statement covers: %v", got)
	}
}

// Lines of a saved configuration that announce are told by their number, however they are indented.
func TestExamineSaved(t *testing.T) {
	dir := t.TempDir()
	text := `frr version 8.4.4
interface lo
 ip address 10.53.53.53/32
 ip ospf area 0
exit
!
ip route 10.53.54.1/32 blackhole
ip route 10.9.9.9/32 blackhole
vrf red
 ip route 10.53.54.1/32 blackhole
exit-vrf
router bgp 65001
network 10.53.53.53/32
 address-family ipv6 unicast
  network 2001:DB8:53::53/128 route-map X
router ospf
 network 10.53.53.53/32 area 0
router bgp 65002 vrf red
 network 10.53.53.53/32
`
	if err := os.WriteFile(filepath.Join(dir, "frr.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(n int, what string) string {
		return fmt.Sprintf("warn %s/frr.conf: line %d announces %s > remove the line: vouch adds to the running configuration what is to be there, and saves nothing", dir, n, what)
	}
	const whether = " when FRR starts, whether its service answers or not: "
	ps := []netip.Prefix{p4, p6, s4}
	saved := readSaved(dir, []string{"zebra", "bgpd"})
	got := told(examineSaved(saved, Options{Method: MethodNetwork}, ps))
	address, route := line(3, "10.53.53.53/32"+whether+"interface lo: ip address 10.53.53.53/32"), line(7, "10.53.54.1/32"+whether+"ip route 10.53.54.1/32 blackhole")
	want := []string{address, route, line(13, "10.53.53.53/32"+whether+"router bgp 65001: network 10.53.53.53/32"),
		line(15, "2001:db8:53::53/128"+whether+"router bgp 65001: network 2001:DB8:53::53/128 route-map X")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{address, route}, told(examineSaved(saved, Options{Method: MethodAddress}, ps))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ok " + dir + ": the saved configuration announces no managed prefix when FRR starts"}, told(examineSaved(saved, Options{Method: MethodNetwork}, []netip.Prefix{s6}))); diff != "" {
		t.Error(diff)
	}
	unread := examineSaved([]savedConfig{{path: "/etc/frr/frr.conf", err: &os.PathError{Op: "open", Path: "x", Err: os.ErrPermission}}}, Options{}, ps)
	if diff := cmp.Diff([]string{"note /etc/frr/frr.conf: cannot be read, so that nobody knows what it announces when FRR starts: permission denied > run this as root, or as a member of group frr"}, told(unread)); diff != "" {
		t.Error(diff)
	}
}

func TestConfigDir(t *testing.T) {
	for in, want := range map[string]string{"/run/frr": "/etc/frr", "/run/frr/": "/etc/frr", "/run/frr/blue": "/etc/frr/blue", "/elsewhere": "/etc/frr"} {
		if got := configDir(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
