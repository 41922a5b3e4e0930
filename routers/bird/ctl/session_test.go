package ctl

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

const banner = "0001 BIRD 2.0.12 ready.\n"

// A daemon is the other end of a session in a test: what it is sent, line by line, and what it sends.
type daemon struct {
	net.Conn
	lines *bufio.Reader
}

func (d daemon) say(text string) { io.WriteString(d, text) }

func (d daemon) heard(t *testing.T, want string) {
	t.Helper()
	if got, err := d.lines.ReadString('\n'); got != want+"\n" {
		t.Errorf("was sent %q, error %v", got, err)
	}
}

// against runs f with a session whose daemon greets and then does as it likes, in a bubble of its own.
func against(t *testing.T, like func(d daemon), f func(t *testing.T, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		d := daemon{theirs, bufio.NewReader(theirs)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.say(banner)
			like(d)
		}()
		s, err := greet(t.Context(), ours, "bird.ctl", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
		s.Close()
		d.Close()
		<-done
	})
}

func TestSession(t *testing.T) {
	against(t, func(d daemon) {
		d.heard(t, "restrict")
		d.say("0016 Access restricted\n")
		d.heard(t, "show status")
		d.say("1000-BIRD 2.0.12\n0013 Daemon is up and running\n")
		d.heard(t, "disable x")
		d.say("8007 Access denied\n")
	}, func(t *testing.T, s *Session) {
		if s.Version() != (Version{2, 0, 12}) {
			t.Errorf("version %v", s.Version())
		}
		if err := s.Restrict(t.Context()); err != nil {
			t.Error(err)
		}
		if r, err := s.Do(t.Context(), "show status"); err != nil || r.Code() != Status {
			t.Errorf("%v, error %v", r, err)
		}
		if r, err := s.Do(t.Context(), "disable x"); err != nil || r.Code() != AccessDenied {
			t.Errorf("%v, error %v", r, err)
		}
	})
}

func TestSessionSendsNothingBad(t *testing.T) {
	against(t, func(d daemon) { d.heard(t, "show status"); d.say("0013 up\n") }, func(t *testing.T, s *Session) {
		if _, err := s.Do(t.Context(), "show status\ndown"); !errors.Is(err, routers.ErrRefused) {
			t.Errorf("error %v", err)
		}
		if _, err := s.Do(t.Context(), "show status"); err != nil {
			t.Errorf("the session should be as it was: %v", err)
		}
	})
}

// A reply that comes in parts, each in time, is waited for; BIRD prints long tables so.
func TestSessionSlowReply(t *testing.T) {
	const reply = "1007-a\n b\n0000 \n"
	against(t, func(d daemon) {
		d.heard(t, "show route")
		for i := range len(reply) {
			d.say(reply[i : i+1])
			time.Sleep(600 * time.Millisecond)
		}
	}, func(t *testing.T, s *Session) {
		if r, err := s.Do(t.Context(), "show route"); err != nil || len(r.Lines) != 3 {
			t.Errorf("%v, error %v", r, err)
		}
	})
}

