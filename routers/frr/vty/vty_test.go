package vty

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

// recorded is what ospfd 8.4.4 sent back for four commands sent in one write.
var recorded = struct {
	commands []string
	bytes    []byte
	replies  []Reply
}{
	[]string{"enable", "do show bogus", "no network 10.99.0.0/24 area 0", "echo PING"},
	[]byte("\x00\x00\x00\x00" +
		"% [OSPF] Unknown command: do show bogus\n\x00\x00\x00\x02" +
		"Can't find specified network area configuration.\n\x00\x00\x00\x0d" +
		"PING\n\x00\x00\x00\x00"),
	[]Reply{
		{Text: ""},
		{Status: 2, Text: "% [OSPF] Unknown command: do show bogus\n"},
		{Status: 13, Text: "Can't find specified network area configuration.\n"},
		{Text: "PING\n"},
	},
}

// serve plays a daemon on the other end of a pipe; it runs until play returns, which ends the
// connection. The function hangs up and waits for play to return, as the end of the test does.
func serve(t *testing.T, timeout time.Duration, play func(daemon net.Conn)) (*Client, func()) {
	t.Helper()
	ours, daemon := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer daemon.Close()
		play(daemon)
	}()
	c := New(ours, timeout)
	end := func() {
		c.Close()
		<-done
	}
	t.Cleanup(end)
	return c, end
}

// request reads what the client sends until so many commands came.
func request(daemon net.Conn, commands int) []byte {
	var got []byte
	buf := make([]byte, 4096)
	for bytes.Count(got, []byte{0}) < commands {
		n, err := daemon.Read(buf)
		if err != nil {
			return got
		}
		got = append(got, buf[:n]...)
	}
	return got
}

func TestDo(t *testing.T) {
	for _, chunk := range []int{1, 2, 3, 5, 1000} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			var got []byte
			c, _ := serve(t, time.Minute, func(d net.Conn) {
				got = request(d, len(recorded.commands))
				for part := range slices.Chunk(recorded.bytes, chunk) {
					if _, err := d.Write(part); err != nil {
						return
					}
				}
			})
			replies, err := c.Do(t.Context(), recorded.commands...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(recorded.replies, replies); diff != "" {
				t.Error(diff)
			}
			if want := strings.Join(recorded.commands, "\x00") + "\x00"; string(got) != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

// A recorded answer is cut at every byte: no part of it may pass for the whole, and what came whole
// before the cut is given.
func TestCutAtEveryByte(t *testing.T) {
	for cut := range recorded.bytes {
		c, _ := serve(t, time.Minute, func(d net.Conn) {
			request(d, len(recorded.commands))
			_, _ = d.Write(recorded.bytes[:cut])
		})
		replies, err := c.Do(t.Context(), recorded.commands...)
		if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "closed the connection before it had answered") {
			t.Errorf("cut at %d: error %v, want it told", cut, err)
		}
		whole, end := 0, 0
		for _, r := range recorded.replies {
			if end += len(r.Text) + 4; end <= cut {
				whole++
			}
		}
		if diff := cmp.Diff(recorded.replies[:whole], replies); diff != "" {
			t.Errorf("cut at %d: %s", cut, diff)
		}
	}
}

func TestHang(t *testing.T) {
	for name, part := range map[string]string{"before": "", "in the text": "{ \"routerId\"", "in the status": "{}\n\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, end := serve(t, time.Second, func(d net.Conn) {
					request(d, 1)
					_, _ = io.WriteString(d, part)
					_, _ = d.Read(make([]byte, 1)) // until the client hangs up
				})
				start := time.Now()
				_, err := c.Do(t.Context(), "show version")
				if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer within 1s (hung?)") {
					t.Errorf("error %v", err)
				}
				if took := time.Since(start); took != time.Second {
					t.Errorf("took %v", took)
				}
				end()
			})
		})
	}
}

// The time is that of each reply: a long session may take longer.
func TestTimeoutIsOfEachReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := serve(t, time.Second, func(d net.Conn) {
			request(d, 5)
			for range 5 {
				time.Sleep(900 * time.Millisecond) // synctest's clock: this costs nothing
				_, _ = io.WriteString(d, "{}\n\x00\x00\x00\x00")
			}
		})
		if _, err := c.Do(t.Context(), "a", "b", "c", "d", "e"); err != nil {
			t.Error(err)
		}
		end()
	})
}

// A command that is more work may be given more time, and the next has no more than before.
func TestStretch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := serve(t, time.Second, func(d net.Conn) {
			for range 2 {
				request(d, 1)
				time.Sleep(3 * time.Second) // synctest's clock: this costs nothing
				_, _ = io.WriteString(d, "\x00\x00\x00\x00")
			}
		})
		c.Stretch(4)
		if _, err := c.Do(t.Context(), "commit"); err != nil {
			t.Error(err)
		}
		c.Stretch(1)
		if _, err := c.Do(t.Context(), "end"); err == nil || err.Error() != "pipe does not answer within 1s (hung?)" {
			t.Errorf("error %v", err)
		}
		end()
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		c, end := serve(t, time.Second, func(d net.Conn) {
			request(d, 1)
			_, _ = d.Read(make([]byte, 1))
		})
		start := time.Now()
		_, err := c.Do(ctx, "show version")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, routers.ErrUnavailable) || err.Error() != "pipe does not answer within 300ms (hung?)" {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if _, err := c.Do(ctx, "show version"); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "no time was left to ask pipe" {
			t.Errorf("after the end of ctx: %v", err)
		}
		end()
	})
}

func TestContextCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := serve(t, time.Minute, func(d net.Conn) {
		request(d, 1)
		cancel()
		_, _ = d.Read(make([]byte, 1))
	})
	_, err := c.Do(ctx, "show version")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, routers.ErrUnavailable) || err.Error() != "pipe had not answered yet: context canceled" {
		t.Errorf("error %v", err)
	}
}

// A daemon that never reads must not hold up the client either.
func TestHangInWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan struct{})
		c, _ := serve(t, time.Second, func(net.Conn) { <-quit })
		defer close(quit)
		if _, err := c.Do(t.Context(), "show version"); !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	})
}

// Many commands are sent ahead of their replies, but no more than a socket holds for sure.
func TestManyCommands(t *testing.T) {
	commands := make([]string, 1000)
	for i := range commands {
		commands[i] = fmt.Sprintf("network 2001:db8:53::%x/128", i)
	}
	ahead, most, served := 0, 0, 0
	c, _ := serve(t, time.Minute, func(d net.Conn) {
		buf := make([]byte, 64<<10)
		for served < len(commands) {
			n, err := d.Read(buf)
			if err != nil {
				return
			}
			ahead = bytes.Count(buf[:n], []byte{0})
			most = max(most, ahead)
			for range ahead {
				served++
				if _, err := fmt.Fprintf(d, "%d\x00\x00\x00\x00", served); err != nil {
					return
				}
			}
		}
	})
	replies, err := c.Do(t.Context(), commands...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if r.Text != fmt.Sprint(i+1) {
			t.Fatalf("reply %d is %q", i, r.Text)
		}
	}
	if len(replies) != len(commands) || most < 100 || most > aheadCommands {
		t.Errorf("%d replies, at most %d commands ahead", len(replies), most)
	}
}

func TestNext(t *testing.T) {
	long := strings.Repeat("x", maxCommand)
	for name, c := range map[string]struct {
		commands []string
		want     int
	}{
		"all":      {[]string{"a", "b"}, 2},
		"commands": {slices.Repeat([]string{"a"}, aheadCommands+1), aheadCommands},
		"bytes":    {slices.Repeat([]string{long}, 20), 8},
		"one":      {[]string{long}, 1},
	} {
		if n, batch := next(c.commands); n != c.want || bytes.Count(batch, []byte{0}) != n {
			t.Errorf("%s: %d commands, want %d", name, n, c.want)
		}
	}
}

func TestReplyTooLong(t *testing.T) {
	c, end := serve(t, time.Minute, func(d net.Conn) {
		request(d, 1)
		block := bytes.Repeat([]byte{'x'}, 1<<20)
		for {
			if _, err := d.Write(block); err != nil {
				return
			}
		}
	})
	_, err := c.Do(t.Context(), "show bgp ipv4 unicast json")
	if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") || !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	end()
}

func TestGarbage(t *testing.T) {
	for name, garbage := range map[string]string{"one NUL": "{}\x00 what\x00\x00\x00\x00", "two": "{}\x00\x00!\x00"} {
		c, _ := serve(t, time.Minute, func(d net.Conn) {
			request(d, 1)
			_, _ = io.WriteString(d, garbage)
			_, _ = d.Read(make([]byte, 1))
		})
		if _, err := c.Do(t.Context(), "show version"); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "not the reply of a vty") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A command that could become two is never sent, nor are the others beside it.
func TestCheck(t *testing.T) {
	for _, bad := range []string{"", "show\x00enable", "show\nenable", "show\renable", "a\tb", "show\x1b", "show \x7f", "réseau", "a\xff", strings.Repeat("x", 4096)} {
		sent := false
		c, end := serve(t, time.Minute, func(d net.Conn) { sent = len(request(d, 1)) > 0 })
		if _, err := c.Do(t.Context(), "enable", bad); err == nil || errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%.20q: error %v", bad, err)
		}
		end()
		if sent {
			t.Errorf("%.20q: something was sent", bad)
		}
	}
	if err := Check("show bgp ipv6 unicast 2001:db8::1/128 json"); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		reply Reply
		class error
		text  string
	}{
		{Reply{13, "% Can't find static route specified\n"}, routers.ErrRefused, `"x": status 13: % Can't find static route specified`},
		{Reply{13, ""}, routers.ErrRefused, `"x": status 13: (it said nothing)`},
		{Reply{255, "% command failed, could not lock candidate DS\n"}, routers.ErrBusy, `"x": status 255: % command failed, could not lock candidate DS`},
		{Reply{255, ""}, routers.ErrBusy, `"x": status 255: (it said nothing)`},
		{Reply{13, "% Can't enter config; candidate datastore locked by another session\n"}, routers.ErrBusy, `"x": status 13: % Can't enter config; candidate datastore locked by another session`},
	} {
		err := c.reply.Refused("x")
		if !errors.Is(err, c.class) || err.Error() != c.text {
			t.Errorf("%v: %v", c.reply, err)
		}
	}
	if err := (Reply{0, "% Refusing to remove a non-existent route\n"}).Refused("x"); err != nil {
		t.Errorf("status 0: %v", err)
	}
}
