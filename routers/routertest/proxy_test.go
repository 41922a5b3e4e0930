package routertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// echo is a daemon that answers each line with two.
func echo(t *testing.T) string {
	socket := filepath.Join(t.TempDir(), "echo.ctl")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					fmt.Fprintf(c, "1-%s\n2 %s\n", in.Text(), in.Text())
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return socket
}

func proxyOf(t *testing.T, sockets ...string) *Proxy {
	t.Helper()
	p, err := NewProxy(t.TempDir(), '\n', sockets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(p.Dir(), "echo.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// say sends lines and reads until n bytes or the end.
func say(c net.Conn, lines string, n int) (string, error) {
	if _, err := io.WriteString(c, lines); err != nil {
		return "", err
	}
	b := make([]byte, n)
	got, err := io.ReadFull(c, b)
	return string(b[:got]), err
}

func TestProxyPasses(t *testing.T) {
	p := proxyOf(t, echo(t))
	c := dial(t, p)
	got, err := say(c, "show a\nshow b\nhal", 36)
	if want := "1-show a\n2 show a\n1-show b\n2 show b\n"; got != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	requests, dials := p.Traffic()
	if !slices.Equal(requests, []string{"show a", "show b"}) || dials != 1 {
		t.Errorf("heard %q in %d dials", requests, dials)
	}
	if _, err := say(c, "f\n", 14); err != nil {
		t.Error(err)
	}
	if requests, dials = p.Traffic(); !slices.Equal(requests, []string{"half"}) || dials != 0 {
		t.Errorf("then it heard %q in %d dials", requests, dials)
	}
}

func TestProxyCutsAtEveryByte(t *testing.T) {
	p := proxyOf(t, echo(t))
	const whole = "1-abc\n2 abc\n"
	for n := range len(whole) {
		for _, stays := range []bool{false, true} {
			p.Cut(n, stays)
			got, err := say(dial(t, p), "abc\n", len(whole))
			if got != whole[:n] || err == nil {
				t.Fatalf("cut after %d: got %q, %v", n, got, err)
			}
			again, err := say(dial(t, p), "abc\n", len(whole))
			if (again == whole) == stays || (err == nil) == stays {
				t.Errorf("cut after %d, which stays: %v: the next connection got %q, %v", n, stays, again, err)
			}
			if !p.Mend() {
				t.Errorf("cut after %d: not known to be cut", n)
			}
			if got, err := say(dial(t, p), "abc\n", len(whole)); got != whole || err != nil {
				t.Errorf("mended: got %q, %v", got, err)
			}
		}
	}
	p.Cut(len(whole), true)
	if got, err := say(dial(t, p), "abc\n", len(whole)); got != whole || err != nil {
		t.Errorf("cut behind the reply: got %q, %v", got, err)
	}
	if p.Passed() != len(whole) || p.Mend() {
		t.Errorf("%d bytes passed, of %d, and it counts as cut", p.Passed(), len(whole))
	}
}

// A cut that stays ends the other connections too, which were there before.
func TestProxyCutsAll(t *testing.T) {
	p := proxyOf(t, echo(t))
	other := dial(t, p)
	if _, err := say(other, "x\n", 8); err != nil {
		t.Fatal(err)
	}
	p.Cut(0, true)
	_, _ = say(dial(t, p), "y\n", 8)
	if _, err := say(other, "z\n", 8); err == nil {
		t.Error("the other connection goes on")
	}
}

func TestProxyWithoutDaemon(t *testing.T) {
	p := proxyOf(t, filepath.Join(t.TempDir(), "echo.ctl"))
	if got, err := io.ReadAll(dial(t, p)); len(got) != 0 || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if !p.Mend() {
		t.Error("a connection that could not be made does not count as cut")
	}
	if _, err := NewProxy(filepath.Join(p.Dir(), "nowhere"), 0, "/x"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a directory that is not there: %v", err)
	}
}
