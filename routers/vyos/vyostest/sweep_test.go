package vyostest

import (
	"os"
	"testing"

	"vouch/routers/vyos/vyostest/store"
)

// What a killed process left is removed, and nothing of a living one.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, owner, err := newRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	dead, owner2, err := newRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner2.Close(); err != nil {
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(alive + store.Hidden); err != nil {
		t.Errorf("of the living: %v", err)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("what the dead left is there")
	}
}
