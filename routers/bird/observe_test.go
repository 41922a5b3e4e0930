package bird

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"

	"github.com/google/go-cmp/cmp"
)

// samePrefix has prefixes compared as Go does.
var samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

// replyOf makes a reply of lines "CODE text".
func replyOf(t *testing.T, lines ...string) ctl.Reply {
	t.Helper()
	var r ctl.Reply
	for _, line := range lines {
		code, text, _ := strings.Cut(line, " ")
		var l ctl.Line
		if _, err := fmt.Sscan(code, &l.Code); err != nil {
			t.Fatal(err)
		}
		l.Text = text
		r.Lines = append(r.Lines, l)
	}
	return r
}

func TestStage(t *testing.T) {
	ours := route{protocol: "anycast4", table: "master4", best: true}
	second := route{protocol: "anycast4", table: "master4"}
	theirs := route{protocol: "core4", table: "master4", best: true}
	peer := func(name string, s routers.Stage, detail string) routers.Peer {
		return routers.Peer{Name: name, Stage: s, Detail: detail}
	}
	has, lacks := peer("a", routers.Advertised, ""), peer("b", routers.Selected, "its export filter f does not let it pass")
	unknown := peer("c", routers.Unknown, "9001 what")
	for name, test := range map[string]struct {
		sight
		wanted int
		want   routers.Stage
		detail string
	}{
		"nothing":                {sight{}, 1, routers.Absent, ""},
		"a neighbour's only":     {sight{routes: []route{theirs}}, 1, routers.Absent, ""},
		"no peers":               {sight{own: []route{ours}}, 1, routers.Selected, "given to 0 of 1: there is no protocol to give it to"},
		"given":                  {sight{own: []route{ours}, peers: []routers.Peer{has, lacks}}, 1, routers.Advertised, ""},
		"given to too few":       {sight{own: []route{ours}, peers: []routers.Peer{has, lacks}}, 2, routers.Selected, "given to 1 of 2: b: its export filter f does not let it pass"},
		"not the best":           {sight{own: []route{second}, routes: []route{theirs, second}}, 1, routers.Configured, "the route of core4 in table master4 is preferred to that of anycast4"},
		"not valid":              {sight{own: []route{second}, routes: []route{second}}, 1, routers.Configured, "the route of anycast4 is not valid"},
		"only in an LSA":         {sight{lsas: []string{"ospf4"}, peers: []routers.Peer{peer("ospf4", routers.Selected, "in its LSA, and no neighbour is full")}}, 1, routers.Selected, "given to 0 of 1: ospf4: in its LSA, and no neighbour is full"},
		"F03: left at a peer":    {sight{peers: []routers.Peer{has, lacks}}, 2, routers.Configured, "no route of ours is left, and still given to a"},
		"F03: left at enough":    {sight{peers: []routers.Peer{has}}, 1, routers.Advertised, "no route of ours is left, and still given to a"},
		"unread":                 {sight{err: errors.New("x")}, 1, routers.Unknown, "x"},
		"unread, and given":      {sight{err: errors.New("x"), peers: []routers.Peer{has}}, 1, routers.Advertised, "no route of ours is left, and still given to a"},
		"a peer unread":          {sight{peers: []routers.Peer{unknown}}, 1, routers.Unknown, "c: 9001 what"},
		"a peer unread, in it":   {sight{own: []route{ours}, peers: []routers.Peer{lacks, unknown}}, 1, routers.Unknown, "c: 9001 what"},
		"a peer unread, enough":  {sight{own: []route{ours}, peers: []routers.Peer{has, unknown}}, 1, routers.Advertised, ""},
		"a peer unread, too few": {sight{own: []route{ours}, peers: []routers.Peer{has, unknown}}, 2, routers.Unknown, "c: 9001 what"},
		"many lack it": {sight{own: []route{ours}, peers: []routers.Peer{lacks, lacks, lacks, lacks, lacks}}, 1, routers.Selected,
			"given to 0 of 1: b: " + lacks.Detail + "; b: " + lacks.Detail + "; b: " + lacks.Detail + "; and 2 more"},
	} {
		if stage, detail := test.stage(test.wanted); stage != test.want || detail != test.detail {
			t.Errorf("%s: %v (%s)", name, stage, detail)
		}
	}
}

