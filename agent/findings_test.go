package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
)

var (
	atBoot = routers.Finding{Severity: routers.Warning, Subject: "/etc/frr/frr.conf", Text: "announces 10.53.53.53/32 at boot", WayOut: "remove it there"}
	denied = routers.Finding{Severity: routers.Failing, Subject: "/run/frr/zebra.vty", Text: "permission denied"}
	fine   = routers.Finding{Severity: routers.Fine, Subject: "version", Text: "10.3"}
	note   = routers.Finding{Severity: routers.Notice, Subject: "core1", Text: "has no filter"}
)

func TestFindingsAreToldOnceAndStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		before := b.count()
		for i := range 3 {
			if got, want := b.onFindings([]routers.Finding{fine, atBoot, note, denied, atBoot}, true), max(sameFound, otherFound-outlook(i)); got != want {
				t.Errorf("found for time %d: outlook %d, want %d", i+1, got, want)
			}
		}
		const warning, problem = "/etc/frr/frr.conf: announces 10.53.53.53/32 at boot; remove it there", "/run/frr/zebra.vty: permission denied"
		stand := func(when string, warnings, problems []string) {
			t.Helper()
			snap := b.Snapshot()
			if diff := cmp.Diff([][]string{warnings, problems}, [][]string{snap.Warnings, snap.Problems}); diff != "" {
				t.Errorf("%s: warnings and problems:\n%s", when, diff)
			}
		}
		stand("found", []string{warning}, []string{problem})
		if b.onFindings(nil, false) != sameFound {
			t.Error("not done to the end, and not worth another look")
		}
		stand("not done to the end", []string{warning}, []string{problem})
		if b.onFindings([]routers.Finding{atBoot}, true) != otherFound || b.onFindings([]routers.Finding{fine}, true) != allWell {
			t.Error("the outlook with one left, and without any")
		}
		stand("no longer found", []string{}, []string{})
		want := []string{"finding error " + problem, "finding warn " + warning,
			"finding info no longer found: " + problem, "finding info no longer found: " + warning}
		if diff := cmp.Diff(want, b.told(before)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestManyFindingsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		before := b.count()
		var fs []routers.Finding
		for i := range 1000 {
			fs = append(fs, routers.Finding{Severity: routers.Warning, Subject: fmt.Sprintf("192.0.2.%d", i), Text: "cannot be reached"})
		}
		b.onFindings(append(fs, denied), true)
		ps, ws := b.Snapshot().Problems, b.Snapshot().Warnings
		if !slices.Equal(ps, []string{findingText(denied)}) || len(ws) != mostFindings || ws[len(ws)-1] != "993 more things were found about the routing daemon: see vouch doctor" {
			t.Errorf("problems: %q\nwarnings: %q", ps, ws)
		}
		if n := len(b.told(before)); n != mostFindings {
			t.Errorf("%d events", n)
		}
		b.onFindings(nil, true)
		if ps := slices.Concat(b.Snapshot().Problems, b.Snapshot().Warnings); len(ps) > 0 {
			t.Errorf("left: %q", ps)
		}
	})
}

// The router is examined once it can be read, again when it comes back or is another one, and after a reload.
func TestWhenTheRouterIsExamined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		asked := 0
		b.examine = func() { asked++ }
		at := func(when string, want int) {
			t.Helper()
			if asked != want {
				t.Errorf("%s: asked %d times, want %d", when, asked, want)
			}
		}
		away := b.reading(routers.Observation{Prefix: vip})
		away.ReadErr = routers.ErrUnavailable
		b.onReport(away)
		at("away at start", 0)
		b.reads(routers.Absent)
		b.reads(routers.Absent)
		at("read for the first time", 1)
		b.onReport(away)
		at("away", 1)
		b.reads(routers.Absent)
		at("back", 2)
		other := b.reading(routers.Observation{Prefix: vip, Stage: routers.Absent})
		other.Router = "bird 2.0.12"
		b.onReport(other)
		b.onReport(other)
		at("another one", 3)
		other.Router, other.ReadErr = "frr 10.3", routers.ErrUnavailable
		b.onReport(other)
		at("another one that cannot be read", 4)
		b.onReload(b.config())
		at("reloaded", 5)
	})
}

