// Package contrib tests what is beside vouch for those who run it: roles and modules of configuration
// management, and pieces of configuration for daemons. Each is read by the program that it is made for.
package contrib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// scratch is for what all tests have in common.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "vouch-contrib-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "vouch")
	out, err := exec.Command("go", "build", "-o", path, "vouch/agent/cmd/vouch").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// vouch is the path of the program, as it is built from this tree.
func vouch(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// need skips the test where files are missing that Debian packages have; with CI=true it fails.
func need(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("missing %s: run `make deps` as root", f)
		}
		t.Skipf("NOT TESTED: missing %s: run `make deps` as root", f)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program and gives what it wrote to both outputs.
func run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is run for what has to succeed.
func must(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := run(t, env, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// exitStatus is that of a program which has run; -1: it has not.
func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// exists says whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// validate has vouch read a configuration.
func validate(t *testing.T, file string) {
	t.Helper()
	must(t, nil, vouch(t), "validate", "--config", file)
}

// files are those that match, of which there must be some.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return found
}

// decode reads JSON as nested data.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return data
}

func encode(t *testing.T, data any) string {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEverySnippetHasAValidVouchTOML(t *testing.T) {
	for _, f := range files(t, "vyos/*.commands") {
		t.Run(f, func(t *testing.T) { validate(t, strings.TrimSuffix(f, ".commands")+".toml") })
	}
	for _, pattern := range []string{"frr/*.conf", "bird/*.conf", "bird/bird1/*.conf"} {
		for _, f := range files(t, pattern) {
			file := strings.TrimSuffix(f, ".conf")
			if strings.HasPrefix(f, "bird/bird1/") {
				file = strings.TrimSuffix(file, "6")
			}
			t.Run(f, func(t *testing.T) { validate(t, file+".toml") })
		}
	}
}

func TestEverySnippetIsInItsREADME(t *testing.T) {
	for _, dir := range []string{"frr", "bird", "vyos", "networkd", "netplan", "needrestart"} {
		text := read(t, filepath.Join(dir, "README.md"))
		for _, f := range files(t, filepath.Join(dir, "*")) {
			name := filepath.Base(f)
			if e := filepath.Ext(name); (e == ".conf" || e == ".network" || e == ".yaml" || e == ".commands") && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s/README.md does not say what %s is for", dir, name)
			}
		}
	}
}
