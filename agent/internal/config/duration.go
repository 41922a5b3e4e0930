package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	durationForm  = `must be a duration in quotes with a unit`
	durationHints = `such as "200ms", "10s" or "5m"`
)

func parseDuration(raw any) (time.Duration, *fault) {
	switch v := raw.(type) {
	case int64:
		return 0, &fault{durationForm, unitHint(v)}
	case float64:
		return 0, &fault{durationForm, secondsHint(v)}
	case string:
		d, err := time.ParseDuration(v)
		if err == nil {
			return d, nil
		}
		return 0, &fault{durationForm, stringHint(strings.TrimSpace(v))}
	}
	return 0, &fault{durationForm, durationHints}
}

// stringHint tells the way out of a string that is no duration.
func stringHint(s string) string {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return unitHint(n)
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return secondsHint(n)
	}
	if d := respelled(s); d != "" {
		return `write "` + d + `"`
	}
	return durationHints
}

// unitHint shows a whole number with the units that it may have been meant in. No interval can be less
// than 50 milliseconds.
func unitHint(n int64) string {
	const leastMilliseconds = 50
	switch {
	case n < 0 || n > math.MaxInt64/int64(time.Second):
		return durationHints
	case n < leastMilliseconds:
		return fmt.Sprintf(`write "%ds"`, n)
	}
	return fmt.Sprintf(`write "%dms" or "%ds"`, n, n)
}

// secondsHint shows a number as a duration in seconds, where it is one.
func secondsHint(n float64) string {
	const most = float64(math.MaxInt64 / int64(time.Second))
	if n != n || n < 0 || n > most {
		return durationHints
	}
	return fmt.Sprintf(`write "%s"`, formatDuration(time.Duration(n*float64(time.Second))))
}

// The units as people write them out, and as time.ParseDuration reads them.
var (
	longForm  = regexp.MustCompile(`^([0-9]{1,4})([a-z]+)$`)
	longUnits = map[string]string{
		"msec": "ms", "msecs": "ms", "millisecond": "ms", "milliseconds": "ms",
		"sec": "s", "secs": "s", "second": "s", "seconds": "s",
		"min": "m", "mins": "m", "minute": "m", "minutes": "m",
		"hr": "h", "hrs": "h", "hour": "h", "hours": "h",
		"d": "d", "day": "d", "days": "d",
	}
)

// respelled gives the duration that a text such as "1 s", "5 min" or "2d" stands for, as it must be
// written; "" where that cannot be told.
func respelled(s string) string {
	s = strings.ToLower(strings.Join(strings.Fields(s), ""))
	if _, err := time.ParseDuration(s); err == nil {
		return s
	}
	m := longForm.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	switch unit := longUnits[m[2]]; unit {
	case "":
		return ""
	case "d":
		n, _ := strconv.Atoi(m[1]) // four digits at most
		return strconv.Itoa(24*n) + "h"
	default:
		return m[1] + unit
	}
}

// formatDuration writes a duration as people do: "10m", not "10m0s".
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
