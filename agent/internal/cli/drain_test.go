package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/agent/internal/control"
)

// Who has no time left to wait is told what the table says all the same, and that it is as wanted when it is.
func TestSettlingLooksOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	r, stop := serveAgent(t, path, nil)
	defer stop()
	var out strings.Builder
	d := settling{client: control.NewClient(path), service: "resolver", out: &out, waiting: waiting{timeout: time.Nanosecond}}
	if err := d.drain(t.Context(), control.DrainRequest{Service: "resolver"}); err != nil || !strings.Contains(out.String(), "withdrawn after") {
		t.Errorf("%v, told %q", err, &out)
	}
	r.stuck = true
	if err := d.resume(t.Context()); err == nil || !strings.Contains(err.Error(), "resolver is not announced after 1ns: 10.53.53.53/32 is absent") {
		t.Errorf("of a table that does not follow: %v", err)
	}
}
