package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

func shell(line string) *Spec { return &Spec{Command: Command{line: line}, Shell: true} }

func list(args ...string) *Spec { return &Spec{Command: Command{args: args}} }

func check(t *testing.T, s *Spec, timeout time.Duration) error {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return c.Check(ctx)
}

// notExecutable makes a file that is there and cannot be run.
func notExecutable(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(name, []byte("#!/bin/sh\nexit 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEnds(t *testing.T) {
	unknown := shell("echo no data; exit 3")
	unknown.Unknown = []int{3}
	for name, c := range map[string]struct {
		spec *Spec
		want string
	}{
		"ok":         {list("true"), ""},
		"ok by path": {list("/bin/true"), ""},
		"status":     {list("sh", "-c", "echo 'DNS CRITICAL'; echo more; exit 2"), "status: exit status 2: DNS CRITICAL"},
		"long plugin output": {shell(`printf 'DISK CRITICAL - free space: / 2%%, /var 50%% | /=2%%\n/ 2%%\n/var 50%% | /var=50%%\n'; exit 2`),
			"status: exit status 2: DISK CRITICAL - free space: / 2%, /var 50%"},
		"only figures":   {shell(`echo '| time=1'; echo oops >&2; exit 2`), "status: exit status 2: oops"},
		"silent":         {list("false"), "status: exit status 1"},
		"only stderr":    {shell("echo oops >&2; exit 1"), "status: exit status 1: oops"},
		"stdout first":   {shell("echo oops >&2; echo out; exit 1"), "status: exit status 1: out"},
		"empty lines":    {shell(`printf '\n \nthis\n'; exit 1`), "status: exit status 1: this"},
		"dirty":          {shell(`printf 'a\033[31mb\tc\000d\377e'; exit 1`), "status: exit status 1: a[31mb cde"},
		"unknown":        {shell("echo no data; exit 3"), "status: exit status 3: no data"},
		"unknown, asked": {unknown, "unknown: exit status 3: no data"},
		"not found":      {list("vouch-no-such"), "exec: cannot start vouch-no-such: executable file not found in $PATH"},
		"missing":        {list("/nonexistent/x"), "exec: cannot start /nonexistent/x: no such file or directory"},
		"shell's 127":    {shell("vouch-no-such"), "not found"},
		"signal":         {shell("kill -ABRT $$"), "status: killed by SIGABRT"},
		"no expansion":   {list("sh", "-c", `echo "$0"; exit 1`, "$HOME `id`"), "status: exit status 1: $HOME `id`"},
		"leaves one":     {shell("sleep 100 & exit 0"), ""},
		"leaves another": {shell("sleep 100 & echo out; exit 1"), "status: exit status 1: out"},
		"shell expands":  {shell(`x=6; echo $((x*7)); exit 1`), "status: exit status 1: 42"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(t, c.spec, 10*time.Second)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("failed: %v", err)
			case c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	plain := notExecutable(t)
	if err := check(t, list(plain), 10*time.Second); err == nil || err.Error() != "exec: cannot start "+plain+": permission denied" {
		t.Errorf("not executable: %v", err)
	}
}

// A program that is just being written says nothing of what it asks.
func TestBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	text, err := os.ReadFile("/bin/true")
	if err == nil {
		err = os.WriteFile(path, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t, list(path), 10*time.Second); err == nil || err.Error() != "unknown: cannot start "+path+": text file busy" {
		t.Errorf("while it is written: %v", err)
	}
	if err := errors.Join(f.Close(), check(t, list(path), 10*time.Second)); err != nil {
		t.Errorf("when it is: %v", err)
	}
}

func TestLongLineIsCut(t *testing.T) {
	err := check(t, shell(`i=0; while [ $i -lt 300 ]; do printf 'ä'; i=$((i+1)); done; exit 1`), 10*time.Second)
	if want := "status: exit status 1: " + strings.Repeat("ä", maxLine) + "…"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// Ten megabytes are taken, and the first line of them is the one that is shown.
func TestMuchOutput(t *testing.T) {
	err := check(t, shell(`echo THE START; yes 'a line of forty-two characters, give or take' | head -c 10000000; exit 2`), 20*time.Second)
	if err == nil || err.Error() != "status: exit status 2: THE START" {
		t.Errorf("got %v", err)
	}
}

// state gives the letter of a process's state, or nothing when there is none.
func state(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	return string(rest[:1])
}

// gone waits until the process whose pid stands in the file is dead.
func gone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s := state(pid); s != "" && s != "Z"; s = state(pid) {
		select {
		case <-ctx.Done():
			t.Fatalf("process %d is still there, in state %s", pid, s)
		case <-tick.C:
		}
	}
}

// Nothing that the program left delays the answer or lives on: neither after its end nor after its
// timeout, whatever holds its output and whichever signals it ignores.
func TestNothingIsLeft(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"child holds output":         {`sleep 300 & echo $! >"$PIDFILE"; exit 0`, ""},
		"child holds output, failed": {`sleep 300 & echo $! >"$PIDFILE"; echo bad; exit 2`, "status: exit status 2: bad"},
		"timeout, child hangs":       {`sleep 300 & echo $! >"$PIDFILE"; echo waiting; wait`, "waiting"},
		"timeout, ignores signals":   {`trap '' TERM INT HUP; echo $$ >"$PIDFILE"; while :; do sleep 300; done`, "timeout: killed after "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shell(c.line)
			file := filepath.Join(t.TempDir(), "pid")
			s.Env = map[string]string{"PIDFILE": file}
			start := time.Now()
			err := check(t, s, 2*time.Second)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %s", took)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if r := (checks.Result{Start: start, Err: err}); strings.HasPrefix(name, "timeout") && r.Reason() != checks.ReasonTimeout {
				t.Errorf("reason %s", r.Reason())
			}
			gone(t, file)
		})
	}
}

func TestBrokenOff(t *testing.T) {
	c, err := list("sleep", "300").New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	var f *checks.Failure
	if err := c.Check(ctx); !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
		t.Errorf("got %v, want unknown", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	s := shell(`echo "$ANYCAST_SERVICE/$ANYCAST_CHECK/$LC_ALL/$MINE/$SECRET/"; exit 1`)
	s.Env = map[string]string{"MINE": "a b"}
	var named checks.Named = s
	named.SetName("resolver", "plugin")
	if err := check(t, s, 10*time.Second); err == nil || err.Error() != "status: exit status 1: resolver/plugin/C/a b//" {
		t.Errorf("got %v", err)
	}
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "command: is missing ()",
		`command = []`:                          "command: must be a list: the program and its arguments ([])",
		`command = [""]`:                        `command: must be a list: the program and its arguments ([""])`,
		`command = ["a", 1]`:                    "command: must be a list: the program and its arguments ([a 1])",
		`command = 7`:                           "command: must be a list: the program and its arguments (7)",
		`command = " "`:                         `command: must be a list: the program and its arguments (" ")`,
		`command = "check -H x"`:                "command: is a string, and no shell reads it (check -H x)",
		"command = [\"a\"]\nshell = true":       "shell: goes with a command that is a string, not a list (true)",
		"command = \"a | b\"\nshell = true":     "",
		`command = ["./a"]`:                     "command: must name the program by an absolute path, or by a name found in PATH (./a)",
		`command = ["a\u0000b"]`:                "command: must not hold a NUL ()",
		"command = [\"a\"]\nunknown = [3]":      "",
		"command = [\"a\"]\nunknown = [0, 300]": "unknown: must be exit statuses from 1 to 255 (0)|unknown: must be exit statuses from 1 to 255 (300)",
		"unknown = [0]\n[env]\n\"A=B\" = \"1\"\nANYCAST_CHECK = \"x\"\nOK = \"y\"": "command: is missing ()|" +
			"env: is not the name of an environment variable (A=B)|env.ANYCAST_CHECK: is set by vouch (x)|unknown: must be exit statuses from 1 to 255 (0)",
	} {
		s := new(Spec)
		if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
			t.Fatalf("%s: %v, %v", text, err, md.Undecoded())
		}
		var got []string
		for _, p := range s.Validate() {
			got = append(got, fmt.Sprintf("%s: %s (%s)", p.Key, p.What, p.Got))
			if p.WayOut == "" {
				t.Errorf("%s: %s has no way out", text, p.Key)
			}
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	ps := (&Spec{Command: Command{line: `check -H "x"`}}).Validate()
	if want := `write a list: command = ["check", "-H", "\"x\""]; or set shell = true`; ps[0].WayOut != want {
		t.Errorf("way out %q, want %q", ps[0].WayOut, want)
	}
}

// What cannot be started here is told before it is run, in the words of the run.
func TestLocal(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Spec{list("true"), list("/bin/true", "/no/such"), shell("/no/such/program")} {
		if ps := s.Local(); len(ps) > 0 {
			t.Errorf("%s: %+v", s.Command, ps)
		}
	}
	for _, s := range []*Spec{list("/no/such/program"), list("vouch-no-such-program"), list(notExecutable(t)), list(script)} {
		var f *checks.Failure
		if err := check(t, s, 10*time.Second); !errors.As(err, &f) || f.Reason != checks.ReasonExec {
			t.Fatalf("%s: %v", s.Command, err)
		}
		ps := s.Local()
		if len(ps) != 1 || ps[0].Key != "command" || ps[0].What != f.Err.Error() || ps[0].WayOut == "" {
			t.Errorf("%s: told as %+v, and run: %v", s.Command, ps, f.Err)
		}
	}
}

func TestNames(t *testing.T) {
	for want, s := range map[string]*Spec{
		`exec check -H 'a b' '' 'it'\''s'`: list("check", "-H", "a b", "", "it's"),
		`exec a | b`:                       shell("a | b"),
	} {
		if c, err := s.New(); err != nil || c.String() != want {
			t.Errorf("%v, %v, want %s", c, err, want)
		}
	}
	if _, err := new(Spec).New(); err == nil {
		t.Error("a check without a command is made")
	}
}

// What is shown of the effective configuration reads back as the same.
func TestCommandIsWrittenAsRead(t *testing.T) {
	for _, s := range []*Spec{list("a", "b \"c\" \\ \n\x7f ä", ""), shell(`a "b" | c`)} {
		var b bytes.Buffer
		if err := toml.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		back := new(Spec)
		if _, err := toml.Decode(b.String(), back); err != nil {
			t.Fatalf("%s: %v", &b, err)
		}
		if back.Command.String() != s.Command.String() || back.Shell != s.Shell {
			t.Errorf("%+v is written as %s", s, &b)
		}
	}
}

// trace runs the check and gives what it told, one line each, and the result.
func trace(t *testing.T, s *Spec, timeout time.Duration) string {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	s.SetName("resolver", "plugin")
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range checks.Once(t.Context(), []checks.Probe{{Checker: c, Timeout: timeout}}, checks.Look{Trace: true}) {
		for _, l := range r.Trace {
			fmt.Fprintf(&b, "%c %s\n", l.Direction, l.Text)
		}
	}
	return b.String()
}

func TestTrace(t *testing.T) {
	env := "> with PATH, LANG=C, LC_ALL=C, ANYCAST_SERVICE, ANYCAST_CHECK"
	secret := shell(`echo "$TOKEN" | tr a-z A-Z; exit 3`)
	secret.Env = map[string]string{"TOKEN": "hush"}
	for name, c := range map[string]struct {
		spec *Spec
		want string
	}{
		"silent": {list("true"), "> run true\n" + env + "\n* exit status 0\n"},
		"both streams": {list("sh", "-c", `printf 'one\n\ntwo\n'; echo 'bad | news' >&2; exit 2`),
			"> run sh -c 'printf '\\''one\\n\\ntwo\\n'\\''; echo '\\''bad | news'\\'' >&2; exit 2'\n" + env +
				"\n< stdout: one\nstdout: \nstdout: two\n< stderr: bad | news\n* exit status 2\n"},
		"no values":   {secret, "> run /bin/sh -c 'echo \"$TOKEN\" | tr a-z A-Z; exit 3'\n" + env + ", TOKEN\n< stdout: HUSH\n* exit status 3\n"},
		"not started": {list("/nonexistent/x"), "> run /nonexistent/x\n" + env + "\n* cannot start /nonexistent/x: no such file or directory\n"},
		"leaves one":  {shell("sleep 60 & exit 4"), "> run /bin/sh -c 'sleep 60 & exit 4'\n" + env + "\n* it left something running that holds its output: there may be more of that\n* exit status 4\n"},
		"signal":      {shell("kill -ABRT $$"), "> run /bin/sh -c 'kill -ABRT $$'\n" + env + "\n* killed by SIGABRT\n"},
	} {
		if got := trace(t, c.spec, 10*time.Second); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

func TestTraceOfATimeout(t *testing.T) {
	got := trace(t, shell("echo asking; exec sleep 60"), 2*time.Second)
	if !strings.HasSuffix(got, "\n< stdout: asking\n* killed, with all that it had started\n") {
		t.Errorf("got:\n%s", got)
	}
}

// What is told of much output is its start.
func TestTraceIsCapped(t *testing.T) {
	got := trace(t, shell(`echo THE START; yes 'a line of forty-two characters, give or take' | head -c 100000`), 20*time.Second)
	if len(got) > 2*maxOutput || !strings.Contains(got, "\n< stdout: THE START\n") ||
		!strings.HasSuffix(got, "\n* more was written; this is the start of it\n* exit status 0\n") {
		t.Errorf("%d bytes, at the end:\n%s", len(got), got[max(0, len(got)-300):])
	}
}

// A timeout is told in the same words each time.
func TestTimeoutIsToldAsConfigured(t *testing.T) {
	for range 3 {
		err := check(t, shell("echo asking; exec sleep 60"), 2*time.Second)
		if err == nil || err.Error() != "timeout: killed after 2s: asking" {
			t.Errorf("got %v", err)
		}
	}
}
