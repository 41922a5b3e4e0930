package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A tally is a sample of times, in milliseconds, with the runs that came to nothing.
type tally struct {
	times  sample
	failed int
	inARow int   // of those that failed, the last ones
	first  error // why the first of them did
	end    error // why no more were made
}

// hopeless is after how many failures in a row no more is tried.
const hopeless = 3

func (t *tally) hopeless() bool { return t.inARow >= hopeless }

// note adds one run.
func (t *tally) note(took time.Duration, err error) {
	if err == nil {
		t.inARow = 0
		t.times.ms(took)
		return
	}
	t.failed++
	t.inARow++
	if t.first == nil {
		t.first = err
	}
}

// cut says why it ended, nil when it did so in order.
func (t *tally) cut(err error) { t.end = err }

// err says what the tally lacks of so many runs, and why.
func (t *tally) err(runs int) error {
	var lacks []error
	if t.failed > 0 {
		lacks = append(lacks, fmt.Errorf("%d of %d runs failed: %w", t.failed, runs, t.first))
	}
	rest := runs - len(t.times) - t.failed
	switch {
	case rest > 0 && t.end != nil:
		lacks = append(lacks, fmt.Errorf("%d of %d runs were not made: %w", rest, runs, t.end))
	case rest > 0:
		lacks = append(lacks, fmt.Errorf("%d of %d runs were not made", rest, runs))
	case t.end != nil:
		lacks = append(lacks, t.end)
	}
	return errors.Join(lacks...)
}

// tally adds the row of one. A row that lacks runs says so, and that is an error too.
func (r *report) tally(what string, t tally, runs int) (row, error) {
	w := r.add(what, "ms", t.times)
	return w, r.short(t, runs)
}

// insteadTally is tally for what would be used instead of what the row of tells.
func (r *report) insteadTally(of row, what string, t tally, runs int) error {
	r.instead(of, what, t.times)
	return r.short(t, runs)
}

// short says in the last row what its tally lacks.
func (r *report) short(t tally, runs int) error {
	err := t.err(runs)
	if err == nil {
		return nil
	}
	last := &r.rows[len(r.rows)-1]
	last.Lacks = err.Error()
	return fmt.Errorf("%s: %w", strings.TrimSpace(last.What), err)
}
