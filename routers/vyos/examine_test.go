package vyos

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// found wants a finding of a severity whose subject and text hold these.
func found(t testing.TB, fs []routers.Finding, severity routers.Severity, words ...string) {
	t.Helper()
	for _, f := range fs {
		text := f.Subject + " " + f.Text + " " + f.WayOut
		if f.Severity == severity && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	t.Errorf("no finding %s with %q among\n%s", severity, words, list(fs))
}

func list(fs []routers.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s %s: %s (%s)\n", f.Severity, f.Subject, f.Text, f.WayOut)
	}
	return b.String()
}

// worst wants nothing above a severity.
func worst(t *testing.T, fs []routers.Finding, most routers.Severity) {
	t.Helper()
	for _, f := range fs {
		if f.Severity > most {
			t.Errorf("%s %s: %s", f.Severity, f.Subject, f.Text)
		}
	}
}

func TestExamine(t *testing.T) {
	b := open(t, vyostest.Options{})
	ps := []netip.Prefix{one, one6}
	b.delivers(ps...)
	for _, c := range []struct {
		name     string
		options  Options
		do       func(s *vyostest.System)
		severity routers.Severity
		words    []string
	}{
		{"boot not done", Options{}, func(s *vyostest.System) { s.Boot("") }, routers.Failing, []string{"commit", "boot", "PrivateTmp"}},
		{"boot with errors", Options{}, func(s *vyostest.System) { s.Boot("1") }, routers.Warning, []string{"errors"}},
		{"no fuse", Options{}, func(s *vyostest.System) { b.must(os.Remove(s.Path("/dev/fuse"))) }, routers.Failing, []string{"dev/fuse"}},
		{"commit-confirm", Options{}, func(s *vyostest.System) { s.CommitConfirm("set system host-name r9") }, routers.Warning, []string{"commit-confirm", "confirm"}},
		{"lock", Options{}, func(s *vyostest.System) { s.HoldLock() }, routers.Notice, []string{".lock", "pid"}},
		{"save", Options{Save: true}, func(*vyostest.System) {}, routers.Warning, []string{"save"}},
		{"stale session", Options{}, func(s *vyostest.System) { s.Stale("4194304999") }, routers.Notice, []string{"4194304999"}},
		{"owner", Options{}, func(s *vyostest.System) { b.must(os.Chown(s.Path("/opt/vyatta/config/active"), 0, 0)) }, routers.Failing, []string{"vyattacfg", "chgrp"}},
		{"distance", Options{Distance: 255}, func(*vyostest.System) {}, routers.Failing, []string{"distance 255"}},
		{"other distance", Options{Distance: 5}, func(s *vyostest.System) {
			s.OperatorCommit("set protocols static route " + one.String() + " blackhole distance 9")
		}, routers.Failing, []string{one.String(), "blackhole distance 9", "next commit may bring it back", "set distance in [router]"}},
		{"no distance", Options{Distance: 5}, func(s *vyostest.System) {
			s.OperatorCommit("set protocols static route " + one.String() + " blackhole")
		}, routers.Notice, []string{one.String(), "VyOS's own distance", "in place of 5"}},
		{"other children", Options{}, func(s *vyostest.System) {
			s.OperatorCommit("set protocols static route " + one.String() + " next-hop 10.0.1.1")
		}, routers.Failing, []string{one.String(), "next-hop"}},
		{"saved", Options{}, func(s *vyostest.System) {
			b.must(os.WriteFile(s.Path("/config/config.boot"), []byte("protocols {\n    static {\n        route6 "+one6.String()+" {\n            blackhole {\n            }\n        }\n    }\n}\n"), 0o644))
		}, routers.Warning, []string{"config.boot", one6.String(), "boots"}},
		{"no VyOS", Options{}, func(s *vyostest.System) { b.must(os.Remove(s.Path("/usr/share/vyos/version.json"))) }, routers.Warning, []string{"is this VyOS?"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			own := &bench{t, b.lab, vyostest.New(t, vyostest.Options{SocketDir: b.lab.Nodes[0].FRR.SocketDir()})}
			own.install()
			c.options.Method = MethodStatic
			r := own.router(c.options)
			if c.name != "save" && c.name != "distance" {
				worst(t, own.examine(New(Options{Method: MethodStatic, Root: own.system.Root(), Timeout: busyFRR}), ps), routers.Notice)
			}
			c.do(own.system)
			found(t, own.examine(r, ps), c.severity, c.words...)
		})
	}
	b.install()
	r := b.router(Options{Method: MethodStatic})
	const bgp, names = "set protocols bgp address-family ", "(VyOS 1.3: `protocols bgp ASN …`), and that route-map with a prefix-list of what is to be announced (see contrib/vyos), commit, save"
	b.vtysh("router bgp 65001", "address-family ipv6 unicast", "no redistribute static", "no redistribute kernel")
	fs := b.examine(r, ps)
	found(t, fs, routers.Failing, "bgpd ipv6: does not redistribute static routes", "`"+bgp+"ipv6-unicast redistribute static route-map ANYCAST6` "+names)
	if all := list(fs); strings.Contains(all, "ipv4: does not") || strings.Contains(all, "set protocols bgp address-family ipv4") {
		t.Errorf("IPv4 lacks nothing:\n%s", all)
	}
	b.vtysh("router bgp 65001", "address-family ipv4 unicast", "no redistribute static", "no redistribute kernel")
	fs = b.examine(b.router(Options{}), ps)
	found(t, fs, routers.Failing, "bgpd ipv4: does not redistribute kernel routes", "`"+bgp+"ipv4-unicast redistribute kernel route-map ANYCAST` "+names)
	found(t, fs, routers.Failing, "bgpd ipv6: does not redistribute kernel routes", "`"+bgp+"ipv6-unicast redistribute kernel route-map ANYCAST6` "+names)
	b.vtysh("router bgp 65001", "address-family ipv4 unicast", "redistribute static", "redistribute kernel", "exit", "address-family ipv6 unicast", "redistribute kernel route-map EVERY", "exit", "exit", "route-map EVERY permit 10")
	found(t, b.examine(r, []netip.Prefix{one}), routers.Warning, "bgpd", "tag 666", bgp+"ipv4-unicast redistribute static route-map ANYCAST`", "with an entry that has `match tag 666`")
	fs = b.examine(b.router(Options{}), ps)
	found(t, fs, routers.Warning, "bgpd ipv4: redistributes kernel routes without a route-map", bgp+"ipv4-unicast redistribute kernel route-map ANYCAST`")
	found(t, fs, routers.Warning, "bgpd ipv6: redistributes kernel routes through route-map EVERY, which lets everything through", "`set policy route-map EVERY rule N match ipv6 address prefix-list LIST`", "see contrib/vyos")
}

