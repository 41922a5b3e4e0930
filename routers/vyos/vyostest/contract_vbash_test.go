package vyostest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest"
)

// A script is what vbash reads after the template, and what comes of it. Its lines have "|" between, and so has what
// it says. A line "rc" of it is there as "rc N" in what it says.
type script struct {
	row
	lines    string
	out, err string
	code     int    // the exit status
	router   string // what a router says on stdout, where it has more words: a regular expression; empty: the same
	holds    bool   // another has the lock of commits meanwhile
	commits  bool   // the route of black is in the running configuration then
}

const (
	setFailed = "Set failed"
	gone      = "DEBUG vexit_internal: calling …() without config session"
	nothing   = "Nothing to delete (the specified node does not exist)"
)

// block is how set, delete and discard say something: with an indent, and blank lines around. What commit says is
// not changed.
func block(lines ...string) string { return "|  " + strings.Join(lines, "|  ") + "|" }

// calling is what differs by the release in the words of a command without session.
var calling = regexp.MustCompile(`calling \w+\(\)`)

var scripts = []script{
	{row: row{name: "set, new"}, lines: "set " + black + "|rc", out: "rc 0"},
	{row: row{name: "set, exists"}, lines: "set " + black + "|set " + black + "|rc",
		out: block("Configuration path: ["+black+"] already exists") + "|rc 0"},
	{row: row{name: "set, bad path"}, lines: "set protocols static rout3 " + p4 + "|rc", out: "rc 0",
		err: block("Configuration path: protocols static [rout3]"+notValid, setFailed)},
	{row: row{name: "set, bad value"}, lines: "set protocols static route 192.0.2.1/25 blackhole|rc",
		out: block("Error: 192.0.2.1/25 is not a valid IPv4 prefix", "Invalid value", "Value validation failed", setFailed) + "|rc 0"},
	{row: row{name: "set, no value"}, lines: "set protocols static route|rc",
		out: block("Configuration path: [protocols static route] requires a value", setFailed) + "|rc 0"},
	{row: row{name: "set, short words"}, lines: "set prot stat route " + p4 + " blackhole|rc|delete prot stat route " + p4 + "|rc|delete prot stat route " + p4,
		out: "rc 0|rc 0|" + block(nothing)},
	{row: row{name: "set, ambiguous word"}, lines: "set p static|rc", out: "|  Possible completions:|    policy|    protocols||  " + setFailed + "||rc 0",
		router: `(?s)Possible completions:.*protocols.*Set failed\nrc 0`, err: "|  Configuration path: [p] is ambiguous"},
	{row: row{name: "set, without permission", fault: vyostest.SetFailed, args: []string{"my_set"}}, lines: "set " + black + "|rc", out: block(setFailed) + "|rc 0"},
	{row: row{name: "delete, without permission", fault: vyostest.SetFailed, args: []string{"my_delete"}},
		lines: "set " + black + "|delete " + black + "|rc", out: block(setFailed) + "|rc 0"},
	{row: row{name: "delete, absent"}, lines: "delete protocols static route " + p4 + "|rc", out: block(nothing) + "|rc 0"},
	{row: row{name: "delete, absent value"}, lines: "set " + black + " distance 7|delete " + black + " distance 5|rc",
		out: block("Nothing to delete (the specified value does not exist)") + "|rc 0"},
	{row: row{name: "delete, bad path"}, lines: "delete protocols static rout3|rc", out: "rc 0",
		err: block("Configuration path: protocols static [rout3]"+notValid, "Delete failed")},
	{row: row{name: "commit"}, lines: "set " + black + "|commit|rc|commit|rc", out: "rc 0|No configuration changes to commit|rc 1", commits: true},
	{row: row{name: "set and deleted again"}, lines: "set " + black + "|commit|set " + black + " distance 7|delete " + black + " distance|commit|rc|commit|rc",
		commits: true, out: "rc 0|No configuration changes to commit|rc 1"},
	{row: row{name: "commit, lock busy"}, lines: "set " + black + "|commit|rc|exit|rc|commit|rc", out: locked + "|rc 0|rc 0|rc 0", err: gone, holds: true},
	{row: row{name: "commit, another in progress", prepare: commits}, lines: "set " + black + "|commit|rc", out: locked + "|rc 0"},
	{row: row{name: "commit, script refuses", fault: vyostest.CommitRefused, args: []string{"No"}}, lines: "set " + black + "|commit|rc",
		out: "[ protocols static ]|No||[[protocols static]] failed|Commit failed|rc 0"},
	{row: row{name: "commit, reason lost", fault: vyostest.CommitRefusedSilent}, lines: "set " + black + "|commit|rc",
		out: "[[protocols static]] failed|Commit failed|rc 0"},
	{row: row{name: "commit, delete part fails", fault: vyostest.CommitDeleteFailed}, lines: "set " + black + "|commit|rc",
		out: "delete [ protocols static ] failed|Commit failed|rc 0"},
	{row: row{name: "commit, internal", fault: vyostest.CommitInternal}, lines: "set " + black + "|commit|rc",
		out: "Failed to generate committed config|rc 0"},
	{row: row{name: "commit, directories left", fault: vyostest.CommitTempLeft}, lines: "set " + black + "|commit|rc",
		out: "failed to remove temp directories|Failed to generate committed config|rc 0", commits: true},
	{row: row{name: "commit, daemon down", prepare: stopStaticd}, lines: "set " + black + "|commit|rc", out: strings.Join(down, "|") + "|rc 0"},
	{row: row{name: "discard"}, lines: "discard|rc|set " + black + "|discard|rc|commit|rc",
		out: block("No changes have been discarded") + "|rc 0|" + block("Changes have been discarded") + "|rc 0|No configuration changes to commit|rc 1"},
	{row: row{name: "configure does nothing"}, lines: "set " + black + "|configure|discard", out: block("Changes have been discarded")},
	{row: row{name: "exit drops changes and ends nothing"}, lines: "set " + black + "|exit|rc|echo still here|set " + black + "|rc",
		out: "rc 0|still here|rc 0", err: gone},
	{row: row{name: "exit discard"}, lines: "set " + black + "|exit discard|rc", out: "rc 0", err: gone},
	{row: row{name: "exit with a number"}, lines: "exit 3|rc|builtin exit 4", out: block("Invalid command: [3]") + "|rc 127", code: 4},
	{row: row{name: "unknown command"}, lines: "comit|rc", out: block("Invalid command: [comit]") + "|rc 127"},
	{row: row{name: "a word in a variable"}, lines: "op=set|$op " + black + "|rc|echo $1|commit|rc",
		out: "rc 0|protocols|No configuration changes to commit|rc 1"},
	{row: row{name: "one line"}, lines: "-c set " + black + "; comit", out: block("Invalid command: [comit]"), code: 127},
	{row: row{name: "the last command fails"}, lines: "set " + black + "|false", code: 1},
	{row: row{name: "save"}, lines: "save " + file + "|rc", out: "rc 0", router: `(?s)(Saving configuration to .*)?rc 0`},
	{row: row{name: "save with changes"}, lines: "set " + black + "|save " + file + "|rc",
		out:    "Warning: you have uncommitted changes that will not be saved.||rc 0",
		router: `(?s)Warning: you have uncommitted changes that will not be saved\.\n(Saving configuration to .*)?rc 0`},
	{row: row{name: "save fails"}, lines: "save /nonexistent/file >/dev/null 2>&1|rc", out: "rc 0"},
}