// F10: only "not found" and an empty list prove that nothing is there.
func TestObserveAnswers(t *testing.T) {
	whole := readRecording(t, "testdata/2.17.6/scene.txt")
	const table, peer = "show route 10.53.53.52/32 table all all", "show route 10.53.53.52/32 exported 'core4'"
	for _, command := range []string{table, peer} {
		for answer, want := range map[string]routers.Stage{
			"8001 Network not found\n": routers.Absent,
			"0000 \n":                  routers.Absent,
			"1007-Table master4:\n \n Table x:\n8001 Not found\n": routers.Absent,
			"8007 Access denied\n":                                routers.Unknown,
			"9001 syntax error\n":                                 routers.Unknown,
			"8002 x\n":                                            routers.Unknown,
			"1007-Table master4:\n 10.53.53.52/32  gone\n0000 \n": routers.Unknown,
			"9001 \n": routers.Unknown,
			"1007-10.53.53.99/32  blackhole [extra 1] (200)\n0000 \n":  routers.Unknown,
			"1007-         blackhole [anycast4 1] * (200)\n0000 \n":    routers.Unknown,
			"1007-10.53.53.52/32  blackhole [nosuch 1] * (1)\n0000 \n": routers.Unknown,
			"1012-\tBGP.med: 50\n0000 \n":                              routers.Unknown,
			"1234-hello\n0000 \n":                                      routers.Unknown,
		} {
			r := maps.Clone(whole)
			r[command] = answer
			o := replayOptions(replay(t, r), nil)
			d := newDaemons(o)
			sights, err := d.observe(t.Context(), o, scenePrefixes)
			d.close()
			if stage, detail := sights[sceneAbsent].stage(1); stage != want || err != nil {
				t.Errorf("%s: %q: %v (%s), error %v", command, answer, stage, detail, err)
			}
			if stage, _ := sights[sceneStatic].stage(1); stage != routers.Advertised {
				t.Errorf("%s: %q: another prefix is %v", command, answer, stage)
			}
		}
	}
}

// BIRD 1.6 is asked for each table: what one of them does not tell is unknown, whatever the others say.
func TestObserveOneTableUnread(t *testing.T) {
	for _, table := range []string{"extra4", "master"} {
		r := maps.Clone(readRecording(t, "testdata/1.6.8/scene.txt"))
		r["show route 10.53.53.52/32 table '"+table+"' all"] = "8007 Access denied\n"
		o := replayOptions(replay(t, r), nil)
		d := newDaemons(o)
		sights, _ := d.observe(t.Context(), o, []netip.Prefix{sceneAbsent})
		d.close()
		if stage, _ := sights[sceneAbsent].stage(1); stage != routers.Unknown {
			t.Errorf("without table %s: %v", table, stage)
		}
	}
}

// What is not understood of the protocols or of OSPF makes unknown what it is about.
func TestObserveNotUnderstood(t *testing.T) {
	whole := readRecording(t, "testdata/2.17.6/scene.txt")
	stages := func(command, answer string) (sights map[netip.Prefix]sight, err error) {
		r := maps.Clone(whole)
		r[command] = answer
		o := replayOptions(replay(t, r), nil)
		d := newDaemons(o)
		defer d.close()
		return d.observe(t.Context(), o, scenePrefixes)
	}
	for _, answer := range []string{"8007 Access denied\n", "1002-core4\n0000 \n", "1006-  Channel ipv4\n0000 \n"} {
		sights, err := stages("show protocols all", answer)
		for p, s := range sights {
			if stage, _ := s.stage(1); stage != routers.Unknown || err == nil {
				t.Errorf("%q: %s is %v, error %v", answer, p, stage, err)
			}
		}
	}
	for _, answer := range []string{"9001 syntax error\n", "1016-\n area 0.0.0.0\n \trouter 10.0.1.1\n \t\tdistance 10\n0000 \n",
		"1016-\n area 0.0.0.0\n \trouter 10.0.1.2\n \t\tdistance 0\n \t\tstubnet what metric 1\n0000 \n"} {
		sights, _ := stages("show ospf state 'ospf4'", answer)
		if stage, _ := sights[sceneAbsent].stage(1); stage != routers.Unknown {
			t.Errorf("%q: absent, or %v", answer, stage)
		}
		if stage, _ := sights[sceneAbsent6].stage(1); stage != routers.Absent {
			t.Errorf("%q: IPv6 is %v", answer, stage)
		}
	}
}

