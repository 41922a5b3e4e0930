package state

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"vouch/checks"
)

// maxText caps texts that come from outside, in bytes.
const maxText = 2000

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// Clean makes a text from outside fit for one line: control characters, and those that are not seen but change
// how others are, such as their direction, become spaces, invalid UTF-8 a replacement character, and what is
// too long is cut and marked so.
func Clean(s string) string {
	cut := len(s) > maxText
	if cut {
		s = s[:maxText]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == zeroWidthJoiner, r == zeroWidthNonJoiner: // words of some languages are written with them
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
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

// Text gives the reason and the detail of a check for people, the reason once.
func (c *Check) Text() string {
	switch {
	case c.Last.IsZero():
		return "not run yet"
	case c.Detail == "":
		return string(c.Reason)
	case c.Reason == "", begins(c.Detail, string(c.Reason)):
		return c.Detail
	}
	return string(c.Reason) + ": " + c.Detail
}

// begins says whether a text begins with that word.
func begins(text, word string) bool {
	rest, ok := strings.CutPrefix(text, word)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLetter(next) && !unicode.IsDigit(next)
}

// Subject names what is probed by kind and target, such as "dns udp 127.0.0.1:53 example.com. A". A target
// that names its kind stands alone.
func (c *Check) Subject() string {
	if slices.Contains(strings.Fields(c.Target), c.Type) {
		return c.Target
	}
	return strings.TrimSpace(c.Type + " " + c.Target)
}

// Line gives all of it: kind, target, reason and detail, such as "dns udp 127.0.0.1:53 example.com. A:
// timeout after 1s". Of a check that is ok it is the Subject.
func (c *Check) Line() string {
	if text := c.Text(); text != "" {
		return c.Subject() + ": " + text
	}
	return c.Subject()
}
