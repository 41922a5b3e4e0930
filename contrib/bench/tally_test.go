package main

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errHung, errAway = errors.New("it hung"), errors.New("it is away")

// tallied is the tally of runs, of which nil is one of 2 ms.
func tallied(runs ...error) tally {
	var t tally
	for _, err := range runs {
		t.note(2*time.Millisecond, err)
	}
	return t
}

func TestTallyErr(t *testing.T) {
	cut := func(t tally, err error) tally { t.cut(err); return t }
	for _, c := range []struct {
		of   tally
		want string
	}{
		{tallied(nil, nil, nil), ""},
		{cut(tallied(nil, nil, nil), nil), ""},
		{cut(tallied(nil, nil, nil), errAway), "it is away"},
		{tallied(nil, errHung, errAway), "2 of 3 runs failed: it hung"},
		{tallied(nil), "2 of 3 runs were not made"},
		{cut(tallied(), errAway), "3 of 3 runs were not made: it is away"},
		{cut(tallied(errHung, nil), errAway), "1 of 3 runs failed: it hung\n1 of 3 runs were not made: it is away"},
	} {
		got := ""
		if err := c.of.err(3); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.of, got, c.want)
		}
	}
}

func TestTallyHopeless(t *testing.T) {
	for _, c := range []struct {
		of   tally
		want bool
	}{
		{tallied(nil, errHung, errHung), false},
		{tallied(nil, errHung, errHung, errAway), true},
		{tallied(errHung, errHung, nil, errHung), false},
	} {
		if got := c.of.hopeless(); got != c.want {
			t.Errorf("%+v: got %t", c.of, got)
		}
	}
}

// What failed is in no figure, and said.
func TestReportTally(t *testing.T) {
	r := report{part: "frr"}
	own, err := r.tally("session", tallied(nil, errHung), 2)
	if !errors.Is(err, errHung) || err.Error() != "session: 1 of 2 runs failed: it hung" {
		t.Errorf("error %v", err)
	}
	script := tally{times: sample{100}}
	if err := r.insteadTally(own, "vtysh for each", script, 1); err != nil {
		t.Error(err)
	}
	if err := r.insteadTally(own, "nothing", tally{}, 1); err == nil || err.Error() != "instead: nothing: 1 of 1 runs were not made" {
		t.Errorf("error %v", err)
	}
	want := []row{
		{"frr", "session", "ms", 1, 2, 2, 2, 0, "1 of 2 runs failed: it hung"},
		{"frr", "  instead: vtysh for each", "ms", 1, 100, 100, 100, 50, ""},
		{"frr", "  instead: nothing", "ms", 0, 0, 0, 0, 0, "1 of 1 runs were not made"},
	}
	if d := cmp.Diff(want, r.rows); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}
