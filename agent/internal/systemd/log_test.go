package systemd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// blocked is a handler that keeps records, and stands still while its gate is closed.
type blocked struct {
	gate chan struct{}
	got  []string
}

func (b *blocked) Enabled(context.Context, slog.Level) bool { return true }
func (b *blocked) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *blocked) WithGroup(string) slog.Handler            { return b }
func (b *blocked) Handle(_ context.Context, r slog.Record) error {
	<-b.gate
	b.got = append(b.got, r.Message)
	return nil
}

// logged gives what the log writes as text for one use of it.
func logged(t *testing.T, l *lines, out *bytes.Buffer, use func(*slog.Logger)) string {
	t.Helper()
	synctest.Test(t, func(*testing.T) { // there the writer has all the time that it needs
		log := newLog(slog.LevelInfo, l)
		use(slog.New(log))
		log.Start()()
	})
	return out.String()
}

func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	got := logged(t, newLines(&out, false, true), &out, func(log *slog.Logger) {
		log.Debug("not shown")
		log.Info("service is up", "service", "resolver", "took", 1500*time.Millisecond)
		log.Warn("two\nlines\x00", "err", errors.New("a \"b\"\nc"), "empty", "")
		log.With("service", "web").WithGroup("peer").With("name", "apu02").Error("gone", slog.Group("bgp", "as", 65001), slog.Group("", "flat", true))
	})
	want := `<6>service is up service=resolver took=1.5s
<4>two\nlines\x00 err="a \"b\"\nc" empty=""
<3>gone service=web peer.name=apu02 peer.bgp.as=65001 peer.flat=true
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLogLinesCarryTheTime(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 1, 5e6, time.UTC)
	for terminal, want := range map[bool]string{
		true:  "12:00:01.005 WARN  hello\n",
		false: "2026-03-01T12:00:01.005Z WARN  hello\n",
	} {
		var out bytes.Buffer
		got := logged(t, newLines(&out, terminal, false), &out, func(log *slog.Logger) {
			_ = log.Handler().Handle(t.Context(), slog.NewRecord(at, slog.LevelWarn, "hello", 0))
		})
		if got != want {
			t.Errorf("terminal %t: %q, want %q", terminal, got, want)
		}
	}
}

func TestTidyCutsLongTexts(t *testing.T) {
	for _, in := range []string{strings.Repeat("é", 100_000), strings.Repeat("\x00", 100_000), strings.Repeat("x", textMax+1), "x" + strings.Repeat("é", textMax)} {
		got := tidy(in)
		if len(got) > textMax || len(got) < textMax-8 || !utf8.ValidString(got) || !strings.HasSuffix(got, "… (truncated)") {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-20:])
		}
	}
	whole := strings.Repeat("x", textMax)
	if tidy(whole) != whole {
		t.Error("a text of the very limit was cut")
	}
}

func TestLogNeverWaitsForAHungReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &blocked{gate: make(chan struct{})}
		l := newLog(slog.LevelInfo, hung)
		stop := l.Start()
		log := slog.New(l)
		log.Info("first")
		synctest.Wait() // the reader has it, and hangs
		for i := range queueMax + 100 {
			log.Info(fmt.Sprint(i))
		}
		close(hung.gate)
		stop()
		if n := len(hung.got); n != queueMax+2 {
			t.Errorf("%d records came through, want the first, the loss, and those %d that fit", n, queueMax)
		}
		if !strings.HasPrefix(hung.got[1], "100 log records were lost") {
			t.Errorf("the loss is not told: %q", hung.got[:3])
		}
	})
}

func TestLogStopGivesUpOnAHungReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &blocked{gate: make(chan struct{})}
		l := newLog(slog.LevelInfo, hung)
		stop := l.Start()
		slog.New(l).Info("x")
		stop() // comes back: nothing else would end the test
		close(hung.gate)
	})
}

func TestFieldNames(t *testing.T) {
	for in, want := range map[string]string{
		"service":               "VOUCH_SERVICE",
		"next-attempt.é":        "VOUCH_NEXT_ATTEMPT__",
		"_private":              "VOUCH__PRIVATE",
		strings.Repeat("k", 90): "VOUCH_" + strings.Repeat("K", 58),
	} {
		if got := fieldName(in); got != want {
			t.Errorf("fieldName(%q) = %q, want %q", in, got, want)
		}
	}
}

// inPrivateRun calls f on a thread that sees its own empty /run, so that a journal can be there.
func inPrivateRun(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("a mount namespace of its own needs root")
		}
		t.Skip("NOT TESTED: a mount namespace of its own needs root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", "/run", "tmpfs", 0, ""))
		f()
		close(done)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-done
}

func TestJournalDatagrams(t *testing.T) {
	inPrivateRun(t, func() {
		if err := os.MkdirAll(filepath.Dir(journalSocket), 0o755); err != nil {
			t.Error(err)
			return
		}
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: journalSocket, Net: "unixgram"})
		if err != nil {
			t.Error(err)
			return
		}
		var stream bytes.Buffer
		out := newJournal(&stream)
		record := slog.NewRecord(time.Now(), slog.LevelWarn, "diverged", 0)
		record.AddAttrs(slog.String("kind", "diverged"), slog.String("service", "resolver"), slog.String("next-try", "1s"))
		if err := out.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		got := readFields(t, c)
		want := map[string]string{"MESSAGE": "diverged", "PRIORITY": "4", "VOUCH_KIND": "diverged", "VOUCH_SERVICE": "resolver",
			"VOUCH_NEXT_TRY": "1s", "MESSAGE_ID": MessageID("diverged"), "SYSLOG_IDENTIFIER": filepath.Base(os.Args[0])}
		delete(got, "SYSLOG_TIMESTAMP")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		// The journal is restarted: first nobody listens on its socket, then there is none.
		_ = c.Close()
		for _, how := range []string{"away", "missing"} {
			if how == "missing" && os.Remove(journalSocket) != nil {
				t.Error("the socket's file vanished by itself: the case before proved nothing")
			}
			stream.Reset()
			if err := out.Handle(t.Context(), record); err != nil {
				t.Error(how, err)
			}
			if want := "<4>diverged kind=diverged service=resolver next-try=1s\n"; stream.String() != want {
				t.Errorf("%s: on the stream %q, want %q", how, stream.String(), want)
			}
		}
	})
}

func readFields(t *testing.T, c *net.UnixConn) map[string]string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	if err != nil {
		t.Error(err)
		return nil
	}
	fields := make(map[string]string)
	for b = b[:n]; len(b) > 0; {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		if k, v, ok := bytes.Cut(line, []byte("=")); ok {
			fields[string(k)], b = string(v), rest
			continue
		}
		size := binary.LittleEndian.Uint64(rest)
		fields[string(line)], b = string(rest[8:8+size]), rest[8+size+1:]
	}
	return fields
}

func TestMessageIDsNeverChange(t *testing.T) {
	if got, want := MessageID("diverged"), "6e6bce64902e3e197d37ed7114008488"; got != want {
		t.Errorf("MessageID = %q, want %q", got, want)
	}
}