// A family that no neighbour has, and a neighbour without one, are told with VyOS's line.
func TestExamineNeighbors(t *testing.T) {
	b := open(t, vyostest.Options{})
	b.install()
	b.delivers(both...)
	b.vtysh("router bgp 65001", "neighbor 2001:db8:9::9 remote-as 65009", "no bgp default ipv4-unicast")
	r := b.router(Options{})
	worst(t, b.examine(r, both[:1]), routers.Warning)
	found(t, b.examine(r, both), routers.Warning, "neighbor 2001:db8:9::9", "not established: Idle, as no address-family is activated for it", "`set protocols bgp neighbor 2001:db8:9::9 address-family ipv6-unicast` (VyOS 1.3")
	var off []string
	for _, p := range b.neighbors() {
		off = append(off, "no neighbor "+p+" activate")
	}
	b.vtysh(append([]string{"router bgp 65001", "address-family ipv6 unicast"}, off...)...)
	found(t, b.examine(r, both), routers.Failing, "bgpd ipv6: there is no neighbour with this address-family", "`set protocols bgp neighbor NEIGHBOR address-family ipv6-unicast` (VyOS 1.3", "commit, save")
}

// neighbors are those of the node's bgpd.
func (b *bench) neighbors() []string {
	b.Helper()
	out, err := b.lab.Nodes[0].FRR.Vtysh(b.Context(), "show bgp neighbors json")
	b.must(err)
	var all map[string]any
	b.must(json.Unmarshal([]byte(out), &all))
	return slices.Collect(maps.Keys(all))
}

// Of a prefix one address has to be taken in.
func TestUndelivered(t *testing.T) {
	p := netip.MustParsePrefix
	locals := []netip.Prefix{p("127.0.0.0/8"), p("192.0.2.53/32"), p("198.51.100.0/24"), p("2001:db8:53::53/128")}
	for prefix, words := range map[string][]string{
		"192.0.2.0/24": nil, "198.51.100.7/32": nil, "2001:db8:53::/48": nil, "192.0.2.53/32": nil,
		"203.0.113.0/24":     {"203.0.113.0/24", "blackhole drops", "`set interfaces dummy dum0 address 203.0.113.1/32`"},
		"192.0.2.54/32":      {"192.0.2.54/32", "blackhole drops", "`ip route add local 192.0.2.54/32 dev lo`", "/config/scripts/vyos-postconfig-bootup.script"},
		"2001:db8:54::/48":   {"`set interfaces dummy dum0 address 2001:db8:54::1/128`"},
		"2001:db8:54::1/128": {"`ip -6 route add local 2001:db8:54::1/128 dev lo`"},
	} {
		fs := undelivered(locals, []netip.Prefix{p(prefix)})
		if words == nil && len(fs) > 0 || len(fs) > 1 {
			t.Errorf("%s: %s", prefix, list(fs))
		}
		if words != nil {
			found(t, fs, routers.Warning, words...)
		}
	}
}

