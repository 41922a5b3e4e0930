package routers

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"
)

func TestErrorf(t *testing.T) {
	err := Errorf(errors.Join(ErrUnavailable, os.ErrNotExist), "read %s: %w", "x", io.EOF)
	if want := "read x: EOF"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	for _, is := range []error{ErrUnavailable, os.ErrNotExist, io.EOF} {
		if !errors.Is(err, is) {
			t.Errorf("%q is not found as %q", err, is)
		}
	}
	if errors.Is(err, ErrRefused) {
		t.Errorf("%q is found as %q", err, ErrRefused)
	}
}

func TestJoin(t *testing.T) {
	if err := Join(nil, nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	err := Join(io.EOF, nil, ErrBusy, io.EOF)
	if want := "EOF; busy"; err.Error() != want || !errors.Is(err, io.EOF) || !errors.Is(err, ErrBusy) {
		t.Errorf("%q, want %q", err, want)
	}
}

// What is about one prefix is found in whatever it was joined and wrapped into, with its class.
func TestAbout(t *testing.T) {
	a, b, c := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("192.0.2.3/32")
	all := fmt.Errorf("agent: %w", Errorf(Join(&PrefixError{a, io.EOF}, &PrefixError{b, Errorf(ErrBusy, "locked")}), "2 failed"))
	if got := About(all, b); got.Error() != "locked" || !errors.Is(got, ErrBusy) || errors.Is(got, io.EOF) {
		t.Errorf("about the second: %v", got)
	}
	if got := About(all, c); got != all {
		t.Errorf("about none of them: %v", got)
	}
	others := fmt.Errorf("agent: %w", Join(&PrefixError{a, io.EOF}, nil, Join(&PrefixError{b, Errorf(ErrBusy, "locked")})))
	if got := About(others, c); got != nil {
		t.Errorf("about others: %v", got)
	}
	if got := About(Join(others, Errorf(ErrUnavailable, "away")), c); !errors.Is(got, ErrUnavailable) {
		t.Errorf("about others and all: %v", got)
	}
	if told := Errorf(ErrUnavailable, "the session is gone: %w", others); About(told, c) != told {
		t.Errorf("about others, with a word of its own: %v", About(told, c))
	}
	if got := About(nil, a); got != nil {
		t.Errorf("about nothing: %v", got)
	}
}
