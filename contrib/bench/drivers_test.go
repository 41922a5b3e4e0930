package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

// Every release of both daemons is measured with BGP and with OSPF, and no row is there twice.
func TestSubjects(t *testing.T) {
	for name, sites := range map[string][]site{"bgp": bgpSites(), "ospf": ospfSites()} {
		seen := map[string]bool{}
		for _, s := range sites {
			if s.network.Nodes != s.release || s.network.BGP != (name == "bgp") {
				t.Errorf("%s: %s: its network is %+v", name, s.release, s.network)
			}
			seen[s.release.String()] = true
			for _, sub := range s.subjects {
				row := s.release.String() + " " + sub.name
				if seen[row] {
					t.Errorf("%s twice", row)
				}
				seen[row] = true
				if sub.rest > 0 != (name == "ospf" && (s.release.IsBIRD() || sub.prefix.Addr().Is6())) {
					t.Errorf("%s rests %v", row, sub.rest)
				}
			}
		}
		for _, r := range slices.Concat(lab.FRRs, lab.BIRDs) {
			if !seen[r.String()] {
				t.Errorf("%s: no %s", name, r)
			}
		}
	}
	b := &bench{runs: 9}
	if got := b.changes(bgpSites()[:1], ospfSites()[:1]); got != 2*9*(4+5) {
		t.Errorf("FRR 8.4.4 has %d changes", got)
	}
	// What is slow is measured less often, and what is instead of it as often.
	if got := b.changes([]site{vyosBGP(), vyosOSPF()}); got != 2*(9*(1+1)+3*(6+3+1)) {
		t.Errorf("VyOS has %d changes", got)
	}
}

// A release that is not there has rows that say so, and spoils no others.
func TestMissingRelease(t *testing.T) {
	lab.Require(t)
	t.Setenv("VOUCH_LAB_CACHE", t.TempDir())
	r := report{part: "drivers"}
	err := (&bench{runs: 2}).at(t.Context(), []site{birdSite(lab.BIRD3, lab.Switch, true)}, &r)
	if err == nil || len(r.rows) != 2 {
		t.Fatalf("%v, %+v", err, r.rows)
	}
	for _, w := range r.rows {
		if w.Runs != 0 || !strings.HasPrefix(w.Lacks, "2 of 2 runs were not made: missing ") || !strings.HasSuffix(w.Lacks, ": run contrib/lab/roots") {
			t.Errorf("%+v", w)
		}
	}
}

// A site of each daemon, once.
func TestSites(t *testing.T) {
	lab.Require(t)
	r := report{part: "drivers"}
	err := (&bench{runs: 1}).at(t.Context(), []site{frrBGP(lab.FRRHost), birdSite(lab.BIRDHost, lab.Protocol, true), birdSite(lab.BIRDHost, lab.Switch, false)}, &r)
	if err != nil || len(r.rows) != 2*(4+2+1) {
		t.Errorf("%d rows, %v", len(r.rows), err)
	}
	for _, w := range r.rows {
		if w.Runs != 1 || w.Median <= 0 || w.Lacks != "" {
			t.Errorf("%+v", w)
		}
	}
}

// A routeRouter is a driver that the test makes do as it likes.
type routeRouter struct {
	apply func(w routers.Want) error
	stage routers.Stage
}

func (r *routeRouter) Observe(_ context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	return []routers.Observation{{Prefix: ps[0], Stage: r.stage}}, nil
}

func (r *routeRouter) Apply(_ context.Context, cs []routers.Change) error {
	return r.apply(cs[0].Want)
}
func (*routeRouter) Goal() routers.Stage { return routers.Advertised }
func (*routeRouter) Close() error        { return nil }
func (*routeRouter) String() string      { return "a test" }

// A core whose route to the prefix the test sets, with a follower of it.
func followed(t *testing.T) (c *course, set func(action string) error) {
	t.Helper()
	lab.Require(t)
	n, err := lab.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	core, err := n.Node("core")
	if err != nil {
		t.Fatal(err)
	}
	nd, err := n.Node("apu01")
	if err == nil {
		err = n.Link(core, "eth1", []string{"10.0.1.1/30"}, nd, "eth0", []string{"10.0.1.2/30"})
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := core.FollowNextHops(t.Context(), lab.Service)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	via := netip.MustParseAddr("10.0.1.2")
	st := &stand{site: site{network: lab.AnycastOptions{BGP: true}}, one: &sync.Mutex{}}
	c = &course{stand: st, prefix: lab.Service, via: via, node: &lab.AnycastNode{Node: nd, Via: via}, follower: f, bound: 300 * time.Millisecond}
	return c, func(action string) error {
		_, err := core.Run(t.Context(), "ip", "route", action, lab.Service.String(), "via", via.String())
		return err
	}
}

func TestChangeMeasured(t *testing.T) {
	c, set := followed(t)
	c.bound = 30 * time.Second
	r := &routeRouter{}
	r.apply = func(w routers.Want) error {
		action := "add"
		if r.stage = routers.Advertised; w == routers.Withdrawn {
			r.stage, action = routers.Absent, "del"
		}
		return set(action)
	}
	c.router = r
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn, routers.Announced} {
		before := time.Now()
		if took, err := c.change(t.Context(), w); err != nil || took <= 0 || took > time.Since(before) {
			t.Errorf("%s: %v, %v", w, took, err)
		}
	}
}

