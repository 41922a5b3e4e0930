package contrib

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// What install puts there outlives an image upgrade, which carries over /config alone; a second run changes
// nothing but the program, and keeps what the boot script had.
func TestVyOSInstall(t *testing.T) {
	root, program := t.TempDir(), filepath.Join(t.TempDir(), "vouch")
	boot := filepath.Join(root, "config/scripts/vyos-postconfig-bootup.script")
	for _, dir := range []string{"opt/vyatta/config", "config/scripts"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, boot, "#!/bin/sh\n/config/scripts/mine\n")
	for _, version := range []string{"one", "two"} {
		write(t, program, version)
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := installOnVyOS(t, root, program); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := read(t, filepath.Join(root, "config/scripts/vouch/vouch")); got != version {
			t.Errorf("the program is %q, want %q", got, version)
		}
		if got := read(t, boot); got != "#!/bin/sh\n/config/scripts/mine\n/config/scripts/vouch/start\n" {
			t.Errorf("the boot script is %q", got)
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
			for _, tree := range []string{"policy", "protocols bgp", "interfaces dummy"} {
				ok = ok || strings.HasPrefix(line, "set "+tree+" ")
			}
			if !ok {
				t.Errorf("%s: %q", f, line)
			}
		}
	}
}
