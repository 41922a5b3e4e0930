package store

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

func empty(t *testing.T) Store {
	s := Store{t.TempDir()}
	for _, dir := range []string{ActiveDir, TmpDir, Hidden, filepath.Dir(Mounts)} {
		if err := os.MkdirAll(s.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(Mounts, "proc /proc proc rw 0 0\n", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

// A fault that is told to happen ten times happens ten times to whoever asks, and many may ask at once.
func TestTake(t *testing.T) {
	s := empty(t)
	if err := s.SetFault(Fault{Name: "a", Left: 10, Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Take("a", func([]string) bool { return false }); ok {
		t.Error("taken by one that it was not meant for")
	}
	if _, ok := s.Take("b", nil); ok {
		t.Error("there is no such fault")
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 20 {
		all.Go(func() {
			args, ok := s.Take("a", nil)
			mu.Lock()
			defer mu.Unlock()
			if ok && slices.Equal(args, []string{"x"}) {
				taken++
			}
		})
	}
	all.Wait()
	if taken != 10 {
		t.Errorf("taken %d times", taken)
	}
}

func TestCalls(t *testing.T) {
	s := empty(t)
	start := time.Now()
	one := Call{Program: "/usr/bin/cli-shell-api", Args: []string{"--show-cfg1", "@ACTIVE", "--show-commands", "showConfig", "x"}, PID: 1, Started: start}
	two := Call{Program: "/opt/vyatta/sbin/my_set", Args: []string{"a"}, PID: 2, Started: start}
	done := one
	done.Ended, done.Code = true, 3
	for _, c := range []Call{one, two, done} {
		if err := s.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Calls()
	if err != nil || len(got) != 2 || got[0].Verb() != "showConfig" || got[0].Code != 3 || got[1].Verb() != "my_set" || got[1].Ended {
		t.Errorf("%+v, %v", got, err)
	}
}

// What was edited with the mount does not show without it, and the other way.
func TestEditsLieOnTwoSidesOfTheMount(t *testing.T) {
	s := Session{Store: empty(t), ID: "1"}
	if err := s.Open(true); err != nil || !s.Mounted() {
		t.Fatal(err)
	}
	if err := s.SetEdits([]Edit{{Path: "a"}}); err != nil {
		t.Fatal(err)
	}
	for _, mounted := range []bool{false, true} {
		if err := s.SetMounted(mounted); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Edits(); err != nil || len(got) > 0 != mounted {
			t.Errorf("mounted %v: %v, %v", mounted, got, err)
		}
	}
	if err := s.Close(); err != nil || s.Mounted() || len(s.Sessions()) > 0 {
		t.Errorf("%v, %v", err, s.Sessions())
	}
}
