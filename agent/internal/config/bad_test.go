package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/checks/kinds"
)

// TestBad: each file of testdata/bad has exactly the problems that its first lines want, one
// "# want: " line for each.
func TestBad(t *testing.T) { wantProblems(t, "testdata/bad/*.toml", 45, double) }

// TestBadKinds: the same with the real kinds of checks.
func TestBadKinds(t *testing.T) {
	p := double
	p.newSpec, p.kinds = kinds.New, kinds.Names()
	wantProblems(t, "testdata/bad-kinds/*.toml", 3, p)
}

func wantProblems(t *testing.T, pattern string, least int, p parser) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := wanted(string(data))
			cfg, err := p.parse(filepath.Base(file), data)
			var ps Problems
			if !errors.As(err, &ps) || cfg != nil {
				t.Fatalf("got %v, %v; want Problems", cfg, err)
			}
			if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems: -want +got:\n%s", diff)
			}
		})
	}
}

func wanted(text string) []string {
	var want []string
	for line := range strings.Lines(text) {
		w, ok := strings.CutPrefix(line, "# want: ")
		if !ok {
			break
		}
		want = append(want, strings.TrimSuffix(w, "\n"))
	}
	return want
}
