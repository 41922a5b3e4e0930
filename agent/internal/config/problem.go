package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Problem is one mistake in a configuration file. Line and Col start at 1 and Col counts bytes;
// Line 0 means the file as a whole.
type Problem struct {
	File      string
	Line, Col int
	Key       string // such as "service.resolver.fall"; empty: the file
	What      string // such as "must be at least 1"
	Got       string // the value as written, or empty
	WayOut    string // such as "use 3 or leave it out", or empty
}

// Error prints the problem on one line: "file:line:col: key: what (got …), way out".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	if p.Key != "" {
		b.WriteString(": " + printable(p.Key))
	}
	b.WriteString(": " + printable(p.What))
	if p.Got != "" {
		b.WriteString(" (got " + printable(p.Got) + ")")
	}
	if p.WayOut != "" {
		b.WriteString(", " + printable(p.WayOut))
	}
	return b.String()
}

// Problems are all mistakes found in one file, sorted by position. It is the error of Load and
// Parse; errors.As finds it.
type Problems []Problem

// Error prints one problem on each line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the problems one by one.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// sorted gives the problems by position, or a nil error when there are none.
func (ps Problems) sorted() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Key, b.Key))
	})
	return ps
}

// maxShown is how much of a value is shown, in bytes.
const maxShown = 80

// printable keeps a message on one line and free of control characters, also when it repeats
// what a file holds.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// shorten cuts a value that is too long to show, at a character's border.
func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