// What is in our LSA reaches nobody without a full neighbour, also where the table lacks it.
func TestObserveNoFullNeighbour(t *testing.T) {
	r := maps.Clone(readRecording(t, "testdata/2.17.6/scene.txt"))
	r["show ospf neighbors 'ospf4'"] = strings.Replace(r["show ospf neighbors 'ospf4'"], "Full/", "Exchange/", 1)
	o := replayOptions(replay(t, r), nil)
	o.Peers = []string{"ospf4"}
	d := newDaemons(o)
	defer d.close()
	sights, err := d.observe(t.Context(), o, scenePrefixes)
	if err != nil {
		t.Fatal(err)
	}
	if stage, detail := sights[sceneStatic].stage(1); stage != routers.Selected || detail != "given to 0 of 1: ospf4: in its LSA, and no neighbour is full" {
		t.Errorf("%v (%s)", stage, detail)
	}
	if stage, _ := sights[sceneAbsent].stage(1); stage != routers.Absent {
		t.Errorf("%v", stage)
	}
}

func TestReady(t *testing.T) {
	up := channel{name: "ipv4", state: "UP"}
	for name, test := range map[string]struct {
		protocol
		channel
		why string
	}{
		"established":     {protocol{kind: kindBGP, state: "up", bgpState: "Established", info: "Established"}, up, ""},
		"trying":          {protocol{kind: kindBGP, state: "start", bgpState: "Active", info: "Active Socket: Connection refused"}, up, "not established (Active Socket: Connection refused)"},
		"disabled":        {protocol{kind: kindBGP, state: "down"}, up, "it is down"},
		"going down":      {protocol{kind: kindOSPF, state: "flush"}, up, "its state is flush"},
		"family refused":  {protocol{kind: kindBGP, state: "up", bgpState: "Established"}, channel{name: "ipv4", state: "DOWN"}, "its channel ipv4 is DOWN"},
		"of another kind": {protocol{kind: "RIP", state: "up"}, up, ""},
	} {
		if ready, why := test.protocol.ready(test.channel); ready != (test.why == "") || why != test.why {
			t.Errorf("%s: %v (%s)", name, ready, why)
		}
	}
}

// What a neighbour sent us is not given on as ours.
func TestObserveGivenOn(t *testing.T) {
	r := maps.Clone(readRecording(t, "testdata/2.17.6/scene.txt"))
	r["show route 10.99.0.0/24 exported 'quiet4'"] = "1007-Table master4:\n 10.99.0.0/24         unicast [core4 06:22:46.670] * (100) [AS65000i]\n \tvia 10.0.1.1 on eth0\n0000 \n"
	o := replayOptions(replay(t, r), nil)
	d := newDaemons(o)
	defer d.close()
	sights, err := d.observe(t.Context(), o, scenePrefixes)
	if err != nil {
		t.Fatal(err)
	}
	s := sights[sceneLearned]
	if stage, _ := s.stage(1); stage != routers.Absent || peerOf(s, "quiet4").Detail != "it is given the route of core4, which a neighbour sent us" {
		t.Errorf("%v, peers %v", stage, s.peers)
	}
}

