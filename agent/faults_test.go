package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
)

// TestFaults goes through the faults that an agent has to survive, one after the other on one
// network, and each time waits for it to be well again by itself.
func TestFaults(t *testing.T) {
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoMinArrival: true})
	s := newSidecar(t, l.Nodes[0])
	must(t, s.FRR.Stop())
	s.start()
	for _, f := range []struct {
		name string
		run  func(*testing.T, *sidecar)
	}{
		{"daemon absent at start", daemonAbsent},
		{"daemon hung while the service dies", daemonHung},
		{"address taken and put back by hand", addressByHand},
		{"kernel FIB emptied under FRR", fibEmptied},
		{"zebra restarted alone", zebraAlone},
		{"second instance", secondInstance},
		{"reload", reloads},
		{"killed, with a corrupt state file", killedCorrupt},
		{"disk full", diskFull},
		{"drain over a crash", drainOverCrash},
		{"FRR restarted while withdrawn", restartedWhileWithdrawn},
		{"stop", stops},
	} {
		if !t.Run(f.name, func(t *testing.T) {
			s.t = t
			f.run(t, s)
		}) {
			t.Fatalf("not well after %q:\n%s", f.name, s.log())
		}
	}
}

// The agent is ready though the daemon is away, says so, and announces by itself once it is there.
func daemonAbsent(t *testing.T, s *sidecar) {
	n := s.until("down for lack of a route", func(n *state.Snapshot) bool { return n.Services[0].Verdict == health.Down })
	if n.Router.OK || !strings.Contains(n.Router.Error, "refused") {
		t.Errorf("router = %+v, want the error that it refuses", n.Router)
	}
	if out, code := s.vouch("status"); code != 1 || !strings.Contains(out, "not running") {
		t.Errorf("status exits with %d and says:\n%s", code, out)
	}
	must(t, s.FRR.Start(t.Context()))
	s.untilStage(routers.Advertised)
}

// With ospfd hung the address goes all the same, and the stage is unknown, not absent.
func daemonHung(t *testing.T, s *sidecar) {
	must(t, s.FRR.Signal("ospfd", syscall.SIGSTOP))
	must(t, s.Resolver().Kill())
	s.untilAddress(false)
	n := s.untilStage(routers.Unknown)
	if p := n.Services[0].Prefixes[0]; p.Want != routers.Withdrawn {
		t.Errorf("prefix = %+v, want it withdrawn", p)
	}
	s.until("diverged", func(n *state.Snapshot) bool { return !n.Services[0].Prefixes[0].Diverged.IsZero() })
	must(t, s.Address(t.Context(), "add", lab.Service.String(), "lo")) // by hand, while it cannot be read back
	s.untilAddress(false)
	must(t, s.FRR.Signal("ospfd", syscall.SIGCONT))
	s.untilStage(routers.Absent)
	s.until("settled", func(n *state.Snapshot) bool { return n.Router.OK && n.Services[0].Prefixes[0].Diverged.IsZero() })

	// The other way round nothing is announced into a table that cannot be read.
	must(t, s.FRR.Signal("ospfd", syscall.SIGSTOP))
	must(t, s.StartUnbound(t.Context()))
	s.untilStage(routers.Unknown)
	s.until("up", func(n *state.Snapshot) bool { return n.Services[0].Verdict == health.Up })
	if s.has() {
		t.Error("the address was put on lo although the table cannot be read")
	}
	must(t, s.FRR.Signal("ospfd", syscall.SIGCONT))
	s.untilStage(routers.Advertised)
}

func addressByHand(t *testing.T, s *sidecar) {
	must(t, s.Address(t.Context(), "del", lab.Service.String(), "lo"))
	s.untilAddress(true)
	s.untilStage(routers.Advertised)
	must(t, s.Resolver().Kill())
	s.untilStage(routers.Absent)
	must(t, s.Address(t.Context(), "add", lab.Service.String(), "lo"))
	s.untilAddress(false)
	s.untilStage(routers.Absent)
	// What is not ours stays, though it is the same address with another length.
	const foreign = "10.53.53.60/32"
	must(t, s.Address(t.Context(), "add", foreign, "lo"))
	must(t, s.StartUnbound(t.Context()))
	s.untilStage(routers.Advertised)
	out, err := s.Run(t.Context(), "ip", "-br", "addr", "show", "dev", "lo")
	if err != nil || !strings.Contains(out, foreign) {
		t.Errorf("the foreign address is gone: %s %v", out, err)
	}
	must(t, s.Address(t.Context(), "del", foreign, "lo"))
}

