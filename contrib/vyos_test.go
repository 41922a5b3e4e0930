package contrib

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// installOnVyOS runs contrib/vyos/install on a root of the test's own.
func installOnVyOS(t *testing.T, root, program string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "vyos/install", program)
	cmd.Env = append(os.Environ(), "ROOT="+root)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newVyOS makes a root of the test's own, whose boot script it gives, and a program to install.
func newVyOS(t *testing.T) (root, boot, program string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"opt/vyatta/config", "config/scripts"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program = write(t, filepath.Join(t.TempDir(), "vouch"), "one")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return root, filepath.Join(root, "config/scripts/vyos-postconfig-bootup.script"), program
}

// What install puts there outlives an image upgrade, which carries over /config alone; a second run changes
// nothing but the program.
func TestVyOSInstall(t *testing.T) {
	root, boot, program := newVyOS(t)
	for _, version := range []string{"one", "two"} {
		write(t, program, version)
		if out, err := installOnVyOS(t, root, program); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := read(t, filepath.Join(root, "config/scripts/vouch/vouch")); got != version {
			t.Errorf("the program is %q, want %q", got, version)
		}
		if got := read(t, boot); !strings.HasPrefix(got, "#!/bin/sh\n") || strings.Count(got, "\n/config/scripts/vouch/start\n") != 1 {
			t.Errorf("the boot script is %q", got)
		}
		if info, err := os.Stat(boot); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the boot script: %v, %v", info, err)
		}
	}
	unit := read(t, filepath.Join(root, "config/scripts/vouch/vouch.service"))
	if !strings.Contains(unit, "ExecStart=/config/scripts/vouch/vouch ") {
		t.Errorf("the unit starts something else:\n%s", unit)
	}
	if out, err := installOnVyOS(t, t.TempDir(), program); err == nil || !strings.Contains(out, "no VyOS") {
		t.Errorf("where there is no VyOS: %v, %s", err, out)
	}
	if out, err := installOnVyOS(t, root, filepath.Join(root, "nosuch")); err == nil || !strings.Contains(out, "usage:") {
		t.Errorf("without a program: %v, %s", err, out)
	}
}

// A boot script that is there starts vouch first, and runs as before then, however it is written; one that is no shell's
// stays as it is, and install says so.
func TestVyOSInstallKeepsTheBootScript(t *testing.T) {
	const start, here = "/config/scripts/vouch/start\n", "@"
	for _, c := range []struct {
		name, text string // with @ where the line is to be; none: the text stays
		says       string // empty: it is done
	}{
		{"as shipped", "#!/bin/sh\n@# This is run at boot.\n\n", ""},
		{"no newline at its end", "#!/bin/sh\n@/config/scripts/mine", ""},
		{"exit at its end", "#!/bin/sh\n@mine\nexit 0\n", ""},
		{"no first line", "@mine\n", ""},
		{"conditions", "#!/bin/bash -e\n@if true; then\n\texit 0\nfi\nfalse\n", ""},
		{"a session of VyOS", "#!/bin/vbash\n@source /opt/vyatta/etc/functions/script-template\nconfigure\ncommit\nexit\n", ""},
		{"another language", "#!/usr/bin/python3\nprint()\n", "no script of a shell"},
		{"there already", "#!/bin/sh\nsudo /config/scripts/vouch/start &\nexit 0\nothers\n", ""},
		{"commented out", "#!/bin/sh\n@#/config/scripts/vouch/start\n", ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			root, boot, program := newVyOS(t)
			before := strings.Replace(c.text, here, "", 1)
			write(t, boot, before)
			if err := os.Chmod(boot, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(boot, -1, 7104); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skipf("NOT TESTED: needs root: %v", err)
			}
			for range 2 {
				out, err := installOnVyOS(t, root, program)
				if (err != nil) != (c.says != "") || !strings.Contains(out, c.says) {
					t.Fatalf("%v\n%s", err, out)
				}
				if got, want := strings.TrimSuffix(read(t, boot), "\n"), strings.TrimSuffix(strings.Replace(c.text, here, start, 1), "\n"); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				info, err := os.Stat(boot)
				if err != nil || info.Mode().Perm() != 0o750 || info.Sys().(*syscall.Stat_t).Gid != 7104 {
					t.Errorf("%v %+v, %v", info.Mode(), info.Sys(), err)
				}
				if left, _ := filepath.Glob(boot + ".*"); left != nil {
					t.Errorf("left: %q", left)
				}
			}
			if c.says == "" && strings.HasPrefix(c.text, "#!/bin/") && c.name != "there already" && c.name != "a session of VyOS" {
				runsAtBoot(t, root, boot)
			}
		})
	}
}

func TestVyOSInstallTellsOfABootScriptThatIsNotRun(t *testing.T) {
	root, boot, program := newVyOS(t)
	write(t, boot, "#!/bin/sh\nmine\n")
	if err := os.Chmod(boot, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := installOnVyOS(t, root, program); err == nil || !strings.Contains(out, "not executable") {
		t.Errorf("a boot script that VyOS does not run: %v, %s", err, out)
	}
}

// runsAtBoot runs the boot script, and wants vouch to be started, once, and what else is in it.
func runsAtBoot(t *testing.T, root, boot string) {
	t.Helper()
	text := read(t, boot)
	for _, name := range []string{"mine", "start"} {
		tool := write(t, filepath.Join(root, name), "#!/bin/sh\necho \"ran $0\" >>"+root+"/ran\n")
		if err := os.Chmod(tool, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	changed := strings.NewReplacer("/config/scripts/mine", "mine", "/config/scripts/vouch/start\n", "start\n").Replace(text)
	write(t, boot, changed)
	if out, err := run(t, []string{"PATH=" + root + ":/usr/bin:/bin"}, boot); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran := read(t, filepath.Join(root, "ran"))
	if strings.Count(ran, "/start\n") != 1 || strings.Count(ran, "/mine\n") != strings.Count(changed, "mine") {
		t.Errorf("of\n%s\nran\n%s", changed, ran)
	}
}

func TestVyOSScriptsAreClean(t *testing.T) {
	const shellcheck = "/usr/bin/shellcheck"
	need(t, shellcheck)
	for _, f := range []string{"vyos/install", "vyos/start"} {
		if out, err := exec.CommandContext(t.Context(), shellcheck, f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
}

// Each line is one command of configuration mode, in full words, as others than people type them too.
func TestVyOSCommands(t *testing.T) {
	for _, f := range files(t, "vyos/*.commands") {
		for line := range strings.Lines(read(t, f)) {
			ok := strings.HasPrefix(line, "# ")
			for _, tree := range []string{"policy", "protocols bgp", "protocols ospf", "protocols ospfv3", "interfaces dummy"} {
				ok = ok || strings.HasPrefix(line, "set "+tree+" ")
			}
			if !ok {
				t.Errorf("%s: %q", f, line)
			}
		}
	}
}
