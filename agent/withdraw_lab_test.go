package agent

import (
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// TestWithdrawOwned: beside an agent the command changes nothing. After a crash it withdraws what was left, as
// FRR's own table says, and the next agent announces it again. Without FRR it withdraws what it can, and does not
// call that a success.
func TestWithdrawOwned(t *testing.T) {
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoMinArrival: true})
	s := newSidecar(t, l.Nodes[0])
	s.start()
	s.untilStage(routers.Advertised)
	seq := s.seq()
	if out, code := s.vouch("withdraw", "--owned"); code != 1 || !strings.Contains(out, "vouch drain") {
		t.Errorf("beside an agent it exits with %d and says:\n%s", code, out)
	}
	if es := s.noticed(seq); len(es) > 0 || !s.has() {
		t.Errorf("the agent noticed: %+v, the address is there: %t", es, s.has())
	}

	must(t, s.proc.Kill())
	for _, what := range []string{"after a crash", "once more"} {
		if out, code := s.vouch("withdraw", "--owned"); code != 0 || !strings.HasPrefix(out, "withdrawn after ") {
			t.Errorf("%s it exits with %d and says:\n%s", what, code, out)
		}
		if out, err := s.FRR.Vtysh(t.Context(), "show ip ospf database router self-originate"); err != nil || strings.Contains(out, lab.Service.Addr().String()) {
			t.Errorf("%s FRR says %v\n%s", what, err, out)
		}
	}

	s.start()
	s.untilStage(routers.Advertised)
	must(t, s.proc.Kill())
	must(t, s.FRR.Stop())
	if out, code := s.vouch("withdraw", "--owned", "--timeout", "1s"); code != 3 || !strings.Contains(out, "could not be read") || s.has() {
		t.Errorf("without FRR it exits with %d, the address is there: %t, and says:\n%s", code, s.has(), out)
	}
}
