package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
)

// What the README shows is what the program prints.
func TestReadmeShowsWhatIs(t *testing.T) {
	readme := readFile(t, "../README.md")
	for _, f := range []string{"internal/config/minimal.toml", "internal/cli/testdata/status-down.golden", "internal/cli/testdata/explain-down.golden"} {
		if !strings.Contains(readme, "\n"+readFile(t, f)+"```") {
			t.Errorf("README.md does not show %s as it is", f)
		}
	}
	if string(config.Minimal()) != readFile(t, "internal/config/minimal.toml") {
		t.Error("vouch config minimal prints something else than minimal.toml")
	}
}

// Every command line of vouch in the README is one that the program takes.
func TestReadmeCommandsAreThere(t *testing.T) {
	root := cli.New(Commands("test"))
	root.InitDefaultCompletionCmd()
	readme := readFile(t, "../README.md")
	lines := regexp.MustCompile("`vouch ([^`\n]+)`").FindAllStringSubmatch(readme, -1)
	for _, block := range regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```").FindAllStringSubmatch(readme, -1) {
		lines = append(lines, regexp.MustCompile(`(?m)^(?:sudo )?vouch ([a-z][^#|\n]*)`).FindAllStringSubmatch(block[1], -1)...)
	}
	if len(lines) < 10 {
		t.Fatalf("only %d command lines found", len(lines))
	}
	for _, m := range lines {
		args := strings.Fields(strings.TrimSuffix(m[1], " --help"))
		if args[0] == "COMMAND" {
			continue
		}
		cmd, rest, err := root.Find(args)
		if err != nil || cmd == root {
			t.Errorf("vouch %s: %v", m[1], err)
			continue
		}
		if err := cmd.ParseFlags(unquoted(rest)); err != nil {
			t.Errorf("vouch %s: %v", m[1], err)
		}
	}
}

// unquoted drops the words inside quotes, which are a flag's value.
func unquoted(words []string) (out []string) {
	quoted := false
	for _, w := range words {
		starts, ends := strings.HasPrefix(w, `"`), strings.HasSuffix(w, `"`)
		if starts || !quoted {
			out = append(out, w)
		}
		quoted = (quoted || starts) && !ends
	}
	return out
}

// The times that the README calculates are those of the defaults.
func TestReadmeTimesAreTheDefaults(t *testing.T) {
	cfg, err := config.Parse("minimal.toml", config.Minimal())
	if err != nil {
		t.Fatal(err)
	}
	timing := cfg.Services[0].Timing()
	readme := readFile(t, "../README.md")
	for _, want := range []string{"= " + spaced(timing.Refused.String()) + " |", "= " + spaced(timing.Silent.String()) + " |", "= " + spaced(timing.Return.String()) + " |"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md has no %q", want)
		}
	}
}

// spaced writes 1.4s as the README does.
func spaced(d string) string { return strings.TrimSuffix(d, "s") + " s" }

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
