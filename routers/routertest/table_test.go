package routertest

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
)

func TestMet(t *testing.T) {
	type flags struct{ degraded, broken bool }
	for _, c := range []struct {
		want  routers.Want
		stage routers.Stage
		flags flags
		met   bool
		open  bool // it may be asked for
	}{
		{routers.Withdrawn, routers.Absent, flags{}, true, false},
		{routers.Withdrawn, routers.Unknown, flags{}, false, true},
		{routers.Withdrawn, routers.Configured, flags{}, false, true},
		{routers.Announced, routers.Selected, flags{}, true, false},
		{routers.Announced, routers.Advertised, flags{}, true, false},
		{routers.Announced, routers.Configured, flags{}, false, true},
		{routers.Announced, routers.Unknown, flags{}, false, false},
		{routers.Announced, routers.Selected, flags{degraded: true}, false, true},
		{routers.Announced, routers.Selected, flags{broken: true}, false, true},
		{routers.Degraded, routers.Selected, flags{}, false, true},
		{routers.Degraded, routers.Selected, flags{degraded: true}, true, false},
		{routers.Degraded, routers.Selected, flags{degraded: true, broken: true}, false, true},
		{routers.Degraded, routers.Unknown, flags{degraded: true}, false, false},
	} {
		o := routers.Observation{Prefix: netip.MustParsePrefix("192.0.2.1/32"), Stage: c.stage, Degraded: c.flags.degraded, Broken: c.flags.broken}
		if got := met(c.want, o, routers.Selected); got != c.met {
			t.Errorf("%s, read as %s: met %v", c.want, describe(o), got)
		}
		if got := len(open(c.want, []routers.Observation{o}, routers.Selected)) == 1; got != c.open {
			t.Errorf("%s, read as %s: open %v", c.want, describe(o), got)
		}
	}
}

// A scenario is never left out in silence.
func TestPlayWantsAReason(t *testing.T) {
	s := &Subject{Name: "nobody"}
	for name, part := range map[string]string{"no such": `there is no scenario "no such"`, "hang": "does not say why"} {
		if r := Play(t.Context(), s, name); r.Err == nil || !strings.Contains(r.Err.Error(), part) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	s.Without = map[string]string{"hang": "there is nothing to hang"}
	if r := Play(t.Context(), s, "hang"); r.Err != nil || r.Why == "" {
		t.Errorf("with a reason: %+v", r)
	}
}

func TestMatrix(t *testing.T) {
	text := Matrix([]Result{
		{Subject: "b", Scenario: "life"}, {Subject: "a", Scenario: "life", Err: errors.New("no")},
		{Subject: "a", Scenario: "hang", Why: "none"}, {Subject: "b", Scenario: "hang", Why: "none"},
	})
	lines := strings.Split(text, "\n")
	for i, want := range map[int][]string{0: {"life", "hang"}, 2: {"| a ", "FAILS", "—"}, 3: {"| b ", "yes", "—"}, 4: {"— hang: none: a; b"}} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d is %q, without %q", i, lines[i], part)
			}
		}
	}
}