// fibEmptied deletes the nexthop objects: FRR goes on saying "installed".
func fibEmptied(t *testing.T, s *sidecar) {
	_, err := s.Run(t.Context(), "ip", "nexthop", "flush")
	must(t, err)
	s.untilStage(routers.Absent)
	out, err := s.FRR.Vtysh(t.Context(), "show ip ospf neighbor json")
	if err != nil || !strings.Contains(out, "Full") {
		t.Errorf("OSPF is not Full any more, so this was not the fault meant: %s %v", out, err)
	}
	must(t, s.FRR.RestartDaemon(t.Context(), "ospfd"))
	s.untilStage(routers.Advertised)
}

// zebraAlone leaves ospfd with an announcement that it does not take back: zebra does not tell it of
// an address that went while it was not listening. vouch must not call that withdrawn.
func zebraAlone(t *testing.T, s *sidecar) {
	must(t, s.FRR.RestartDaemon(t.Context(), "zebra"))
	s.untilAddress(false)
	s.until("withdrawn, or told not to be, as FRR has it", func(n *state.Snapshot) bool {
		p := n.Services[0].Prefixes[0]
		if p.Stage != routers.Absent && p.Error == "" {
			return false
		}
		out, err := s.FRR.Vtysh(t.Context(), "show ip ospf database router self-originate")
		return err == nil && strings.Contains(out, lab.Service.Addr().String()) == (p.Stage != routers.Absent)
	})
	must(t, s.FRR.RestartDaemon(t.Context(), "ospfd"))
	s.untilStage(routers.Advertised)
}

func secondInstance(t *testing.T, s *sidecar) {
	// The adjacency is a second old: what is found and acknowledged settles first.
	must(t, lab.Wait(t.Context(), "status to be content", 50*time.Millisecond, func() (bool, error) {
		out, code := s.vouch("status")
		return code == 0, errors.New(out)
	}))
	before := s.seq()
	out, code := s.vouch("run")
	if code != 1 || !strings.Contains(out, "another vouch") || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		t.Errorf("the second instance exits with %d and says:\n%s", code, out)
	}
	// With a socket of its own it would write over the state file, and a drain would be lost.
	out, code = s.vouch("run", "--socket", filepath.Join(s.dir, "other.sock"))
	if file := filepath.Join(s.dir, "state.json"); code != 1 || !strings.Contains(out, "another vouch runs here (pid ") || !strings.Contains(out, "state file "+file) {
		t.Errorf("the second instance with another socket exits with %d and says:\n%s", code, out)
	}
	if out, code := s.vouch("withdraw", "--owned", "--socket", filepath.Join(s.dir, "other.sock")); code != 1 || !strings.Contains(out, "another vouch") {
		t.Errorf("withdraw beside it, with another socket, exits with %d and says:\n%s", code, out)
	}
	if es := s.noticed(before); len(es) > 0 {
		t.Errorf("the running one noticed: %+v", es)
	}
	if out, code := s.vouch("status"); code != 0 {
		t.Errorf("status exits with %d after it, and says:\n%s", code, out)
	}
}

func reloads(t *testing.T, s *sidecar) {
	hangup := func() { must(t, s.proc.Signal(syscall.SIGHUP)) }
	before := s.seq()
	s.write(basic + "\n[service.resolver.check.oops]\ntype = \"dns\"\nserver = \"10.53.53.53:53\"\n")
	hangup()
	s.until("refused", func(n *state.Snapshot) bool { return strings.Contains(n.Config.Error, "service.resolver.check.oops") })
	s.write(strings.Replace(basic, `"10.53.53.53/32"`, `"10.53.53.53/32", "10.53.53.54/32"`, 1))
	hangup()
	s.until("two prefixes", func(n *state.Snapshot) bool { return n.Config.Error == "" && len(n.Services[0].Prefixes) == 2 })
	s.untilStage(routers.Advertised)
	s.write(basic)
	hangup()
	s.until("one prefix", func(n *state.Snapshot) bool { return len(n.Services[0].Prefixes) == 1 })
	s.untilStage(routers.Advertised)
	for _, e := range s.events(before, state.KindStage) {
		if e.Prefix == lab.Service.String() {
			t.Errorf("a reload moved the prefix that stayed: %+v", e)
		}
	}
	out, err := s.Run(t.Context(), "ip", "-br", "addr", "show", "dev", "lo")
	if err != nil || strings.Contains(out, "10.53.53.54") {
		t.Errorf("the prefix that left the configuration is still there: %s %v", out, err)
	}
}

