package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBad: each file of testdata/bad has exactly the problems that its first lines want, one
// "# want: " line for each.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) < 45 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := wanted(string(data))
			cfg, err := double.parse(filepath.Base(file), data)
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
