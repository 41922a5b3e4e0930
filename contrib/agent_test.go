package contrib

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// An agent is a vouch that runs in a node of a lab, under a systemctl which does to it what systemd does to
// the unit.
type agent struct {
	site
	node *lab.Node
}

// systemctl knows the commands that vouch-apply gives: PID file, namespace, program, configuration.
const systemctl = `#!/bin/sh
pid=$(cat %[1]s 2>/dev/null) && kill -0 "$pid" 2>/dev/null || pid=
start() { ip netns exec %[2]s sh -c 'echo $$ >%[1]s; exec %[3]s run --config %[4]s' >>%[1]s.log 2>&1 </dev/null & }
echo "$*" >>%[1]s.calls
case $1 in
is-active) [ -n "$pid" ] ;;
reload) kill -HUP "$pid" ;;
start) start ;;
restart)
	kill "$pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
	start
	until %[3]s status --json --config %[4]s | grep -q '"ready": true'; do sleep 0.05; done ;;
*) exit 1 ;;
esac
`

// newAgent is one that does not run yet.
func newAgent(t *testing.T) *agent {
	t.Helper()
	s := newSite(t, vouch(t)) // which is removed after the network, with which the agent ends
	node, err := lab.Open(t).Node("node")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{s, node}
	write(t, a.systemctl, fmt.Sprintf(systemctl, a.path("pid"), node.Namespace(), a.binary, a.config()))
	return a
}

// data is a configuration of a service that is always up.
func (a *agent) data() map[string]any {
	return map[string]any{
		"agent": map[string]any{"state_file": a.path("state.json")}, "control": map[string]any{"socket": a.path("control.sock")},
		"router": map[string]any{"daemon": "kernel"},
		"service": map[string]any{"resolver": map[string]any{
			"prefixes": []string{"192.0.2.53/32"}, "interval": "200ms",
			"check": map[string]any{"up": map[string]any{"type": "exec", "command": []string{"/bin/true"}}},
		}},
	}
}

// start starts the agent and waits until it announces.
func (a *agent) start(t *testing.T) {
	t.Helper()
	must(t, nil, a.systemctl, "start")
	a.waitAnnounced(t)
}

func (a *agent) waitAnnounced(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := lab.Wait(ctx, "the address", 10*time.Millisecond, func() (bool, error) {
		as, err := a.node.Addresses("lo")
		return slices.Contains(as, netip.MustParseAddr("192.0.2.53")), err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, read(t, a.path("pid.log")))
	}
}

func (a *agent) pid(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, a.path("pid"))))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// calls are the systemctl commands since the last time, without the questions.
func (a *agent) calls(t *testing.T) string {
	t.Helper()
	var done []string
	for line := range strings.Lines(read(t, a.path("pid.calls"))) {
		if !strings.HasPrefix(line, "is-active") {
			done = append(done, strings.TrimSpace(line))
		}
	}
	if err := os.Truncate(a.path("pid.calls"), 0); err != nil {
		t.Fatal(err)
	}
	return strings.Join(done, ", ")
}

func (a *agent) says(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := run(t, nil, append([]string{a.binary}, append(args, "--config", a.config())...)...)
	return out
}

func (a *agent) vouchApply(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return run(t, a.applyEnv(), append([]string{absolute(t, "ansible/roles/vouch/files/vouch-apply")}, args...)...)
}

func (a *agent) applyEnv() []string {
	return append(a.env(), "VOUCH="+a.binary, "VOUCH_CONFIG="+a.config())
}

// configure writes the configuration as a tool does: beside its place, and then moved there.
func (a *agent) configure(t *testing.T, data map[string]any) {
	t.Helper()
	text, err := renderSalt(t, a.site, "vouch/files/vouch.toml.jinja", map[string]any{"config": data})
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	next := write(t, filepath.Join(filepath.Dir(a.config()), ".next"), text)
	if err := os.Rename(next, a.config()); err != nil {
		t.Fatal(err)
	}
}