// Named peers are the only ones, and in the order of their names.
func TestObservePeers(t *testing.T) {
	o := replayOptions(replay(t, readRecording(t, "testdata/2.17.6/scene.txt")), nil)
	o.Peers = []string{"quiet4", "core4", "nosuch"}
	d := newDaemons(o)
	defer d.close()
	sights, err := d.observe(t.Context(), o, []netip.Prefix{sceneRejected})
	if err != nil {
		t.Fatal(err)
	}
	got := sights[sceneRejected].observation(sceneRejected, 1)
	want := routers.Observation{Prefix: sceneRejected, Stage: routers.Selected,
		Peers: []routers.Peer{{Name: "core4", Stage: routers.Selected, Detail: "its export filter to_core4 does not let it pass"},
			{Name: "quiet4", Stage: routers.Selected, Detail: "it exports nothing (export none)"}},
		Detail: "given to 0 of 1: core4: its export filter to_core4 does not let it pass; quiet4: it exports nothing (export none)"}
	if diff := cmp.Diff(want, got, samePrefix); diff != "" {
		t.Error(diff)
	}
}

func TestParseRoutes(t *testing.T) {
	r := replyOf(t, "1007 Table master4:", "1007 10.53.53.53/32       unicast [lodirect 2026-11-30 06:22:42.536] ! (240)", "1007 \tdev lo",
		"1008 \tType: device univ", "1007                      unicast [ospf4 06:22:42 from 10.0.0.9] I (150/0) [10.0.1.2]", "1012 \tOSPF.metric2: 20",
		"1012 \tBGP.community: (1,2)", "1012 \t\t(3,4)", "1007 ", "1007 Table extra:", "1007 10.53.53.53/32  blackhole [x 1] (200)", "0 ")
	rs, err := parseRoutes(r, "show route", "")
	if err != nil || len(rs) != 3 {
		t.Fatalf("%v, error %v", rs, err)
	}
	p := netip.MustParsePrefix("10.53.53.53/32")
	for i, want := range []route{{prefix: p, table: "master4", protocol: "lodirect", kind: "unicast", best: true},
		{prefix: p, table: "master4", protocol: "ospf4", kind: "unicast"}, {prefix: p, table: "extra", protocol: "x", kind: "blackhole"}} {
		got := rs[i]
		got.attributes, got.last = nil, ""
		if !cmp.Equal(got, want, cmp.AllowUnexported(route{}), samePrefix) {
			t.Errorf("%d: %+v", i, rs[i])
		}
	}
	if m, ok := rs[1].metric2(); m != 20 || !ok || !rs[1].hasCommunity("3:4") || !rs[1].hasCommunity("1:2") || rs[1].hasCommunity("1:4") {
		t.Errorf("attributes %v", rs[1].attributes)
	}
	if _, ok := rs[0].med(); ok {
		t.Error("a MED out of nothing")
	}
}

func TestParseProtocolRow(t *testing.T) {
	for text, want := range map[string]protocol{
		"core4      BGP        ---        up     06:22:46.542  Established   ":                           {name: "core4", kind: "BGP", state: "up", info: "Established"},
		"core4      BGP        ---        up     2026-11-30 06:22:46  Established   ":                    {name: "core4", kind: "BGP", state: "up", info: "Established"},
		"core4      BGP        ---        up     2026-11-30  Established   ":                             {name: "core4", kind: "BGP", state: "up", info: "Established"},
		"none4      BGP        ---        start  06:22:42.535  Active        Socket: Connection refused": {name: "none4", kind: "BGP", state: "start", info: "Active Socket: Connection refused"},
		"a_very_long_name_of_a_protocol Static master4 down 06:22:42":                                    {name: "a_very_long_name_of_a_protocol", kind: "Static", state: "down"},
		"anycast4   Static     master4    down   06:22:42.535  ":                                         {name: "anycast4", kind: "Static", state: "down"},
	} {
		got, err := parseProtocolRow(text)
		if err != nil || got.name != want.name || got.kind != want.kind || got.state != want.state || got.info != want.info {
			t.Errorf("%s: %+v, error %v", text, got, err)
		}
	}
	if _, err := parseProtocolRow("core4 BGP ---"); err == nil {
		t.Error("a row that is cut is taken")
	}
}

