package state

import (
	"errors"
	"strings"
	"unicode"

	"vouch/checks"
)

// maxText caps texts that come from outside, in bytes.
const maxText = 2000

// Clean makes a text from outside fit for one line: control characters become spaces, invalid UTF-8
// a replacement character, and what is too long is cut and marked so.
func Clean(s string) string {
	cut := len(s) > maxText
	if cut {
		s = s[:maxText]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if cut {
		s += " (truncated)"
	}
	return s
}

// DetailOf gives the cleaned text of a check's error without its reason, which stands apart.
func DetailOf(err error) string {
	if err == nil {
		return ""
	}
	var f *checks.Failure
	if !errors.As(err, &f) {
		return Clean(err.Error())
	}
	g := *f
	g.Reason = ""
	return Clean(strings.TrimPrefix(g.Error(), ": "))
}

// Text gives the reason and the detail of a check for people.
func (c *Check) Text() string {
	switch {
	case c.Last.IsZero():
		return "not run yet"
	case c.Detail == "":
		return string(c.Reason)
	case c.Reason == "":
		return c.Detail
	}
	return string(c.Reason) + ": " + c.Detail
}
