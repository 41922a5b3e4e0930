package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// paper is a timeline on a file, and what was written to it.
func paper(t *testing.T, json bool) (*timeline, func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return newTimeline(f, json), func() string {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestTimelineIsPlainInAFile(t *testing.T) {
	line, text := paper(t, false)
	line.title(2, "unbound is killed", "withdrawn")
	line.say(line.began.Add(1234*time.Millisecond), "core", "next hops: apu02")
	if want := "\n2. unbound is killed\n           promised: withdrawn\n    1.234  core    next hops: apu02\n"; text() != want {
		t.Errorf("got %q, want %q", text(), want)
	}
	line.verdict(false, "off lo")
	if !strings.HasSuffix(text(), "  FAILED  off lo\n") {
		t.Errorf("got %q", text())
	}
}

func TestTimelineColours(t *testing.T) {
	line, text := paper(t, false)
	line.colour = true
	line.verdict(true, "kept")
	if !strings.Contains(text(), "\x1b[32mok     \x1b[0m kept") {
		t.Errorf("got %q", text())
	}
}

func TestTimelineJSON(t *testing.T) {
	line, text := paper(t, true)
	line.title(1, "start", "both")
	line.say(line.began.Add(time.Second), "core", "none")
	line.verdict(true, "kept")
	line.summary([]string{"1. start"}, time.Second)
	var got []entry
	for d := json.NewDecoder(strings.NewReader(text())); d.More(); {
		var e entry
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if len(got) != 4 || got[0].Who != "scene" || got[1].Seconds != 1 || got[2].OK == nil || !*got[2].OK || got[3].OK == nil || *got[3].OK {
		t.Errorf("got %+v", got)
	}
	if want := "not as promised: 1. start"; got[3].What != want {
		t.Errorf("got %q, want %q", got[3].What, want)
	}
}

func TestView(t *testing.T) {
	const status = `{"ready": true, "services": [{"name": "resolver", "verdict": "down",
		"checks": [{"name": "dns", "status": "failed", "reason": "refused", "detail": "connection refused"}, {"name": "route", "status": "ok"}],
		"prefixes": [{"prefix": "10.53.53.53/32", "want": "withdrawn", "stage": "absent"}]}]}`
	var v view
	if err := json.Unmarshal([]byte(status), &v); err != nil {
		t.Fatal(err)
	}
	want := "resolver is down; check dns failed: refused connection refused; 10.53.53.53/32 wanted withdrawn, read absent"
	if v.String() != want {
		t.Errorf("got %q, want %q", v, want)
	}
	if !ready(v) || up(v) || !down(v) {
		t.Errorf("ready %t, up %t, down %t", ready(v), up(v), down(v))
	}
	if up(view{Ready: true}) || down(view{}) {
		t.Error("a view without services says something of them")
	}
}

func TestPromisesCount(t *testing.T) {
	line, text := paper(t, false)
	s := &stage{line: line}
	s.promise(true, "one")
	s.promise(false, "%s", "two")
	if s.broken != 1 || strings.Count(text(), "ok") != 1 || strings.Count(text(), "FAILED") != 1 {
		t.Errorf("%d broken: %q", s.broken, text())
	}
}