func TestParseOwnLSAs(t *testing.T) {
	got, err := parseOwnLSAs(replyOf(t, "1016 ", "1016 area 0.0.0.0", "1016 ", "1016 \trouter 10.0.1.1", "1016 \t\tdistance 10", "1016 \t\tstubnet 10.53.53.1/32 metric 1",
		"1016 ", "1016 \trouter 10.0.1.2", "1016 \t\tdistance 0", "1016 \t\trouter 10.0.1.1 metric 10", "1016 \t\tstubnet 10.53.53.2/32 metric 3",
		"1016 \t\texternal 10.53.53.3/32 metric2 10000 tag 0x1", "1016 \t\tnssa-ext 10.53.53.4/32 metric 5", "1016 \t\txnetwork 10.53.53.5/32 metric 1",
		"1016 ", "1016 \tnetwork 10.0.3.0/24", "1016 \t\tdistance 10", "1016 \t\tstubnet 10.53.53.6/32 metric 1", "0 "))
	want := map[string]string{"10.53.53.2/32": "stubnet metric 3", "10.53.53.3/32": "external metric2 10000 tag 0x1", "10.53.53.4/32": "nssa-ext metric 5"}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, error %v", got, err)
	}
	for p, text := range want {
		if got[netip.MustParsePrefix(p)] != text {
			t.Errorf("%s: %q", p, got[netip.MustParsePrefix(p)])
		}
	}
	if got, err := parseOwnLSAs(replyOf(t, "0 ")); err != nil || len(got) != 0 {
		t.Errorf("an empty database: %v, error %v", got, err)
	}
}

func TestCountFull(t *testing.T) {
	if n := countFull(replyOf(t, "1013 ospf4:", "1013 Router ID   \tPri\t     State     \tDTime\tInterface  Router IP", "1013 10.0.1.1    \t  1\tFull/PtP  \t 3.9\teth0 10.0.1.1",
		"1013 10.0.1.9    \t  1\tExStart/DR \t 3.9\teth0 10.0.1.9", "1013 10.0.1.8    \t  1\tFull/DR \t 3.9\teth0 10.0.1.8", "0 ")); n != 2 {
		t.Error(n)
	}
}

// A table that may be the whole Internet's is never walked for a few prefixes.
func TestDumpIsCheaper(t *testing.T) {
	rd := func(preferred ...int) reading {
		rd := reading{}
		for i, n := range preferred {
			rd.protocols = append(rd.protocols, protocol{name: fmt.Sprint("p", i), channels: []channel{{name: "ipv4", state: "UP", table: "master4", preferred: n}}})
		}
		return rd
	}
	for _, test := range []struct {
		reading
		prefixes int
		want     bool
	}{
		{rd(0, 500), 1000, true},
		{rd(0, 500), 15, false},
		{rd(0, 500), 16, true},
		{rd(0, 950_000), 1000, false},
		{rd(400_000, 450_000), 1000, false},
		{rd(0, -1), 1000, false},
	} {
		if got := test.dumpIsCheaper(test.protocols[0], test.prefixes); got != test.want {
			t.Errorf("%v for %d prefixes: %v", test.protocols, test.prefixes, got)
		}
	}
}

// A dump is sorted by prefix, and a line that is not understood makes all of it unknown.
func TestTakeDump(t *testing.T) {
	ps := []netip.Prefix{sceneStatic, sceneAbsent}
	sent := map[netip.Prefix]found{}
	takeDump(replyOf(t, "1007 Table master4:", "1007 0.0.0.0/0  unicast [o 1] * (200)", "1007 \tvia 10.0.1.1 on eth0", "1007 10.53.53.53/32 blackhole [a 1] * (200)", "0 "), "show route", ps, sent)
	if len(sent) != 2 || len(sent[sceneStatic].routes) != 1 || len(sent[sceneAbsent].routes) != 0 || sent[sceneAbsent].err != nil {
		t.Errorf("%v", sent)
	}
	takeDump(replyOf(t, "1007 10.53.53.53/32 blackhole [a 1] * (200)", "1007 10.53.53.52/32 what", "0 "), "show route", ps, sent)
	if sent[sceneStatic].err == nil || sent[sceneAbsent].err == nil {
		t.Errorf("%v", sent)
	}
}
