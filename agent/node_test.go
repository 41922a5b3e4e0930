package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
)

// patience bounds every wait for a state in these tests: long, because it is only waited for in
// full when something is broken.
const patience = 60 * time.Second

// built builds vouch once for all tests and gives its path.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "vouch-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "vouch")
	out, err := exec.Command("go", "build", "-o", path, "vouch/agent/cmd/vouch").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build vouch: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	asVouch()
	code := m.Run()
	if path, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// A sidecar is vouch as a process on one node of a lab.
type sidecar struct {
	*lab.AnycastNode
	t    *testing.T
	dir  string
	toml string
	proc *lab.Proc
}

// basic is the configuration most tests use; each %s is filled in by write.
const basic = `[agent]
state_file = "%[1]s/state.json"
[control]
socket = "%[1]s/control.sock"
[router]
daemon = "frr"
method = "address"
socket_dir = "%[2]s"
retry_max = "500ms"
verify_interval = "1s"
[service.resolver]
prefixes = ["10.53.53.53/32"]
interval = "500ms"
fast = "100ms"
[service.resolver.check.dns]
type = "dns"
server = "127.0.0.1:53"
name = "health.lab."
qtype = "A"
timeout = "5s"
[service.resolver.check.route]
type = "route"
`

func newSidecar(t *testing.T, nd *lab.AnycastNode) *sidecar {
	t.Helper()
	s := &sidecar{AnycastNode: nd, t: t, dir: t.TempDir()}
	// The state is on a tmpfs, as in /run; a small one, so that it can be filled.
	must(t, unix.Mount("tmpfs", s.dir, "tmpfs", 0, "size=512k"))
	t.Cleanup(func() {
		if s.proc != nil {
			_ = s.proc.Kill() // it would write into the directory while that is removed
		}
		if err := unix.Unmount(s.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s.write(basic)
	return s
}

// write makes text the configuration.
func (s *sidecar) write(text string) {
	s.t.Helper()
	s.toml = filepath.Join(s.dir, "vouch.toml")
	text = fmt.Sprintf(text, s.dir, s.FRR.SocketDir())
	text, _, _ = strings.Cut(text, "%!(EXTRA") // a text that does not use both
	if err := os.WriteFile(s.toml, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sidecar) start() {
	s.t.Helper()
	path, err := built()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.proc, err = s.Start("vouch", path, "run", "--config", s.toml); err != nil {
		s.t.Fatal(err)
	}
	s.until("ready", func(n *state.Snapshot) bool { return n.Ready })
}

// vouch runs a command of vouch on the node and gives what it printed and its exit status.
func (s *sidecar) vouch(args ...string) (string, int) {
	s.t.Helper()
	path, err := built()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), "ip", append([]string{"netns", "exec", s.Namespace(), path, "--config", s.toml}, args...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (s *sidecar) client() *control.Client {
	return control.NewClient(filepath.Join(s.dir, "control.sock"))
}

// until waits for a snapshot that is as it should.
func (s *sidecar) until(what string, ok func(*state.Snapshot) bool) *state.Snapshot {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last *state.Snapshot
	err := lab.Wait(ctx, s.Name()+": "+what, 20*time.Millisecond, func() (bool, error) {
		snap, err := s.client().Status(ctx)
		if err != nil {
			return false, err
		}
		last = snap
		return ok(snap), nil
	})
	if err != nil {
		s.t.Fatalf("%v\nlast snapshot: %+v\nlog:\n%s", err, last, s.log())
	}
	return last
}

func (s *sidecar) log() string {
	if s.proc == nil {
		return ""
	}
	return s.proc.Log()
}

// untilStage waits until vouch reads every prefix of the node at that stage, and means it so.
func (s *sidecar) untilStage(stage routers.Stage) *state.Snapshot {
	s.t.Helper()
	return s.until("every prefix "+stage.String(), func(n *state.Snapshot) bool {
		return len(n.Services) > 0 && !slices.ContainsFunc(n.Services, func(sv state.Service) bool {
			return slices.ContainsFunc(sv.Prefixes, func(p state.Prefix) bool {
				return p.Stage != stage || stage != routers.Unknown && (p.Want == routers.Announced) != (stage == routers.Advertised)
			})
		})
	})
}

// events gives those of a kind that came after one.
func (s *sidecar) events(after uint64, kind string) []state.Event {
	s.t.Helper()
	es, err := s.client().Events(s.t.Context(), after)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(es, func(e state.Event) bool { return kind != "" && e.Kind != kind })
}

// noticed gives those of what somebody did, and of what came of it: on a busy machine a check may take too long, and
// what an examination finds is told some time later.
func (s *sidecar) noticed(after uint64) []state.Event {
	s.t.Helper()
	return slices.DeleteFunc(s.events(after, ""), func(e state.Event) bool { return e.Kind == state.KindCheck || e.Kind == state.KindFinding })
}

// seq gives the number of the last event.
func (s *sidecar) seq() uint64 {
	s.t.Helper()
	es := s.events(0, "")
	return es[len(es)-1].Seq
}

// must fails the test on an error of what only sets the stage.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// has tells whether the node's lo has the anycast address now.
func (s *sidecar) has() bool {
	s.t.Helper()
	out, err := s.Run(s.t.Context(), "ip", "-br", "addr", "show", "dev", "lo")
	must(s.t, err)
	return strings.Contains(out, lab.Service.String())
}

// untilAddress waits until the node's lo has the anycast address, or has it not.
func (s *sidecar) untilAddress(want bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err := lab.Wait(ctx, fmt.Sprintf("the address on lo to be there: %v", want), 5*time.Millisecond, func() (bool, error) { return s.has() == want, nil })
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log())
	}
}
