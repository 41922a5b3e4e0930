package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A bound is what a number or duration must lie within; use is a value that does.
type bound[T int | uint32 | time.Duration] struct {
	min, max T
	use      string
}

// A span is the bound of a duration.
type span = bound[time.Duration]

// within refuses a written value outside its bound. Nothing is said of a key that has a problem
// already.
func within[T int | uint32 | time.Duration](t *table, key string, v T, b bound[T]) {
	switch {
	case !t.has(key) || !t.good(key):
	case v < b.min:
		t.refuse(key, "must be at least "+show(b.min), "use "+b.use+" or leave it out")
	case v > b.max:
		t.refuse(key, "must be at most "+show(b.max), "use "+b.use+" or leave it out")
	}
}

func show(v any) string {
	if d, ok := v.(time.Duration); ok {
		return formatDuration(d)
	}
	return fmt.Sprint(v)
}

// notBelow refuses a key that is less than another one of the same table, as far as both are valid.
func notBelow(t *table, key string, v time.Duration, other string, limit time.Duration) {
	if t.good(key, other) && v < limit {
		t.refuse(key, fmt.Sprintf("must be at least %s, which is %s", other, show(limit)), "raise it, or lower "+other)
	}
}

// oneOf refuses a word that is not in the list.
func (t *table) oneOf(key, v string, words ...string) { t.oneOfElse(key, v, "", words...) }

// oneOfElse is oneOf with a way out for a word that is like none in the list.
func (t *table) oneOfElse(key, v, wayOut string, words ...string) {
	if !t.good(key) || slices.Contains(words, v) {
		return
	}
	if w := closest(strings.ToLower(v), words); w != "" {
		wayOut = fmt.Sprintf("did you mean %q?", w)
	}
	t.refuse(key, "must be "+alternatives(words), wayOut)
}

// alternatives writes "a", "b" or "c", each in quotes.
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	last := len(quoted) - 1
	if last < 1 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// without refuses a key that does nothing, and says because of what.
func (t *table) without(because string, keys ...string) {
	for _, k := range keys {
		if t.has(k) && t.good(k) {
			t.refuse(k, "has no effect "+because, "remove it")
		}
	}
}

// The forms of values that reach a daemon, the kernel or a command line: nothing in them can end a
// command, hide in a log or leave a directory.
var (
	nodeForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	groupForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)
	interfaceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	programForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$`)
	peerForm      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}$`)
	routeMapForm  = peerForm
	pathForm      = regexp.MustCompile(`^/[A-Za-z0-9/._+@-]+$`)
)

// The longest paths: sun_path without its closing zero (unix(7)), and PATH_MAX without its own.
const (
	maxSocketPath = 107
	maxPath       = 4095
)

// matches refuses a value that is not of the form; what says the form in words.
func (t *table) matches(key, v string, form *regexp.Regexp, what, wayOut string) {
	if t.good(key) && !form.MatchString(v) {
		t.refuse(key, what, wayOut)
	}
}

// absolute refuses what is not a clean absolute path of at most the given length in bytes.
func (t *table) absolute(key, v string, most int) {
	t.matches(key, v, pathForm, `must be an absolute path of letters, digits and "/._+@-"`, "use such a path or leave it out")
	switch {
	case !t.good(key):
	case path.Clean(v) != v:
		t.refuse(key, "must be a clean path", fmt.Sprintf("write %q", path.Clean(v)))
	case len(v) > most:
		t.refuse(key, fmt.Sprintf("must be at most %d bytes long", most), "use a shorter path")
	}
}
