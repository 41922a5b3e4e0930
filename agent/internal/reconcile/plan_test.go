package reconcile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
)

const (
	keep      = routers.Keep
	withdrawn = routers.Withdrawn
	degraded  = routers.Degraded
	announced = routers.Announced
)

// pfx gives the n-th test prefix; every third one is of IPv6.
func pfx(n int) netip.Prefix {
	if n%3 == 2 {
		return netip.MustParsePrefix(fmt.Sprintf("2001:db8::%x/128", n))
	}
	return netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", n))
}

// A withdrawn prefix that would not stay so when its daemon is started anew is not as wanted.
func TestBrokenIsAsWantedInNoWay(t *testing.T) {
	for want, stage := range map[routers.Want]routers.Stage{withdrawn: routers.Absent, announced: routers.Advertised, keep: routers.Absent} {
		o := routers.Observation{Stage: stage}
		if !Met(want, o, routers.Advertised) {
			t.Errorf("%s and %s", want, stage)
		}
		if o.Broken = true; Met(want, o, routers.Advertised) != (want == keep) {
			t.Errorf("%s and %s, broken", want, stage)
		}
	}
}

func TestPlan(t *testing.T) {
	const worse = true
	for _, tc := range []struct {
		want     routers.Want
		stage    routers.Stage
		degraded bool
		goal     routers.Stage
		ask      bool
	}{
		{withdrawn, routers.Unknown, false, routers.Advertised, true},
		{withdrawn, routers.Absent, false, routers.Advertised, false},
		{withdrawn, routers.Configured, false, routers.Advertised, true},
		{withdrawn, routers.Advertised, false, routers.Advertised, true},
		{withdrawn, routers.Advertised, worse, routers.Advertised, true},
		{degraded, routers.Unknown, false, routers.Advertised, false},
		{degraded, routers.Absent, false, routers.Advertised, true},
		{degraded, routers.Advertised, false, routers.Advertised, true},
		{degraded, routers.Selected, worse, routers.Advertised, true},
		{degraded, routers.Advertised, worse, routers.Advertised, false},
		{degraded, routers.Unknown, worse, routers.Unknown, false},
		{announced, routers.Unknown, false, routers.Advertised, false},
		{announced, routers.Absent, false, routers.Advertised, true},
		{announced, routers.Selected, false, routers.Advertised, true},
		{announced, routers.Advertised, false, routers.Advertised, false},
		{announced, routers.Advertised, worse, routers.Advertised, true},
		{announced, routers.Advertised, false, routers.Configured, false},
		{announced, routers.Unknown, false, routers.Unknown, false},
		{keep, routers.Unknown, false, routers.Advertised, false},
		{keep, routers.Absent, false, routers.Advertised, false},
		{keep, routers.Advertised, worse, routers.Advertised, false},
	} {
		var want []routers.Change
		if tc.ask {
			want = []routers.Change{{Prefix: pfx(1), Want: tc.want}}
		}
		have := []routers.Observation{{Prefix: pfx(1), Stage: tc.stage, Degraded: tc.degraded}, {Prefix: pfx(2), Stage: routers.Advertised}}
		if got := Plan(Desired{pfx(1): tc.want}, have, tc.goal); !slices.Equal(got, want) {
			t.Errorf("%s, read as %s (degraded %t), goal %s: %v, want %v", tc.want, tc.stage, tc.degraded, tc.goal, got, want)
		}
	}
	for _, w := range []routers.Want{announced, degraded, withdrawn} {
		broken := []routers.Observation{{Prefix: pfx(1), Stage: routers.Advertised, Degraded: w == degraded, Broken: true}}
		if got := Plan(Desired{pfx(1): w}, broken, routers.Advertised); len(got) != 1 || got[0].Want != w {
			t.Errorf("broken, and to be %s: %v", w, got)
		}
	}
	if got := Plan(Desired{pfx(1): withdrawn, pfx(2): announced, pfx(3): degraded}, nil, routers.Advertised); len(got) != 1 || got[0].Want != withdrawn {
		t.Errorf("nothing read: %v, want only the withdraw", got)
	}
}