// install puts into the system what contrib/vyos does.
func (b *bench) install() {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "../../contrib/vyos/install", "/bin/true")
	cmd.Env = append(os.Environ(), "ROOT="+b.system.Root())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.must(os.WriteFile(b.system.Path("/config/vouch.toml"), nil, 0o644))
}

func (b *bench) examine(r *Router, ps []netip.Prefix) []routers.Finding {
	var fs []routers.Finding
	b.must(b.do(func() error { fs = r.Examine(b.Context(), ps); return nil }))
	return fs
}

func TestSavedBlackholes(t *testing.T) {
	text := "interfaces {\n    dummy dum0 {\n        address 192.0.2.1/32\n    }\n}\nprotocols {\n    bgp {\n    }\n    static {\n        route 192.0.2.53/32 {\n            blackhole {\n                distance 5\n            }\n        }\n" +
		"        route 198.51.100.0/24 {\n            next-hop 10.0.0.1 {\n            }\n        }\n        route6 \"2001:db8::53/128\" {\n            blackhole\n        }\n    }\n}\nvrf {\n    name x {\n        protocols {\n            static {\n                route 192.0.2.54/32 {\n                    blackhole {\n                    }\n                }\n            }\n        }\n    }\n}\n"
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("2001:db8::53/128")}
	if got := savedBlackholes(text); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestRelease(t *testing.T) {
	s := system{t.TempDir()}
	for _, dir := range []string{"usr/share/vyos", "opt/vyatta/etc"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.release(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	if err := os.WriteFile(s.path("opt/vyatta/etc/version"), []byte("Version:          VyOS 1.2.9\nBuilt by: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.release(); got != "1.2.9" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(s.path("usr/share/vyos/version.json"), []byte(`{"version": "1.4.3"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.release(); got != "1.4.3" {
		t.Errorf("%q", got)
	}
}

// VyOS writes FRR's files: nobody there is told to.
func TestExamineTellsOfNoFRRFile(t *testing.T) {
	f := inVyOS(routers.Finding{WayOut: "put `no zebra nexthop kernel enable` into frr.conf and restart FRR; have a check of type route"}, Options{})
	if f.WayOut != "have a check of type route" {
		t.Errorf("%q", f.WayOut)
	}
	f = inVyOS(routers.Finding{Subject: "ospfd", WayOut: "have access-list NAME permit it, or take `distribute-list NAME out kernel` away"}, Options{})
	if f.WayOut != "have policy access-list NAME permit it, or `delete protocols ospf access-list NAME export kernel`, commit, save" {
		t.Errorf("%q", f.WayOut)
	}
	b := open(t, vyostest.Options{})
	var fs []routers.Finding
	b.must(b.do(func() error { fs = b.router(Options{}).Examine(t.Context(), both); return nil }))
	b.must(b.lab.Nodes[0].FRR.StopDaemon("bgpd"))
	b.must(os.Remove(filepath.Join(b.lab.Nodes[0].FRR.SocketDir(), "bgpd.vty")))
	r := b.router(Options{})
	b.must(b.do(func() error {
		fs = append(fs, r.Examine(t.Context(), both)...)
		seen, err := r.Observe(t.Context(), both)
		b.wantError(err, routers.ErrUnavailable, "journalctl -u frr")
		fs = append(fs, routers.Finding{Text: err.Error()}, routers.Finding{Text: seen[0].Detail})
		return nil
	}))
	found(t, fs, routers.Failing, "bgpd", "journalctl -u frr")
	for _, f := range fs {
		if strings.Contains(f.Text+f.WayOut, "frr.conf") || strings.Contains(f.Text+f.WayOut, "/etc/frr/daemons") || strings.Contains(f.WayOut, `daemon = "frr"`) {
			t.Errorf("%s: %s (%s)", f.Subject, f.Text, f.WayOut)
		}
	}
}
