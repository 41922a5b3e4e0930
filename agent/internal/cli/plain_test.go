package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"vouch/agent/internal/state"
	"vouch/routers"
)

// What the error of a diverged prefix says is not said again.
func TestPrefixNoteSaysNothingTwice(t *testing.T) {
	now := time.Now()
	p := &state.Prefix{Diverged: now, Error: "still read as advertised: stub link", Detail: "stub link"}
	if got := prefixNote(p, now, nil); strings.Count(got, "stub link") != 1 {
		t.Errorf("got %q", got)
	}
	p.Error = "no answer"
	if got := prefixNote(p, now, nil); !strings.Contains(got, "stub link") {
		t.Errorf("got %q", got)
	}
}

func TestPlainLine(t *testing.T) {
	if got := plainLine("a|b\nc"); got != "a/b c" {
		t.Errorf("got %q", got)
	}
	if got := plainLine(strings.Repeat("ü", 1000)); utf8.RuneCountInString(got) != nagiosMax || !utf8.ValidString(got) {
		t.Errorf("%d characters of 1000 are left: %q", utf8.RuneCountInString(got), got)
	}
}

func TestFold(t *testing.T) {
	for _, tc := range []struct {
		texts []string
		want  string
	}{
		{[]string{"a: refused; b: refused", "b: refused"}, "a: refused; b: refused"},
		{[]string{"hung", "hung; hung", ""}, "hung"},
		{[]string{"no answer", "not in the LSA"}, "no answer; not in the LSA"},
		{nil, ""},
	} {
		if got := fold(tc.texts...); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.texts, got, tc.want)
		}
	}
}

// What may be there, or is under way, has not arrived.
func TestArrived(t *testing.T) {
	there := state.Prefix{Want: routers.Announced, Stage: routers.Configured}
	broken, undone, worse, other := there, there, there, there
	broken.Broken, undone.Diverged, worse.Degraded, other.Want = true, time.Now(), true, routers.Keep
	for _, tc := range []struct {
		p    state.Prefix
		want bool
	}{{there, true}, {broken, false}, {undone, false}, {worse, false}, {other, false}} {
		if got := arrived(&tc.p, routers.Announced, routers.Configured); got != tc.want {
			t.Errorf("%+v: %t", tc.p, got)
		}
	}
	if arrived(&there, routers.Announced, routers.Selected) {
		t.Error("configured, and selected is to be reached")
	}
}
