package payload

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"vouch/checks"
)

// slow is an expression that takes minutes on a mebibyte.
const slow = `(?:(?:a?){100}(?:b?){100}(?:c?){100}){3}[x-z]{900}$`

// A match is what package regexp finds, whichever way it is looked for.
func TestPattern(t *testing.T) {
	long := strings.Repeat("no such luck\xff\n", 300<<10/14)
	for _, expr := range []string{"", "here", "(?i)HERE", "^here", "here$", `(?m)^here$`, `\bhere\b`, "[^\\x00-\\x7f]", "luck.\n", `\A(?s:.*)\z`} {
		p, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != expr {
			t.Errorf("%q is shown as %s", expr, p)
		}
		for _, text := range []string{"", "here", "there", "here\n", long, long + "here", "here\n" + long, long + "here\n" + long} {
			want := regexp.MustCompile(expr).MatchString(text)
			if got, err := p.Match(t.Context(), []byte(text)); got != want || err != nil {
				t.Errorf("%q in %d bytes, %.10q: %v, %v; want %v", expr, len(text), text, got, err, want)
			}
		}
	}
	if _, err := Compile("("); err == nil {
		t.Error("half an expression is one")
	}
}

// An expression that takes long ends with its time, and says nothing about what it did not see.
func TestPatternTakesTooLong(t *testing.T) {
	p, err := Compile(slow)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("abcz"), 256<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	found, err := p.Match(ctx, text)
	var f *checks.Failure
	if found || !errors.As(err, &f) || f.Reason != checks.ReasonTimeout || f.Detail != "the regular expression takes too long on what came" {
		t.Errorf("%v, %v", found, err)
	}
	end, err := Compile(`\d*$`) // which matches wherever the text seems to end
	if err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	found, err = end.Match(over, bytes.Repeat([]byte("x"), 2<<20))
	if found || !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
		t.Errorf("broken off: %v, %v", found, err)
	}
}

// What is small or plain is not made slower by a look at the clock.
func BenchmarkMatch(b *testing.B) {
	for name, c := range map[string]struct {
		expr string
		size int
	}{"small": {"status: (ok|good)", 4 << 10}, "plain": {"status: ok", 1 << 20}, "large": {"status: (ok|good)", 1 << 20}} {
		b.Run(name, func(b *testing.B) {
			p, err := Compile(c.expr)
			if err != nil {
				b.Fatal(err)
			}
			text := bytes.Repeat([]byte("x"), c.size)
			b.ReportAllocs()
			for b.Loop() {
				if found, err := p.Match(b.Context(), text); found || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}