// TestPlanLeadsThere: once a plan has come about, nothing is left to do, except to announce or degrade
// what cannot be read; withdraws are first, then degrades, and all kinds sorted; nothing that is as
// wanted is asked for.
func TestPlanLeadsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		want, goal := Desired{}, routers.Stage(1+r.IntN(4))
		table := map[netip.Prefix]routers.Observation{}
		for n := range r.IntN(12) {
			p, s := pfx(n), routers.Stage(r.IntN(5))
			want[p] = routers.Want(r.IntN(4))
			table[p] = routers.Observation{Prefix: p, Stage: s, Degraded: s > routers.Absent && r.IntN(2) == 0, Broken: s > routers.Absent && r.IntN(4) == 0}
		}
		cs := Plan(want, observations(table), goal)
		if !slices.IsSortedFunc(cs, func(a, b routers.Change) int {
			if a.Want != b.Want {
				return int(a.Want) - int(b.Want)
			}
			return a.Prefix.Compare(b.Prefix)
		}) {
			t.Fatalf("not in order: %v", cs)
		}
		for _, c := range cs {
			if c.Want != want[c.Prefix] || c.Want == keep || asWanted(c.Want, table[c.Prefix], goal) {
				t.Fatalf("change %v, wanted %s, read as %+v", c, want[c.Prefix], table[c.Prefix])
			}
			table[c.Prefix] = routers.Observation{Prefix: c.Prefix, Stage: routers.Absent}
			if c.Want != withdrawn {
				table[c.Prefix] = routers.Observation{Prefix: c.Prefix, Stage: goal, Degraded: c.Want == degraded}
			}
		}
		if again := Plan(want, observations(table), goal); len(again) > 0 {
			t.Fatalf("after %v still to do: %v", cs, again)
		}
		for p, w := range want {
			if o := table[p]; w != keep && !asWanted(w, o, goal) && (w == withdrawn || o.Stage != routers.Unknown) {
				t.Fatalf("%s is %+v, wanted %s, goal %s", p, o, w, goal)
			}
		}
	}
}

// asWanted says in other words than Met whether o is what w asks for.
func asWanted(w routers.Want, o routers.Observation, goal routers.Stage) bool {
	if w == withdrawn {
		return o.Stage == routers.Absent
	}
	there := o.Stage > routers.Unknown && o.Stage >= goal && !o.Broken
	return there && (w == degraded && o.Degraded || w == announced && !o.Degraded)
}

func observations(table map[netip.Prefix]routers.Observation) []routers.Observation {
	return slices.Collect(maps.Values(table))
}

func TestInterrupts(t *testing.T) {
	a, b := pfx(1), pfx(3)
	announceA, withdrawA := []routers.Change{{Prefix: a, Want: announced}}, []routers.Change{{Prefix: a, Want: withdrawn}}
	degradeA := []routers.Change{{Prefix: a, Want: degraded}}
	for _, tc := range []struct {
		name      string
		under     []routers.Change
		old, next Desired
		want      bool
	}{
		{"the same", announceA, Desired{a: announced}, Desired{a: announced}, false},
		{"withdraw it instead", announceA, Desired{a: announced}, Desired{a: withdrawn}, true},
		{"keep it instead", announceA, Desired{a: announced}, Desired{a: keep}, true},
		{"leave it alone", announceA, Desired{a: announced}, Desired{}, true},
		{"withdraw another", announceA, Desired{a: announced, b: announced}, Desired{a: announced, b: withdrawn}, true},
		{"announce another", announceA, Desired{a: announced}, Desired{a: announced, b: announced}, true},
		{"announce another amid a withdraw", withdrawA, Desired{a: withdrawn}, Desired{a: withdrawn, b: announced}, false},
		{"withdraw another amid a withdraw", withdrawA, Desired{a: withdrawn}, Desired{a: withdrawn, b: withdrawn}, true},
		{"degrade another amid a withdraw", withdrawA, Desired{a: withdrawn, b: announced}, Desired{a: withdrawn, b: degraded}, false},
		{"degrade another amid a degrade", degradeA, Desired{a: degraded, b: announced}, Desired{a: degraded, b: degraded}, true},
		{"announce another amid a degrade", degradeA, Desired{a: degraded, b: withdrawn}, Desired{a: degraded, b: announced}, false},
		{"keep another amid a degrade", degradeA, Desired{a: degraded, b: withdrawn}, Desired{a: degraded, b: keep}, false},
		{"withdraw another amid a degrade", degradeA, Desired{a: degraded}, Desired{a: degraded, b: withdrawn}, true},
		{"degrade another amid an announce", announceA, Desired{a: announced}, Desired{a: announced, b: degraded}, true},
		{"degrade it instead", announceA, Desired{a: announced}, Desired{a: degraded}, true},
		{"announce it as usual instead", degradeA, Desired{a: degraded}, Desired{a: announced}, true},
		{"announce it instead", withdrawA, Desired{a: withdrawn}, Desired{a: announced}, true},
	} {
		if got := interrupts(tc.under, tc.old, tc.next); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
	if diff := cmp.Diff([]netip.Prefix{a, b}, Desired{b: keep, a: announced}.prefixes(), cmp.Comparer(func(x, y netip.Prefix) bool { return x == y })); diff != "" {
		t.Errorf("prefixes:\n%s", diff)
	}
}
