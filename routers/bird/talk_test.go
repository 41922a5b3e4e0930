package bird

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

const talkGreeting = "0001 BIRD 2.0.12 ready.\n"

func talkTo(rp *replayer) *bySocket {
	return &bySocket{where: func() string { return rp.path }, timeout: 5 * time.Second}
}

// BIRD 1.6.8 closes a session of much use: the reading goes on in another, and nothing is asked twice.
func TestTalkGoesOn(t *testing.T) {
	rp := replay(t, recording{"": talkGreeting, "show a": "0013 a\n", "show b": "0013 b\n", "show c": "0013 c\n", "show d": "0013 d\n"})
	const restrict, reply = len("0016 Access restricted\n"), len("0013 a\n")
	rp.cutAt(len(talkGreeting) + restrict + 2*reply)
	b := talkTo(rp)
	defer b.close()
	replies, err := b.read(t.Context(), "show a", "show b", "show c", "show d")
	if err != nil || len(replies) != 4 || replies[0].Lines[0].Text != "a" || replies[3].Lines[0].Text != "d" {
		t.Errorf("%v, error %v", replies, err)
	}
	if sessions, sent := rp.count(); sessions != 2 || sent != 2*(len(talkGreeting)+restrict)+4*reply {
		t.Errorf("%d sessions, %d bytes", sessions, sent)
	}
}

// A session that answers nothing at all is not followed by another for ever.
func TestTalkGivesUp(t *testing.T) {
	rp := replay(t, recording{"": talkGreeting, "show a": "0013 a\n"})
	rp.cutAt(len(talkGreeting + "0016 Access restricted\n"))
	b := talkTo(rp)
	defer b.close()
	if replies, err := b.read(t.Context(), "show a"); !errors.Is(err, io.EOF) || !errors.Is(err, routers.ErrUnavailable) || replies != nil ||
		!strings.Contains(err.Error(), `"show a": `) {
		t.Errorf("%v, error %v", replies, err)
	}
	if sessions, _ := rp.count(); sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
}

