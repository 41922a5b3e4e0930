package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/checktest"
)

// sent ends what is told of servers at 127.0.0.1.
const sent = " (sent from 127.0.0.1)"

func probe(t *testing.T, s Spec, d time.Duration) error {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return c.Check(ctx)
}

// say writes a text and then keeps the connection until the other side closes it.
func say(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, text); err == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

// echo hides what it writes to, as else the net package splices through a pipe that it keeps.
func echo(c net.Conn) { _, _ = io.Copy(struct{ io.Writer }{c}, c) }

// smtp greets, and answers each line with a code.
func smtp(c net.Conn) {
	_, _ = io.WriteString(c, "220-mail.example\r\n220 ready, 250 is not said yet\r\n")
	for in := bufio.NewScanner(c); in.Scan(); {
		if strings.HasPrefix(in.Text(), "EHLO") {
			_, _ = io.WriteString(c, "250-mail.example\r\n250 SIZE 1\r\n")
		} else {
			_, _ = io.WriteString(c, "500 what?\r\n")
		}
	}
}

func endless(text string) func(net.Conn) {
	return func(c net.Conn) {
		for _, err := io.WriteString(c, text); err == nil; _, err = io.WriteString(c, text) {
		}
	}
}

// resets waits for something, as else the connect itself may see the reset.
func resets(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
	checktest.Reset(c)
}

