package agent

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/state"
	"vouch/agent/internal/systemd"
)

// go test ./agent -run Reference -update writes the files anew.
var update = flag.Bool("update", false, "write the generated files instead of comparing them")

func TestReferenceIsGenerated(t *testing.T) {
	for file, want := range map[string]string{
		"../packaging/systemd/vouch.catalog": catalog(),
		"../packaging/doc/reference.md":      reference(),
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(readFile(t, file), want); diff != "" {
			t.Errorf("%s is not what the code says; write it anew with: go test ./agent -run Reference -update\n%s", file, diff)
		}
	}
}

func catalog() string {
	var entries []systemd.CatalogEntry
	for _, k := range state.Kinds() {
		e := systemd.CatalogEntry{Kind: k.Name, Subject: k.Subject, Text: []string{k.Means}}
		if k.Do != "" {
			e.Text = append(e.Text, k.Do)
		}
		entries = append(entries, e)
	}
	return systemd.Catalog(entries)
}

// reference is the document of all that scripts and dashboards may rely on.
func reference() string {
	var b bytes.Buffer
	b.WriteString("# vouch: reference\n\nGenerated from the code.\n\n## Events\n\n" +
		"What `vouch events` and the journal show. Each is told once, when it happens. In the journal the kind is `VOUCH_KIND`, and\n" +
		"`MESSAGE_ID` finds all of one kind. The levels info, warn and error are the priorities 6, 4 and 3.\n" +
		"`journalctl -x` explains each below its message.\n\n| kind | MESSAGE_ID | levels | what it means | what to do |\n| --- | --- | --- | --- | --- |\n")
	levels := levelsOf()
	for _, k := range state.Kinds() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.Name, systemd.MessageID(k.Name), strings.Join(levels[k.Name], ", "), plainFields(k.Means), plainFields(k.Do))
	}
	b.WriteString("\n## Fields of the journal\n\n| field | JSON | what |\n| --- | --- | --- |\n")
	for _, f := range [][3]string{
		{"VOUCH_KIND", "kind", "the kind, as above"}, {"VOUCH_SERVICE", "service", "name of the service"},
		{"VOUCH_PREFIX", "prefix", "the prefix, such as 192.0.2.53/32"}, {"VOUCH_CHECK", "check", "name of the check in its service"},
		{"VOUCH_ROUTER", "router", "the routing daemon and how it is driven"}, {"VOUCH_STAGE", "stage", "absent, configured, selected, advertised or unknown, as last read"},
		{"VOUCH_REASON", "reason", "of a check: one of the reasons below; of other kinds: a word that tells what happened, such as refused, drain, resume"},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f[0], f[1], f[2])
	}
	b.WriteString("\n## Reasons of checks\n\n| reason | meaning |\n| --- | --- |\n")
	source, _ := os.ReadFile("../checks/checks.go")
	for _, m := range regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)" +// (.*)$`).FindAllStringSubmatch(string(source), -1) {
		fmt.Fprintf(&b, "| %s | %s |\n", m[1], m[2])
	}
	b.WriteString("\n## Exit statuses\n\n")
	exits(&b, cli.New(Commands("test")))
	return b.String()
}

// exits writes the exit statuses of cmd and of all below it.
func exits(b *bytes.Buffer, cmd *cobra.Command) {
	if text := cmd.Annotations["exit"]; text != "" {
		fmt.Fprintf(b, "### %s\n\n| status | meaning |\n| --- | --- |\n", cmd.CommandPath())
		for line := range strings.Lines(text) {
			code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
			fmt.Fprintf(b, "| %s | %s |\n", code, strings.TrimSpace(meaning))
		}
		b.WriteByte('\n')
	}
	for _, c := range cmd.Commands() {
		exits(b, c)
	}
}

var fieldName = regexp.MustCompile(`@VOUCH_([A-Z]+)@`)

func plainFields(s string) string {
	return fieldName.ReplaceAllStringFunc(s, func(f string) string { return strings.ToUpper(f[len("@VOUCH_") : len(f)-1]) })
}

// literals gives the fields of every state.Event that the package makes, as source text, by kind; "func" is the
// function that makes it. Beside them it gives all functions by name.
func literals() (out map[string][]map[string]string, funcs map[string]string) {
	out, funcs = map[string][]map[string]string{}, map[string]string{}
	files, _ := filepath.Glob("*.go")
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, _ := os.ReadFile(name)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, src, 0)
		if err != nil {
			panic(err)
		}
		text := func(n ast.Node) string {
			return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
		}
		function := ""
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok {
				function = text(f)
				funcs[f.Name.Name] = function
			}
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]string{"func": function}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					fields[fmt.Sprint(kv.Key)] = text(kv.Value)
				}
			}
			if kind, ok := strings.CutPrefix(fields["Kind"], "state.Kind"); ok {
				out[strings.ToLower(kind)] = append(out[strings.ToLower(kind)], fields)
			}
			return true
		})
	}
	return out, funcs
}

var (
	levelName = regexp.MustCompile(`"(info|warn|error)"`)
	called    = regexp.MustCompile(`\b(\w+)\(`)
	computed  = regexp.MustCompile(`\blevel\b[^\n]*:?= [^\n]*?\b(\w+)\(`)
)

// levelsOf gives the levels at which each kind is told. One that is computed is any of those that the function that
// tells it names, or the function that computes it.
func levelsOf() map[string][]string {
	all := []string{"info", "warn", "error"}
	out := map[string][]string{}
	events, funcs := literals()
	for kind, events := range events {
		found := map[string]bool{}
		add := func(text string) {
			for _, m := range levelName.FindAllStringSubmatch(text, -1) {
				found[m[1]] = true
			}
		}
		for _, e := range events {
			if fixed := levelName.MatchString(e["Level"]) && !strings.Contains(e["func"], ".Level"); fixed {
				add(e["Level"])
				continue
			}
			add(e["func"])
			for _, m := range called.FindAllStringSubmatch(e["Level"], -1) {
				add(funcs[m[1]])
			}
			for _, m := range computed.FindAllStringSubmatch(e["func"], -1) {
				add(funcs[m[1]])
			}
		}
		for _, l := range all {
			if found[l] {
				out[kind] = append(out[kind], l)
			}
		}
	}
	return out
}

// Every kind that is told is explained, and what its explanation names is a field of every event of it:
// the journal would show a bare @VOUCH_…@ otherwise.
func TestReferenceNamesFieldsThatAreThere(t *testing.T) {
	told, _ := literals()
	for _, k := range state.Kinds() {
		events := told[k.Name]
		if len(events) == 0 {
			t.Errorf("nothing tells an event of kind %s", k.Name)
		}
		delete(told, k.Name)
		for _, m := range fieldName.FindAllStringSubmatch(k.Subject+k.Means+k.Do, -1) {
			field := m[1][:1] + strings.ToLower(m[1][1:])
			for _, e := range events {
				if e[field] == "" {
					t.Errorf("%s names %s, which this event lacks: %v", k.Name, m[0], e)
				}
			}
		}
	}
	for kind := range told {
		t.Errorf("no kind of event is explained for %q", kind)
	}
}
