package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/checktest"
)

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

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		serve  func(net.Conn)
		spec   Spec
		reason checks.Reason
		words  string
	}{
		"stays open":         {serve: say("")},
		"says something":     {serve: say("220 hello\r\n")},
		"never accepts":      {serve: nil}, // why this is weak
		"closes at once":     {func(net.Conn) {}, Spec{}, checks.ReasonRefused, "closed at once"},
		"resets at once":     {checktest.Reset, Spec{}, checks.ReasonRefused, "connection reset by peer"},
		"banner":             {serve: say("220 hello\r\n"), spec: Spec{Expect: "220 "}},
		"late in the stream": {serve: say(strings.Repeat("x", 60000) + "here"), spec: Spec{Expect: "here"}},
		"too late":           {say(strings.Repeat("x", 80000) + "here"), Spec{Expect: "here"}, checks.ReasonMismatch, "first 64 KiB"},
		"echo":               {serve: echo, spec: Spec{Send: "PING\r\n", Expect: "PING"}},
		"send only":          {serve: echo, spec: Spec{Send: "PING\r\n"}},
		"another banner":     {say("500 no"), Spec{Expect: "220"}, checks.ReasonTimeout, `expected "220", got 6 bytes: "500 no"`},
		"banner, then end":   {func(c net.Conn) { _, _ = io.WriteString(c, "500 no") }, Spec{Expect: "220"}, checks.ReasonMismatch, `closed before it came: expected "220", got 6 bytes: "500 no"`},
		"hangs":              {nil, Spec{Send: "PING", Expect: "PING"}, checks.ReasonTimeout, `expected "PING", got nothing`},
		"resets, expecting":  {checktest.Reset, Spec{Expect: "x"}, checks.ReasonRefused, "connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Address = checktest.TCP(t, "127.0.0.1", c.serve).String()
			d := 5 * time.Second
			if c.reason == checks.ReasonTimeout {
				d = 200 * time.Millisecond
			}
			err := probe(t, c.spec, d)
			var f *checks.Failure
			switch {
			case c.reason == "" && err != nil:
				t.Errorf("failed: %v", err)
			case c.reason == "":
			case !errors.As(err, &f) || f.Reason != c.reason || !strings.Contains(err.Error(), c.words):
				t.Errorf("got %v, want %s with %q", err, c.reason, c.words)
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
		c := &checker{expect: []byte("220 hello")}
		if err := c.await(t.Context(), ours, time.Now()); err != nil {
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
	at := checktest.TCP(t, "127.0.0.1", echo)
	if err := probe(t, Spec{Address: at.String()}, 40*time.Millisecond); err != nil {
		t.Error(err)
	}
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
	if ps := (&Spec{Address: "127.0.0.1:1", Expect: strings.Repeat("x", maxRead+1)}).Validate(); len(ps) != 1 || ps[0].Key != "expect" {
		t.Errorf("an expect that can never come: %+v", ps)
	}
}

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