// What was found is looked at again when a prefix has come to another stage: it may be put right.
func TestExaminedAgainWhenSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		b.reads(routers.Absent)
		asked := 0
		b.examine = func() { asked++ }
		b.reads(routers.Configured)
		if asked != 0 {
			t.Error("examined though nothing stands")
		}
		b.onFindings([]routers.Finding{atBoot}, true)
		b.reads(routers.Configured)
		b.reads(routers.Advertised)
		if asked != 1 {
			t.Errorf("asked %d times, want once for the one change", asked)
		}
		b.readsAs(routers.Observation{Stage: routers.Advertised, Detail: "bird knows the symbol"})
		if asked != 2 {
			t.Errorf("asked %d times, want once more for what is said of it", asked)
		}
		for _, stage := range []routers.Stage{routers.Selected, routers.Advertised, routers.Advertised} { // enough others have it
			b.readsAs(routers.Observation{Stage: routers.Advertised, Detail: "bird knows the symbol", Peers: []routers.Peer{{Name: "core4", Stage: stage}}})
		}
		if asked != 4 {
			t.Errorf("asked %d times, want twice more for the peer that came, and was given it", asked)
		}
	})
}

// Whoever changes a prefix behind vouch's back may be found once it is put right, though nothing was found before. Peers
// that go and come back are nobody's doing.
func TestExaminedOnceAChangeIsPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		b.reads(routers.Absent)
		b.round(nil)
		b.round(nil)
		b.reads(routers.Advertised)
		asked := 0
		b.examine = func() { asked++ }
		b.reads(routers.Selected)
		b.reads(routers.Advertised)
		if asked != 0 {
			t.Errorf("asked %d times for the sake of a peer", asked)
		}
		edited := routers.Observation{Stage: routers.Advertised, Broken: true, Detail: "the file is not as vouch wrote it"}
		for n := range 2 {
			b.readsAs(edited)
			b.readsAs(edited)
			if asked != n {
				t.Errorf("asked %d times before it is put right, want %d", asked, n)
			}
			b.reads(routers.Advertised)
			b.reads(routers.Advertised)
			if asked != n+1 {
				t.Errorf("asked %d times, want once for each change", asked)
			}
		}
	})
}

// The name and the goal of the router are read with each reading, and a change is told once.
func TestRouterThatIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		before := b.count()
		r := b.reading(routers.Observation{Prefix: vip})
		r.Router, r.Goal, r.ReadErr = "auto (none found)", routers.Advertised, routers.ErrUnavailable
		b.onReport(r)
		for range 3 {
			r = b.reading(routers.Observation{Prefix: vip, Stage: routers.Selected})
			r.Router, r.Goal = "frr 10.3 (address on lo)", routers.Selected
			b.onReport(r)
		}
		b.round(nil)
		b.round(nil)
		if snap := b.Snapshot(); snap.Router.Name != "frr 10.3 (address on lo)" || snap.Router.Goal != routers.Selected {
			t.Errorf("snapshot: %+v", snap.Router)
		}
		want := []string{"router error auto (none found) cannot be read: unavailable", "router info frr 10.3 (address on lo) (was auto (none found))",
			"router info frr 10.3 (address on lo) can be read again"}
		if diff := cmp.Diff(want, b.told(before, state.KindRouter)); diff != "" {
			t.Error(diff)
		}
		if line := statusLine(b.Snapshot()); !strings.Contains(line, "1 of 1 prefixes selected") {
			t.Errorf("status line %q", line)
		}
	})
}

