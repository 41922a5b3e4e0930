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

// What no neighbour has acknowledged in time is told to nobody yet; one that has is enough. What each had acknowledged
// before the last change it has, whatever is outstanding.
func TestOwed(t *testing.T) {
	const a, b = "10.0.0.1", "10.0.0.2"
	later, external := netip.MustParsePrefix("10.53.53.99/32"), entry{externalLSA, 20, 3}
	now := time.Now()
	var h heard
	read := func(after int, behind []string, held map[netip.Prefix]entry) lsdb {
		db := lsdb{held: held, age: 500 + after, neighbors: []string{a, b}, behind: behind, full: map[string]int{a: 600 + after, b: 600 + after}}
		h.note("ospfd", &db, now.Add(time.Duration(after)*time.Second))
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
	one, two := map[netip.Prefix]entry{s4: external}, map[netip.Prefix]entry{s4: external, later: external}
	is("both owe it", read(0, []string{a, b}, one), s4, routers.Selected, "", ", not yet acknowledged by 10.0.0.1, 10.0.0.2")
	is("one does", read(1, []string{b}, one), s4, routers.Advertised, a, ", not yet acknowledged by 10.0.0.2")
	is("the other too", read(2, nil, one), s4, routers.Advertised, a+" "+b, "")
	db := read(3, []string{a, b}, two)
	is("the next is owed", db, later, routers.Selected, "", ", not yet acknowledged by 10.0.0.1, 10.0.0.2")
	is("and not the first", db, s4, routers.Advertised, a+" "+b, ", not yet acknowledged by 10.0.0.1, 10.0.0.2")
	db = lsdb{held: one, age: 1, neighbors: []string{a, b}, behind: []string{a, b}, full: map[string]int{a: 1, b: 1}}
	h.note("ospfd", &db, now.Add(4*time.Second))
	is("both adjacencies are new", db, s4, routers.Selected, "", ", not yet acknowledged by 10.0.0.1, 10.0.0.2")
	read(5, []string{a, b}, map[netip.Prefix]entry{later: external})
	is("the first comes again", read(6, []string{a, b}, two), s4, routers.Selected, "", ", not yet acknowledged by 10.0.0.1, 10.0.0.2")
	young := map[netip.Prefix]entry{s4: {externalLSA, 20, 1}}
	is("it is too early", read(7, []string{a, b}, young), s4, routers.Advertised, a+" "+b, "")
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
