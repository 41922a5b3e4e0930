package route

import (
	"errors"
	"testing"
	"time"

	"vouch/checks"
)

// testStart stands for any time at which a check began.
var testStart = time.Unix(1, 0)

// wantFailure checks reason and detail; an empty reason stands for success.
func wantFailure(tb testing.TB, err error, reason checks.Reason, detail string) {
	tb.Helper()
	if reason == "" {
		if err != nil {
			tb.Errorf("failed: %v, want it ok", err)
		}
		return
	}
	var f *checks.Failure
	if !errors.As(err, &f) || f.Reason != reason || f.Detail != detail {
		tb.Errorf("got %v, want %s: %s", err, reason, detail)
	}
}
