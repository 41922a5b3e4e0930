package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	const text = "first\nsecond line\nthird\nfourth\n"
	for name, c := range map[string]struct {
		columns, rows int
		want          string
	}{
		"unknown size": {0, 0, text},
		"large enough": {11, 5, text},
		"narrow":       {6, 5, "first\nsecon…\nthird\nfourth\n"},
		"low":          {0, 4, "first\nsecond line\n… 2 more lines\n"},
		"both":         {7, 3, "first\n… 3 mo…\n"},
		"one row":      {0, 1, "… 4 more lines\n"},
		"one column":   {1, 0, "…\n…\n…\n…\n"},
	} {
		if diff := cmp.Diff(c.want, fit(text, c.columns, c.rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCutCountsNoColours(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"\x1b[32mgood\x1b[0m", 4, "\x1b[32mgood\x1b[0m"},
		{"\x1b[32mgood\x1b[0m", 3, "\x1b[32mgo…\x1b[0m"},
		{"\x1b[32mgood\x1b[0m day", 6, "\x1b[32mgood\x1b[0m …"},
		{"day \x1b[32mgood\x1b[0m", 4, "day…"},
		{"grün und weiß", 5, "grün…"},
	} {
		if got := cut(c.line, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

// On a small terminal the verdict stays visible, and no line is longer than the terminal.
func TestSmallTerminal(t *testing.T) {
	var b bytes.Buffer
	statusText(&b, diverged(noon), noon, true)
	lines := strings.Split(withoutColours(fit(b.String(), 40, 11)), "\n")
	if len(lines) != 11 || lines[10] != "" || !strings.HasPrefix(lines[9], "… ") || !strings.HasPrefix(lines[8], "resolver  up ") {
		t.Errorf("shown:\n%s", strings.Join(lines, "\n"))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 40 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
}

// Many mistakes in a refused configuration do not push the verdicts out of sight.
func TestRefusalIsShort(t *testing.T) {
	got := refusal("a\nb\nc\nd\ne")
	want := []string{"the last reload was refused, what was loaded before stands: a", "b", "c", "and 2 more problems: see vouch validate"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := refusal("a\nb\nc"); len(got) != 3 || refusal("") != nil {
		t.Errorf("three problems: %q", got)
	}
}
