package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/detect"
	"vouch/routers/lab"
)

// What the agent knows is told, but for what the doctor found itself.
func TestAgentSays(t *testing.T) {
	now := time.Now()
	p := func(since time.Duration) state.Prefix {
		return state.Prefix{Prefix: "10.53.53.53/32", Want: routers.Withdrawn, Stage: routers.Advertised, Diverged: now.Add(-since), Detail: "given to core4", Error: "bird: no"}
	}
	snap := &state.Snapshot{Time: now, Problems: []string{findingText(denied), "/etc/bird/vouch.conf: cannot be replaced"}, Warnings: []string{"kernel events are lost"},
		Config:   state.Config{Error: "vouch.toml:1:1: no"},
		Services: []state.Service{{Prefixes: []state.Prefix{p(time.Minute), p(time.Second), {Prefix: "10.53.53.54/32"}}}}}
	got := lines(agentSays(cli.DoctorOptions{Agent: snap}, []routers.Finding{denied}))
	want := []string{"fail the agent: /etc/bird/vouch.conf: cannot be replaced", "warn the agent: kernel events are lost",
		"warn the agent: goes on with the configuration of before, as the last reload was refused: vouch.toml:1:1: no",
		"fail 10.53.53.53/32: the agent has been trying for 1m0s: it ought to be withdrawn and is advertised; given to core4; bird: no"}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for err, want := range map[error]int{nil: 0, fmt.Errorf("x: %w", control.ErrNotRunning): 0, errors.New("permission denied"): 1} {
		if got := lines(agentSays(cli.DoctorOptions{AgentError: err}, nil)); len(got) != want {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestPowers(t *testing.T) {
	for _, c := range []struct {
		rc   config.Router
		net  bool
		want int
	}{
		{config.Router{Daemon: "bird", Method: "address"}, false, 1}, {config.Router{Daemon: "bird", Method: "address"}, true, 0},
		{config.Router{Daemon: "frr", Method: "address", Owner: "frr"}, false, 0}, {config.Router{Daemon: "bird", Method: "include"}, false, 0},
		{config.Router{Daemon: "program", Method: "address"}, false, 0},
	} {
		if got := powers(c.rc, detect.User{Name: "vouch", Net: c.net}); len(got) != c.want {
			t.Errorf("%+v, %t: %q", c.rc, c.net, lines(got))
		}
	}
}

// Another daemon has come beside the one that the agent drives: that one is looked at, and it is said what would become
// of the next start.
func TestDoctorBesideAnAgentOfTwo(t *testing.T) {
	t.Parallel()
	node, err := lab.Open(t, lab.BIRDHost).Node("node")
	must(t, err)
	f, err := node.FRR(t.Context(), "router ospf\n ospf router-id 10.0.0.1\n", "ospfd")
	must(t, err)
	b, err := node.BIRD(t.Context(), lab.BIRDHost, "router id 10.0.0.2;\nprotocol device { }\n")
	must(t, err)
	table := fmt.Sprintf("socket_dir = %q\nsocket = %q\n", f.SocketDir(), b.Socket())
	for name, c := range map[string]struct {
		router string
		ok     bool
		line   string
	}{
		"frr":  {"frr 8.4.4 (address on lo, ospf), found by x", true, "warn auto: frr is driven, and bird 2.0.12 runs too (" + b.Socket()},
		"bird": {"bird 2.0.12 (address on lo), found by x", true, "warn auto: bird is driven, and frr 8.4.4 runs too"},
		"none": {"auto (no daemon chosen)", false, "fail router: more than one routing daemon"},
	} {
		r := doctorBeside(t, node, table, &state.Snapshot{Time: time.Now(), Router: state.Router{Name: c.router, OK: true}})
		if got := lines(r.Findings); r.Router.OK != c.ok || !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, c.line) }) {
			t.Errorf("%s: %+v\n%s", name, r.Router, strings.Join(got, "\n"))
		}
		if c.ok && !strings.HasPrefix(r.Router.Name, name+" ") {
			t.Errorf("%s: %s is looked at", name, r.Router.Name)
		}
	}
}

// doctorBeside is doctorOn beside an agent.
func doctorBeside(t *testing.T, node *lab.Node, table string, snap *state.Snapshot) *cli.DoctorReport {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vouch.toml")
	must(t, os.WriteFile(file, []byte("[router]\n"+table+doctorServices), 0o644))
	cfg, err := config.Load(file)
	must(t, err)
	var r *cli.DoctorReport
	_ = node.Do(func() error {
		r = doctor(t.Context(), cli.DoctorOptions{ConfigPath: file, Config: cfg, Agent: snap})
		return nil
	})
	return r
}

// What a program made of a prefix only the agent knows that ran it.
func TestAsTheAgent(t *testing.T) {
	snap := &state.Snapshot{Services: []state.Service{{Prefixes: []state.Prefix{{Prefix: vip.String(), Stage: routers.Configured, Detail: "up ran"}}}}}
	got := asTheAgent(snap, []routers.Observation{{Prefix: vip, Detail: "none was run yet"}, {Prefix: netip.MustParsePrefix("192.0.2.9/32"), Detail: "x"}})
	if got[0].Stage != routers.Configured || got[0].Detail != "up ran" || got[1].Detail != "x" {
		t.Errorf("%+v", got)
	}
}

// A daemon is looked for at the usual places too where it is not at the one that was set.
func TestDoctorLooksAtTheUsualPlaces(t *testing.T) {
	node, err := lab.Open(t, lab.BIRDHost).Node("node")
	must(t, err)
	b, err := node.BIRD(t.Context(), lab.BIRDHost, "router id 10.0.0.2;\nprotocol device { }\n")
	must(t, err)
	old := bird.Sockets
	bird.Sockets = []string{b.Socket()}
	defer func() { bird.Sockets = old }()
	r := doctorOn(t, node, "daemon = \"bird\"\nsocket = \"/nonexistent/bird.ctl\"\n")
	got := strings.Join(lines(r.Findings), "\n")
	if want := "note " + b.Socket() + ": bird 2.0.12 answers there, and not at /nonexistent/bird.ctl as [router] has it"; !strings.Contains(got, want) || strings.Count(got, "fail bird") != 1 || strings.Contains(got, "fail router") {
		t.Error(got)
	}
	r = doctorOn(t, node, fmt.Sprintf("daemon = \"bird\"\nsocket = %q\n", b.Socket()))
	if got := strings.Join(lines(r.Findings), "\n"); strings.Contains(got, "answers there") {
		t.Error(got)
	}
}
