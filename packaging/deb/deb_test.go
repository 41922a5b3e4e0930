// Package deb tests the Debian package: its version, its unit, its scripts, and that it comes out the same each time.
// What it does on a machine is tested in package system.
package deb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// need gives the path of a program, and skips the test where it is missing; not so in CI.
func need(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%v: apt-get install %s", err, debian)
	default:
		t.Skipf("SKIPPED: %v: apt-get install %s", err, debian)
	}
	return path
}

// run gives what a program printed on its standard output, and with its error what it printed besides.
func run(t *testing.T, program string, args ...string) (string, string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return string(out), stderr.String(), err
}

// Each build sorts after those before it, by dpkg's own judgement.
func TestVersionsSort(t *testing.T) {
	dpkg := need(t, "dpkg", "dpkg")
	last := "0"
	for _, c := range [][3]string{
		{"deadbee", "9", "20261130"}, {"0123456", "10", "20261130"}, {"0123456-dirty", "10", "20261130"}, {"1234567", "11", "20261201"},
		{"v0.1.0-rc1", "12", ""}, {"v0.1.0-rc1-3-gabcdef0", "15", ""}, {"v0.1.0-rc2", "16", ""}, {"v0.1.0", "17", ""}, {"v0.1.0-dirty", "17", ""},
		{"v0.1.0-2-g0000000", "19", ""}, {"v0.1.0-10-g0000001-dirty", "27", ""}, {"v0.1.1", "28", ""}, {"v0.10.0", "29", ""}, {"v1.0.0", "30", ""},
	} {
		out, stderr, err := run(t, "./version", c[:]...)
		if err != nil {
			t.Fatalf("%q: %v: %s", c, err, stderr)
		}
		v := strings.TrimSpace(out)
		if _, stderr, err := run(t, dpkg, "--validate-version", v); err != nil {
			t.Errorf("%s of %q: %s", v, c, stderr)
		}
		if _, _, err := run(t, dpkg, "--compare-versions", last, "lt", v); err != nil {
			t.Errorf("%s of %q does not sort after %s", v, c, last)
		}
		last = v
	}
}

func TestVersionRefuses(t *testing.T) {
	for _, args := range [][]string{{"trunk", "1", "20261130"}, {"", "1", "20261130"}, {"v1", "2"}, {"version-1-g12345678", "1", "20261130"}, {"v1.0 beta", "1", ""}} {
		out, stderr, err := run(t, "./version", args...)
		if err == nil || out != "" || !strings.HasPrefix(stderr, "version: ") {
			t.Errorf("%q: %v, printed %q and %q", args, err, out, stderr)
		}
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// The unit is exposed less than 2.0 by systemd's own measure, and systemd understands all of it.
func TestUnitIsTight(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	const unit = "../systemd/vouch.service"
	out, stderr, err := run(t, analyze, "security", "--offline=yes", "--threshold=19", unit)
	if err != nil {
		t.Errorf("%v %s\n%s", err, stderr, out)
	}
	if !exposure.MatchString(out) {
		t.Errorf("no measure in:\n%s", out)
	}
}

// systemd understands every line of the units, and of the unit with each of the drop-ins.
func TestUnitsAreUnderstood(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	dropins, err := filepath.Glob("../systemd/examples/*.conf")
	if err != nil || len(dropins) < 3 {
		t.Fatalf("examples: %q, %v", dropins, err)
	}
	for _, unit := range []string{"../systemd/vouch.service", "../../contrib/vyos/vouch.service"} {
		for _, dropin := range append(dropins, "") {
			dir := t.TempDir()
			path := filepath.Join(dir, "vouch.service")
			text := read(t, unit)
			// The programs need not be there, nor the manual.
			text = strings.NewReplacer("/usr/bin/vouch", "/bin/true", "/config/scripts/vouch/vouch", "/bin/true").Replace(text)
			text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(text, "")
			write(t, path, text)
			if dropin != "" {
				text := strings.ReplaceAll(read(t, dropin), "/usr/bin/vouch", "/bin/true")
				write(t, filepath.Join(path+".d", "x.conf"), regexp.MustCompile(`(?m)^#([A-Z][A-Za-z]+=)`).ReplaceAllString(text, "$1"))
			}
			out, stderr, err := run(t, analyze, "verify", "--man=no", "--recursive-errors=no", path)
			if err != nil || strings.Contains(stderr, dir) {
				t.Errorf("%s with %q: %v\n%s%s", unit, dropin, err, out, stderr)
			}
		}
	}
}

// A change in the one unit that the other has to follow.
func TestUnitsAgree(t *testing.T) {
	usual, vyos := read(t, "../systemd/vouch.service"), read(t, "../../contrib/vyos/vouch.service")
	vyos = strings.NewReplacer("/config/scripts/vouch/vouch", "/usr/bin/vouch", " --config /config/vouch.toml", "").Replace(vyos)
	for _, key := range []string{"Type", "ExecStart", "ExecReload", "Restart", "RestartSec", "RestartPreventExitStatus", "StartLimitIntervalSec", "WatchdogSec",
		"RuntimeDirectory", "RuntimeDirectoryPreserve", "StateDirectory"} {
		line := regexp.MustCompile(`(?m)^` + key + `=.*$`)
		if a, b := line.FindAllString(usual, -1), line.FindAllString(vyos, -1); len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%s: %q, and for VyOS %q", key, a, b)
		}
	}
	if !strings.Contains(vyos, "\nKillMode=process\n") {
		t.Error("an end of vouch kills the commit of VyOS that it has begun")
	}
	for _, key := range []string{"PrivateDevices", "PrivateTmp", "NoNewPrivileges", "CapabilityBoundingSet", "ProtectSystem", "RestrictSUIDSGID", "SystemCallFilter", "User"} {
		if strings.Contains(vyos, key+"=") {
			t.Errorf("%s= breaks VyOS's configuration sessions", key)
		}
	}
}

func TestScriptsAreClean(t *testing.T) {
	shellcheck := need(t, "shellcheck", "shellcheck")
	for _, s := range []string{"build", "version", "postinst", "prerm", "postrm"} {
		if out, stderr, err := run(t, shellcheck, s); err != nil {
			t.Errorf("%s: %v\n%s%s", s, err, out, stderr)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write makes a file with its directories.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