// TestApply: each change is put in force in the least way that does it, or is not, and that is told.
func TestApply(t *testing.T) {
	need(t, python, jinja)
	a := newAgent(t)
	data := a.data()
	a.configure(t, data)
	if out, err := a.vouchApply(t, "--check"); err != nil {
		t.Errorf("vouch does not run, so that all is well: %v: %s", err, out)
	}
	a.start(t)
	a.calls(t)
	step := func(what string, data map[string]any, calls, says string, args ...string) {
		t.Helper()
		a.configure(t, data)
		if out, err := a.vouchApply(t, "--check"); err == nil {
			t.Errorf("%s: not seen to be not in force: %s", what, out)
		}
		out, err := a.vouchApply(t, args...)
		if (err != nil) != (says != "") || !strings.Contains(out, says) {
			t.Errorf("%s: got %v, want %q:\n%s", what, err, says, out)
		}
		if got := a.calls(t); got != calls {
			t.Errorf("%s: systemctl %q, want %q", what, got, calls)
		}
		if out, err := a.vouchApply(t, "--check"); (err != nil) != (says != "") {
			t.Errorf("%s: then --check: %v: %s", what, err, out)
		}
	}
	data = with(data, 5, "service", "resolver", "fall")
	step("a service", data, "reload vouch", "")
	data = with(data, "debug", "agent", "log_level")
	step("[agent]", data, "reload vouch, restart vouch", "")
	if got := a.says(t, "config", "show"); !strings.Contains(got, `log_level = "debug"`) {
		t.Errorf("the new [agent] is not there: %s", got)
	}
	step("what vouch refuses", with(data, "1s", "service", "resolver", "intervall"), "", "intervall")
	moved := with(data, "4s", "router", "deadline")
	step("[router]", moved, "reload vouch", "one node after the other")
	step("[router], again", moved, "reload vouch", "one node after the other")
	a.waitAnnounced(t)
	step("[router], drained", moved, "reload vouch, restart vouch", "", "--drain")
	a.waitAnnounced(t)
	if got := a.says(t, "events"); !strings.Contains(got, "vouch-apply: [router] has changed") || strings.Contains(a.says(t, "status"), "drained by") {
		t.Errorf("it was not drained and resumed:\n%s%s", got, a.says(t, "status"))
	}
}

