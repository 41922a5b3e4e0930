package health

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

func TestParseRequire(t *testing.T) {
	for in, want := range map[string]Require{
		"all": {}, "any": {Count: 1}, "1": {Count: 1}, "2": {Count: 2}, "50%": {Percent: 50}, "1%": {Percent: 1}, "100%": {Percent: 100},
	} {
		got, err := ParseRequire(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
		}
		if again, err := ParseRequire(got.String()); err != nil || again != got {
			t.Errorf("%q: %q read back is %+v, %v", in, got, again, err)
		}
	}
	for in, want := range map[string]string{
		"": "not understood", "most": "not understood", " 2": "not understood", "+2": "not understood", "02": "not understood",
		"2.5": "not understood", "50 %": "not understood", "%": "not understood", "99999999999999999999": "not understood",
		"0": "at least 1", "-1": "at least 1", "0%": `from "1%"`, "101%": `to "100%"`,
	} {
		if got, err := ParseRequire(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", in, got, err, want)
		}
	}
}

func TestRequireInTOML(t *testing.T) {
	var got struct{ A, B, C, D Require }
	if _, err := toml.Decode("a = 2\nb = \"50%\"\nc = \"any\"\nd = \"all\"", &got); err != nil {
		t.Fatal(err)
	}
	if got.A.Count != 2 || got.B.Percent != 50 || got.C.Count != 1 || got.D != (Require{}) {
		t.Errorf("read %+v", got)
	}
	if _, err := toml.Decode("a = 0", &got); err == nil || !strings.Contains(err.Error(), "at least 1") {
		t.Errorf("require 0: error %v", err)
	}
}

// meets says whether ok of total are enough when nothing is unknown.
func meets(r Require, ok, total int) bool {
	switch {
	case r.Count > 0:
		return ok >= r.Count || ok == total
	case r.Percent > 0:
		return ok*100 >= r.Percent*total
	}
	return ok == total
}

// TestOfAgreesWithEveryWayItMayTurnOut: good or bad is said just when it is so however the unknown
// ones turn out.
func TestOfAgreesWithEveryWayItMayTurnOut(t *testing.T) {
	rules := []Require{{}, {Count: 1}, {Count: 2}, {Count: 3}, {Count: 9}}
	for p := 1; p <= 100; p++ {
		rules = append(rules, Require{Percent: p})
	}
	for _, r := range rules {
		for total := 1; total <= 8; total++ {
			for ok := 0; ok <= total; ok++ {
				for failed := 0; ok+failed <= total; failed++ {
					yes, no := 0, 0
					for more := 0; more <= total-ok-failed; more++ {
						if meets(r, ok+more, total) {
							yes++
						} else {
							no++
						}
					}
					want := Undecided
					if no == 0 {
						want = Good
					} else if yes == 0 {
						want = Bad
					}
					if got := r.Of(ok, failed, total); got != want {
						t.Fatalf("%s: %d ok and %d failed of %d: %s, want %s", r, ok, failed, total, got, want)
					}
				}
			}
		}
	}
	if got := (Require{}).Of(0, 0, 0); got != Undecided {
		t.Errorf("of nothing: %s, want undecided", got)
	}
}

// members reads "dns:ok web/a:failed", the part ahead of the slash being the group; a trailing "?" is
// a member that only warns.
func members(s string) []Member {
	var ms []Member
	for f := range strings.FieldsSeq(s) {
		name, status, _ := strings.Cut(f, ":")
		group, _, grouped := strings.Cut(name, "/")
		if !grouped {
			group = ""
		}
		status, warns := strings.CutSuffix(status, "?")
		m := Member{Group: group, Counts: !warns}
		if err := m.Status.UnmarshalText([]byte(status)); err != nil {
			panic(err)
		}
		ms = append(ms, m)
	}
	return ms
}

func TestEvaluate(t *testing.T) {
	groups := map[string]Require{"web": {Percent: 50}, "dns": {Count: 1}}
	for _, tc := range []struct {
		service Require
		members string
		want    Outcome
	}{
		{Require{}, "", Undecided},
		{Require{}, "a:ok b:ok", Good},
		{Require{}, "a:ok b:failed", Bad},
		{Require{}, "a:ok b:unknown", Undecided},
		{Require{}, "a:failed b:unknown", Bad},
		{Require{Count: 1}, "a:ok b:unknown c:failed", Good},
		{Require{}, "a:ok b:failed?", Good},
		{Require{}, "a:failed?", Undecided},
		{Require{}, "a:ok web/a:ok web/b:failed", Good},
		{Require{}, "a:ok web/a:ok web/b:failed web/c:failed", Bad},
		{Require{}, "a:ok web/a:unknown web/b:failed", Undecided},
		{Require{}, "a:ok dns/a:failed dns/b:ok web/a:ok", Good},
		{Require{}, "a:ok dns/a:failed?", Good},
		{Require{}, "a:ok other/a:ok other/b:failed", Bad},
		{Require{Count: 1}, "dns/a:failed dns/b:failed web/a:ok web/b:failed", Good},
		{Require{Count: 2}, "dns/a:ok dns/b:ok web/a:failed", Bad},
	} {
		if got := Evaluate(tc.service, groups, members(tc.members)); got != tc.want {
			t.Errorf("require %s of %q: %s, want %s", tc.service, tc.members, got, tc.want)
		}
	}
}

// better orders outcomes.
var better = map[Outcome]int{Bad: 0, Undecided: 1, Good: 2}

func TestEvaluateIsMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	require := func() Require {
		return []Require{{}, {Count: 1 + r.IntN(4)}, {Percent: 1 + r.IntN(100)}}[r.IntN(3)]
	}
	for range 20000 {
		service, groups := require(), map[string]Require{"a": require(), "b": require()}
		ms := make([]Member, 1+r.IntN(8))
		for i := range ms {
			ms[i] = Member{Group: []string{"", "a", "b", "c"}[r.IntN(4)], Status: checks.Status(r.IntN(3)), Counts: r.IntN(5) > 0}
		}
		before := Evaluate(service, groups, ms)
		i := r.IntN(len(ms))
		was := ms[i].Status
		ms[i].Status = checks.OK
		if after := Evaluate(service, groups, ms); better[after] < better[before] {
			t.Fatalf("require %s, groups %v: %+v: %s, and with member %d ok instead of %s %s", service, groups, ms, before, i, was, after)
		}
		ms[i].Status = checks.Failed
		if after := Evaluate(service, groups, ms); better[after] > better[before] {
			t.Fatalf("require %s, groups %v: %+v: %s, and with member %d failed instead of %s %s", service, groups, ms, before, i, was, after)
		}
	}
}