// What is left of an earlier run, or was just removed, keeps the name that it was announced under.
func TestLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := resolver(vip)
		sc.Symbol = "MY_RESOLVER"
		web := resolver(vip2)
		web.Name = "web"
		l := loadedUp(true, vip, vip2)
		old := l.Services["resolver"]
		old.Symbols = map[netip.Prefix]string{vip2: "OLD"}
		l.Services["resolver"] = old
		b := newBench(l, sc)
		check := func(when string, want map[netip.Prefix]routers.Label) {
			t.Helper()
			if diff := cmp.Diff(want, b.allLabels(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("%s:\n%s", when, diff)
			}
		}
		resolverLabel, left := routers.Label{Service: "resolver", Symbol: "MY_RESOLVER"}, routers.Label{Service: "resolver", Symbol: "OLD"}
		check("at start", map[netip.Prefix]routers.Label{vip: resolverLabel, vip2: left})
		b.onReload(&config.Config{})
		check("removed", map[netip.Prefix]routers.Label{vip: resolverLabel, vip2: left})
		saved := b.toSave().Services["resolver"].Symbols
		if len(saved) != 2 || saved[vip] != "MY_RESOLVER" || saved[vip2] != "OLD" {
			t.Errorf("to be saved: %v", saved)
		}
		b.reads(routers.Absent)
		b.onReload(&config.Config{Services: []config.Service{web}})
		check("gone, and another's", map[netip.Prefix]routers.Label{vip2: {Service: "web"}})
	})
}

// What the router's template makes of a service goes over a restart too: the template may be another one then.
func TestSymbolsOfTheTemplateAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		six := netip.MustParsePrefix("2001:db8::53/128")
		b := newBench(state.Loaded{}, resolver(vip, six))
		b.cfg.Router = config.Router{Daemon: "bird", Method: "protocol", Symbol: "anycast_{service}", Symbol6: "anycast6"}
		saved := b.toSave().Services["resolver"].Symbols
		if len(saved) != 2 || saved[vip] != "anycast_resolver" || saved[six] != "anycast6" {
			t.Errorf("to be saved: %v", saved)
		}
		l := loadedUp(true, vip, six)
		old := l.Services["resolver"]
		old.Symbols = saved
		l.Services["resolver"] = old
		web := resolver(vip2)
		web.Name = "web"
		b = newBench(l, web)
		if got := b.allLabels(); got[vip].Symbol != "anycast_resolver" || got[six].Symbol != "anycast6" {
			t.Errorf("left from before: %v", got)
		}
	})
}

// A labeled is a router that is told labels.
type labeled struct {
	routers.Router
	got map[netip.Prefix]routers.Label
}

func (l *labeled) SetLabels(labels map[netip.Prefix]routers.Label) { l.got = labels }

func TestOnlyWhoWantsLabelsIsTold(t *testing.T) {
	var l labeled
	label(&l, map[netip.Prefix]routers.Label{vip: {Service: "resolver"}})
	label(struct{ routers.Router }{}, nil)
	if l.got[vip].Service != "resolver" {
		t.Errorf("told %v", l.got)
	}
}

func TestPlaces(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range []config.Router{
		{Method: "address", Interface: "lo"}, {Method: "address", Interface: "lo", Owner: "frr"}, {Method: "address", Interface: "dummy0", Owner: "kernel"},
		{Method: "network", SocketDir: "/run/frr"}, {Method: "static", SocketDir: "/run/frr"}, {Method: "protocol"}, {Method: "protocol", Symbol: "X_{service}"},
		{Method: "include", Include: "/etc/bird/vouch.conf"}, {Up: config.Command{"announce", "it"}},
	} {
		p := place(r)
		if seen[p] || p != strings.TrimSpace(p) {
			t.Errorf("%+v is at %q, as is another", r, p)
		}
		seen[p] = true
	}
	for _, p := range []string{"address on lo", "network statement in /run/frr", "static route in /run/frr"} { // as in state files of before
		if !seen[p] {
			t.Errorf("no router is at %q", p)
		}
	}
}