func killedCorrupt(t *testing.T, s *sidecar) {
	must(t, s.proc.Kill())
	if !s.has() {
		t.Error("the address went with the agent")
	}
	file := filepath.Join(s.dir, "state.json")
	must(t, os.WriteFile(file, []byte("{ half"), 0o640))
	s.start()
	if _, err := os.Stat(file + ".corrupt"); err != nil {
		t.Error(err)
	}
	n := s.until("up", func(n *state.Snapshot) bool { return n.Services[0].Verdict == health.Up })
	if len(n.Problems) != 1 || !strings.Contains(n.Problems[0], file) {
		t.Errorf("problems: %q", n.Problems)
	}
	for _, e := range s.events(0, state.KindStage) {
		if e.Stage != routers.Advertised.String() && !joining(e) {
			t.Errorf("the announcement moved: %+v", e)
		}
	}
}

// joining tells of a first reading so soon after the adjacency came about that the node cannot say whether its
// neighbour has what it announces. The lab is that young.
func joining(e state.Event) bool {
	return strings.Contains(e.Text, "when first read: stub link") && strings.HasSuffix(e.Text, "since the adjacency is there")
}

// diskFull fills the disk of the state file, and makes room again.
func diskFull(t *testing.T, s *sidecar) {
	filler := filepath.Join(s.dir, "filler")
	must(t, fill(filler))
	if out, code := s.vouch("drain", "resolver"); code != 0 {
		t.Errorf("drain while the disk is full exits with %d and says:\n%s", code, out)
	}
	full := func(n *state.Snapshot) bool {
		return slices.ContainsFunc(n.Problems, func(p string) bool { return strings.Contains(p, "no space left") })
	}
	s.until("disk full", full)
	if out, code := s.vouch("drain", "resolver"); code != 0 || !strings.Contains(out, "note: a restart of vouch would lose") {
		t.Errorf("drain when the disk is known to be full exits with %d and says:\n%s", code, out)
	}
	must(t, os.Remove(filler))
	s.until("disk not full", func(n *state.Snapshot) bool { return !full(n) })
	if _, code := s.vouch("resume", "resolver"); code != 0 {
		t.Errorf("resume exits with %d", code)
	}
	s.untilStage(routers.Advertised)
}

// fill writes to a file until nothing more fits on its disk.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

func drainOverCrash(t *testing.T, s *sidecar) {
	out, code := s.vouch("drain", "resolver", "--for", "1h", "--reason", "kernel upgrade")
	if code != 0 || !strings.Contains(out, "withdrawn") {
		t.Errorf("drain exits with %d and says:\n%s", code, out)
	}
	if s.has() {
		t.Error("drain returned before the address was gone")
	}
	must(t, s.proc.Kill())
	s.start()
	n := s.untilStage(routers.Absent)
	if d := n.Services[0].Drain; d == nil || d.Reason != "kernel upgrade" {
		t.Errorf("drain after the crash: %+v", d)
	}
	if out, code := s.vouch("explain", "resolver"); code != 0 || !strings.Contains(out, "kernel upgrade") {
		t.Errorf("explain exits with %d and says:\n%s", code, out)
	}
	if out, code := s.vouch("resume", "resolver"); code != 0 {
		t.Errorf("resume exits with %d and says:\n%s", code, out)
	}
	s.untilStage(routers.Advertised)
}

func restartedWhileWithdrawn(t *testing.T, s *sidecar) {
	must(t, s.Resolver().Kill())
	s.untilStage(routers.Absent)
	before := s.seq()
	must(t, s.FRR.Restart(t.Context()))
	s.until("read again", func(n *state.Snapshot) bool { return n.Router.OK })
	s.untilStage(routers.Absent)
	for _, e := range s.events(before, state.KindStage) {
		if e.Stage == routers.Advertised.String() || e.Stage == routers.Configured.String() {
			t.Errorf("it was announced for a moment: %+v", e)
		}
	}
	must(t, s.StartUnbound(t.Context()))
	s.untilStage(routers.Advertised)
}

func stops(t *testing.T, s *sidecar) {
	must(t, s.proc.Stop())
	if !s.has() {
		t.Error(`the address is gone after a stop with on_stop = "keep"`)
	}
	s.write(strings.Replace(basic, "[service.resolver]\n", "[service.resolver]\non_stop = \"withdraw\"\n", 1))
	s.start()
	s.untilStage(routers.Advertised)
	must(t, s.proc.Stop())
	if s.has() {
		t.Errorf("the address is there after a stop with on_stop = \"withdraw\":\n%s", s.log())
	}
	if out, code := s.vouch("status"); code != 3 || !strings.Contains(out, "not running") {
		t.Errorf("status exits with %d and says:\n%s", code, out)
	}
}
