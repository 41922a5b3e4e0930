package vyostest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"vouch/routers/vyos/vyostest"
)

// The prefixes in the rows: one of each family, and one more.
const (
	p4    = "192.0.2.0/25"
	q4    = "192.0.2.129/32"
	p6    = "2001:db8:77::/48"
	black = "protocols static route " + p4 + " blackhole"
)

const showDiff = "--show-cfg1 @ACTIVE --show-cfg2 @WORKING --show-commands showConfig"

// A step is one program that is run, and what it has to answer.
type step struct {
	line string // its name and arguments, such as "my_set protocols"
	want result
}

// ok is a program that says nothing and answers 0; no answers 1.
func ok(line string) step { return step{line: line} }
func no(line string) step { return step{line, result{code: 1}} }

// says is one that says these lines.
func says(line string, code int, lines ...string) step {
	out := ""
	for _, l := range lines {
		out += l + "\n"
	}
	return step{line, result{code: code, out: out}}
}

// A row is one line of the table: what programs answer, in one session of their own.
type row struct {
	name    string
	fault   string // what goes wrong, on the stand-in only
	args    []string
	prepare func(*router) // on the stand-in only
	standin bool          // a router has no such thing, or says it in other words
	steps   []step
}

const (
	notValid = " is not valid"
	locked   = "Configuration system temporarily locked due to another commit in progress"
	file     = "/tmp/vouchtest.config" // what is saved to
)

// down is what a commit says without staticd.
var down = []string{"[ protocols static ]", "VyOS had an issue completing a command.", "", "Traceback (most recent call last):",
	"Exiting: failed to connect to any daemons.", "", "[[protocols static]] failed", "Commit failed"}

