package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A TB is the part of testing.TB that is used here, so that programs can have their own.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(f func())
	Failed() bool
	Name() string
	Context() context.Context
}

// Missing names what a network needs and this machine does not have, and what it lacks of the releases;
// empty: nothing.
func Missing(releases ...Release) []string {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, p := range []string{"ip", "unbound", "vtysh"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	for _, r := range append([]Release{FRRHost}, releases...) {
		for _, m := range r.orHost().missing() {
			if !slices.Contains(missing, m) {
				missing = append(missing, m)
			}
		}
	}
	return missing
}

// Require skips the test where the machine lacks something, or a release. With CI=true in the
// environment a lack is a failure, so that no test is left out unnoticed.
func Require(tb TB, releases ...Release) {
	tb.Helper()
	require(tb, Missing(releases...), os.Getenv("CI") == "true")
}

func require(tb TB, missing []string, ci bool) {
	tb.Helper()
	switch names := strings.Join(missing, ", "); {
	case names == "":
	case ci:
		tb.Fatalf("lab: missing %s: run `make deps` as root", names)
	default:
		tb.Skipf("lab: NOT TESTED: missing %s: run `make deps` and the tests as root", names)
	}
}

// Open is Require and New for a test, with Close as its cleanup. A test that failed logs the
// last lines of what the daemons wrote.
func Open(tb TB, releases ...Release) *Net {
	tb.Helper()
	Require(tb, releases...)
	n, err := New(tb.Context())
	if err != nil {
		tb.Fatalf("%v", err)
	}
	n.closeAfter(tb)
	return n
}

func (n *Net) closeAfter(tb TB) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("lab %s:\n%s", n.ID(), n.logs())
		}
		if err := n.Close(); err != nil {
			tb.Logf("closing the lab: %v", err)
		}
	})
}

// logs gives the end of every process's log.
func (n *Net) logs() string {
	const last = 1500
	var b strings.Builder
	paths, _ := filepath.Glob(filepath.Join(n.dir, "*", "*.log"))
	inner, _ := filepath.Glob(filepath.Join(n.dir, "*", "frr", "*.log"))
	paths = append(paths, inner...)
	slices.Sort(paths)
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil || len(text) == 0 {
			continue
		}
		b.WriteString("--- " + strings.TrimPrefix(p, n.dir+"/") + "\n")
		b.Write(text[max(0, len(text)-last):])
	}
	return b.String()
}
