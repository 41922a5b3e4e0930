package frr

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

// The shapes of FRR 10.3, where they differ.
func TestShapesOf10(t *testing.T) {
	db, err := parseOSPF(
		`{"routerId":"10.0.1.2","routerLinkStates":{"areas":{"0.0.0.0":[{"lsaAge":28,"routerLinks":{
			"link0":{"linkType":"another Router (point-to-point)","neighborRouterId":"10.0.0.1","routerInterfaceAddress":"10.0.1.2","numOfTosMetrics":0,"tos0Metric":10},
			"link1":{"linkType":"Stub Network","networkAddress":"10.53.53.53","networkMask":"255.255.255.255","numOfTosMetrics":0,"tos0Metric":0}}}]}}}`,
		`{"routerId":"10.0.1.2","asExternalLinkStates":[{"lsaAge":2,"linkStateId":"10.53.54.1","networkMask":32,"metric":20}]}`,
		`{"neighbors":{"10.0.0.1":[{"nbrState":"Full/-","converged":"Full","linkStateRetransmissionListCounter":0}],
			"10.0.0.9":[{"nbrState":"ExStart/-","converged":"ExStart","linkStateRetransmissionListCounter":3}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := lsdb{
		held:      map[netip.Prefix]entry{p4: {stubLink, 0, 28}, s4: {externalLSA, 20, 2}},
		flushed:   map[netip.Prefix]bool{},
		linked:    true,
		age:       28,
		neighbors: []string{"10.0.0.1"},
	}
	if diff := cmp.Diff(want, db, cmp.AllowUnexported(lsdb{}, entry{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// What another release may call by another name is not absent.
func TestUnknownShape(t *testing.T) {
	for _, c := range []struct{ daemon, part, from, to, text string }{
		{"ospfd", "router", `"Router Link States"`, `"routerLsas"`, "routerLsas"},
		{"ospfd", "router", `"Router Link States": {`, `"routerLinkStates": { "zones": {}}, "x": {`, "x"},
		{"ospfd", "router", `"routerLinks"`, `"links"`, "a full neighbour, but no router-LSA that has links"},
		{"ospfd", "external", `"AS External Link States"`, `"externals"`, "externals"},
		{"ospfd", "neighbor", `"neighbors"`, `"adjacencies"`, "adjacencies"},
		{"ospf6d", "intra", `"areaScopedLinkStateDb"`, `"areas"`, "areas"},
		{"ospf6d", "external", `"asScopedLinkStateDb"`, `"as"`, "as"},
		{"ospf6d", "neighbor", `"neighbors"`, `"adjacencies"`, "adjacencies"},
		{"bgpd", "show bgp", `"paths"`, `"routes"`, "no paths, but advertisedTo, prefix, routes, version"},
		{"zebra", "route", `"protocol"`, `"source"`, "a route without protocol"},
	} {
		t.Run(c.daemon+" "+c.text, func(t *testing.T) {
			p, o, k, names := p4, Options{}, on(p4), []string{"ospfd-stub", "ospf6d-stub", "bgpd-advertised"}
			switch c.daemon {
			case "ospf6d":
				p = p6
			case "bgpd":
				o.Protocol = ProtocolBGP
			case "zebra":
				names = []string{"ospfd-absent", "zebra-address"}
			}
			r := recording(t, names...).edit(c.daemon, c.part, replace(c.from, c.to))
			os, err := r.router(o).with(k).Observe(t.Context(), []netip.Prefix{p})
			want := "of an unknown shape: " + c.text + " ("
			if os[0].Stage != routers.Unknown || !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), want) || !strings.Contains(os[0].Detail, want) {
				t.Errorf("%v, %q, error %v", os[0].Stage, os[0].Detail, err)
			}
		})
	}
}

// A daemon that is told more than is asked of it may tell more, as long as that holds no table.
func TestKnownShapes(t *testing.T) {
	for name, c := range map[string]struct{ router, neighbor string }{
		"instance and vrf": {`{"ospfInstance":1,"vrfName":"default","vrfId":0,"routerId":"10.0.1.2"}`, `{"totalNeighbors":0}`},
		"no neighbour yet": {`{"routerId":"10.0.1.2","routerLinkStates":{"areas":{}}}`, `{"neighbors":{"10.0.0.9":[{"converged":"ExStart"}]}}`},
		"case":             {`{"RouterLinkStates":{"areas":{}}}`, `{"neighbors":{}}`},
	} {
		if _, err := parseOSPF(c.router, "{}", c.neighbor); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e, err := parseBGP(`{"prefix":"10.53.53.53/32","version":3,"paths":[],"attributes":{}}`, p4); err != nil || len(e.Paths) > 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A recorded database is cut at every byte: no part of it may pass for the whole.
func TestCutDatabase(t *testing.T) {
	for _, release := range releasesOf {
		o4, o6 := load(t, release+"/ospfd-stub"), load(t, release+"/ospf6d-stub")
		router := strings.TrimSpace(o4["show ip ospf database router self-originate json"].Text)
		intra := strings.TrimSpace(o6["show ipv6 ospf6 database intra-prefix self-originated detail json"].Text)
		for i := range len(router) {
			if db, err := parseOSPF(router[:i], "{}", "{}"); err == nil {
				t.Errorf("%s: cut at %d: %+v", release, i, db)
			}
		}
		for i := range len(intra) {
			if db, err := parseOSPF6(intra[:i], "{}", "{}"); err == nil {
				t.Errorf("%s: cut at %d: %+v", release, i, db)
			}
		}
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string]int{`32`: 32, `"255.255.255.255"`: 32, `"255.255.255.252"`: 30, `"0.0.0.0"`: 0, `"255.0.255.0"`: -1, `"::1"`: -1, `"x"`: -1, `{}`: -1} {
		m := mask(-1)
		if err := json.Unmarshal([]byte(text), &m); (err != nil) != (want < 0) || err == nil && int(m) != want {
			t.Errorf("%s: %d, %v", text, m, err)
		}
	}
}

// Of an area's LSA and another's the lower cost counts, and the younger LSA tells the age.
func TestTwoAreas(t *testing.T) {
	db, err := parseOSPF(`{"Router Link States": {
		"0.0.0.0": {"10.0.0.1": {"lsaAge": 7, "routerLinks": {"link0": {"linkType": "Stub Network", "networkAddress": "10.53.53.53", "networkMask": "255.255.255.255", "tos0Metric": 10}}}},
		"0.0.0.1": {"10.0.0.1": {"lsaAge": 3, "routerLinks": {"link0": {"linkType": "Stub Network", "networkAddress": "10.53.53.53", "networkMask": "255.255.255.255", "tos0Metric": 5},
			"link1": {"linkType": "a Transit Network", "networkAddress": "10.53.54.1", "networkMask": "255.255.255.255", "tos0Metric": 5}}}}}}`,
		`{}`, `{}`)
	if err != nil || db.age != 3 || db.held[p4].cost != 5 || len(db.held) != 1 {
		t.Errorf("%v: %+v", err, db)
	}
}

// The age in whole seconds that ospf6d tells may be one too many, ospfd's is not.
func TestFresh(t *testing.T) {
	for age, want := range map[int][2]bool{-1: {false, false}, 0: {true, true}, 1: {false, true}, 2: {false, false}} {
		v4 := lsdb{age: age, held: map[netip.Prefix]entry{s4: {externalLSA, 20, age}}}
		v6 := lsdb{age: age, early: ospf6Early}
		if got := [2]bool{v4.fresh(p4), v6.fresh(p6)}; got != want {
			t.Errorf("age %d: %v, want %v", age, got, want)
		}
		if age >= 0 && v4.fresh(s4) != want[0] {
			t.Errorf("age %d: external %v", age, v4.fresh(s4))
		}
	}
}
