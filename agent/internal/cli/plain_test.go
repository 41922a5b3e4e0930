package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"vouch/agent/internal/state"
)

// What the error of a diverged prefix says is not said again.
func TestPrefixNoteSaysNothingTwice(t *testing.T) {
	now := time.Now()
	p := &state.Prefix{Diverged: now, Error: "still read as advertised: stub link", Detail: "stub link"}
	if got := prefixNote(p, now); strings.Count(got, "stub link") != 1 {
		t.Errorf("got %q", got)
	}
	p.Error = "no answer"
	if got := prefixNote(p, now); !strings.Contains(got, "stub link") {
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