// direct is the contract of the programs themselves.
var direct = []row{
	{name: "set, new", steps: []step{no("sessionChanged"), ok("my_set " + black), ok("sessionChanged")}},
	{name: "set, IPv6", steps: []step{ok("my_set protocols static route6 " + p6 + " blackhole"), ok("exists protocols static route6 " + p6)}},
	{name: "set, exists", steps: []step{ok("my_set " + black),
		says("my_set "+black, 0, "Configuration path: ["+black+"] already exists")}},
	{name: "set, bad path", steps: []step{says("my_set protocols static rout3 "+p4+" blackhole", 1,
		"Configuration path: [protocols static rout3 "+p4+" blackhole]"+notValid, "Set failed"), no("sessionChanged")}},
	{name: "set, bad value", steps: []step{says("my_set protocols static route 192.0.2.1/25 blackhole", 1,
		"Error: 192.0.2.1/25 is not a valid IPv4 prefix", "Invalid value", "Value validation failed", "Set failed")}},
	{name: "set, no value", steps: []step{says("my_set protocols static route", 1,
		"Configuration path: [protocols static route] requires a value", "Set failed")}},
	{name: "set, short words", steps: []step{says("my_set prot stat route "+p4+" blackhole", 1,
		"Configuration path: [prot stat route "+p4+" blackhole]"+notValid, "Set failed")}},
	{name: "set, ambiguous word", steps: []step{says("my_set p", 1, "Configuration path: [p]"+notValid, "Set failed")}},
	{name: "set, without permission", fault: vyostest.SetFailed, args: []string{"my_set"},
		steps: []step{says("my_set "+black, 1, "Set failed"), no("sessionChanged"), ok("my_set " + black)}},
	{name: "delete, without permission", fault: vyostest.SetFailed, args: []string{"my_delete"},
		steps: []step{ok("my_set " + black), says("my_delete "+black, 1, "Set failed"), ok("exists " + black), ok("my_delete " + black)}},
	{name: "delete, absent", steps: []step{says("my_delete protocols static route "+p4, 0,
		"Nothing to delete (the specified node does not exist)"), no("sessionChanged")}},
	{name: "delete, absent value", steps: []step{ok("my_set " + black + " distance 7"), says("my_delete "+black+" distance 5", 0,
		"Nothing to delete (the specified value does not exist)")}},
	{name: "delete, bad path", steps: []step{says("my_delete protocols static rout3 "+p4, 1,
		"Configuration path: [protocols static rout3 "+p4+"]"+notValid, "Delete failed")}},
	{name: "commit and delete", steps: []step{no("sessionUnsaved"), ok("my_set " + black),
		says(showDiff, 0, "set 'protocols' 'static' 'route' '"+p4+"' 'blackhole'"), no("sessionUnsaved"),
		no("existsActive " + black), ok("my_commit"), ok("existsActive " + black), no("sessionChanged"), ok("sessionUnsaved"),
		says("my_discard", 0, "No changes have been discarded"), ok("my_set protocols static route " + q4 + " blackhole distance 9"), ok("my_commit"),
		ok("my_delete protocols static route " + q4), says(showDiff, 0, "delete 'protocols' 'static' 'route' '"+q4+"'"),
		ok("my_commit"), no("existsActive protocols static route " + q4), ok("unmarkSessionUnsaved"), no("sessionUnsaved")}},
	{name: "commit, nothing", steps: []step{ok("my_commit"), no("sessionUnsaved"), says("hold my_commit", 1, locked)}},
	{name: "set and deleted again", steps: []step{ok("my_set " + black), ok("my_commit"), ok("my_set " + black + " distance 7"),
		ok("my_delete " + black + " distance"), ok(showDiff), ok("sessionChanged"), ok("my_commit"), no("sessionChanged"),
		ok("my_set " + black + " distance 7"), ok("my_delete " + black + " distance"),
		says("my_discard", 0, "Changes have been discarded"), no("sessionChanged")}},
	{name: "commit, lock busy", steps: []step{ok("my_set " + black), says("hold my_commit", 1, locked), ok("sessionChanged"),
		no("existsActive " + black)}},
	{name: "commit, another in progress", prepare: commits, steps: []step{ok("my_set " + black), says("my_commit", 1, locked), no("existsActive " + black)}},
	{name: "commit, script refuses", fault: vyostest.CommitRefused, args: []string{"It must not be"}, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "[ protocols static ]", "It must not be", "", "[[protocols static]] failed", "Commit failed"),
		ok("sessionChanged"), no("existsActive " + black)}},
	{name: "commit, reason lost", fault: vyostest.CommitRefusedSilent, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "[[protocols static]] failed", "Commit failed")}},
	{name: "commit, delete part fails", fault: vyostest.CommitDeleteFailed, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "delete [ protocols static ] failed", "Commit failed")}},
	{name: "commit, internal", fault: vyostest.CommitInternal, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "Failed to generate committed config"), no("existsActive " + black), no("sessionUnsaved")}},
	{name: "commit, directories left", fault: vyostest.CommitTempLeft, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "failed to remove temp directories", "Failed to generate committed config"), ok("existsActive " + black)}},
	{name: "commit, daemon down", prepare: stopStaticd, steps: []step{ok("my_set " + black), says("my_commit", 1, down...), no("existsActive " + black)}},
	{name: "commit, part fails", fault: vyostest.CommitPartialOurs, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "", "[[service ssh]] failed", "Commit failed"), ok("existsActive " + black)}},
	{name: "commit, other part", fault: vyostest.CommitPartialOther, steps: []step{ok("my_set " + black),
		says("my_commit", 1, "", "[[service ssh]] failed", "Commit failed"), no("existsActive " + black)}},
	{name: "no session", steps: []step{ok("inSession"), ok("my_set " + black), ok("teardownSession"), no("inSession"), no("sessionChanged"),
		no("sessionUnsaved"), says("my_set "+black, 139), says("my_delete "+black, 139), says("my_commit", 139)}},
	{name: "discard", steps: []step{says("my_discard", 0, "No changes have been discarded"), ok("my_set " + black),
		says("my_discard", 0, "Changes have been discarded"), no("sessionChanged")}},
	{name: "delete of a value", steps: []step{ok("my_set " + black + " tag 7"), ok("my_delete " + black + " tag"), ok("exists " + black),
		ok("my_delete " + black), ok("exists protocols static route " + p4), ok("my_delete protocols static route " + p4),
		no("exists protocols static route " + p4)}},
	{name: "session again", steps: []step{ok("my_set " + black), ok("setupSession"), ok("sessionChanged")}},
	{name: "save", steps: []step{ok("my_set " + black), ok("save " + file), {"save /nonexistent/file", result{1, anything, anything}}, ok("sessionChanged")}},
}

// commits has an operator commit for as long as the row takes.
func commits(r *router) {
	o := r.system.Operator()
	o.Edit("set service ssh")
	release := o.Committing()
	r.Cleanup(func() {
		release()
		o.Edit("delete service")
		o.Commit()
		o.Exit()
	})
}

func stopStaticd(r *router) {
	if err := r.frr.StopDaemon("staticd"); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := r.frr.StartDaemon(context.WithoutCancel(r.Context()), "staticd"); err != nil {
			r.Error(err)
		}
	})
}