// vbash has a script read from stdin, or for "-c …" from its arguments. Whatever becomes of the script its session
// ends with it; only when it is killed there is something to sweep.
func (r *router) vbash(lines string) result {
	r.Helper()
	pid := filepath.Join(r.TempDir(), "pid")
	begin := []string{"echo $$ >" + pid, "source " + r.path("/opt/vyatta/etc/functions/script-template"),
		`trap "` + r.path("/usr/bin/cli-shell-api") + ` teardownSession >/dev/null 2>&1" EXIT`}
	spec := command.Spec{Path: r.path("/usr/bin/sg"), Args: []string{"vyattacfg", "-c", r.path("/bin/vbash") + " -s"}}
	if one, ok := strings.CutPrefix(lines, "-c "); ok {
		spec.Args[2] = r.path("/bin/vbash") + " -c '" + strings.Join(append(begin, one), "; ") + "'"
	} else {
		text := strings.ReplaceAll("|"+lines+"|", "|", "\n")
		text = strings.ReplaceAll(text, "\ncommit\n", "\n"+r.guard()+"\ncommit\n")
		spec.Stdin = strings.Join(begin, "\n") + strings.ReplaceAll(text, "\nrc\n", "\necho rc $?\n")
	}
	got := r.command(spec)
	if id, err := os.ReadFile(pid); err == nil {
		*r.made = append(*r.made, strings.TrimSpace(string(id)))
	}
	got.err = calling.ReplaceAllString(got.err, "calling …()")
	return got
}

func TestContractVbash(t *testing.T) {
	r := contract(t, vyostest.Options{NoConfigd: true, Delay: quick})
	var table []row
	byName := map[string]script{}
	for _, s := range scripts {
		table = append(table, s.row)
		byName[s.name] = s
	}
	rows(t, r, table, func(r *router, w row) {
		s := byName[w.name]
		if s.holds {
			defer hold(r)()
		}
		got := r.vbash(s.lines)
		r.wants(s.lines, got, s.want(r, got))
		if code := r.api(nil, append([]string{"existsActive"}, strings.Fields(black)...)...).code; (code == 0) != s.commits {
			r.Errorf("%s: existsActive of the route answers %d", s.lines, code)
		}
	})
}

// want is what has to come of the script.
func (s script) want(r *router, got result) result {
	r.Helper()
	text := func(lines string) string {
		if lines == "" {
			return ""
		}
		return strings.ReplaceAll(lines, "|", "\n") + "\n"
	}
	w := result{s.code, text(s.out), text(s.err)}
	if r.system == nil && s.router != "" {
		if w.out = anything; !regexp.MustCompile("^" + s.router + "$").MatchString(trim(got.out)) {
			r.Errorf("%s: stdout %q", s.lines, got.out)
		}
	}
	return w
}

// Whoever is not in the group gets no session.
func TestContractVbashWithoutSession(t *testing.T) {
	r := contract(t, vyostest.Options{})
	if r.system == nil {
		t.Skip("not to be had on a router")
	}
	if err := os.Chmod(r.path("/opt/vyatta/config/tmp"), 0o775); err != nil {
		t.Fatal(err)
	}
	out := r.as(65534, 65534, nil, r.path("/bin/vbash"), "-c", "source "+r.path("/opt/vyatta/etc/functions/script-template")+"\necho on")
	r.wants("a stranger", out, result{1, "\n  Failed to set up config session\n\n", anything})
}
