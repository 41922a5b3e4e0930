package ctl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

// recorded makes a birdc that prints what a real one did (-v), writes how it was called into "called", and
// exits with a status.
func recorded(t *testing.T, stdout, stderr, exit string) Birdc {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, complaint := write("out", stdout, 0o600), write("err", stderr, 0o600)
	script := "#!/bin/sh\nfor a; do echo \"$a\"; done >" + filepath.Join(dir, "called") + "\ncat " + out + "\ncat " + complaint + " >&2\n" + exit + "\n"
	return Birdc{Program: write("birdc", script, 0o700), Socket: "/run/bird/bird.ctl", Timeout: 5 * time.Second, ReadOnly: true}
}

func called(t *testing.T, b Birdc) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(b.Program), "called"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), "|")
}

const restricted = "0001 BIRD 1.6.8 ready.\n0016 Access restricted\n"

// birdc puts five spaces before a line that goes on, and leaves out a last line without text.
func TestBirdc(t *testing.T) {
	b := recorded(t, restricted+"1007-10.53.53.53/32     blackhole [a 06:22:42] * (200)\n1012-\tBGP.med: 50\n     \tBGP.community: (65001,666)\n", "", "exit 0")
	r, v, err := b.Do(t.Context(), "show route 10.53.53.53/32 all")
	want := []Line{{1007, "10.53.53.53/32     blackhole [a 06:22:42] * (200)"}, {1012, "\tBGP.med: 50"}, {1012, "\tBGP.community: (65001,666)"}, {}}
	if err != nil || v != (Version{1, 6, 8}) || !cmp.Equal(r.Lines, want) {
		t.Errorf("%v %v, error %v", r, v, err)
	}
	if got := called(t, b); got != "-v|-r|-s|/run/bird/bird.ctl|show route 10.53.53.53/32 all" {
		t.Errorf("called with %s", got)
	}
	b = recorded(t, "0001 BIRD 2.0.12 ready.\n0002-Reading configuration from f\n0003 Reconfigured\n", "", "exit 0")
	b.ReadOnly, b.Socket = false, ""
	if r, _, err := b.Do(t.Context(), "configure"); err != nil || r.Code() != Reconfigured {
		t.Errorf("%v, error %v", r, err)
	}
	if got := called(t, b); got != "-v|configure" {
		t.Errorf("called with %s", got)
	}
	b = recorded(t, "0001 BIRD 2.0.12 ready.\n", "", "exit 0")
	b.ReadOnly = false
	if r, _, err := b.Do(t.Context(), "show route"); err != nil || r.Code() != 0 {
		t.Errorf("an answer without text: %v, error %v", r, err)
	}
}

// F02: birdc before 2.0.10 exits with 0 for what was refused, later ones with 1: both are the same refusal.
func TestBirdcRefused(t *testing.T) {
	for _, exit := range []string{"exit 0", "exit 1"} {
		b := recorded(t, "0001 BIRD 1.6.8 ready.\n0002-Reading configuration from f\n8002 f:1:2 syntax error\n", "", exit)
		b.ReadOnly = false
		r, _, err := b.Do(t.Context(), "configure")
		var refusal *Refusal
		if err != nil || !errors.As(r.Refused("configure"), &refusal) || refusal.Code != ConfigurationFailed {
			t.Errorf("%s: %v, error %v", exit, r, err)
		}
	}
}

func TestBirdcFailures(t *testing.T) {
	for name, test := range map[string]struct{ stdout, stderr, exit, says string }{
		"no socket":       {"", "Unable to connect to server control socket (/x): No such file or directory\n", "exit 1", "birdc: Unable to connect to server control socket (/x): No such file"},
		"nothing":         {"", "", "exit 0", "not a line of bird's protocol"},
		"only greeted":    {"0001 BIRD 2.0.12 ready.\n", "", "exit 0", "unexpected EOF (exit status 0)"},
		"not restricted":  {"0001 BIRD 2.0.12 ready.\n1000-a\n0013 up\n", "", "exit 0", "not restricted"},
		"died on the way": {restricted + "1007-Table master4:\n", "", "kill -9 $$", "unexpected EOF (exit status -1)"},
		"cut off by bird": {restricted + "1007-Table master4:\n", "Connection closed by server\n", "exit 1", "Connection closed by server"},
		"own complaint":   {restricted + "No such command. Press `?' for help.\n", "", "exit 0", "No such command"},
		"more behind":     {restricted + "0013 up\n0013 up\n", "", "exit 0", "more behind the reply"},
		"others go on":    {restricted, "", "sleep 60 & exit 0", "left something running that holds its output"},
		"something else":  {"hello\nworld\n", "", "exit 0", `"hello"`},
	} {
		b := recorded(t, test.stdout, test.stderr, test.exit)
		if _, _, err := b.Do(t.Context(), "show status"); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	b := recorded(t, restricted+"1007-a\n"+strings.Repeat("     "+strings.Repeat("x", 1018)+"\n", MaxReply>>10), "", "exit 0")
	if r, _, err := b.Do(t.Context(), "show route"); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "a reply longer than 16 MiB") {
		t.Errorf("too much: %d lines, error %v", len(r.Lines), err)
	}
	b = recorded(t, restricted, "", "exit 0")
	if _, _, err := b.Do(t.Context(), "show\nstatus"); !errors.Is(err, routers.ErrRefused) {
		t.Errorf("a bad command: error %v", err)
	}
	b.Program = "/nonexistent/birdc"
	if _, _, err := b.Do(t.Context(), "show status"); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "install BIRD, or name its birdc") {
		t.Errorf("no program: error %v", err)
	}
}

func TestBirdcHangs(t *testing.T) {
	b := recorded(t, restricted, "", "sleep 60")
	b.Timeout = 200 * time.Millisecond
	if _, _, err := b.Do(t.Context(), "show status"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("error %v", err)
	}
}
