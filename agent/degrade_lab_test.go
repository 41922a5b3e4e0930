package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
)

// TestDegradedInFRR: a check that can only degrade fails: the address stays announced, at the cost that
// the configuration gives, is still so after a crash of vouch, and comes back as usual.
func TestDegradedInFRR(t *testing.T) {
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoMinArrival: true})
	s := newSidecar(t, l.Nodes[0])
	flag := filepath.Join(s.dir, "upstream")
	must(t, os.WriteFile(flag, nil, 0o644))
	s.write(strings.Replace(basic, "[service.resolver]", "[router.degraded]\ncost = 777\n[service.resolver]", 1) +
		"[service.resolver.check.upstream]\ntype = \"exec\"\non_fail = \"degrade\"\ncommand = [\"test\", \"-e\", \"" + flag + "\"]\n")
	s.start()
	is := func(v health.Verdict, degraded bool) {
		t.Helper()
		s.until(v.String(), func(n *state.Snapshot) bool {
			p := n.Services[0].Prefixes[0]
			return n.Services[0].Verdict == v && p.Stage == routers.Advertised && p.Degraded == degraded && p.Diverged.IsZero()
		})
	}
	is(health.Up, false)
	seq := s.seq()
	must(t, os.Remove(flag))
	is(health.Degraded, true)
	must(t, s.proc.Kill())
	s.start()
	is(health.Degraded, true)
	must(t, os.WriteFile(flag, nil, 0o644))
	is(health.Up, false)
	for _, e := range s.events(seq, state.KindStage) {
		if !strings.HasPrefix(e.Stage, "advertised") && !joining(e) {
			t.Errorf("on the way: %s", e.Text)
		}
	}
}