func halfOpen(c net.Conn) {
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

func TestCheck(t *testing.T) {
	big := strings.Repeat("x", 60000)
	for name, c := range map[string]struct {
		serve func(net.Conn)
		spec  Spec
		want  string // the whole error
	}{
		"stays open":         {serve: say("")},
		"says something":     {serve: say("220 hello\r\n")},
		"never accepts":      {serve: nil}, // why this is weak
		"closes at once":     {func(net.Conn) {}, Spec{}, "refused: accepted, and closed at once"},
		"half open":          {halfOpen, Spec{}, "refused: accepted, and closed at once"},
		"resets at once":     {resets, Spec{Send: "x"}, "refused: accepted, and broken off at once: read: connection reset by peer"},
		"banner":             {serve: say("220 hello\r\n"), spec: Spec{Expect: "220 "}},
		"late in the stream": {serve: say(big + "here"), spec: Spec{Expect: "here"}},
		"too late":           {say(strings.Repeat("x", 80000) + "here"), Spec{Expect: "here"}, `mismatch: the answer is not in the first 64 KiB: expected "here", got "` + big[:60] + `"…`},
		"echo":               {serve: echo, spec: Spec{Send: "PING\r\n", Expect: "PING"}},
		"echo of bytes":      {serve: echo, spec: Spec{SendHex: "00 ff 80", ExpectHex: "ff80"}},
		"other bytes":        {say("\x00\x01"), Spec{ExpectHex: "ff"}, "timeout: timeout after 2s: expected the answer ff, got 2 bytes: 00 01"},
		"send only":          {serve: echo, spec: Spec{Send: "PING\r\n"}},
		"another banner":     {say("500 no"), Spec{Expect: "220"}, `timeout: timeout after 2s: expected the answer "220", got 6 bytes: "500 no"`},
		"banner, then end":   {func(c net.Conn) { _, _ = io.WriteString(c, "500 no") }, Spec{Expect: "220"}, `mismatch: closed too early: expected the answer "220", got 6 bytes: "500 no"`},
		"half open, asked":   {halfOpen, Spec{Expect: "220"}, `mismatch: closed too early: expected the answer "220", got nothing`},
		"hangs":              {nil, Spec{Send: "PING", Expect: "PONG"}, `timeout: timeout after 2s: expected the answer "PONG", got nothing`},
		"resets, expecting":  {resets, Spec{Send: "x", Expect: "x"}, `refused: expected the answer "x", got nothing: read: connection reset by peer`},
		"endless greeting":   {endless("hello "), Spec{Expect: "220"}, `mismatch: the answer is not in the first 64 KiB: expected "220", got "` + strings.Repeat("hello ", 10) + `"…`},
		"greeted":            {serve: smtp, spec: Spec{Greeting: "220 ", Send: "EHLO probe\r\n", Expect: "\n250 "}},
		"greeted, farewell":  {serve: smtp, spec: Spec{Greeting: "220 ", Send: "QUIT\r\n"}},
		"not greeted":        {say("554 go away"), Spec{Greeting: "220 ", Send: "EHLO\r\n", Expect: "250"}, `timeout: timeout after 2s: expected the greeting "220 ", got 11 bytes: "554 go away"`},
		"only the greeting":  {smtp, Spec{Greeting: "220 ", Send: "NOOP\r\n", Expect: "250"}, `timeout: timeout after 2s: expected the answer "250", got 11 bytes: "500 what?\r\n"`},
		"does not take it":   {nil, Spec{Send: strings.Repeat("x", maxBytes), Expect: "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Address = checktest.TCP(t, "127.0.0.1", c.serve).String()
			d := 10 * time.Second
			if strings.HasPrefix(c.want, "timeout") || name == "does not take it" {
				d = 2 * time.Second // the text rounds it, and a busy machine loses some
			}
			err := probe(t, c.spec, d)
			if name == "does not take it" { // how much the kernel takes is its own affair
				if r := (checks.Result{Start: time.Now(), Err: err}); r.Reason() != checks.ReasonTimeout {
					t.Error(err)
				}
				return
			}
			if err == nil && c.want != "" || err != nil && err.Error() != c.want+sent {
				t.Errorf("\n got %v\nwant %s%s", err, c.want, sent)
			}
		})
	}
}

// What is expected may come in pieces, cut anywhere, after what only begins like it.
func TestExpectInPieces(t *testing.T) {
	for size := 1; size < 12; size++ {
		ours, theirs := net.Pipe() // each write is one read
		go func() {
			defer theirs.Close()
			for piece := range slices.Chunk([]byte("xx 22 220 220 hello"), size) {
				if _, err := theirs.Write(piece); err != nil {
					return
				}
			}
		}()
		if err := (wire{Conn: ours}).await(t.Context(), "answer", []byte("220 hello")); err != nil {
			t.Errorf("in pieces of %d: %v", size, err)
		}
		ours.Close()
	}
}

func TestNobodyListens(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		err := probe(t, Spec{Address: checktest.Closed(t, host).String()}, 5*time.Second)
		var f *checks.Failure
		if !errors.As(err, &f) || f.Reason != checks.ReasonRefused {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestSource(t *testing.T) {
	from := make(chan string, 1)
	at := checktest.TCP(t, "127.0.0.1", func(c net.Conn) {
		from <- c.RemoteAddr().String()
		echo(c)
	})
	if err := probe(t, Spec{Address: at.String(), Origin: checks.Origin{Source: "127.0.0.9"}}, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := <-from; !strings.HasPrefix(got, "127.0.0.9:") {
		t.Errorf("came from %s", got)
	}
	err := probe(t, Spec{Address: at.String(), Origin: checks.Origin{Source: "192.0.2.77"}}, 5*time.Second)
	if err == nil || !strings.Contains(err.Error(), "unreachable: the source address 192.0.2.77 is not on this node") {
		t.Errorf("a source that is not here: %v", err)
	}
}

// A plain connect does not take longer than the deadline leaves.
func TestShortDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		defer cancel()
		if err := (wire{Conn: ours, settle: settle}).stays(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "address: is missing ()",
		`address = "127.0.0.1"`:           "address: has no port (127.0.0.1)",
		`address = "www.example.com:443"`: "address: is not an IP address with a port (www.example.com:443)",
		`address = "[::]:443"`:            "address: is not the address of one host ([::]:443)",
		"address = \"x\"\nsource = \"y\"": "address: is not an IP address with a port (x)|source: must be an IP address (y)",
		"address = \"[::1]:1\"\nsource = \"127.0.0.1\"":                         "source: must be of the same family as the address that is probed, ::1 (127.0.0.1)",
		"address = \"[::1]:1\"\nsend = \"a\"\nexpect = \"b\"\nsource = \"::1\"": "",
		one + "greeting = \"220\"":                                              "greeting: is for what must come before something is sent, and nothing is (220)",
		one + "greeting = \"220\"\nsend_hex = \"00\"":                           "",
		one + "send = \"a\"\nsend_hex = \"00\"":                                 "send_hex: has no effect beside send (00)",
		one + "expect_hex = \"0\"":                                              "expect_hex: must be pairs of hexadecimal digits (0)",
		one + "verify = false\nserver_name = \"x\"\nca = \"/ca.pem\"\ncert = \"/c\"\nkey = \"/k\"\nmin_cert_days = 3": "verify: has no effect without tls = true, nor has ca, cert, key, server_name, min_cert_days ()",
		one + "server_name = \"x\"":                  "server_name: has no effect without tls = true ()",
		one + "tls = true":                           "server_name: is missing: without it no certificate can be the right one ()",
		one + "tls = true\nserver_name = \"x:1\"":    "server_name: must be a DNS name or an IP address (x:1)",
		one + "tls = true\nverify = false":           "",
		one + "tls = true\nserver_name = \"x.test\"": "",
	} {
		s := new(Spec)
		if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
			t.Fatalf("%s: %v, %v", text, err, md.Undecoded())
		}
		var got []string
		for _, p := range s.Validate() {
			got = append(got, fmt.Sprintf("%s: %s (%s)", p.Key, p.What, p.Got))
			if p.WayOut == "" {
				t.Errorf("%s: %s has no way out", text, p.Key)
			}
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	if ps := (&Spec{Address: "127.0.0.1:1", Expect: strings.Repeat("x", maxBytes+1)}).Validate(); len(ps) != 1 || ps[0].Key != "expect" {
		t.Errorf("an expect that can never come: %+v", ps)
	}
}

const one = "address = \"127.0.0.1:1\"\n"

func TestNames(t *testing.T) {
	s := &Spec{Address: "[::ffff:10.53.53.53]:80"}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	c, err := s.New()
	if err != nil || c.String() != "tcp 10.53.53.53:80" {
		t.Errorf("%v, %v", c, err)
	}
	var target checks.Targeter = s
	if got := target.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
}
