package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A timeline prints what happens and when, in seconds since it was made. It may be used
// concurrently.
type timeline struct {
	mu     sync.Mutex
	out    io.Writer
	began  time.Time
	colour bool
	json   bool
}

// An entry is one line of the timeline, as -json prints it.
type entry struct {
	Seconds float64 `json:"seconds"`
	Who     string  `json:"who"`
	What    string  `json:"what"`
	OK      *bool   `json:"ok,omitempty"` // of a promise: whether it was kept
}

// newTimeline makes a timeline that uses colours if out is a terminal.
func newTimeline(out *os.File, json bool) *timeline {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &timeline{out: out, began: time.Now(), colour: terminal && !json, json: json}
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

var colours = map[string]string{"core": cyan, "client": yellow, "demo": bold}

func (t *timeline) paint(colour, text string) string {
	if !t.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// say prints what somebody did or saw at a time.
func (t *timeline) say(at time.Time, who, what string) {
	t.print(entry{Who: who, What: what}, at, fmt.Sprintf("%s %s", t.paint(colours[who], fmt.Sprintf("%-7s", who)), what))
}

// verdict prints whether a promise was kept.
func (t *timeline) verdict(ok bool, what string) {
	word := t.paint(green, "ok     ")
	if !ok {
		word = t.paint(red, "FAILED ")
	}
	t.print(entry{Who: "promise", What: what, OK: &ok}, time.Now(), word+" "+what)
}

func (t *timeline) print(e entry, at time.Time, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := at.Sub(t.began).Seconds()
	if t.json {
		e.Seconds = since
		_ = json.NewEncoder(t.out).Encode(e)
		return
	}
	fmt.Fprintf(t.out, "%9.3f  %s\n", since, text)
}

// title prints the head of a scene.
func (t *timeline) title(number int, title, promise string) {
	if t.json {
		t.print(entry{Who: "scene", What: fmt.Sprintf("%d %s: %s", number, title, promise)}, time.Now(), "")
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "\n%s\n           promised: %s\n", t.paint(bold, fmt.Sprintf("%d. %s", number, title)), promise)
}

// summary prints the end: what was not as promised.
func (t *timeline) summary(failed []string, took time.Duration) {
	text := fmt.Sprintf("all as promised, in %.0f s", took.Seconds())
	if len(failed) > 0 {
		text = fmt.Sprintf("not as promised: %s", strings.Join(failed, "; "))
	}
	if !t.json {
		fmt.Fprintln(t.out)
	}
	t.verdict(len(failed) == 0, text)
}
