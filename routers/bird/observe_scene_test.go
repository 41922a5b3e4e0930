package bird

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// A scene is a node and a neighbour with BIRD of one release, and everything between them that a sight is
// made of: BGP sessions that are up, down and export nothing, both versions of OSPF, and prefixes of every
// standing. The real daemons make it, and recordings of them repeat it.
type scene struct {
	release    lab.Release
	node, core *lab.Node
	main, six  *lab.BIRD // six: BIRD 1's bird6
	its        *lab.BIRD // the neighbour's, for IPv4
}

// The prefixes of the scene.
var (
	sceneAbsent    = netip.MustParsePrefix("10.53.53.52/32")
	sceneStatic    = netip.MustParsePrefix("10.53.53.53/32") // with a MED and communities
	sceneDirect    = netip.MustParsePrefix("10.53.53.54/32") // an address on lo
	sceneRejected  = netip.MustParsePrefix("10.53.53.55/32") // by the filter to core4
	sceneElsewhere = netip.MustParsePrefix("10.53.53.56/32") // in a table without peers
	sceneHidden    = netip.MustParsePrefix("10.53.53.57/32") // static, and a direct one before it
	sceneLearned   = netip.MustParsePrefix("10.99.0.0/24")
	sceneCovered   = netip.MustParsePrefix("10.99.0.1/32") // longer than a route that is there
	sceneStatic6   = netip.MustParsePrefix("2001:db8:53::53/128")
	sceneDirect6   = netip.MustParsePrefix("2001:db8:53::54/128") // an address on lo
	sceneAbsent6   = netip.MustParsePrefix("2001:db8:53::52/128")
	scenePrefixes  = []netip.Prefix{sceneAbsent, sceneStatic, sceneDirect, sceneRejected, sceneElsewhere, sceneHidden,
		sceneLearned, sceneCovered, sceneStatic6, sceneDirect6, sceneAbsent6}
)

// sceneSyntax fits a configuration of BIRD 2 to BIRD 1, which has no channels, and leaves out what is of
// the other family: lines that begin with "4:" or "6:".
func sceneSyntax(text string, r lab.Release, family string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		mark, rest, marked := strings.Cut(line, ": ")
		switch {
		case !marked || mark != "4" && mark != "6":
			b.WriteString(line)
		case !r.Split():
			b.WriteString(rest)
		case mark == family:
			rest = strings.NewReplacer("ipv4 { ", "", "ipv6 { ", "", "; }; #", ";", "ipv4;", "", "ipv6;", "", "ospf v2", "ospf", "ospf v3", "ospf",
				"ipv4 table", "table").Replace(rest)
			b.WriteString(rest)
		}
	}
	return strings.ReplaceAll(b.String(), "; }; #", "; };")
}

const sceneNode = `
router id 10.0.1.2;
protocol device { }
4: protocol direct lodirect4 { ipv4; interface "lo"; }
6: protocol direct lodirect6 { ipv6; interface "lo"; }
4: ipv4 table extra4;
4: protocol static anycast4 { ipv4; route 10.53.53.53/32 blackhole { bgp_community.add((65001,666)); bgp_large_community.add((65001,0,666)); bgp_med = 50; ospf_metric2 = 70; bgp_path.prepend(65001); bgp_path.prepend(65001); }; route 10.53.53.57/32 blackhole; }
6: protocol static anycast6 { ipv6; route 2001:db8:53::53/128 blackhole; }
4: protocol static other4 { ipv4; route 0.0.0.0/0 via 10.0.1.1; route 10.53.53.55/32 unreachable; }
4: protocol static extra { ipv4 { table extra4; }; # route 10.53.53.56/32 blackhole; }
4: filter to_core4 { if net = 10.53.53.55/32 then reject; if source = RTS_STATIC || source = RTS_DEVICE then accept; reject; }
4: protocol bgp core4 { local 10.0.1.2 as 65001; neighbor 10.0.1.1 as 65000; ipv4 { import all; export filter to_core4; }; # BGP }
6: protocol bgp core6 { local 2001:db8:1::2 as 65001; neighbor 2001:db8:1::1 as 65000; ipv6 { import all; export where source = RTS_STATIC || source = RTS_DEVICE; }; # BGP }
4: protocol bgp dead4 { local 10.0.1.2 as 65001; neighbor 10.0.1.6 as 65003; ipv4 { import all; export all; }; # BGP }
4: protocol bgp quiet4 { local 10.0.2.2 as 65001; neighbor 10.0.2.1 as 65000; ipv4 { import none; export none; }; # BGP }
4: protocol ospf v2 ospf4 { ipv4 { export where source = RTS_STATIC && net != 0.0.0.0/0; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; interface "lo" { stub yes; }; }; }
6: protocol ospf v3 ospf6 { ipv6 { export where source = RTS_STATIC; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; }; }
`

