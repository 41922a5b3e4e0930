package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlainLine(t *testing.T) {
	if got := plainLine("a|b\nc"); got != "a/b c" {
		t.Errorf("got %q", got)
	}
	if got := plainLine(strings.Repeat("ü", 1000)); utf8.RuneCountInString(got) != nagiosMax || !utf8.ValidString(got) {
		t.Errorf("%d characters of 1000 are left: %q", utf8.RuneCountInString(got), got)
	}
}
