package ctl

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the real daemons said, cut at every byte, is never taken for a reply.
func TestRecordedRepliesCut(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/scene*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("recordings %v (%v)", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq("\n"+string(text), "\n> ") {
			command, reply, _ := strings.Cut(part, "\n")
			if reply == "" {
				continue
			}
			reply = strings.TrimSuffix(reply, "\n") + "\n" // which parted it from the next
			parse := func(text string) (Reply, error) {
				return (&reader{bufio.NewReaderSize(strings.NewReader(text), 512), " "}).reply()
			}
			for i := range reply {
				if r, err := parse(reply[:i]); err == nil {
					t.Errorf("%s: %q cut at %d is taken for %v", file, command, i, r)
				}
			}
			r, err := parse(reply)
			if err != nil || strings.Count(reply, "\n") != len(r.Lines) {
				t.Errorf("%s: %q: %d lines, error %v", file, command, len(r.Lines), err)
			}
		}
	}
}
