package checks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	askAt       = "VOUCH_TEST_ASK_AT" // tells this program, run by its own test, what to ask
	stopTimeout = 2 * time.Second     // of a run, in which a busy machine has to stop or to answer the one that asks
)

// ask wants one byte for one byte.
type ask struct{ path string }

func (a ask) String() string { return "ask" }

func (a ask) Check(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", a.path)
	if err != nil {
		return NetFailure(ctx, "no connection", err)
	}
	defer c.Close()
	at, _ := ctx.Deadline()
	_ = c.SetDeadline(at) // a failure shows in what follows
	if _, err = c.Write([]byte("?")); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		return NetFailure(ctx, "no answer", err)
	}
	return nil
}

// TestAsker is no test: it is what TestStopped stops. It asks round by round, and prints what each came to.
func TestAsker(t *testing.T) {
	path := os.Getenv(askAt)
	if path == "" {
		t.Skip("this is run by TestStopped")
	}
	r := NewRunner("s", []Probe{{Name: "ask", Checker: ask{path}, Timeout: stopTimeout}}, time.Millisecond, nil, func(_ context.Context, round Round) time.Duration {
		fmt.Printf("round %s\n", word(round.Results[0]))
		return time.Millisecond
	})
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// An asker is a process whose checks this one answers, or does not, and which it can stop.
type asker struct {
	t      *testing.T
	cmd    *exec.Cmd
	asked  net.Listener
	rounds *bufio.Scanner
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAsker$", "-test.v")
	cmd.Env = append(os.Environ(), askAt+"="+l.Addr().String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		l.Close()
	})
	return &asker{t, cmd, l, bufio.NewScanner(out)}
}

// question waits for a check to ask.
func (a *asker) question() net.Conn {
	a.t.Helper()
	_ = a.asked.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)) // a failure shows in what follows
	c, err := a.asked.Accept()
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	return c
}

// halted stops the process for longer than a check may take, and does something meanwhile.
func (a *asker) halted(meanwhile func()) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !a.stopped(); {
		if time.Now().After(end) {
			a.t.Fatal("the process does not stop")
		}
	}
	meanwhile()
	<-time.After(stopTimeout) // it is the time itself that is waited for; the run began before
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		a.t.Fatal(err)
	}
}

// stopped says whether all threads of the process have stopped.
func (a *asker) stopped() bool {
	tasks := fmt.Sprintf("/proc/%d/task", a.cmd.Process.Pid)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, th := range threads {
		b, err := os.ReadFile(tasks + "/" + th.Name() + "/stat")
		if err != nil || !bytes.Contains(b, []byte(") T ")) {
			return false
		}
	}
	return true
}

// round gives what the next round has come to.
func (a *asker) round() string {
	a.t.Helper()
	for a.rounds.Scan() {
		if found, ok := strings.CutPrefix(a.rounds.Text(), "round "); ok {
			return found
		}
	}
	a.t.Fatalf("the process has ended: %v", a.rounds.Err())
	return ""
}

func answer(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
}

// A process that is really stopped while it asks, for longer than the timeout.
func TestStopped(t *testing.T) {
	t.Parallel()
	t.Run("one that answers is ok", func(t *testing.T) {
		a := newAsker(t)
		c := a.question()
		a.halted(func() { answer(t, c) })
		answer(t, a.question()) // it asks anew
		if got := a.round(); got != "ok" {
			t.Errorf("after a stop the round is %s, want ok", got)
		}
	})
	t.Run("one that answers nothing is failed", func(t *testing.T) {
		a := newAsker(t)
		a.question()
		a.halted(func() {})
		a.question()
		got := a.round()
		for ; got == "unknown"; got = a.round() { // where there is no CPU for it now
		}
		if got != "failed" {
			t.Errorf("after a stop the round is %s, want failed", got)
		}
	})
	t.Run("nothing is known while it is stopped each time", func(t *testing.T) {
		a := newAsker(t)
		for range 2 {
			for range 2 {
				a.question()
				a.halted(func() {})
			}
			if got := a.round(); got != "unknown" {
				t.Errorf("after two stops the round is %s, want unknown", got)
			}
		}
	})
}
