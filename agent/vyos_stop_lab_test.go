package agent

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// impatient has a stop with method static last 10 s, as with the other daemons.
var impatient = way{"config", viaConfig.lines + "\ndeadline = \"2s\""}

// owned tells whether VyOS's configuration has any static route.
func (r *router) owned() bool {
	r.t.Helper()
	return slices.ContainsFunc(r.system.Active(), func(line string) bool { return strings.HasPrefix(line, "protocols static route") })
}

// TestVyOSWithdrawBesideACommit: a service dies while the other one is being announced by a commit that lasts. The
// core loses it, and status says that it is out of FRR, before the commit has ended; then VyOS's configuration follows.
func TestVyOSWithdrawBesideACommit(t *testing.T) {
	r := newRouter(t, openVyOSLab(t), vyostest.Options{}, viaConfig, "keep")
	other := netip.MustParsePrefix("10.53.54.9/32")
	text, err := os.ReadFile(r.toml)
	must(t, err)
	must(t, os.WriteFile(r.toml, fmt.Appendf(text, `[service.zone]
prefixes = ["%s"]
interval = "500ms"
fast = "100ms"
[service.zone.check.answers]
type = "exec"
command = ["test", "-e", "%s/zone"]
`, other, r.dir), 0o644))
	r.start()
	r.core(true, false, anycast...)
	r.until("settled", func(n *state.Snapshot) bool { return n.Services[0].Prefixes[0].Diverged.IsZero() })
	waiting, release := r.system.HoldUp("my_commit")
	r.put("zone", true)
	waiting()
	seq := r.seq()
	r.put("answers", false)
	r.core(false, false, anycast...)
	r.until("out of FRR", func(n *state.Snapshot) bool {
		p := n.Services[0].Prefixes[0]
		return p.Stage == routers.Configured && strings.Contains(p.Error, "still committing") && strings.Contains(p.Detail, "the next commit may put it into FRR again")
	})
	release()
	r.core(true, false, other)
	r.core(false, false, anycast...)
	r.until("settled", func(n *state.Snapshot) bool {
		return !slices.ContainsFunc(n.Services, func(s state.Service) bool {
			return slices.ContainsFunc(s.Prefixes, func(p state.Prefix) bool { return !p.Diverged.IsZero() })
		})
	})
	if left := r.system.Active(); slices.ContainsFunc(left, func(line string) bool { return strings.Contains(line, anycast[0].String()) }) {
		t.Errorf("VyOS would announce with the next commit: %q", left)
	}
	told := map[string]int{}
	for _, e := range r.events(seq, state.KindDiverged) {
		if told[e.Prefix]++; told[e.Prefix] > 1 {
			t.Errorf("it is told again: %s: %s", e.Prefix, e.Text)
		}
	}
}

// TestVyOSStopBehindALock: while somebody else has the lock, a stop that withdraws waits for longer than it would
// for anything else. Where it gives up, it says so, and what to do, which then does it.
func TestVyOSStopBehindALock(t *testing.T) {
	r := newRouter(t, openVyOSLab(t), vyostest.Options{}, impatient, "withdraw")
	r.start()
	r.becomes(routers.Advertised, false)
	const held = 14 * time.Second
	began := time.Now()
	r.system.HoldLock(held.String())
	must(t, r.proc.Signal(syscall.SIGTERM))
	r.core(false, false, anycast...)
	if err := r.proc.Err(); err != nil || time.Since(began) < held {
		t.Errorf("it ended after %s with %v\n%s", time.Since(began), err, r.log())
	}
	if r.owned() {
		t.Errorf("VyOS would announce with the next commit: %q", r.system.Active())
	}

	r.start()
	r.becomes(routers.Advertised, false)
	r.system.Fault(vyostest.MountMissing, -1)
	must(t, r.proc.Signal(syscall.SIGTERM))
	if err := r.proc.Err(); err == nil || !strings.Contains(err.Error(), "exit status 1") || !r.owned() {
		t.Errorf("it ended with %v; VyOS has %q", err, r.system.Active())
	}
	r.core(false, false, anycast...)
	for _, text := range []string{"nothing was committed", "the next commit may put it into FRR again", "run vouch withdraw --owned"} {
		if n := strings.Count(r.log(), text); n < 2 { // by the event, and by the command
			t.Errorf("%q is said %d times:\n%s", text, n, r.log())
		}
	}
	r.system.Fault(vyostest.MountMissing, 0)
	if out, code := r.says("withdraw", "--owned"); code != 0 || r.owned() {
		t.Errorf("it exits with %d and says:\n%s\nVyOS has %q", code, out, r.system.Active())
	}
}
