package deb

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// build makes the package of the tree in a directory of its own, and gives its path.
func build(t *testing.T, tree, umask string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask "$1"; exec "$2/packaging/deb/build" amd64 "$3"`, "sh", umask, tree, dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(debs) != 1 || filepath.Base(debs[0]) != filepath.Base(strings.TrimSpace(string(out))) {
		t.Fatalf("built %q, %v, and said %s", debs, err, out)
	}
	return debs[0]
}

// tree gives a copy of a source tree, without git's lock, which comes and goes as other tests build: go asks git.
func tree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	const copies = `tar -C "$1" --exclude=./.git/index.lock -cf - . | tar -C "$2" --no-same-owner -xf -`
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", copies, "sh", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// TestPackage builds it twice, as different people would in different places, and looks at what came out.
func TestPackage(t *testing.T) {
	for _, p := range [][2]string{{"git", "git"}, {"dpkg-deb", "dpkg"}, {"lintian", "lintian"}} {
		need(t, p[0], p[1])
	}
	first := tree(t, "../..") // nobody edits that one meanwhile
	deb := build(t, first, "022", "TZ=UTC", "LANG=C")
	again := build(t, tree(t, first), "077", "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "GOMAXPROCS=1", "GOFLAGS=-v")
	if a, b := read(t, deb), read(t, again); a != b {
		t.Errorf("two builds differ: %d and %d bytes", len(a), len(b))
	}
	if out, stderr, err := run(t, "lintian", "--fail-on=error,warning", "--allow-root", deb); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("lintian: %v\n%s%s", err, out, stderr)
	}
	root := t.TempDir()
	if _, stderr, err := run(t, "dpkg-deb", "-R", deb, root); err != nil {
		t.Fatal(stderr)
	}
	t.Run("files", func(t *testing.T) { holds(t, root) })
	t.Run("fields", func(t *testing.T) { fields(t, read(t, filepath.Join(root, "DEBIAN/control"))) })
	t.Run("start", func(t *testing.T) { startsWithNothing(t, root) })
}

// holds checks that all is there, and that what is in /etc is the operator's.
func holds(t *testing.T, root string) {
	for _, f := range []string{"usr/bin/vouch", "usr/lib/systemd/system/vouch.service", "usr/lib/systemd/catalog/vouch.catalog", "usr/lib/sysusers.d/vouch.conf",
		"usr/lib/tmpfiles.d/vouch.conf", "usr/share/vouch/notify-reload.conf", "usr/share/man/man1/vouch.1.gz", "usr/share/man/man5/vouch.toml.5.gz",
		"usr/share/bash-completion/completions/vouch", "usr/share/zsh/vendor-completions/_vouch", "usr/share/fish/vendor_completions.d/vouch.fish",
		"usr/share/doc/vouch/copyright", "usr/share/doc/vouch/changelog.gz", "usr/share/doc/vouch/changelog.Debian.gz", "usr/share/doc/vouch/examples/vouch.toml",
		"usr/share/doc/vouch/examples/minimal.toml", "usr/share/doc/vouch/examples/systemd/withdraw-after-crash.conf", "usr/share/doc/vouch/examples/frr",
		"usr/share/doc/vouch/examples/bird", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm"} {
		if st, err := os.Stat(filepath.Join(root, f)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	var etc []string
	must(t, filepath.WalkDir(filepath.Join(root, "etc"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			etc = append(etc, strings.TrimPrefix(path, root))
		}
		return err
	}))
	conffiles := strings.Fields(read(t, filepath.Join(root, "DEBIAN/conffiles")))
	slices.Sort(conffiles)
	if !slices.Equal(etc, conffiles) || !slices.Contains(etc, "/etc/vouch/vouch.toml") {
		t.Errorf("in /etc: %q, conffiles: %q", etc, conffiles)
	}
}

// fields checks that no routing daemon is forced on anybody.
func fields(t *testing.T, control string) {
	for line := range strings.Lines(control) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		forces := slices.Contains([]string{"Depends", "Pre-Depends", "Recommends", "Conflicts", "Breaks"}, key)
		if forces && (strings.Contains(value, "frr") || strings.Contains(value, "bird")) {
			t.Errorf("a routing daemon is forced: %s", line)
		}
		if key == "License" || strings.HasSuffix(value, "${VERSION}") {
			t.Errorf("field %s", line)
		}
	}
}

// startsWithNothing: the configuration as installed announces nothing and says so, and without its # it is right.
func startsWithNothing(t *testing.T, root string) {
	vouch, file := filepath.Join(root, "usr/bin/vouch"), filepath.Join(root, "etc/vouch/vouch.toml")
	_, stderr, err := run(t, vouch, "validate", "--config", file)
	if err == nil || !strings.Contains(stderr, "there is no service to vouch for") {
		t.Errorf("validate: %v, %s", err, stderr)
	}
	if _, _, err := run(t, vouch, "run", "--config", file); err == nil || err.Error() != "exit status 78" {
		t.Errorf("run: %v, want the status that the unit does not restart for", err)
	}
	var lines []string
	for line := range strings.Lines(read(t, file)) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") && line != "#\n" {
			line = line[1:]
		}
		lines = append(lines, line)
	}
	whole := filepath.Join(t.TempDir(), "vouch.toml")
	write(t, whole, strings.Join(lines, ""))
	if out, stderr, err := run(t, vouch, "validate", "--config", whole); err != nil || !strings.Contains(out, "1 service, 1 prefix") {
		t.Errorf("without its #: %v, %s%s", err, out, stderr)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
