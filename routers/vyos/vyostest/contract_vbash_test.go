package vyostest_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest"
)

// A script is what vbash reads after the template, and what comes of it. A line "rc" of it is there as "rc N" in
// what it says.
type script struct {
	row
	lines    string
	out, err string
}

const (
	setFailed = "Set failed"
	gone      = "DEBUG vexit_internal: calling …() without config session"
)

// calling is what differs by the release in the words of a command without session.
var calling = regexp.MustCompile(`calling \w+\(\)`)

var scripts = []script{
	{row: row{name: "set, new"}, lines: "set " + black + "|rc", out: "rc 0"},
	{row: row{name: "set, exists"}, lines: "set " + black + "|set " + black + "|rc",
		out: "Configuration path: [" + black + "] already exists|rc 0"},
	{row: row{name: "set, bad path"}, lines: "set protocols static rout3 " + p4 + "|rc", out: "rc 0",
		err: "Configuration path: protocols static [rout3]" + notValid + "|" + setFailed},
	{row: row{name: "set, bad value"}, lines: "set protocols static route 192.0.2.1/25 blackhole|rc",
		out: "Error: 192.0.2.1/25 is not a valid IPv4 prefix|Invalid value|Value validation failed|" + setFailed + "|rc 0"},
	{row: row{name: "set, no value"}, lines: "set protocols static route|rc",
		out: "Configuration path: [protocols static route] requires a value|" + setFailed + "|rc 0"},
	{row: row{name: "set, short words"}, lines: "set prot stat route " + p4 + " blackhole|rc|delete prot stat route " + p4 + "|rc|delete prot stat route " + p4,
		out: "rc 0|rc 0|Nothing to delete (the specified node does not exist)"},
	{row: row{name: "set, without permission", fault: vyostest.SetFailed}, lines: "set " + black + "|rc", out: setFailed + "|rc 0"},
	{row: row{name: "delete, absent"}, lines: "delete protocols static route " + p4 + "|rc",
		out: "Nothing to delete (the specified node does not exist)|rc 0"},
	{row: row{name: "delete, bad path"}, lines: "delete protocols static rout3|rc", out: "rc 0",
		err: "Configuration path: protocols static [rout3]" + notValid + "|Delete failed"},
	{row: row{name: "commit"}, lines: "set " + black + "|commit|rc|commit|rc", out: "rc 0|No configuration changes to commit|rc 1"},
	{row: row{name: "commit, lock busy", args: []string{"hold"}}, lines: "set " + black + "|commit|rc",
		out: "Configuration system temporarily locked due to another commit in progress|rc 0"},
	{row: row{name: "commit, script refuses", fault: vyostest.CommitRefused, args: []string{"No"}}, lines: "set " + black + "|commit|rc",
		out: "[ protocols static ]|No|[[protocols static]] failed|Commit failed|rc 0"},
	{row: row{name: "commit, delete part fails", fault: vyostest.CommitDeleteFailed}, lines: "set " + black + "|commit|rc",
		out: "delete [ protocols static ] failed|Commit failed|rc 0"},
	{row: row{name: "commit, internal", fault: vyostest.CommitInternal}, lines: "set " + black + "|commit|rc",
		out: "Failed to generate committed config|Commit failed|rc 0"},
	{row: row{name: "discard"}, lines: "discard|rc|set " + black + "|discard|rc|commit|rc",
		out: "No changes have been discarded|rc 0|Changes have been discarded|rc 0|No configuration changes to commit|rc 1"},
	{row: row{name: "configure does nothing"}, lines: "set " + black + "|configure|discard", out: "Changes have been discarded"},
	{row: row{name: "exit drops changes and ends nothing"}, lines: "set " + black + "|exit|rc|echo still here|set " + black + "|rc",
		out: "rc 0|still here|rc 0", err: gone},
	{row: row{name: "exit discard"}, lines: "set " + black + "|exit discard|rc", out: "rc 0", err: gone},
	{row: row{name: "exit with a number"}, lines: "exit 3|rc|builtin exit 4", out: "Invalid command: [3]|rc 127|exit 4"},
	{row: row{name: "unknown command"}, lines: "comit|rc", out: "Invalid command: [comit]|rc 127"},
	{row: row{name: "a word in a variable"}, lines: "op=set|$op " + black + "|rc|echo $1|commit|rc",
		out: "rc 0|protocols|No configuration changes to commit|rc 1"},
	{row: row{name: "one line"}, lines: "-c set " + black + "; comit", out: "Invalid command: [comit]|exit 127"},
	{row: row{name: "ambiguous", standin: true}, lines: "set p static|rc", out: "Possible completions:|policy|protocols|" + setFailed + "|rc 0",
		err: "Configuration path: [p] is ambiguous"},
	{row: row{name: "save with changes", standin: true}, lines: "set " + black + "|save|rc",
		out: "Warning: you have uncommitted changes that will not be saved.|rc 0"},
	{row: row{name: "save fails", standin: true}, lines: "save /nonexistent/file >/dev/null|rc", out: "rc 0"},
}

