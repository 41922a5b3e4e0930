package routers

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Errorf makes an error that errors.Is finds as class, without the word for it: a text that says what
// to do reads better alone. A class may be joined of several errors. The text is made as by fmt.Errorf,
// %w too.
func Errorf(class error, format string, args ...any) error {
	return &classed{error: fmt.Errorf(format, args...), class: class}
}

// Join is errors.Join with its text on one line, where nothing is said twice.
func Join(errs ...error) error {
	all := errors.Join(errs...)
	var texts []string
	for _, err := range errs {
		if err != nil && !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	if all == nil {
		return nil
	}
	return &joined{strings.Join(texts, "; "), all}
}

// A joined error has the parts of all, and a text of its own.
type joined struct {
	text string
	all  error
}

// Error is on one line.
func (j *joined) Error() string { return j.text }

// Unwrap gives the parts.
func (j *joined) Unwrap() error { return j.all }

// A PrefixError is what went wrong with one prefix alone, so that it can be told from what went wrong with
// others in the same call; see About.
type PrefixError struct {
	Prefix netip.Prefix
	Err    error
}

// Error is the text of Err, which names the prefix where that is of use.
func (e *PrefixError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e *PrefixError) Unwrap() error { return e.Err }

// About gives the part of a joined error that is a PrefixError of p. Where there is none it gives all of it, or nil
// when all parts are of other prefixes alone.
func About(err error, p netip.Prefix) error {
	switch part := about(err, p); {
	case part != nil:
		return part
	case ofOthers(err):
		return nil
	}
	return err
}

// ofOthers says whether an error is made of PrefixErrors.
func ofOthers(err error) bool {
	switch e := err.(type) {
	case *PrefixError:
		return true
	case interface{ Unwrap() error }:
		return ofOthers(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !ofOthers(part) })
	}
	return false
}

func about(err error, p netip.Prefix) error {
	if e, ok := err.(*PrefixError); ok && e.Prefix == p {
		return e
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return about(e.Unwrap(), p)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if part := about(inner, p); part != nil {
				return part
			}
		}
	}
	return nil
}

// A classed error has its own text and a class beside it.
type classed struct {
	error
	class error
}

// Unwrap gives both.
func (c *classed) Unwrap() []error { return []error{c.error, c.class} }
