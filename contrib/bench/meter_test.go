package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// meterTold is what a meter tells of three steps, 10 s apart, and what is said before the last one.
func meterTold(t *testing.T, terminal bool) (out string) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		m := &meter{out: &b, terminal: terminal}
		m.begin("drivers", 3)
		for i := range 3 {
			time.Sleep(10 * time.Second)
			if i == 2 {
				m.say("a line of %s", "its own")
			}
			m.step()
		}
		m.begin("loss", 1)
		m.step()
		m.say("the end")
		out = b.String()
	})
	return out
}

func TestMeterOnTerminal(t *testing.T) {
	const wipe = "\r\x1b[K"
	want := "bench:   drivers: 1 of 3, 10s" + wipe + "bench:   drivers: 2 of 3, 20s" + wipe + "bench: a line of its own\n" +
		"bench:   drivers: 3 of 3, 30s" + wipe + "bench:   loss: 1 of 1, 0s" + wipe + "bench: the end\n"
	if got := meterTold(t, true); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// In a file there are no control characters, and lines seldom.
func TestMeterElsewhere(t *testing.T) {
	want := "bench:   drivers: 2 of 3, 20s\nbench: a line of its own\nbench: the end\n"
	if got := meterTold(t, false); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
