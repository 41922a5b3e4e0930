package command

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func sh(script string, args ...string) Spec {
	return Spec{Path: "/bin/sh", Args: append([]string{"-c", script, "sh"}, args...)}
}

// soon is long enough for a busy machine, and far shorter than what the programs here would take by themselves.
const soon = time.Minute

// gone waits until no process has this number.
func gone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for dead := false; !dead; {
		select {
		case <-ctx.Done():
			t.Fatalf("process %d is still there: %s", pid, stat(pid))
		case <-tick.C:
		}
		// Whoever adopts orphans here may be slow to reap them, and a zombie runs no more.
		s := stat(pid)
		dead = s == "" || s == "Z"
	}
}

// stat gives the state letter of a process, or nothing when there is none.
func stat(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	return string(rest[:1])
}

// zombie says whether a dead child of ours has not been reaped.
func zombie() bool {
	var si unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &si, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && si.Signo != 0
}

func pidIn(t *testing.T, b []byte) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 2 {
		t.Fatalf("output %q is not a pid: %v", b, err)
	}
	return pid
}

func TestRunEnds(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	for name, c := range map[string]struct {
		spec Spec
		want Output
	}{
		"ok":       {sh("echo out; echo err >&2"), Output{Stdout: []byte("out\n"), Stderr: []byte("err\n")}},
		"in PATH":  {Spec{Path: "true"}, Output{}},
		"status":   {sh("exit 7"), Output{Code: 7}},
		"signal":   {sh("kill -SEGV $$"), Output{Code: -1, Signal: syscall.SIGSEGV}},
		"stdin":    {Spec{Path: "cat", Stdin: "hello"}, Output{Stdout: []byte("hello")}},
		"unread":   {Spec{Path: "true", Stdin: strings.Repeat("x", 1<<20)}, Output{}},
		"no stdin": {Spec{Path: "cat"}, Output{}},
		"args":     {sh(`printf '%s|' "$@"`, "a b", "$HOME"), Output{Stdout: []byte("a b|$HOME|")}},
		"environment": {Spec{Path: "env", Env: []string{"A=1", "LANG=de"}},
			Output{Stdout: []byte("PATH=/usr/bin:/bin\nLC_ALL=C\nA=1\nLANG=de\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Run(t.Context(), c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRunCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		"/nonexistent/program": fs.ErrNotExist,
		"vouch-no-such":        nil,
		plain:                  fs.ErrPermission,
	} {
		out, err := Run(t.Context(), Spec{Path: path})
		if err == nil || want != nil && !errors.Is(err, want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: error %v, want %v, naming it once", path, err, want)
		}
		if out.Code != -1 {
			t.Errorf("%s: code %d, want -1", path, out.Code)
		}
	}
}

func TestRunOutputIsCapped(t *testing.T) {
	const script = `i=0; while [ $i -lt 400 ]; do head -c 25000 /dev/zero | tr '\0' a; i=$((i+1)); done; printf THEEND`
	for _, tail := range []bool{false, true} {
		s := sh(script)
		s.MaxOutput, s.Tail = 1000, tail
		out, err := Run(t.Context(), s)
		if err != nil || out.Code != 0 {
			t.Fatalf("tail %v: %v, code %d", tail, err, out.Code)
		}
		if len(out.Stdout) != 1000 || !out.Truncated {
			t.Errorf("tail %v: kept %d bytes, truncated %v", tail, len(out.Stdout), out.Truncated)
		}
		if strings.HasSuffix(string(out.Stdout), "THEEND") != tail {
			t.Errorf("tail %v: kept the wrong end: …%q", tail, out.Stdout[990:])
		}
	}
	s := sh("printf 12345")
	s.MaxOutput = 5
	for _, s.Tail = range []bool{false, true} {
		if out, err := Run(t.Context(), s); err != nil || out.Truncated || string(out.Stdout) != "12345" {
			t.Errorf("what just fits is not truncated: %+v, %v", out, err)
		}
	}
}

// byStatus is sh for whoever goes by the exit status.
func byStatus(script string, args ...string) Spec {
	s := sh(script, args...)
	s.ByStatus = true
	return s
}

// A child left in the background holds the pipes: neither does it delay the return, nor does it live.
func TestRunKillsLeftChildren(t *testing.T) {
	start := time.Now()
	out, err := Run(t.Context(), byStatus("sleep 300 & echo $!"))
	if err != nil || out.Code != 0 || !out.Unfinished {
		t.Fatalf("%v, %+v", err, out)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("took %s", took)
	}
	gone(t, pidIn(t, out.Stdout))
}

// One that left the group cannot be killed by its group, but delays nothing.
func TestRunDoesNotWaitForEscaped(t *testing.T) {
	start := time.Now()
	mark := filepath.Join(t.TempDir(), "escaped")
	out, err := Run(t.Context(), byStatus(
		`setsid sh -c 'touch "$0"; exec sleep 300' "$1" & echo $!; while [ ! -e "$1" ]; do :; done`, mark))
	if err != nil || out.Code != 0 || !out.Unfinished {
		t.Fatalf("%v, %+v", err, out)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("took %s", took)
	}
	pid := pidIn(t, out.Stdout)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	gone(t, pid)
}

func TestRunKilledByContext(t *testing.T) {
	const tell = `tell() { echo $1; echo $1 >"$0.new"; mv "$0.new" "$0"; }; `
	for name, script := range map[string]string{
		"plain":               "tell $$; exec sleep 300",
		"ignores SIGTERM":     "trap '' TERM INT HUP; tell $$; while :; do sleep 300; done",
		"child holds pipes":   "sleep 300 & tell $!; wait",
		"child ignores":       "(trap '' TERM; tell $(exec sh -c 'echo $PPID'); while :; do sleep 300; done) & wait",
		"writes without stop": "tell $$; exec yes",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			file := filepath.Join(t.TempDir(), "pid")
			var out Output
			var err error
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() {
				out, err = Run(ctx, Spec{Path: "/bin/sh", Args: []string{"-c", tell + script, file}, MaxOutput: 100})
			})
			pid := waitPid(t, file)
			start := time.Now()
			cancel()
			running.Wait()
			if !errors.Is(err, context.Canceled) || out.Code != -1 || out.Signal != syscall.SIGKILL {
				t.Fatalf("%v, %+v", err, out)
			}
			if took := time.Since(start); took > soon {
				t.Errorf("took %s", took)
			}
			if first, _, _ := bytes.Cut(out.Stdout, []byte("\n")); pidIn(t, first) != pid {
				t.Errorf("it has told %s, and not %d", first, pid)
			}
			gone(t, pid)
		})
	}
}