// places are where the programs of the steps are; what is not here is asked of cli-shell-api.
var places = map[string]string{"my_set": sbin + "my_set", "my_delete": sbin + "my_delete", "my_commit": sbin + "my_commit", "my_discard": sbin + "my_discard",
	"save": "/usr/libexec/vyos/vyos-save-config.py"}

const sbin = "/opt/vyatta/sbin/"

func (r *router) step(env []string, s step) {
	r.Helper()
	words := strings.Fields(s.line)
	if words[0] == "hold" {
		defer hold(r)()
		words = words[1:]
	}
	path, args := "/usr/bin/cli-shell-api", words
	if place, ok := places[words[0]]; ok {
		path, args = place, words[1:]
	}
	if _, err := os.Stat(r.path(path)); err != nil { // before 1.4 there is another that saves
		r.Skipf("not on this router: %v", err)
	}
	r.wants(s.line, r.run(env, path, args...), s.want)
}

// rows runs those that can be on this router. Each leaves it as it was.
func rows(t *testing.T, r *router, table []row, f func(*router, row)) {
	for _, w := range table {
		t.Run(w.name, func(t *testing.T) {
			sub := *r
			sub.TB, sub.made = t, new([]string)
			if r.system == nil && (w.standin || w.fault != "" || w.prepare != nil) {
				t.Skip("not to be had on a router")
			}
			t.Cleanup(sub.sweep)
			t.Cleanup(sub.clean)
			t.Cleanup(func() { _ = os.Remove(sub.path(file)) })
			if w.fault != "" {
				r.system.Fault(w.fault, 1, w.args...)
				t.Cleanup(func() { r.system.Fault(w.fault, 0) })
			}
			if w.prepare != nil {
				w.prepare(&sub)
			}
			f(&sub, w)
		})
	}
}

func TestContractDirect(t *testing.T) {
	r := contract(t, vyostest.Options{NoConfigd: true, Delay: quick})
	rows(t, r, direct, func(r *router, w row) {
		env := r.session(own("contract"))
		for _, s := range w.steps {
			r.step(env, s)
		}
	})
}

// The list of active nodes is for a shell to read. What else there is on the router stays out of it.
func TestContractList(t *testing.T) {
	r := contract(t, vyostest.Options{Delay: quick})
	t.Cleanup(r.clean)
	env := r.session(own("list"))
	if got := r.api(nil, "listActiveNodes", "protocols", "static", "route6", p6); got != (result{}) {
		t.Errorf("of none: %+v", got)
	}
	others := r.api(nil, "listActiveNodes", "protocols", "static", "route").out
	r.step(env, ok("my_set protocols static route "+q4+" blackhole"))
	r.step(env, ok("my_set "+black))
	r.step(env, ok("my_commit"))
	got := r.api(nil, "listActiveNodes", "protocols", "static", "route")
	if want := "'" + p4 + "' '" + q4 + "'"; others == "" && got != (result{out: want}) {
		t.Errorf("%+v, want %s", got, want)
	}
	for _, p := range []string{p4, q4} {
		if !strings.Contains(got.out, "'"+p+"'") {
			t.Errorf("%s is not in %q", p, got.out)
		}
	}
	if others != "" {
		t.Skipf("not tested: what a delete of the last route is shown as: there are others: %s", others)
	}
	r.step(env, ok("my_delete protocols static route "+p4))
	r.step(env, ok("my_delete protocols static route "+q4))
	r.step(env, says(showDiff, 0, "delete 'protocols' 'static' 'route'"))
}

// The environment of a session is what ConfigSession finds in it, and what a shell makes of it.
func TestContractSessionEnv(t *testing.T) {
	r := contract(t, vyostest.Options{Delay: quick})
	tmp := r.path("/opt/vyatta/config/tmp")
	want := " umask 002; { declare -x -r VYATTA_ACTIVE_CONFIGURATION_DIR=" + r.path("/opt/vyatta/config/active") +
		" declare -x -r VYATTA_CHANGES_ONLY_DIR=" + tmp + "/changes_only_4711; declare -x -r VYATTA_TEMP_CONFIG_DIR=" + tmp +
		"/new_config_4711; declare -x -r VYATTA_CONFIG_TMP=" + tmp + "/tmp_4711; declare -x -r VYATTA_CONFIG_TEMPLATE=" +
		r.path("/opt/vyatta/share/vyatta-cfg/templates") + "; } >&/dev/null || true"
	r.step(nil, step{"getSessionEnv 4711", result{out: want}})
}