// What a session fails with, how long that may take, and that it does not go on afterwards.
func TestSessionFailures(t *testing.T) {
	for name, test := range map[string]struct {
		like  func(d daemon)
		is    error
		says  string
		after time.Duration
	}{
		"hangs":              {func(d daemon) { d.heard(t, "show status") }, nil, "bird.ctl: no answer for 1s: bird hangs", time.Second},
		"does not read":      {func(daemon) {}, nil, "no answer for 1s", time.Second},
		"hangs in the reply": {func(d daemon) { d.heard(t, "show status"); d.say("1000-a\n") }, nil, "no answer for 1s", time.Second},
		"ends":               {func(d daemon) { d.heard(t, "show status"); d.Close() }, io.EOF, "bird.ctl: closed by bird, which may have ended", 0},
		"ends in the reply":  {func(d daemon) { d.heard(t, "show status"); d.say("1000-a\n00"); d.Close() }, io.ErrUnexpectedEOF, "closed in the middle of a reply", 0},
		"garbage":            {func(d daemon) { d.heard(t, "show status"); d.say("what?\n") }, errGarbage, `"what?"`, 0},
		"says too much":      {func(d daemon) { d.heard(t, "show status"); d.say("0013 up\n0013 up\n") }, errGarbage, "more behind the reply", 0},
		"never ends": {func(d daemon) {
			d.heard(t, "show status")
			for {
				if _, err := io.WriteString(d, "1000-a\n"); err != nil {
					return
				}
				time.Sleep(900 * time.Millisecond)
			}
		}, context.DeadlineExceeded, "its reply went on for 10s", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			against(t, test.like, func(t *testing.T, s *Session) {
				began := time.Now()
				_, err := s.Do(t.Context(), "show status")
				if !errors.Is(err, routers.ErrUnavailable) || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("after %v", took)
				}
				if _, again := s.Do(t.Context(), "show status"); again != err {
					t.Errorf("the session goes on: %v", again)
				}
			})
		})
	}
}

// Only a session that ends before anything was answered is an io.EOF, as then it can be tried again.
func TestSessionEOFOnlyBeforeTheReply(t *testing.T) {
	against(t, func(d daemon) { d.heard(t, "show status"); d.say("0013"); d.Close() }, func(t *testing.T, s *Session) {
		if _, err := s.Do(t.Context(), "show status"); errors.Is(err, io.EOF) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSessionEndsWithContext(t *testing.T) {
	against(t, func(d daemon) { d.heard(t, "show status") }, func(t *testing.T, s *Session) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.Do(ctx, "show status")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "had not answered yet") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("after %v", took)
		}
	})
}

func TestSetTimeout(t *testing.T) {
	against(t, func(d daemon) {
		d.heard(t, "configure")
		time.Sleep(5 * time.Second)
		d.say("0003 Reconfigured\n")
	}, func(t *testing.T, s *Session) {
		s.SetTimeout(10 * time.Second)
		if r, err := s.Do(t.Context(), "configure"); err != nil || r.Code() != Reconfigured {
			t.Errorf("%v, error %v", r, err)
		}
	})
}

func TestWait(t *testing.T) {
	against(t, func(d daemon) { time.Sleep(time.Hour); d.Close() }, func(t *testing.T, s *Session) {
		began := time.Now()
		if err := s.Wait(t.Context()); err != nil || time.Since(began) != time.Hour {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if _, err := s.Do(t.Context(), "show status"); !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("goes on: %v", err)
		}
	})
	against(t, func(daemon) {}, func(t *testing.T, s *Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	against(t, func(d daemon) { d.say("9001 what\n") }, func(t *testing.T, s *Session) {
		if err := s.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "spoke unasked") {
			t.Errorf("error %v", err)
		}
	})
}

// The greeting may be missing, late, cut anywhere, or that of something else.
func TestGreeting(t *testing.T) {
	for i := range len(banner) {
		ours, theirs := net.Pipe()
		go func() {
			io.WriteString(theirs, banner[:i])
			theirs.Close()
		}()
		if s, err := greet(t.Context(), ours, "bird.ctl", time.Second); !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("cut at %d: %v, error %v", i, s, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ours, _ := net.Pipe()
		began := time.Now()
		if _, err := greet(t.Context(), ours, "bird.ctl", time.Second); !errors.Is(err, routers.ErrUnavailable) || time.Since(began) != time.Second {
			t.Errorf("no greeting: error %v after %v", err, time.Since(began))
		}
	})
	ours, theirs := net.Pipe()
	go io.WriteString(theirs, "0220 mail ready\n")
	if _, err := greet(t.Context(), ours, "bird.ctl", time.Second); err == nil || !strings.Contains(err.Error(), "is it bird's control socket?") {
		t.Errorf("another greeting: %v", err)
	}
}

// A read that follows the end of ctx does not begin to wait anew.
func TestReadAfterContext(t *testing.T) {
	ours, _ := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (patient{ctx, &Session{conn: ours, timeout: time.Millisecond}}).Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
