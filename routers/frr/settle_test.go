package frr

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"vouch/routers"
)

// bgpd between a command and its decision gives no reason for anything.
func TestPending(t *testing.T) {
	for _, release := range releasesOf {
		for _, state := range []string{"pending", "removed"} {
			r := recording(t, release+"/bgpd-peers", release+"/bgpd-"+state)
			checkObserve(t, r.router(Options{Method: MethodNetwork}), []netip.Prefix{p4}, []seen{{routers.Configured, "", ""}}, nil)
		}
	}
}

// A path that is not the best says what is better, if anything.
func TestBetter(t *testing.T) {
	own, learned := bgpPath{Valid: true, Local: true}, bgpPath{Valid: true}
	learned.Peer.ID = "10.0.1.1"
	for want, paths := range map[string][]bgpPath{
		"bgpd does not take the path":                                {own},
		"another path is better: learned from 10.0.1.1":              {own, learned},
		"another path of this node's own is better (redistributed?)": {own, {Valid: true, Sourced: true, BestPath: true}},
	} {
		b := bgp{ours: bgpPath.stated}
		if s := b.judge(bgpEntry{Paths: paths}, bgpSummary{}); s.stage != routers.Configured || s.detail != want {
			t.Errorf("%v, %q, want %q", s.stage, s.detail, want)
		}
	}
}

// After a restart of ospfd or ospf6d the neighbour is full, but has not taken the LSA that says so.
func TestJoining(t *testing.T) {
	for _, release := range releasesOf {
		r := recording(t, release+"/ospfd-joining", release+"/ospf6d-joining", release+"/zebra-address")
		os, err := r.router(Options{}).with(on(p4, p6)).Observe(t.Context(), []netip.Prefix{p4, p6})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range os {
			if o.Stage != routers.Selected || len(o.Peers) != 1 || o.Peers[0].Stage != routers.Selected || !strings.HasSuffix(o.Detail, "not yet acknowledged by 10.0.0.1 since the adjacency is there") {
				t.Errorf("%s: %+v", release, o)
			}
		}
	}
}

// A full neighbour and a router-LSA that still leads to nobody: it is of no use to anybody yet.
func TestAlone(t *testing.T) {
	for _, release := range releasesOf {
		r := recording(t, release+"/ospfd-stub", release+"/zebra-address").edit("ospfd", "router self", func(text string) string {
			return strings.ReplaceAll(text, "another Router (point-to-point)", "Stub Network")
		})
		if os, err := r.router(Options{}).with(on(p4)).Observe(t.Context(), []netip.Prefix{p4}); err != nil || os[0].Stage != routers.Selected {
			t.Errorf("%s: %v, %+v", release, err, os)
		}
	}
}

// What is not acknowledged may be an external LSA, of which the others know nothing.
func TestExternalNotAcknowledged(t *testing.T) {
	for _, release := range releasesOf {
		r := recording(t, release+"/ospfd-joining", release+"/ospf6d-joining", release+"/zebra-address").
			edit("ospf6d", "detail json", func(text string) string { // only one of another kind is left
				return strings.NewReplacer("[Router ", "[AS-External ", "[Intra-Prefix ", "[AS-External ").Replace(text)
			})
		r.replies["ospfd"]["show ip ospf database external self-originate json"] = load(t, release+"/ospfd-external")["show ip ospf database external self-originate json"]
		r.edit("ospfd", "external", func(text string) string { return lsaAge.ReplaceAllString(text, `"lsaAge":0`) })
		os, err := r.router(Options{}).with(on(p4, p6)).Observe(t.Context(), []netip.Prefix{p4, p6})
		for _, o := range os {
			if err != nil || o.Stage != routers.Advertised {
				t.Errorf("%s: %v, %+v", release, err, o)
			}
		}
	}
}

var lsaAge = regexp.MustCompile(`"lsaAge": *[0-9]+`)

