package routers

import (
	"errors"
	"fmt"
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
	return Errorf(all, "%s", strings.Join(texts, "; "))
}

// A classed error has its own text and a class beside it.
type classed struct {
	error
	class error
}

// Unwrap gives both.
func (c *classed) Unwrap() []error { return []error{c.error, c.class} }
