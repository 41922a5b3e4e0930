package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, s Spec) (*Lasting, string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	l, err := StartLasting(s, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Result() })
	return l, f.Name()
}

func TestLastingEnds(t *testing.T) {
	for name, c := range map[string]struct {
		spec   Spec
		code   int
		signal syscall.Signal
		output string
	}{
		"ok":       {sh("echo out; echo err >&2"), 0, 0, "out\nerr\n"},
		"status":   {sh("exit 7"), 7, 0, ""},
		"signal":   {sh("kill -SEGV $$"), -1, syscall.SIGSEGV, ""},
		"stdin":    {Spec{Path: "cat", Stdin: "hello"}, 0, 0, "hello"},
		"no stdin": {Spec{Path: "cat"}, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := start(t, c.spec)
			got, err := l.Result()
			if err != nil || got.Code != c.code || got.Signal != c.signal || string(got.Stdout) != c.output || got.Truncated {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestLastingOutputIsCapped(t *testing.T) {
	s := sh("printf 123456")
	s.MaxOutput = 5
	l, _ := start(t, s)
	got, err := l.Result()
	if err != nil || !got.Truncated || string(got.Stdout) != "12345" {
		t.Errorf("%+v, %v", got, err)
	}
	s.Tail = true
	l, file := start(t, s)
	if got, err := l.Result(); err != nil || !got.Truncated || string(got.Stdout) != "23456" {
		t.Errorf("the end: %+v, %v", got, err)
	}
	if whole, err := os.ReadFile(file); err != nil || string(whole) != "123456" {
		t.Errorf("the file has %q, %v", whole, err)
	}
}

func TestLastingCannotStart(t *testing.T) {
	_, err := StartLasting(Spec{Path: "/nonexistent/program"}, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// What it leaves behind is not killed as it is by Run.
func TestLastingLeavesItsChildren(t *testing.T) {
	l, _ := start(t, sh("sleep 300 & echo $!"))
	got, err := l.Result()
	if err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, got.Stdout)
	defer gone(t, pid)
	defer syscall.Kill(pid, syscall.SIGKILL)
	if s := stat(pid); s != "S" && s != "R" && s != "D" {
		t.Errorf("it is %q", s)
	}
}

func TestLastingIsASessionOfItsOwn(t *testing.T) {
	l, _ := start(t, sh("cut -d' ' -f5,6 /proc/$$/stat; echo $$"))
	got, err := l.Result()
	words := strings.Fields(string(got.Stdout))
	if err != nil || len(words) != 3 || words[0] != words[2] || words[1] != words[2] {
		t.Errorf("group and session of the process: %q, %v", words, err)
	}
}

// The agent is killed, its process group with it, and the program comes to its end all the same.
func TestLastingOutlivesAgent(t *testing.T) {
	if dir := os.Getenv("COMMAND_TEST_LASTING"); dir != "" {
		f, err := os.Create(filepath.Join(dir, "output"))
		if err != nil {
			os.Exit(1)
		}
		l, err := StartLasting(Spec{Path: "/bin/sh", Args: []string{"-c", `echo begun; while [ ! -e "$0/go" ]; do sleep 0.01; done; echo done; touch "$0/ended"`, dir}}, f)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("started\n")
		_, _ = l.Result()
		return
	}
	dir := t.TempDir()
	agent := exec.Command(os.Args[0], "-test.run=^TestLastingOutlivesAgent$")
	agent.Env = append(os.Environ(), "COMMAND_TEST_LASTING="+dir)
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL)
	_ = agent.Wait()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	appears(t, filepath.Join(dir, "ended"))
	if text, err := os.ReadFile(filepath.Join(dir, "output")); err != nil || !bytes.Contains(text, []byte("done")) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("to run with another group needs root")
		}
		t.Skip("SKIPPED: to run with another group needs root")
	}
	s := sh("id -g; id -G")
	s.Group = 7104
	out, err := Run(t.Context(), s)
	if err != nil || string(out.Stdout) != "7104\n7104\n" {
		t.Errorf("%s%s, %v", out.Stdout, out.Stderr, err)
	}
}

// appears waits until there is a file.
func appears(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not appear", file)
		case <-tick.C:
		}
	}
}