// A reply that breaks off is no reason to go on: the daemon may have died of it.
func TestTalkBreaksOff(t *testing.T) {
	rp := replay(t, recording{"": talkGreeting, "show a": "0013 a\n", "show b": "1000-x\n0013 b\n"})
	b := talkTo(rp)
	defer b.close()
	rp.cutAt(len(talkGreeting+"0016 Access restricted\n"+"0013 a\n") + 3)
	if _, err := b.read(t.Context(), "show a", "show b"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	if sessions, _ := rp.count(); sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
	rp.cutAt(-1)
	if _, err := b.read(t.Context(), "show b"); err != nil {
		t.Errorf("the next reading: %v", err)
	}
}

func TestTalkKeepsOneSession(t *testing.T) {
	rp := replay(t, recording{"": talkGreeting, "show status": "0013 up\n", "configure": "0002-Reading\n0003 Reconfigured\n"})
	b := talkTo(rp)
	for range 3 {
		if v, err := b.version(t.Context()); err != nil || v != (ctl.Version{Major: 2, Minor: 0, Patch: 12}) {
			t.Errorf("%v, error %v", v, err)
		}
	}
	if sessions, _ := rp.count(); sessions != 1 {
		t.Errorf("%d sessions for three readings", sessions)
	}
	if replies, err := b.change(t.Context(), "configure", "configure"); err != nil || len(replies) != 2 || !replies[1].Has(ctl.Reconfigured) {
		t.Errorf("%v, error %v", replies, err)
	}
	if sessions, _ := rp.count(); sessions != 2 {
		t.Errorf("%d sessions with a change", sessions)
	}
	if _, err := b.read(t.Context(), "show\nstatus"); !errors.Is(err, routers.ErrRefused) {
		t.Errorf("error %v", err)
	}
	_, err := b.read(t.Context(), "show status")
	if sessions, _ := rp.count(); err != nil || sessions != 2 {
		t.Errorf("after a command that was not let pass: %d sessions, error %v", sessions, err)
	}
	b.close()
}

func TestTalkEnded(t *testing.T) {
	rp := replay(t, recording{"": talkGreeting})
	b := talkTo(rp)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.ended(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	rp.cutAt(len(talkGreeting) - 1)
	if err := b.ended(t.Context()); err == nil {
		t.Error("nobody was there to end")
	}
}

// saying is a talker that always says the same.
type saying struct {
	talker
	is    ctl.Version
	err   error
	asked int
}

func (s *saying) version(context.Context) (ctl.Version, error) { s.asked++; return s.is, s.err }

// A socket that is missing or denied has birdc in its place; one that does not answer has not.
func TestTalkOrElse(t *testing.T) {
	for _, first := range []error{os.ErrNotExist, os.ErrPermission, syscall.EACCES, syscall.ECONNREFUSED, io.EOF, nil} {
		a, b := &saying{err: first}, &saying{}
		_, err := (&orElse{a, b}).version(t.Context())
		second := errors.Is(first, os.ErrNotExist) || errors.Is(first, os.ErrPermission)
		if (b.asked == 1) != second || (err == nil) != (second || first == nil) {
			t.Errorf("%v: second asked %d times, error %v", first, b.asked, err)
		}
	}
	why := errors.New("no such program")
	_, err := (&orElse{&saying{err: os.ErrNotExist}, &saying{err: why}}).version(t.Context())
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, why) {
		t.Errorf("both failed: %v", err)
	}
	same := errors.New("birdc: Unable to connect to server control socket (/x): No such file or directory")
	if _, err := (&orElse{&saying{err: os.ErrNotExist}, &saying{err: same}}).version(t.Context()); err == nil || strings.Contains(err.Error(), "birdc") {
		t.Errorf("one cause is told twice: %v", err)
	}
}

func TestTalkPlace(t *testing.T) {
	dir := t.TempDir()
	usual := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	if got := place("/set", usual); got != "/set" {
		t.Error(got)
	}
	if got := place("", usual); got != usual[0] {
		t.Error(got)
	}
	if err := os.WriteFile(usual[1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := place("", usual); got != usual[1] {
		t.Error(got)
	}
}

func TestTalkWays(t *testing.T) {
	for via, want := range map[string]string{ViaSocket: "*bird.bySocket", ViaCommand: "*bird.byCommand", ViaAuto: "*bird.orElse", "": "*bird.orElse"} {
		d := newDaemons(Options{Via: via, Timeout: time.Second})
		if got := fmt.Sprintf("%T", d.main); got != want {
			t.Errorf("%q: %s", via, got)
		}
	}
}

// F12: who has IPv6.
func TestDaemonsOf(t *testing.T) {
	one, two := ctl.Version{Major: 1, Minor: 6}, ctl.Version{Major: 2}
	away := routers.ErrUnavailable
	for name, test := range map[string]struct {
		main, six saying
		six6      bool
	}{
		"BIRD 2":                 {saying{is: two}, saying{err: away}, false},
		"BIRD 2 and an old one":  {saying{is: two}, saying{is: one}, false},
		"both of BIRD 1":         {saying{is: one}, saying{is: one}, true},
		"bird6 is away":          {saying{is: one}, saying{err: away}, true},
		"bird is away":           {saying{err: away}, saying{is: one}, true},
		"both are away":          {saying{err: away}, saying{err: away}, false},
		"the six is a BIRD 2":    {saying{err: away}, saying{is: two}, false},
		"both sockets of BIRD 2": {saying{is: two}, saying{is: two}, false},
	} {
		d := daemons{&test.main, &test.six}
		if got := d.of(t.Context(), sceneStatic6) == d.six; got != test.six6 {
			t.Errorf("%s: bird6 has IPv6: %v", name, got)
		}
		if d.of(t.Context(), sceneStatic) != d.main {
			t.Errorf("%s: IPv4", name)
		}
		parts := d.split(t.Context(), []netip.Prefix{sceneStatic6, sceneStatic, sceneDirect6})
		switch {
		case test.six6 && (len(parts) != 2 || len(parts[0].prefixes) != 1 || len(parts[1].prefixes) != 2 || parts[1].talker != d.six):
			t.Errorf("%s: %v", name, parts)
		case !test.six6 && (len(parts) != 1 || len(parts[0].prefixes) != 3 || parts[0].prefixes[0] != sceneStatic6):
			t.Errorf("%s: %v", name, parts)
		}
	}
}
