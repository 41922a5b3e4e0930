package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Output that others may still write to is an error, unless the exit status is what counts; what the program wrote
// itself is there both ways.
func TestUnfinished(t *testing.T) {
	for name, script := range map[string]string{
		"of its group":   `sleep 300 & echo $!; exit 3`,
		"stderr alone":   `sleep 300 >/dev/null & echo $!; exit 3`,
		"that left":      `setsid sh -c 'touch "$0"; exec sleep 300' "$1" & echo $!; while [ ! -e "$1" ]; do :; done; exit 3`,
		"without an end": `setsid sh -c 'touch "$0"; exec yes' "$1" >&2 & echo $!; while [ ! -e "$1" ]; do :; done; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, lax := range []bool{false, true} {
				s := sh(script, filepath.Join(t.TempDir(), "mark"))
				s.ByStatus = lax
				out, err := Run(t.Context(), s)
				if errors.Is(err, ErrUnfinished) == lax || !out.Unfinished || out.Code != 3 {
					t.Errorf("by status %v: %v, %+v", lax, err, out)
				}
				pid := pidIn(t, out.Stdout)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				gone(t, pid)
			}
		})
	}
}

// A script whose output goes through another program may end before that has written it: it is whole or not told
// to be.
func TestThroughAnother(t *testing.T) {
	for range 5 {
		out, err := Run(t.Context(), sh("(sleep 0.01; echo late) & exit 1"))
		if err == nil && string(out.Stdout) != "late\n" || err != nil && !errors.Is(err, ErrUnfinished) {
			t.Fatalf("%v, %+v", err, out)
		}
	}
}

// Children whom the end of ctx killed have not said all.
func TestUnfinishedByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, streams, err := launch(sh("sleep 300 & exit 0"), &capped{max: 100}, &capped{max: 100})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, whole, _ := wait(ctx, c, streams); whole {
		t.Error("whole")
	}
}

// Programs that are started side by side do not hold each other's output, however late the one is executed.
func TestSideBySide(t *testing.T) {
	usual := startDelay
	t.Cleanup(func() { startDelay = usual })
	startDelay = soon // a busy machine may need longer than usual, and then they are started beside others
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	others, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range 4 {
		all.Go(func() {
			for others.Err() == nil {
				if i > 0 {
					_, _ = Run(others, sh("exit 0"))
				} else if l, err := StartLasting(sh("exit 0"), file); err == nil {
					<-l.Done()
				}
			}
		})
	}
	for range 300 {
		c, streams, err := launch(sh("exit 0"), &capped{max: 100}, &capped{max: 100})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Wait()
		for _, p := range streams {
			p.finish()
			if err != nil || !p.whole {
				t.Fatalf("somebody holds its output when it has ended (%v)", err)
			}
		}
	}
}

// All that was written is taken, however late its reader comes, and also when somebody holds the pipe.
func TestFinishTakesWhatIsThere(t *testing.T) {
	text := strings.Repeat("0123456789", 6000)
	for _, held := range []bool{false, true} {
		p, err := newPipe(&capped{max: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.to.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if held {
			fd, err := syscall.Dup(int(p.to.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(fd)
		}
		if err := p.from.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		p.start()
		p.finish()
		if string(p.kept.bytes()) != text || p.whole == held {
			t.Errorf("held %v: %d bytes, whole %v", held, len(p.kept.bytes()), p.whole)
		}
		if _, err := p.from.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("it is open: %v", err)
		}
	}
}

// A program whose start hangs, as on a dead file system, keeps no other from being started.
func TestHungStart(t *testing.T) {
	starting <- struct{}{}
	defer func() { <-starting }()
	if out, err := Run(t.Context(), sh("echo started")); err != nil || string(out.Stdout) != "started\n" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}