// vbash has a script read from stdin, or for "-c …" from its arguments.
func (r *router) vbash(lines string) result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 3*time.Minute)
	defer cancel()
	source := "source " + r.path("/opt/vyatta/etc/functions/script-template")
	spec := command.Spec{Path: r.path("/usr/bin/sg"), Args: []string{"vyattacfg", "-c", r.path("/bin/vbash") + " -s"}}
	if one, ok := strings.CutPrefix(lines, "-c "); ok {
		spec.Args[2] = r.path("/bin/vbash") + " -c '" + source + "; " + one + "'"
	} else {
		mounted := "|if ! grep -q \" $VYATTA_TEMP_CONFIG_DIR fuse\" " + r.path("/proc/self/mounts") + "; then builtin exit 99; fi|commit"
		lines = strings.ReplaceAll(strings.ReplaceAll(lines, "|commit", mounted), "|rc", "|echo rc $?")
		spec.Stdin = source + "\n" + strings.ReplaceAll(lines, "|", "\n") + "\n"
	}
	out, err := command.Run(ctx, spec)
	if err != nil {
		r.Fatal(err)
	}
	return result{out.Code, trim(out.Stdout), calling.ReplaceAllString(trim(out.Stderr), "calling …()")}
}

func TestContractVbash(t *testing.T) {
	r := open(t, vyostest.Options{})
	var table []row
	byName := map[string]script{}
	for _, s := range scripts {
		table = append(table, s.row)
		byName[s.name] = s
	}
	rows(t, r, table, func(r *router, w row) {
		s := byName[w.name]
		if w.fault == "" && len(w.args) > 0 {
			defer hold(r)()
		}
		got := r.vbash(s.lines)
		_ = got
		r.judge(s, got)
	})
}

// judge compares; a last line "exit N" of what is wanted is the exit status.
func (r *router) judge(s script, got result) {
	r.Helper()
	out := strings.ReplaceAll(s.out, "|", "\n")
	if got.code != 0 && strings.Contains(s.out, "exit ") {
		got.out += "\nexit " + itoa(got.code)
	}
	if got.out != out || got.err != strings.ReplaceAll(s.err, "|", "\n") {
		r.Errorf("%s:\n got %d, stdout %q, stderr %q\nwant stdout %q, stderr %q", s.lines, got.code, got.out, got.err, out, s.err)
	}
}

// Whoever is not in the group gets no session.
func TestContractVbashWithoutSession(t *testing.T) {
	r := open(t, vyostest.Options{})
	if r.system == nil {
		t.Skip("not to be had on a router")
	}
	if err := os.Chmod(r.path("/opt/vyatta/config/tmp"), 0o775); err != nil {
		t.Fatal(err)
	}
	out := r.as(65534, 65534, nil, r.path("/bin/vbash"), "-c", "source "+r.path("/opt/vyatta/etc/functions/script-template")+"\necho on")
	if out.code != 1 || out.out != "Failed to set up config session" {
		t.Errorf("%+v", out)
	}
}