const sceneCore = `
router id 10.0.1.1;
protocol device { }
4: protocol static s4 { ipv4; route 10.99.0.0/24 blackhole; }
4: protocol bgp n4 { local 10.0.1.1 as 65000; neighbor 10.0.1.2 as 65001; ipv4 { import all; export where source = RTS_STATIC; }; # BGP }
4: protocol bgp q4 { local 10.0.2.1 as 65000; neighbor 10.0.2.2 as 65001; ipv4 { import all; export none; }; # BGP }
6: protocol bgp n6 { local 2001:db8:1::1 as 65000; neighbor 2001:db8:1::2 as 65001; ipv6 { import all; export none; }; # BGP }
4: protocol ospf v2 ospf4 { ipv4 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; }; }
6: protocol ospf v3 ospf6 { ipv6 { export none; import all; }; # area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; }; }
`

// tellsSentOf says whether the release tells what a peer was really sent.
func tellsSentOf(r lab.Release) bool { return r != lab.BIRD1 && r != lab.BIRD207 }

// sceneTimers are those of a BGP session in a test.
const sceneTimers = "hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2;"

// sceneConfig is the node's configuration for one family; BIRD 2 and 3 have both in one.
func sceneConfig(text string, r lab.Release, family string) string {
	return strings.ReplaceAll(sceneSyntax(text, r, family), "BGP", sceneTimers)
}