// Which neighbours cannot be said to have the LSA, by its age and that of the adjacency.
func TestJoiningAges(t *testing.T) {
	const id = "10.0.0.1"
	for name, c := range map[string]struct {
		db   lsdb
		want bool
	}{
		"just now":                           {lsdb{age: 0, full: map[string]int{id: 0}, apart: []string{id}}, true},
		"acknowledged":                       {lsdb{age: 0, full: map[string]int{id: 0}}, false},
		"something else is not":              {lsdb{age: 0, full: map[string]int{id: 0}, behind: []string{id}}, false},
		"not for ten seconds":                {lsdb{age: 10, full: map[string]int{id: 11}, apart: []string{id}}, true},
		"a later change":                     {lsdb{age: 3, full: map[string]int{id: 60}, apart: []string{id}}, false},
		"older than the adjacency":           {lsdb{age: 90, full: map[string]int{id: 6}, apart: []string{id}}, false},
		"another's":                          {lsdb{age: 0, full: map[string]int{id: 0}, apart: []string{"10.0.0.9"}}, false},
		"no LSA":                             {lsdb{age: -1, full: map[string]int{id: 0}, apart: []string{id}}, false},
		"since when is not known":            {lsdb{age: 0, apart: []string{id}}, false},
		"a router-LSA without the adjacency": {lsdb{age: 30, full: map[string]int{id: 60}, alone: true}, true},
		"called a second older":              {lsdb{age: 2, early: 1, full: map[string]int{id: 0}, apart: []string{id}}, true},
	} {
		if got := c.db.joining(id); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A neighbour that has acknowledged everything once keeps what it has, whatever is changed later; another adjacency
// with it begins anew.
func TestHeardKeeps(t *testing.T) {
	const id = "10.0.0.1"
	now := time.Now()
	var h heard
	read := func(after int, db lsdb) lsdb {
		h.note("ospfd", &db, now.Add(time.Duration(after)*time.Second))
		return db
	}
	for _, step := range []struct {
		name  string
		after int
		db    lsdb
		want  bool
	}{
		{"nothing is made yet", 0, lsdb{age: 0, full: map[string]int{id: 0}}, false},
		{"nor after a second", 1, lsdb{age: 1, full: map[string]int{id: 1}}, false},
		{"then it is", 2, lsdb{age: 0, full: map[string]int{id: 2}, behind: []string{id}, apart: []string{id}}, true},
		{"acknowledged, but an older LSA", 3, lsdb{age: 9, full: map[string]int{id: 3}}, false},
		{"it is outstanding still", 4, lsdb{age: 2, full: map[string]int{id: 4}, behind: []string{id}, apart: []string{id}}, true},
		{"acknowledged", 5, lsdb{age: 4, full: map[string]int{id: 5}}, false},
		{"a later change", 6, lsdb{age: 0, full: map[string]int{id: 6}, behind: []string{id}, apart: []string{id}}, false},
		{"a new adjacency", 8, lsdb{age: 0, full: map[string]int{id: 1}, behind: []string{id}, apart: []string{id}}, true},
	} {
		if db := read(step.after, step.db); db.joining(id) != step.want {
			t.Errorf("%s: joining %t", step.name, !step.want)
		}
	}
}

// What comes while all neighbours hang is told to nobody; one that does not is enough. What they had before they have,
// unless it was taken away meanwhile; and of a new adjacency nobody knows for a while.
func TestHung(t *testing.T) {
	const a, b = "10.0.0.1", "10.0.0.2"
	later, lsa := netip.MustParsePrefix("10.53.53.99/32"), entry{externalLSA, 20, 500}
	now := time.Now()
	var h heard
	read := func(after, full int, behind []string, ps ...netip.Prefix) lsdb {
		db := lsdb{held: map[netip.Prefix]entry{}, age: 500 + after, neighbors: []string{a, b}, behind: behind, full: map[string]int{a: full, b: full}}
		for _, p := range ps {
			db.held[p] = lsa
		}
		h.note("ospfd", &db, now.Add(time.Duration(after)*time.Second))
		return db
	}
	each := func(from, to, full int, behind []string, ps ...netip.Prefix) (db lsdb) {
		for after := from; after <= to; after++ {
			db = read(after, full+after-from, behind, ps...)
		}
		return db
	}
	is := func(name string, db lsdb, p netip.Prefix, stage routers.Stage, reached, detail string) {
		t.Helper()
		s := db.sight(p)
		o := routers.Observation{Peers: s.peers}
		if s.stage != stage || strings.Join(o.Reached(), " ") != reached || s.detail != "external LSA, cost 20"+detail {
			t.Errorf("%s: %+v", name, s)
		}
	}
	both := []string{a, b}
	const all, owe = a + " " + b, ", not yet acknowledged by " + a + ", " + b
	is("nobody knows yet", read(0, 10, both, s4), s4, routers.Advertised, all, owe)
	is("nor after a while", each(1, 15, 11, both, s4), s4, routers.Advertised, all, owe)
	is("both hang", read(16, 26, both, s4), s4, routers.Selected, "", owe)
	is("one does", read(17, 27, []string{b}, s4), s4, routers.Advertised, a, ", not yet acknowledged by "+b)
	h = heard{} // vouch is started anew, and they have been neighbours for long
	is("what was there before", read(0, 600, both, s4), s4, routers.Advertised, all, owe)
	is("is had", each(1, 16, 601, both, s4, later), s4, routers.Advertised, all, owe)
	is("and what came since is not", read(17, 617, both, s4, later), later, routers.Selected, "", owe)
	is("one does not hang", read(17, 617, []string{b}, s4), s4, routers.Advertised, all, ", not yet acknowledged by "+b)
	is("none does", read(18, 618, nil, s4), s4, routers.Advertised, all, "")
	read(20, 620, both, s4)
	db := each(21, 36, 621, both, s4, later)
	is("they hang again", db, s4, routers.Advertised, all, owe)
	is("and lack what came since", db, later, routers.Selected, "", owe)
	read(37, 637, both, later)
	is("it went, and came again", read(38, 638, both, s4), s4, routers.Selected, "", owe)
	read(39, 639, nil, s4)
	is("long not read", read(80, 680, both, later), later, routers.Advertised, all, owe)
	is("new adjacencies", read(100, 5, both, s4), s4, routers.Advertised, all, owe)
	is("which hang too", each(101, 116, 6, both, s4), s4, routers.Selected, "", owe)
	read(117, 22, nil, s4)
	read(118, 23, both, s4)
	is("two readings, of perhaps two changes", read(140, 45, both, s4, later), later, routers.Advertised, all, owe)
	is("and three", read(145, 50, both, s4, later), later, routers.Advertised, all, owe)
	is("as often as it takes", each(146, 160, 51, both, s4, later), later, routers.Selected, "", owe)
}

// One neighbour that has it is enough.
func TestOneOfTwoJoins(t *testing.T) {
	db := lsdb{held: map[netip.Prefix]entry{p4: {stubLink, 0, 1}}, age: 1}
	db.adjacent("10.0.0.1", 1, true)
	db.apart = db.behind
	db.adjacent("10.0.0.2", 500, false)
	s := db.sight(p4)
	if s.stage != routers.Advertised || s.peers[0].Stage != routers.Selected || s.peers[1].Stage != routers.Advertised {
		t.Errorf("%+v", s)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]int{"00:00:00": 0, "01:02:03": 3723, "2d01:00:00": 2*86400 + 3600, "": -1, "never": -1, "xd01:00:00": -1, "1d": -1} {
		if got := seconds(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// Who may keep what is not in the table: a neighbour that is away and was asked to.
func TestKeepers(t *testing.T) {
	for _, release := range releasesOf {
		r := recording(t, release+"/bgpd-shut").edit("bgpd", "show bgp ipv4 unicast 10", func(string) string { return "{}" }).
			edit("bgpd", "show running", func(s string) string { return strings.ReplaceAll(s, "network 10.53.53.53/32", "") })
		os, err := r.router(Options{Method: MethodNetwork}).Observe(t.Context(), []netip.Prefix{p4})
		const want = "10.0.1.9 may keep it until the session is there again, or its restart time over (graceful restart)"
		if err != nil || os[0].Stage != routers.Absent || os[0].Detail != want {
			t.Errorf("%s: %v, %+v", release, err, os[0])
		}
	}
}
