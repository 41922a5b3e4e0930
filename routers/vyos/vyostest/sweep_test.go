package vyostest

import (
	"errors"
	"os"
	"sync"
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

// A system that is being made is nobody's to remove, whoever sweeps meanwhile.
func TestSweepBesideNew(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	made := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-made:
				return
			default:
				sweep()
			}
		}
	})
	for range 200 {
		root, owner, err := newRoot()
		if err == nil {
			_, err = os.Stat(root + ownerFile)
			err = errors.Join(err, os.RemoveAll(root), owner.Close())
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(made)
	sweeper.Wait()
}
