package cli

import (
	"testing"
	"time"
)

func TestParseLength(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "1.5h": 90 * time.Minute, "0": 0, "-1m": -time.Minute, "1d": day, "1w": 7 * day, "1d12h": 36 * time.Hour,
		"2w1d": 15 * day, "1w2d3h4m": 9*day + 3*time.Hour + 4*time.Minute, "-2d": -2 * day, "9999w": 9999 * 7 * day,
	} {
		if got, ok := parseLength(text); !ok || got != want {
			t.Errorf("%s: %s, %t; want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "d", "1", "1d5", "12h1d", "1d1w", "1d-3h", "1 d", "1.5d", "tomorrow", "99999d", "9999w9999d2562047h", "--1m"} {
		if got, ok := parseLength(text); ok {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

// What span writes of a long time is taken back.
func TestLengthTakesWhatSpanWrites(t *testing.T) {
	for _, d := range []time.Duration{42 * time.Second, 61 * time.Second, 25*time.Hour + time.Minute, 50 * time.Hour, 100 * 24 * time.Hour} {
		if got, ok := parseLength(span(d)); !ok || got != d {
			t.Errorf("%s: %s, %t", span(d), got, ok)
		}
	}
}
