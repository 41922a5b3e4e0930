package lab_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vouch/routers/lab"
)

// child names what this test program is to do instead of testing, when a test runs it again.
const child = "VOUCH_LAB_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(child); what != "" {
		dieWith(what == "keep")
	}
	flag.Parse()
	// These tests wait for daemons most of the time. The default is the number of processors.
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// dieWith leaves a network behind, as a test does that panics in a goroutine of its own.
func dieWith(keep bool) {
	n, err := lab.New(context.Background())
	must(err)
	if keep {
		must(n.Keep())
	}
	nd, err := n.Node("left")
	must(err)
	_, err = nd.Start("sleep", "sleep", "600")
	must(err)
	fmt.Println(n.ID())
	panic("a test went wrong")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// leave runs a child that leaves a network, and gives its id.
func leave(t *testing.T, what string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+what)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child did not panic")
	}
	id := strings.TrimSpace(line)
	if id == "" {
		t.Fatal("the child made no network")
	}
	return id
}

// traces lists what there is of a network: its directory, namespaces and processes.
func traces(t *testing.T, id string) []string {
	t.Helper()
	dirs, _ := filepath.Glob("/run/vlab/*" + id)
	names, _ := filepath.Glob("/run/netns/vlab-" + id + "-*")
	found := append(dirs, names...)
	for _, ns := range names {
		out, err := exec.Command("ip", "netns", "pids", filepath.Base(ns)).Output()
		if _, gone := os.Stat(ns); gone != nil {
			continue // removed meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		for pid := range strings.FieldsSeq(string(out)) {
			found = append(found, "pid "+pid)
		}
	}
	return found
}

// ended fails the test if one of the processes among traces runs still. One that nobody has reaped
// yet has ended.
func ended(t *testing.T, traces []string) {
	t.Helper()
	for _, trace := range traces {
		pid, ok := strings.CutPrefix(trace, "pid ")
		if !ok {
			continue
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("a process runs still: %s", stat)
		}
	}
}

func TestNewSweepsWhatADeadProcessLeft(t *testing.T) {
	lab.Require(t)
	left := leave(t, "panic")
	before := traces(t, left)
	lab.Open(t)
	// Another test program may have begun to remove it, and then New left that to it.
	err := lab.Wait(within(t, time.Minute), "its end", 5*time.Millisecond, func() (bool, error) {
		return len(traces(t, left)) == 0, nil
	})
	if err != nil {
		t.Fatalf("New left %v", traces(t, left))
	}
	ended(t, before)
}

func TestKeptNetworkStaysUntilRemoved(t *testing.T) {
	lab.Require(t)
	left := leave(t, "keep")
	t.Cleanup(func() { _ = lab.Remove(left) })
	lab.Open(t)
	before := traces(t, left)
	if len(before) != 3 {
		t.Fatalf("of a directory, a namespace and a process there are %v", before)
	}
	if !slices.Contains(lab.Kept(), left) {
		t.Fatalf("Kept gives %v, without %s", lab.Kept(), left)
	}
	if err := lab.Remove(left); err != nil {
		t.Fatal(err)
	}
	ended(t, before)
	if found := traces(t, left); len(found) > 0 {
		t.Fatalf("Remove left %v", found)
	}
}

// Those who begin a network look for what others left, and are in nobody's way who is just removing his own.
func TestCloseBesideSweeps(t *testing.T) {
	lab.Require(t)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = lab.Sweep()
			}
		})
	}
	for range 500 {
		n, err := lab.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRemoveLeavesALivingNetworkAlone(t *testing.T) {
	n := lab.Open(t)
	err := lab.Remove(n.ID())
	if err == nil || !strings.Contains(err.Error(), "its process is alive") {
		t.Fatalf("Remove said %v", err)
	}
	if found := traces(t, n.ID()); len(found) == 0 {
		t.Fatal("Remove removed a living network")
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	n := lab.Open(t)
	nd, err := n.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	// A process the network did not start itself, with a session of its own, that minds no SIGTERM.
	if _, err := nd.Run(t.Context(), "sh", "-c", "trap '' TERM; setsid sleep 600 >/dev/null 2>&1 &"); err != nil {
		t.Fatal(err)
	}
	p, err := nd.Start("sleep", "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	before := traces(t, n.ID())
	if len(before) != 4 {
		t.Fatalf("of a directory, a namespace and two processes there are %v", before)
	}
	for range 2 {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if found := traces(t, n.ID()); len(found) > 0 {
		t.Fatalf("Close left %v", found)
	}
	ended(t, before)
	if p.Running() {
		t.Fatal("the process runs")
	}
	if _, err := nd.Start("late", "true"); err == nil {
		t.Fatal("a process was started in a closed network")
	}
}

func TestProcess(t *testing.T) {
	n := lab.Open(t)
	nd, err := n.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *lab.Proc {
		p, err := nd.Start("p", args...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := start("sh", "-c", "echo said; exit 3").Err(); err == nil || err.Error() != "exit status 3" {
		t.Fatalf("ended with %v", err)
	}
	// A process that has a handler for SIGTERM does not end while it is stopped.
	p := start("sh", "-c", "trap 'exit 0' TERM; echo waits; while :; do sleep 0.1; done")
	err = lab.Wait(within(t, time.Minute), "its word", time.Millisecond, func() (bool, error) {
		return p.Log() == "said\nwaits\n", errors.New(p.Log())
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil { // it must not need the kill that follows in vain
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal to an ended process: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

func TestDoIsInsideAndComesBack(t *testing.T) {
	n := lab.Open(t)
	nd, err := n.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	ns := func() string {
		name, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		return name
	}
	home, there := ns(), ""
	want := errors.New("what fn says")
	if err := nd.Do(func() error { there = ns(); return want }); !errors.Is(err, want) {
		t.Fatalf("Do gave %v", err)
	}
	if there == home {
		t.Fatal("fn ran outside")
	}
	went, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		_ = nd.Do(func() error { runtime.Goexit(); return nil }) // as t.Fatal does
		went = true
	}()
	if <-ended; went {
		t.Error("the test went on")
	}
	if now := ns(); now != home {
		t.Fatalf("the caller is in %s, was in %s", now, home)
	}
	out, err := nd.Run(t.Context(), "readlink", "/proc/self/ns/net")
	if err != nil || strings.TrimSpace(out) != there {
		t.Fatalf("Run was in %q (%v), Do in %s", out, err, there)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	n := lab.Open(t)
	nd, err := n.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := nd.Run(ctx, "sleep", "60"); err == nil || time.Since(began) > 10*time.Second {
		t.Fatalf("Run took %s and gave %v", time.Since(began), err)
	}
}