// What never happened has no time, whatever the driver says.
func TestChangeNotMeasured(t *testing.T) {
	c, set := followed(t)
	nothing := func(routers.Want) error { return nil }
	fails := func(r *routeRouter, w routers.Want, want string) {
		t.Helper()
		c.router = r
		if took, err := c.change(t.Context(), w); took != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", took, err, want)
		}
	}
	fails(&routeRouter{nothing, routers.Absent}, routers.Withdrawn, "to be withdrawn: the core had it so before: its next hops to 10.53.53.53/32 were []")
	fails(&routeRouter{nothing, routers.Advertised}, routers.Announced, "they are []")
	fails(&routeRouter{func(routers.Want) error { return os.ErrPermission }, routers.Absent}, routers.Announced, "permission denied")
	short := c.bound
	c.bound = 30 * time.Second // until the core has it
	fails(&routeRouter{func(routers.Want) error { c.bound = short; return set("add") }, routers.Selected}, routers.Announced, "it reads selected")
	fails(&routeRouter{nothing, routers.Advertised}, routers.Announced, "were [10.0.1.2]")
	fails(&routeRouter{nothing, routers.Absent}, routers.Withdrawn, "they are [10.0.1.2]")
}

// The script runs one vtysh for each prefix, and ends at the first that fails.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	stub := "#!/bin/sh\necho \"$*\" >>" + dir + "/calls\ncase $* in *10.60.0.2*) exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "vtysh"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		method, daemon string
		want           routers.Want
		commands       string
	}{
		{frr.MethodNetwork, "bgpd", routers.Announced, "-c router bgp 65001 -c address-family ipv4 unicast -c network %s"},
		{frr.MethodNetwork, "bgpd", routers.Withdrawn, "-c router bgp 65001 -c address-family ipv4 unicast -c no network %s"},
		{frr.MethodStatic, "mgmtd", routers.Announced, "-c ip route %s blackhole"},
		{frr.MethodStatic, "staticd", routers.Withdrawn, "-c no ip route %s blackhole"},
	} {
		_ = os.Remove(filepath.Join(dir, "calls"))
		cmd := exec.Command("sh", "-c", loop("/d", c.daemon, commands(c.method, c.want)))
		cmd.Stdin = strings.NewReader("10.60.0.1/32\n10.60.0.2/32\n10.60.0.3/32\n")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("a vtysh failed and the script did not: %s", out)
		}
		var want string
		for _, p := range []string{"10.60.0.1/32", "10.60.0.2/32"} {
			want += "--vty_socket /d --config_dir /d -d " + c.daemon + " -c configure terminal " + fmt.Sprintf(c.commands, p) + "\n"
		}
		if got, err := os.ReadFile(filepath.Join(dir, "calls")); string(got) != want {
			t.Errorf("%v: got\n%s, want\n%s", err, got, want)
		}
	}
}

func TestThousandPrefixes(t *testing.T) {
	ps := thousandPrefixes()
	seen := map[netip.Prefix]bool{}
	for _, p := range ps {
		seen[p] = p.IsValid() && p == p.Masked()
	}
	if len(ps) != 1000 || len(seen) != 1000 || !seen[netip.MustParsePrefix("10.60.3.231/32")] {
		t.Errorf("%d, of them %d different, to %s", len(ps), len(seen), ps[len(ps)-1])
	}
}

// What is as wanted before has no time either.
func TestBulkBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var asked []routers.Want
	r := &routeRouter{func(w routers.Want) error { asked = append(asked, w); return nil }, routers.Advertised}
	x := bulk{router: r, prefixes: []netip.Prefix{lab.Service}}
	took, err := x.bySession(ctx, routers.Announced)
	if took != 0 || err == nil || !strings.Contains(err.Error(), "before they are announced: ") || slices.Contains(asked, routers.Announced) {
		t.Errorf("%v, %v, asked for %v", took, err, asked)
	}
	// What a failed run left is cleared first.
	asked = nil
	r.apply = func(w routers.Want) error {
		asked = append(asked, w)
		r.stage = map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent}[w]
		return nil
	}
	if took, err := x.bySession(t.Context(), routers.Announced); took <= 0 || err != nil || !slices.Equal(asked, []routers.Want{routers.Withdrawn, routers.Announced}) {
		t.Errorf("%v, %v, asked for %v", took, err, asked)
	}
}
