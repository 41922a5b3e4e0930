package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/agent/internal/control"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
)

// route stands for a routing daemon: a file holds how far the prefix has come, and another one what was
// asked for.
const route = `#!/bin/sh
cd "$(dirname "$0")" || exit 2
case $ANYCAST_ACTION in
up) echo advertised >table.new ;;
degrade) echo advertised degraded >table.new ;;
down) echo absent >table.new ;;
read) cat table; exit ;;
esac
echo "$ANYCAST_ACTION $ANYCAST_SERVICE" >>asked
mv table.new table
`

// A commanded is vouch as a process whose router is commands, all in one directory.
type commanded struct {
	t    *testing.T
	dir  string
	proc *exec.Cmd
}

func newCommanded(t *testing.T) *commanded {
	t.Helper()
	c := &commanded{t: t, dir: t.TempDir()}
	must(t, os.WriteFile(c.file("route"), []byte(route), 0o755))
	c.put("table", "absent\n")
	c.put("upstream", "")
	c.put("vouch.toml", fmt.Sprintf(`[agent]
state_file = "%[1]s/state.json"
[control]
socket = "%[1]s/control.sock"
[router]
daemon = "program"
up = ["%[1]s/route"]
down = ["%[1]s/route"]
degrade = ["%[1]s/route"]
read = ["%[1]s/route"]
verify_interval = "200ms"
[service.resolver]
prefixes = ["10.53.53.53/32"]
interval = "500ms"
fast = "500ms"
[service.resolver.check.works]
type = "exec"
command = ["true"]
timeout = "5s"
[service.resolver.check.upstream]
type = "exec"
on_fail = "degrade"
command = ["test", "-e", "%[1]s/upstream"]
timeout = "5s"
`, c.dir))
	return c
}

func (c *commanded) file(name string) string { return filepath.Join(c.dir, name) }

func (c *commanded) put(name, text string) {
	c.t.Helper()
	must(c.t, os.WriteFile(c.file(name), []byte(text), 0o644))
}

// vouch makes a command line of vouch.
func (c *commanded) vouch(args ...string) *exec.Cmd {
	c.t.Helper()
	path, err := built()
	must(c.t, err)
	return exec.Command(path, append([]string{"--config", c.file("vouch.toml")}, args...)...)
}

// start runs the agent until end.
func (c *commanded) start() {
	c.t.Helper()
	c.proc = c.vouch("run")
	c.proc.Stderr = c.t.Output()
	must(c.t, c.proc.Start())
	c.t.Cleanup(c.kill)
}

// kill ends it with no chance to do anything.
func (c *commanded) kill() {
	if c.proc != nil {
		_ = c.proc.Process.Kill()
		_ = c.proc.Wait()
		c.proc = nil
	}
}

// until waits for the verdict, and for the prefix to be read as o.
func (c *commanded) until(v health.Verdict, o routers.Observation) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	client := control.NewClient(c.file("control.sock"))
	var last state.Service
	err := lab.Wait(ctx, fmt.Sprintf("%s and %s", v, standing(o)), 10*time.Millisecond, func() (bool, error) {
		snap, err := client.Status(ctx)
		if err != nil {
			return false, err
		}
		last = snap.Services[0]
		p := last.Prefixes[0]
		return last.Verdict == v && p.Stage == o.Stage && p.Degraded == o.Degraded && p.Diverged.IsZero(), nil
	})
	if err != nil {
		c.t.Fatalf("%v\nlast: %+v", err, last)
	}
}

// asked gives what the router was asked for so far.
func (c *commanded) asked() []string {
	c.t.Helper()
	b, err := os.ReadFile(c.file("asked"))
	must(c.t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// untilAsked waits until the router was asked n times.
func (c *commanded) untilAsked(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	must(c.t, lab.Wait(ctx, fmt.Sprintf("asked %d times", n), 10*time.Millisecond, func() (bool, error) { return len(c.asked()) >= n, nil }))
}

// TestDegradedInARun: a check that can only degrade fails, vouch is killed and started again while
// degraded, somebody announces the prefix as usual, and the check comes back. Nothing of that withdraws.
func TestDegradedInARun(t *testing.T) {
	c := newCommanded(t)
	usual, worse := routers.Observation{Stage: routers.Advertised}, routers.Observation{Stage: routers.Advertised, Degraded: true}
	c.start()
	c.until(health.Up, usual)
	must(t, os.Remove(c.file("upstream")))
	c.until(health.Degraded, worse)
	out, err := c.vouch("check").Output()
	if c := (*exec.ExitError)(nil); !errors.As(err, &c) || c.ExitCode() != 1 || !strings.HasPrefix(string(out), "VOUCH WARNING - resolver: degraded, upstream failed") {
		t.Errorf("check: %v\n%s", err, out)
	}
	before := c.asked()
	c.kill()
	c.start()
	c.until(health.Degraded, worse)
	if after := c.asked(); !slices.Equal(before, after) {
		t.Errorf("the restart asked for %v", after[len(before):])
	}
	c.put("table", "advertised\n")
	c.untilAsked(len(before) + 1)
	c.until(health.Degraded, worse)
	c.put("upstream", "")
	c.until(health.Up, usual)
	if got, want := c.asked(), []string{"up resolver", "degrade resolver", "degrade resolver", "up resolver"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestReloadTellsTheLabels: what replaces the service is announced under its own name, what has left is
// withdrawn under the name that it had.
func TestReloadTellsTheLabels(t *testing.T) {
	c := newCommanded(t)
	c.start()
	c.until(health.Up, routers.Observation{Stage: routers.Advertised})
	text, err := os.ReadFile(c.file("vouch.toml"))
	must(t, err)
	c.put("vouch.toml", strings.NewReplacer("resolver", "web", "10.53.53.53", "10.53.53.54").Replace(string(text)))
	must(t, c.proc.Process.Signal(syscall.SIGHUP))
	c.untilAsked(3)
	got := c.asked()
	slices.Sort(got)
	if want := []string{"down resolver", "up resolver", "up web"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestFindingsInARun: what an examination finds is a problem for everybody to see.
func TestFindingsInARun(t *testing.T) {
	c := newCommanded(t)
	must(t, os.WriteFile(c.file("worse"), []byte(route), 0o644))
	text, err := os.ReadFile(c.file("vouch.toml"))
	must(t, err)
	c.put("vouch.toml", strings.Replace(string(text), "degrade = [\""+c.file("route"), "degrade = [\""+c.file("worse"), 1))
	c.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := control.NewClient(c.file("control.sock"))
	must(t, lab.Wait(ctx, "a problem with "+c.file("worse"), 10*time.Millisecond, func() (bool, error) {
		snap, err := client.Status(ctx)
		return err == nil && slices.ContainsFunc(snap.Problems, func(p string) bool { return strings.Contains(p, c.file("worse")) }), nil
	}))
	out, err := c.vouch("events").CombinedOutput()
	if err != nil || strings.Count(string(out), "finding") != 1 {
		t.Errorf("events: %v\n%s", err, out)
	}
}