// openScene makes the scene and waits until it stands. head is put before the node's configuration.
func openScene(t *testing.T, r lab.Release, head string) *scene {
	t.Helper()
	net := lab.Open(t, r)
	ctx := sceneWithin(t, time.Minute)
	s := &scene{release: r}
	var errs [10]error
	s.node, errs[0] = net.Node("node")
	s.core, errs[1] = net.Node("core")
	errs[2] = net.Link(s.node, "eth0", []string{"10.0.1.2/29", "2001:db8:1::2/64"}, s.core, "eth0", []string{"10.0.1.1/29", "2001:db8:1::1/64"})
	errs[3] = net.Link(s.node, "eth1", []string{"10.0.2.2/30"}, s.core, "eth1", []string{"10.0.2.1/30"})
	for i, p := range []netip.Prefix{sceneDirect, sceneHidden, sceneDirect6} {
		errs[4+i] = s.node.Address(ctx, "add", p.String(), "lo")
	}
	s.its, errs[7] = s.core.BIRD(ctx, r, sceneConfig(sceneCore, r, "4"))
	s.main, errs[8] = s.node.BIRD(ctx, r, head+sceneConfig(sceneNode, r, "4"))
	if r.Split() {
		_, errs[9] = s.core.BIRD6(ctx, r, sceneConfig(sceneCore, r, "6"))
		s.six, errs[8] = s.node.BIRD6(ctx, r, head+sceneConfig(sceneNode, r, "6"))
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := s.daemons()
	defer d.close()
	sceneWait(t, "the scene to stand", func() error { return sceneStands(s.sights(t, d)) })
	return s
}

// unhurried is what BIRD has for an answer on a busy machine.
const unhurried = 3 * time.Second

func sceneWithin(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// sceneWait waits until wrong finds nothing wrong any more.
func sceneWait(t *testing.T, what string, wrong func() error) {
	t.Helper()
	var last error
	err := lab.Wait(sceneWithin(t, time.Minute), what, 20*time.Millisecond, func() (bool, error) {
		last = wrong()
		return last == nil, last
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

func (s *scene) options() Options {
	o := Options{Via: ViaSocket, Socket: s.main.Socket(), Timeout: unhurried, MinPeers: 1, Socket6: s.main.Socket() + ".none"}
	if s.six != nil {
		o.Socket6 = s.six.Socket()
	}
	return o
}

func (s *scene) daemons() daemons { return newDaemons(s.options()) }

// sights reads the whole scene.
func (s *scene) sights(t *testing.T, d daemons) map[netip.Prefix]sight {
	t.Helper()
	sights, err := d.observe(t.Context(), s.options(), scenePrefixes)
	if err != nil {
		t.Logf("reading: %v", err)
	}
	return sights
}

// A standing is what a prefix is expected to be, with a peer's own stage and detail after its name.
type standingOf struct {
	stage routers.Stage
	peers map[string]string
}

// away begins what is said of dead4.
const away = "not established ("

// sceneWants is how every prefix stands in the scene.
func sceneWants() map[netip.Prefix]standingOf {
	const quiet = "it exports nothing (export none)"
	all := func(stage, core, ospf string) map[string]string {
		return map[string]string{"core4": core, "dead4": stage + " " + away, "quiet4": stage + " " + quiet, "ospf4": ospf}
	}
	none := map[string]string{"core4": "absent", "dead4": "absent " + away, "quiet4": "absent", "ospf4": "absent"}
	elsewhere := "absent no route of ours is in its table master"
	return map[netip.Prefix]standingOf{
		sceneAbsent:   {routers.Absent, none},
		sceneStatic:   {routers.Advertised, all("selected", "advertised", "advertised")},
		sceneDirect:   {routers.Advertised, all("selected", "advertised", "advertised")},
		sceneHidden:   {routers.Advertised, all("selected", "advertised", "advertised")},
		sceneRejected: {routers.Advertised, all("selected", "selected its export filter to_core4 does not let it pass", "advertised")},
		sceneElsewhere: {routers.Selected, map[string]string{"core4": elsewhere, "dead4": "absent " + away, "quiet4": elsewhere,
			"ospf4": elsewhere}},
		sceneLearned: {routers.Absent, none},
		sceneCovered: {routers.Absent, none},
		sceneStatic6: {routers.Advertised, map[string]string{"core6": "advertised", "ospf6": "advertised"}},
		sceneDirect6: {routers.Advertised, map[string]string{"core6": "advertised", "ospf6": "selected its export filter (unnamed) does not let it pass"}},
		sceneAbsent6: {routers.Absent, map[string]string{"core6": "absent", "ospf6": "absent"}},
	}
}

// sceneStands compares sights with the scene, and gives the first difference.
func sceneStands(sights map[netip.Prefix]sight) error {
	for p, want := range sceneWants() {
		s, ok := sights[p]
		if !ok {
			return fmt.Errorf("%s: was not seen", p)
		}
		if s.err != nil {
			return fmt.Errorf("%s: %w", p, s.err)
		}
		if stage, detail := s.stage(1); stage != want.stage {
			return fmt.Errorf("%s: %v (%s), want %v; peers %v", p, stage, detail, want.stage, s.peers)
		}
		if len(s.peers) != len(want.peers) {
			return fmt.Errorf("%s: peers %v, want %v", p, s.peers, want.peers)
		}
		for _, peer := range s.peers {
			got := strings.TrimSpace(peer.Stage.String() + " " + peer.Detail)
			got = strings.Replace(got, "table master4", "table master", 1) // 1.6 has one name for both
			if i := strings.Index(got, away); i >= 0 {
				got = got[:i] + away // how far it is in trying to connect, and what it failed of
			}
			if got != want.peers[peer.Name] {
				return fmt.Errorf("%s: peer %s: %q, want %q", p, peer.Name, got, want.peers[peer.Name])
			}
		}
	}
	return sceneAttributes(sights[sceneStatic])
}

// sceneAttributes looks at what the static route has for the styles that degrade it.
func sceneAttributes(s sight) error {
	r, ok := s.best()
	med, hasMED := r.med()
	metric2, hasMetric2 := r.metric2()
	switch {
	case !ok || r.protocol != "anycast4" || r.kind != "blackhole":
		return fmt.Errorf("%s: best is %v", sceneStatic, r)
	case med != 50 || !hasMED || metric2 != 70 || !hasMetric2 || r.pathLength() != 2 && r.table != "master": // 1.6 keeps no path of its own
		return fmt.Errorf("%s: MED %d, metric2 %d, path of %d in %v", sceneStatic, med, metric2, r.pathLength(), r.attributes)
	case !r.hasCommunity("65001:666") || !r.hasCommunity("65001:0:666") || r.hasCommunity("65001:66"):
		return fmt.Errorf("%s: communities of %v", sceneStatic, r.attributes)
	}
	return nil
}

// eachScene runs a test in a scene of every release.
func eachScene(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			test(t, openScene(t, r, ""))
		})
	}
}

// sceneScript makes a program of the first words of a command line.
func sceneScript(t *testing.T, words []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "birdc")
	var b strings.Builder
	for _, w := range words {
		b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "' ")
	}
	fatal(t, lab.WriteProgram(path, "#!/bin/sh\nexec "+b.String()+"\"$@\"\n"))
	return path
}