// A program that has ended by itself has its own end, also when the end of its time is what is heard of first.
func TestEndedBeforeTheKill(t *testing.T) {
	for script, cut := range map[string]bool{"exit 0": false, "exit 7": false, "kill -SEGV $$": false, "echo x; exec sleep 300": true} {
		c, streams, err := launch(sh(script), &capped{max: 100}, &capped{max: 100})
		if err != nil {
			t.Fatal(err)
		}
		if !cut {
			var si unix.Siginfo
			if err := unix.Waitid(unix.P_PID, c.Process.Pid, &si, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, _, err := wait(ctx, c, streams); got != cut || (err == nil) != (script == "exit 0") {
			t.Errorf("%s: %v, cut %v", script, err, got)
		}
	}
}

func TestRunContextAlreadyEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mark := filepath.Join(t.TempDir(), "ran")
	out, err := Run(ctx, sh("touch "+mark))
	if !errors.Is(err, context.Canceled) || out.Code != -1 {
		t.Errorf("%v, %+v", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was run")
	}
}

// The group's kill must not come before the exit status is known, nor leave zombies of ours.
func TestRunMany(t *testing.T) {
	errs := make(chan error)
	const n = 40
	for i := range n {
		go func() {
			out, err := Run(t.Context(), byStatus("sleep 300 & exit "+strconv.Itoa(i)))
			if err == nil && out.Code != i {
				err = errors.New("code " + strconv.Itoa(out.Code) + ", want " + strconv.Itoa(i))
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if zombie() {
		t.Error("a dead child was not reaped")
	}
}

// A killed agent cannot kill anybody; the kernel does it.
func TestRunDiesWithAgent(t *testing.T) {
	if file := os.Getenv("COMMAND_TEST_AGENT"); file != "" {
		out, err := Run(t.Context(), sh(`echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 300`, file))
		t.Fatalf("the program ended: %+v, %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	agent := exec.Command(os.Args[0], "-test.run=^TestRunDiesWithAgent$")
	agent.Env = append(os.Environ(), "COMMAND_TEST_AGENT="+file)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := waitPid(t, file)
	_ = agent.Process.Kill()
	_ = agent.Wait()
	gone(t, pid)
}

func waitPid(t *testing.T, file string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(file); err == nil {
			return pidIn(t, b)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not appear", file)
		case <-tick.C:
		}
	}
}

func TestDefaultPath(t *testing.T) {
	t.Setenv("PATH", "")
	c := build(Spec{Path: "/bin/true"})
	if c.Env[0] != "PATH="+defaultPath {
		t.Errorf("without a PATH of ours: %q", c.Env)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := Run(b.Context(), Spec{Path: "/bin/true"}); err != nil {
			b.Fatal(err)
		}
	}
}

// Look finds what Run would start, and fails as that would.
func TestLook(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	if got, err := Look("true"); err != nil || got != "/usr/bin/true" {
		t.Errorf("%q, %v", got, err)
	}
	script := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bare, crlf := script("bare", "#! /nonexistent/python -u\n"), script("crlf", "#!/bin/sh\r\nexit 0\r\n")
	for path, want := range map[string]string{
		bare:                              `the interpreter in its first line, "/nonexistent/python": no such file or directory`,
		crlf:                              `the interpreter in its first line, "/bin/sh\r": no such file or directory`,
		script("data", "#!/etc/passwd\n"): `the interpreter in its first line, "/etc/passwd": permission denied`,
	} {
		if _, err := Look(path); err == nil || err.Error() != "cannot start "+path+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got, err := Look(script("good", "#!/bin/sh\n")); err != nil {
		t.Errorf("%q, %v", got, err)
	}
	headless := script("headless", "exit 0\n")
	if _, err := Run(t.Context(), Spec{Path: headless}); err == nil || !errors.Is(err, syscall.ENOEXEC) || !strings.HasSuffix(err.Error(), "names its interpreter in its first line, such as #!/bin/sh") {
		t.Errorf("without a first line: %v", err)
	}
	for _, path := range []string{"vouch-no-such", "/nonexistent/program", "/etc/passwd", bare, crlf} {
		_, err := Look(path)
		if _, ran := Run(t.Context(), Spec{Path: path}); err == nil || ran == nil || err.Error() != ran.Error() {
			t.Errorf("%s: %v, but to run it: %v", path, err, ran)
		}
	}
}
