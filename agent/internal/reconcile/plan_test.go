package reconcile

import (
	"fmt"
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
	announced = routers.Announced
)

// pfx gives the n-th test prefix; every third one is of IPv6.
func pfx(n int) netip.Prefix {
	if n%3 == 2 {
		return netip.MustParsePrefix(fmt.Sprintf("2001:db8::%x/128", n))
	}
	return netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", n))
}

func TestPlan(t *testing.T) {
	type row struct {
		want  routers.Want
		stage routers.Stage
		goal  routers.Stage
		ask   bool
	}
	for _, tc := range []row{
		{withdrawn, routers.Unknown, routers.Advertised, true},
		{withdrawn, routers.Absent, routers.Advertised, false},
		{withdrawn, routers.Configured, routers.Advertised, true},
		{withdrawn, routers.Advertised, routers.Advertised, true},
		{announced, routers.Unknown, routers.Advertised, false},
		{announced, routers.Absent, routers.Advertised, true},
		{announced, routers.Selected, routers.Advertised, true},
		{announced, routers.Advertised, routers.Advertised, false},
		{announced, routers.Advertised, routers.Configured, false},
		{announced, routers.Unknown, routers.Unknown, false},
		{keep, routers.Unknown, routers.Advertised, false},
		{keep, routers.Absent, routers.Advertised, false},
		{keep, routers.Advertised, routers.Advertised, false},
	} {
		var want []routers.Change
		if tc.ask {
			want = []routers.Change{{Prefix: pfx(1), Want: tc.want}}
		}
		got := Plan(Desired{pfx(1): tc.want}, []routers.Observation{{Prefix: pfx(1), Stage: tc.stage}, {Prefix: pfx(2), Stage: routers.Advertised}}, tc.goal)
		if !slices.Equal(got, want) {
			t.Errorf("%s, read as %s, goal %s: %v, want %v", tc.want, tc.stage, tc.goal, got, want)
		}
	}
	broken := []routers.Observation{{Prefix: pfx(1), Stage: routers.Advertised, Broken: true}}
	for _, w := range []routers.Want{announced, withdrawn} {
		if got := Plan(Desired{pfx(1): w}, broken, routers.Advertised); len(got) != 1 || got[0].Want != w {
			t.Errorf("broken, and to be %s: %v", w, got)
		}
	}
	if got := Plan(Desired{pfx(1): withdrawn, pfx(2): announced}, nil, routers.Advertised); len(got) != 1 || got[0].Want != withdrawn {
		t.Errorf("nothing read: %v, want only the withdraw", got)
	}
}

// TestPlanLeadsThere: once a plan has come about, nothing is left to do, except to announce what
// cannot be read; withdraws are first, and both kinds sorted.
func TestPlanLeadsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		want, goal := Desired{}, routers.Stage(1+r.IntN(4))
		stages := map[netip.Prefix]routers.Stage{}
		for n := range r.IntN(12) {
			want[pfx(n)] = routers.Want(r.IntN(3))
			stages[pfx(n)] = routers.Stage(r.IntN(5))
		}
		cs := Plan(want, observations(stages), goal)
		if !slices.IsSortedFunc(cs, func(a, b routers.Change) int {
			if a.Want != b.Want {
				return int(a.Want) - int(b.Want)
			}
			return a.Prefix.Compare(b.Prefix)
		}) {
			t.Fatalf("not in order: %v", cs)
		}
		for _, c := range cs {
			if c.Want != want[c.Prefix] || c.Want == keep {
				t.Fatalf("change %v, wanted %s", c, want[c.Prefix])
			}
			stages[c.Prefix] = routers.Absent
			if c.Want == announced {
				stages[c.Prefix] = goal
			}
		}
		if again := Plan(want, observations(stages), goal); len(again) > 0 {
			t.Fatalf("after %v still to do: %v", cs, again)
		}
		for p, w := range want {
			if s := stages[p]; w == withdrawn && s != routers.Absent || w == announced && s != routers.Unknown && s < goal {
				t.Fatalf("%s is %s, wanted %s, goal %s", p, s, w, goal)
			}
		}
	}
}

func observations(stages map[netip.Prefix]routers.Stage) []routers.Observation {
	var os []routers.Observation
	for p, s := range stages {
		os = append(os, routers.Observation{Prefix: p, Stage: s})
	}
	return os
}

func TestInterrupts(t *testing.T) {
	a, b := pfx(1), pfx(3)
	announceA, withdrawA := []routers.Change{{Prefix: a, Want: announced}}, []routers.Change{{Prefix: a, Want: withdrawn}}
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
