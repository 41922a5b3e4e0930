package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vouch/agent/internal/config"
)

// plainRoff takes the escapes of roff back, as a reader sees the page.
var plainRoff = strings.NewReplacer(`\e`, `\`, `\-`, `-`, `\(aq`, `'`, `\(dq`, `"`, "\\(ga", "`", `\(ha`, `^`, `\(ti`, `~`, `\&`, "")

func page(t *testing.T, name string) string {
	t.Helper()
	return plainRoff.Replace(string(pages[name](New(testDeps()))))
}

// vouch(1) has every command with all of its flags, exit statuses and examples.
func TestManualHasEveryCommand(t *testing.T) {
	text := page(t, "vouch.1")
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			n++
			section, ok := sectionOf(text, `.SS "`+sub.UseLine()+`"`)
			if !ok {
				t.Errorf("no section on %q", sub.UseLine())
				continue
			}
			for _, want := range parts(sub) {
				if !strings.Contains(section, want) {
					t.Errorf("the section on %s has no %q", sub.CommandPath(), want)
				}
			}
			if sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	root := New(testDeps())
	root.InitDefaultCompletionCmd("bash")
	walk(root)
	if n < 15 {
		t.Errorf("only %d commands were found", n)
	}
}

// parts lists lines that a command's section must have.
func parts(c *cobra.Command) []string {
	var out []string
	for _, text := range []string{c.Long, c.Example, c.Annotations["exit"]} {
		for line := range strings.Lines(text) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			_, usage := pflag.UnquoteUsage(f)
			out = append(out, "--"+f.Name, usage)
		}
	})
	return out
}

// sectionOf gives the text from a heading to the next one.
func sectionOf(text, heading string) (string, bool) {
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n.SS ")
	return rest, ok
}

// vouch.toml(5) has every table, every key, and every word that the example says of them.
func TestManualHasEveryKey(t *testing.T) {
	text := page(t, "vouch.toml.5")
	example := string(config.Example())
	keys := regexp.MustCompile(`(?m)^#?([a-z][a-z0-9_]* = |\[[a-z][a-z0-9_.]*\]$)`).FindAllStringSubmatch(example, -1)
	if len(keys) < 60 {
		t.Fatalf("only %d keys and tables were found in the example", len(keys))
	}
	for _, k := range keys {
		if n := strings.Count(text, `.B "`+k[1]) + strings.Count(text, `.B "#`+k[1]) + strings.Count(text, `.SS "`+k[1]); n == 0 {
			t.Errorf("no entry for %q", k[1])
		}
	}
	has := " " + strings.Join(strings.Fields(text), " ") + " "
	for line := range strings.Lines(example) {
		_, comment, ok := strings.Cut(line, "# ")
		if ok && !strings.Contains(has, strings.Join(strings.Fields(comment), " ")) {
			t.Errorf("the page does not say %q", comment)
		}
	}
}

// What troff would take for a request, an escape or another character comes out as it was.
func TestManualText(t *testing.T) {
	r := newRoff("x", "1", "Tests")
	r.text("one\n'two'\n\n.three \\ four-five\n  a = \"b\"\n  .c\nsix")
	_, got, _ := strings.Cut(r.b.String(), "\n")
	want := `one
\&\(aqtwo\(aq
.PP
\&.three \e four\-five
.PP
.RS "4"
.nf
  a = \(dqb\(dq
  .c
.fi
.RE
.PP
six
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// groff has nothing to complain of.
func TestManualIsSet(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: needs groff: apt-get install groff-base")
	}
	for name, write := range pages {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-P-cbou", "-Kutf8", "-ww", "-rLL=100n")
		cmd.Stdin = strings.NewReader(string(write(New(testDeps()))))
		var warnings strings.Builder
		cmd.Stderr = &warnings
		out, err := cmd.Output()
		if err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", name, err, &warnings)
		}
		if !strings.Contains(string(out), "DESCRIPTION") {
			t.Errorf("%s: groff printed nothing of use", name)
		}
	}
}
