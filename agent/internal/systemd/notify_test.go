package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// manager is a real notify socket. next gives the next datagram and fails the test after a while.
func manager(t *testing.T, name string) (next func() string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("no notification: %v", err)
		}
		return string(b[:n])
	}
}

func socketNames(t *testing.T) map[string]string {
	return map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": "@vouch-test-" + strconv.Itoa(os.Getpid()),
	}
}

func TestNotifierDatagrams(t *testing.T) {
	for kind, name := range socketNames(t) {
		t.Run(kind, func(t *testing.T) {
			next := manager(t, name)
			n := NewNotifier()
			for _, c := range []struct {
				send func() error
				want string
			}{
				{n.Ready, "READY=1"},
				{n.Stopping, "STOPPING=1"},
				{n.Alive, "WATCHDOG=1"},
				{func() error { return n.ExtendTimeout(1500 * time.Millisecond) }, "EXTEND_TIMEOUT_USEC=1500000"},
				{func() error { return n.Status("up: resolver") }, "STATUS=up: resolver"},
				{func() error { return n.Status("a\nREADY=1\x00b") }, `STATUS=a\nREADY=1\x00b`},
			} {
				if err := c.send(); err != nil {
					t.Fatal(err)
				}
				if got := next(); got != c.want {
					t.Errorf("sent %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestNotifierReloadingCarriesTheMonotonicTime(t *testing.T) {
	next := manager(t, socketNames(t)["path"])
	if err := NewNotifier().Reloading(); err != nil {
		t.Fatal(err)
	}
	got := next()
	first, second, _ := strings.Cut(strings.TrimSuffix(got, "\n"), "\n")
	usec, err := strconv.ParseUint(strings.TrimPrefix(second, "MONOTONIC_USEC="), 10, 64)
	if first != "RELOADING=1" || err != nil || usec == 0 {
		t.Errorf("sent %q, want RELOADING=1 and MONOTONIC_USEC", got)
	}
}

func TestNotifierWithoutASocketIsSilent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := NewNotifier().Ready(); err != nil {
		t.Errorf("got %v, want nothing", err)
	}
}

func TestNotifierNamesTheSocketThatFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nobody")
	t.Setenv("NOTIFY_SOCKET", name)
	if err := NewNotifier().Ready(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want an error that names %s", err, name)
	}
}

// A manager that does not read fills its queue; the sender must come back in any case.
func TestNotifierDoesNotHangOnADeafManager(t *testing.T) {
	manager(t, socketNames(t)["path"])
	n := NewNotifier()
	start := time.Now()
	for range 100_000 {
		if err := n.Alive(); err != nil {
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("gave up only after %s", took)
			}
			return
		}
	}
	t.Fatal("the queue of the socket never filled: the test proves nothing")
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain text é … ok":      "plain text é … ok",
		"tab\there":              `tab\there`,
		"esc \x1b[31m":           `esc \x1b[31m`,
		"bad \xff utf8":          `bad \xff utf8`,
		"line\u2028sep\u202emix": `line\u2028sep\u202emix`,
		"quote ' and \"":         "quote ' and \"",
		"":                       "",
	} {
		if got := oneLine(in, 200); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOneLineIsCutOnARune(t *testing.T) {
	for n := range 20 {
		got := oneLine(strings.Repeat("x", n)+strings.Repeat("é", 300), 200)
		if len(got) > 200 || len(got) < 196 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes %q, want at most 200 of valid UTF-8, ending in …", len(got), got)
		}
	}
}
