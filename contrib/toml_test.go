package contrib

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestToolsWriteTheSameFile: out of the same data all tools make the same bytes, which vouch takes.
func TestToolsWriteTheSameFile(t *testing.T) {
	data := decode(t, read(t, "testdata/config.json"))
	want := read(t, "testdata/config.toml")
	validate(t, "testdata/config.toml")
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			t.Parallel()
			need(t, tool.files...)
			s := newSite(t, vouch(t))
			if out, err := tool.run(t, s, data); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if d := cmp.Diff(want, read(t, s.config())); d != "" {
				t.Errorf("not as in testdata/config.toml:\n%s", d)
			}
		})
	}
}

// TestHostileValues: whatever the data hold, a TOML parser reads the same data from what the tools write.
func TestHostileValues(t *testing.T) {
	text := read(t, "testdata/hostile.json")
	var first string
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			need(t, tool.files...)
			s := newSite(t, "/bin/true") // vouch would refuse all of it
			if out, err := tool.run(t, s, decode(t, text)); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := read(t, s.config())
			var back map[string]any
			if _, err := toml.Decode(got, &back); err != nil {
				t.Fatalf("no TOML: %v\n%s", err, got)
			}
			if d := cmp.Diff(decode(t, text), decode(t, encode(t, back))); d != "" {
				t.Errorf("the data have changed:\n%s", d)
			}
			if first == "" {
				first = got
			}
			if d := cmp.Diff(first, got); d != "" {
				t.Errorf("not the same as that of %s:\n%s", tools[0].name, d)
			}
		})
	}
}

// TestRefusedDataChangeNothing: what vouch refuses never gets to its place, and the run fails with vouch's
// words, or those of the tool, that name the key.
func TestRefusedDataChangeNothing(t *testing.T) {
	good := decode(t, read(t, "testdata/config.json"))
	for _, c := range []struct {
		name string
		data any
		says string
	}{
		{"no value", with(good, nil, "service", "resolver", "interval"), "service.resolver.interval"},
		{"misspelt", with(good, "1s", "service", "resolver", "intervall"), "intervall"},
	} {
		for _, tool := range tools {
			t.Run(c.name+"/"+tool.name, func(t *testing.T) {
				t.Parallel()
				need(t, tool.files...)
				s := newSite(t, vouch(t))
				write(t, s.config(), "# as it was\n")
				out, err := tool.run(t, s, c.data, map[string][]string{"puppet": {"--detailed-exitcodes"}}[tool.name]...)
				if err == nil || !strings.Contains(out, c.says) {
					t.Errorf("got %v, want an error that says %q:\n%s", err, c.says, out)
				}
				if got := read(t, s.config()); got != "# as it was\n" {
					t.Errorf("the file was replaced:\n%s", got)
				}
			})
		}
	}
}
