package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
)

// others are changes that are no business of vouch's.
const (
	other  = "protocols static route 198.51.100.0/24 blackhole"
	other2 = "protocols static route 198.51.101.0/24 blackhole"
	node   = "protocols static route 10.53.54.1/32"
)

// patient has nothing put right by the deadline that makes vouch ask for a change once more.
var patient = way{"config", viaConfig.lines + "\ndeadline = \"10m\""}

// A scene is something that somebody does, or that happens to VyOS, beside a vouch with method static.
type scene struct {
	name   string
	style  string // that it is played for; with -all it is for every one
	system vyostest.Options
	way    way // zero: patient
	play   func(r *router)
}

var scenes = []scene{
	{name: "operator commits", style: vyostest.RerenderStatic, play: func(r *router) {
		r.announced()
		seq := r.seq()
		r.system.OperatorCommit("set " + other)
		r.still(seq, routers.Advertised)
		r.withdrawn()
		seq = r.seq()
		r.system.OperatorCommit("set " + other2)
		r.still(seq, routers.Absent)
		r.configured(true, other, other2)
	}},
	{name: "operator commits beside kernel routes", style: vyostest.RerenderLate, way: viaKernel, play: func(r *router) {
		r.announced()
		seq := r.seq()
		r.system.OperatorCommit("set " + other)
		r.system.OperatorCommit("delete protocols static")
		r.system.HoldLock()
		r.still(seq, routers.Advertised)
		r.withdrawn()
	}},
	{name: "death beside an operator's commit", style: vyostest.RerenderStatic, play: func(r *router) {
		r.announced()
		r.system.Fault(vyostest.CommitSlow, 1, "2s")
		done := make(chan struct{})
		go func() { defer close(done); r.system.OperatorCommit("set " + other) }()
		r.locked()
		r.put("answers", false)
		r.core(false, false, anycast...)
		<-done
		r.becomes(routers.Absent, false)
		r.configured(true, other)
	}},
	{name: "operator edits", style: vyostest.RerenderLate, play: func(r *router) {
		o := r.system.Operator()
		o.Edit("set system host-name r2", "set "+other)
		r.announced()
		r.withdrawn()
		r.put("answers", true)
		r.becomes(routers.Advertised, false)
		r.configured(false, "system host-name r2", other)
		o.Edit("delete system host-name r1")
		o.Commit()
		o.Exit()
		r.configured(true, "system host-name r2", other, node+" blackhole")
		r.system.OperatorCommit("set system host-name r1", "delete system host-name r2")
	}},
	{name: "commit-confirm", style: vyostest.RerenderLate, play: func(r *router) {
		r.put("answers", false)
		r.start()
		r.becomes(routers.Absent, false)
		confirm, _ := r.system.CommitConfirm("set " + other)
		r.put("answers", true)
		r.complains("a commit-confirm is pending", "run confirm")
		r.core(false, false, anycast...)
		confirm()
		r.becomes(routers.Advertised, false)
		_, revert := r.system.CommitConfirm("set " + other2)
		r.withdrawn()
		revert()
		r.becomes(routers.Absent, false)
		r.configured(false, other2, node+" blackhole")
	}},
	{name: "operator deletes", style: vyostest.Incremental, play: func(r *router) {
		r.announced()
		for _, what := range []string{node, "protocols static"} {
			seq := r.seq()
			r.system.OperatorCommit("delete " + what)
			r.wait("vouch to see it", func() error {
				if len(r.events(seq, state.KindStage)) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			r.becomes(routers.Advertised, false)
			r.configured(true, node+" blackhole")
		}
	}},
	{name: "operator adds a next hop", style: vyostest.RerenderStatic, play: func(r *router) {
		r.announced()
		r.system.OperatorCommit("set " + node + " next-hop 10.0.1.1")
		r.until("it to be told", func(n *state.Snapshot) bool { return strings.Contains(n.Services[0].Prefixes[0].Detail, "not ours") })
		r.put("answers", false)
		r.core(false, false, anycast[1])
		r.configured(false, node+" blackhole")
		r.configured(true, node+" next-hop 10.0.1.1")
		r.system.OperatorCommit("delete " + node)
		r.becomes(routers.Absent, false)
	}},
	{name: "lock", style: vyostest.RerenderStatic, play: func(r *router) {
		r.announced()
		release := r.system.HoldLock()
		r.put("answers", false)
		r.core(false, false, anycast...)
		r.complains("VyOS's configuration is locked by pid ", "hold")
		release()
		r.becomes(routers.Absent, false)
	}},
	{name: "booted with errors", style: vyostest.Incremental, play: func(r *router) {
		r.system.Boot("1")
		r.announced()
		if out, _ := r.says("doctor"); !strings.Contains(out, "VyOS booted with errors") || strings.Contains(out, "bird") {
			r.t.Errorf("doctor says:\n%s", out)
		}
		r.withdrawn()
	}},
	{name: "boots", style: vyostest.Incremental, system: vyostest.Options{NoBoot: true}, play: func(r *router) {
		r.start()
		r.complains("VyOS has not finished its boot")
		r.system.Boot("0")
		r.becomes(routers.Advertised, false)
	}},
	{name: "vouch is killed in a commit", style: vyostest.RerenderStatic, play: func(r *router) {
		r.announced()
		r.system.Fault(vyostest.CommitSlow, 1, "1s")
		r.put("answers", false)
		r.locked()
		must(r.t, r.proc.Kill())
		r.core(false, false, anycast...)
		r.start()
		r.becomes(routers.Absent, false)
		r.put("answers", true)
		r.becomes(routers.Advertised, false)
	}},
}

// TestVyOSScenes: vouch stands what others do to VyOS, says what keeps it, and takes nothing of theirs along.
func TestVyOSScenes(t *testing.T) {
	t.Parallel()
	l := openVyOSLab(t)
	for _, sc := range scenes {
		for _, style := range styles {
			if style != sc.style && !*all {
				continue
			}
			t.Run(strings.ReplaceAll(sc.name, " ", "-")+"/"+style, func(t *testing.T) {
				sc.system.Style = style
				r := newRouter(t, l, sc.system, cmp.Or(sc.way, patient), "withdraw")
				sc.play(r)
				r.end()
				r.core(false, false, anycast...)
				_, err := r.FRR.Vtysh(t.Context(), "configure terminal", "no ip route 198.51.100.0/24 blackhole", "no ip route 198.51.101.0/24 blackhole")
				must(t, err)
			})
		}
	}
}

// announced starts vouch and waits until all is announced.
func (r *router) announced() { r.t.Helper(); r.start(); r.becomes(routers.Advertised, false) }

// withdrawn has the service die.
func (r *router) withdrawn() {
	r.t.Helper()
	r.put("answers", false)
	r.becomes(routers.Absent, false)
}

// still wants vouch to read everything anew, and the prefixes as they were since an event.
func (r *router) still(seq uint64, stage routers.Stage) {
	r.t.Helper()
	now := r.until("a status", func(*state.Snapshot) bool { return true }).Time
	r.until("a reading", func(n *state.Snapshot) bool { return n.Router.Read.After(now) })
	for _, e := range r.events(seq, state.KindStage) {
		r.t.Errorf("on the way: %s: %s", e.Prefix, e.Text)
	}
	r.becomes(stage, false)
}

// configured wants VyOS's configuration to have lines, or not to have them.
func (r *router) configured(want bool, lines ...string) {
	r.t.Helper()
	r.wait(fmt.Sprintf("VyOS to have %q: %t", lines, want), func() error {
		active := r.system.Active()
		if slices.ContainsFunc(lines, func(l string) bool { return slices.Contains(active, l) != want }) {
			return fmt.Errorf("it has %q", active)
		}
		return nil
	})
}

// locked waits until somebody commits.
func (r *router) locked() {
	r.t.Helper()
	r.wait("a commit", func() error {
		if !r.system.Locked() {
			return errors.New("not yet")
		}
		return nil
	})
}

// complains waits until vouch says of each prefix why it is not as it ought to be, where people look for it.
func (r *router) complains(words ...string) {
	r.t.Helper()
	lacks := func(text string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
	r.until(fmt.Sprintf("to say %q", words), func(n *state.Snapshot) bool {
		return !slices.ContainsFunc(n.Services[0].Prefixes, func(p state.Prefix) bool { return lacks(p.Error) })
	})
	for _, args := range [][]string{{"status"}, {"explain", "web"}, {"events"}} {
		if out, _ := r.says(args...); lacks(strings.Join(strings.Fields(out), " ")) {
			r.t.Errorf("vouch %s does not say %q:\n%s", args[0], words, out)
		}
	}
}

// TestVyOSIsNotChosen: with daemon = "auto" nothing is done to the FRR of a VyOS, and all say what to write.
func TestVyOSIsNotChosen(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{})
	s := newSidecar(t, l.Nodes[0])
	s.write(strings.Replace(basic, "\"frr\"", "\"auto\"", 1))
	path, err := built()
	must(t, err)
	// Only its commit program tells a VyOS.
	onVyOS := func(args ...string) []string {
		return append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs tmpfs /opt && mkdir -p /opt/vyatta/sbin && : >/opt/vyatta/sbin/my_commit && exec "$@"`,
			"sh", path, "--config", s.toml}, args...)
	}
	const wayOut = `set daemon = "vyos" in [router]`
	s.proc, err = s.Start("vouch", onVyOS("run")...)
	must(t, err)
	s.until("to say what to write", func(n *state.Snapshot) bool {
		return n.Services[0].Verdict == health.Up && strings.Contains(n.Router.Error, wayOut)
	})
	for _, command := range []string{"check", "doctor", "status", "events"} {
		out, err := s.Run(t.Context(), onVyOS(command)...)
		if (err == nil) != (command == "events") || strings.Count(out, wayOut) == 0 {
			t.Errorf("vouch %s: %v\n%s", command, err, out)
		}
	}
	if s.has() {
		t.Error("the address was put there all the same")
	}
}