// TestApplyLeavesDrainsAlone: what an operator has drained is still drained after a drain of the script's.
func TestApplyLeavesDrainsAlone(t *testing.T) {
	need(t, python, jinja)
	a := newAgent(t)
	a.configure(t, a.data())
	a.start(t)
	a.says(t, "drain", "resolver", "--for", "1h", "--reason", "by hand")
	a.configure(t, with(a.data(), "4s", "router", "deadline"))
	if out, err := a.vouchApply(t, "--drain"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got := a.says(t, "status"); !strings.Contains(got, "by hand") {
		t.Errorf("the drain is gone:\n%s", got)
	}
}

// TestAnsible: the role on a node from the first run on.
func TestAnsible(t *testing.T) {
	t.Parallel()
	need(t, ansible)
	a := newAgent(t)
	play := func(what string, data map[string]any, recap string, options ...string) string {
		t.Helper()
		out, _ := runAnsible(t, a.site, data, options...)
		if got := out[max(0, strings.LastIndex(out, "localhost")):]; !strings.Contains(strings.Join(strings.Fields(got), " "), recap) {
			t.Errorf("%s: want %q:\n%s", what, recap, out)
		}
		return out
	}
	play("a dry run before all", a.data(), "changed=3 unreachable=0 failed=0", "--check", "--diff")
	if exists(a.config()) {
		t.Error("the dry run has written the file")
	}
	play("the first run", a.data(), "changed=3 unreachable=0 failed=0")
	a.start(t)
	play("nothing is new", a.data(), "changed=0 unreachable=0 failed=0")
	if got := a.calls(t); got != "start" {
		t.Errorf("systemctl %q for nothing", got)
	}
	pid := a.pid(t)
	more := with(a.data(), 5, "service", "resolver", "fall")
	play("a dry run of a change", more, "changed=1 unreachable=0 failed=0", "--check")
	play("a change", more, "changed=3 unreachable=0 failed=0")
	if got := a.calls(t); got != "reload vouch" || a.pid(t) != pid {
		t.Errorf("systemctl %q, want a reload", got)
	}
	moved := with(more, "4s", "router", "deadline")
	for range 2 { // it goes on failing until somebody has done something about it
		if out := play("[router]", moved, "failed=1"); !strings.Contains(out, "one node after the other") {
			t.Errorf("it does not say what to do:\n%s", out)
		}
	}
}

// TestPuppet: the module on a node.
func TestPuppet(t *testing.T) {
	t.Parallel()
	need(t, puppet)
	must(t, nil, puppetArgs(newSite(t, ""), "parser", "validate", "puppet/vouch/manifests/init.pp")...)
	a := newAgent(t)
	apply := func(what string, data map[string]any, changes bool, options ...string) {
		t.Helper()
		out, err := runPuppet(t, a.site, data, append(options, "--detailed-exitcodes")...)
		if status := exitStatus(err); status != map[bool]int{false: 0, true: 2}[changes] {
			t.Errorf("%s: exit status %d:\n%s", what, status, out)
		}
	}
	apply("a dry run", a.data(), false, "--noop")
	if exists(a.config()) {
		t.Error("the dry run has written the file")
	}
	apply("the first run", a.data(), true)
	a.start(t)
	apply("nothing is new", a.data(), false)
	a.calls(t)
	apply("a change", with(a.data(), 5, "service", "resolver", "fall"), true)
	if got := a.calls(t); got != "reload vouch" {
		t.Errorf("systemctl %q, want a reload", got)
	}
}

// TestSaltState: the state is YAML whose requirements are there, and asks vouch before it changes anything.
func TestSaltState(t *testing.T) {
	need(t, python, jinja)
	s := newSite(t, "")
	for _, pillar := range []map[string]any{
		{"config": map[string]any{}},
		{"config": map[string]any{}, "deb": "salt://vouch.deb", "router_change": "drain", "manage_service": false},
	} {
		text, err := renderSalt(t, s, "vouch/init.sls", pillar)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		file := write(t, s.path("init.yaml"), text)
		state := must(t, nil, python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", file)
		states := decode(t, state)
		for _, want := range []string{`"check_cmd": "/usr/bin/vouch validate --config"`, `"unless": "/usr/local/sbin/vouch-apply --check"`} {
			if !strings.Contains(state, want) {
				t.Errorf("no %s in %s", want, state)
			}
		}
		if _, manages := states["vouch-service"]; manages == (pillar["manage_service"] == false) {
			t.Errorf("vouch-service: %v with %v", manages, pillar)
		}
		if drains := strings.Contains(state, "vouch-apply --drain"); drains != (pillar["router_change"] == "drain") {
			t.Errorf("drains: %v with %v", drains, pillar)
		}
		for id, of := range requisites(states) {
			if _, there := states[of]; !there {
				t.Errorf("%s requires %s, which is not there", id, of)
			}
		}
	}
}

// requisites are what each state requires, or is required in.
func requisites(states map[string]any) map[string]string {
	found := map[string]string{}
	for id, state := range states {
		for _, args := range state.(map[string]any) {
			for _, arg := range args.([]any) {
				for key, list := range arg.(map[string]any) {
					if key != "require" && key != "require_in" {
						continue
					}
					for i, r := range list.([]any) {
						for _, of := range r.(map[string]any) {
							found[fmt.Sprintf("%s %s %d", id, key, i)] = of.(string)
						}
					}
				}
			}
		}
	}
	return found
}
