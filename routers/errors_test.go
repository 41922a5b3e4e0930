package routers

import (
	"errors"
	"io"
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
