package udp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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

func echo(d checktest.Datagram) { d.Reply(d.Bytes) }

// replies sends these texts one after the other.
func replies(texts ...string) func(checktest.Datagram) {
	return func(d checktest.Datagram) {
		for _, s := range texts {
			d.Reply([]byte(s))
		}
	}
}

func TestCheck(t *testing.T) {
	large := strings.Repeat("x", maxBytes)
	for name, c := range map[string]struct {
		answer func(checktest.Datagram)
		spec   Spec
		want   string // the whole error
	}{
		"any reply":        {answer: replies("what?"), spec: Spec{Send: "a"}},
		"an empty reply":   {answer: replies(""), spec: Spec{Send: "a"}},
		"echo":             {answer: echo, spec: Spec{Send: "PING", Expect: "ING"}},
		"echo of bytes":    {answer: echo, spec: Spec{SendHex: "ff ff ff ff 00", ExpectHex: "ffff00"}},
		"as large as any":  {answer: echo, spec: Spec{Send: large, Expect: large}},
		"twice":            {answer: replies("yes", "yes"), spec: Spec{Send: "a", Expect: "yes"}},
		"the first counts": {replies("no", "yes"), Spec{Send: "a", Expect: "yes"}, `mismatch: expected "yes", got 2 bytes: "no" (sent from 127.0.0.1)`},
		"empty, not right": {replies(""), Spec{Send: "a", Expect: "yes"}, `mismatch: expected "yes", got 0 bytes: "" (sent from 127.0.0.1)`},
		"other bytes":      {replies("\x00\x01\x02"), Spec{Send: "a", ExpectHex: "ff"}, `mismatch: expected ff, got 3 bytes: 00 01 02 (sent from 127.0.0.1)`},
		"hangs":            {nil, Spec{Send: "a"}, "timeout: timeout after 2s (sent from 127.0.0.1, 0 of 1 replies)"},
		"silent":           {replies(), Spec{Send: "a", Expect: "yes"}, "timeout: timeout after 2s (sent from 127.0.0.1, 0 of 1 replies)"},
		"from elsewhere": {func(d checktest.Datagram) { d.ReplyFrom(t, []byte("yes")) }, Spec{Send: "a", Expect: "yes"},
			"timeout: timeout after 2s (sent from 127.0.0.1, 0 of 1 replies)"},
		"from elsewhere, then right": {answer: func(d checktest.Datagram) { d.ReplyFrom(t, []byte("no")); d.Reply([]byte("yes")) },
			spec: Spec{Send: "a", Expect: "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Address = checktest.UDP(t, "127.0.0.1", c.answer).String()
			d := 10 * time.Second
			if strings.HasPrefix(c.want, "timeout") {
				d = 2 * time.Second // the text rounds it, and a busy machine loses some
			}
			if err := probe(t, c.spec, d); err == nil && c.want != "" || err != nil && err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		err := probe(t, Spec{Address: checktest.Closed(t, host).String(), Send: "a"}, 10*time.Second)
		if want := "refused: nobody listens there, or a firewall says so: read: connection refused (sent from " + host + ")"; err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestSource(t *testing.T) {
	from := make(chan string, 1)
	at := checktest.UDP(t, "127.0.0.1", func(d checktest.Datagram) {
		from <- d.From.String()
		echo(d)
	})
	if err := probe(t, Spec{Address: at.String(), Send: "a", Origin: checks.Origin{Source: "127.0.0.9"}}, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := <-from; !strings.HasPrefix(got, "127.0.0.9:") {
		t.Errorf("came from %s", got)
	}
	err := probe(t, Spec{Address: at.String(), Send: "a", Origin: checks.Origin{Source: "192.0.2.77"}}, 10*time.Second)
	if err == nil || !strings.Contains(err.Error(), "unreachable: the source address 192.0.2.77 is not on this node") {
		t.Errorf("a source that is not here: %v", err)
	}
}

// A check that is broken off has found nothing out, and ends at once.
func TestCanceled(t *testing.T) {
	asked := make(chan struct{})
	at := checktest.UDP(t, "127.0.0.1", func(checktest.Datagram) { close(asked) })
	c, err := (&Spec{Address: at.String(), Send: "a"}).New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	var f *checks.Failure
	if err := c.Check(ctx); !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
		t.Error(err)
	}
}

func TestProblems(t *testing.T) {
	const one = "address = \"127.0.0.1:1\"\n"
	for text, want := range map[string]string{
		``:                        "address: is missing ()|send: is missing: a server is silent until it is asked ()",
		`address = "x.example:1"`: "address: is not an IP address with a port (x.example:1)|send: is missing: a server is silent until it is asked ()",
		one:                       "send: is missing: a server is silent until it is asked ()",
		one + "expect = \"a\"":    "send: is missing: a server is silent until it is asked ()",
		one + "send = \"a\"":      "",
		one + "send_hex = \"00\"": "",
		one + "send_hex = \"0\"":  "send_hex: must be pairs of hexadecimal digits (0)",
		one + "send_hex = \" \"":  "send_hex: has no byte in it (\" \")",
		one + "send = \"a\"\nexpect = \"a\"\nexpect_hex = \"00\"": "expect_hex: has no effect beside expect (00)",
		one + "send = \"a\"\nsource = \"::1\"":                    "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
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
	if ps := (&Spec{Address: "127.0.0.1:1", Send: strings.Repeat("x", maxBytes+1)}).Validate(); len(ps) != 1 || ps[0].Key != "send" {
		t.Errorf("what no datagram holds: %+v", ps)
	}
}

func TestNames(t *testing.T) {
	s := &Spec{Address: "[::ffff:10.53.53.53]:123", Send: "a"}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	c, err := s.New()
	if err != nil || c.String() != "udp 10.53.53.53:123" {
		t.Errorf("%v, %v", c, err)
	}
	var target checks.Targeter = s
	if got := target.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
	var local checks.Localer = &Spec{Origin: checks.Origin{Source: "192.0.2.77"}}
	if ps := local.Local(); len(ps) != 1 || ps[0].Key != "source" {
		t.Errorf("%+v", ps)
	}
}

func TestTrace(t *testing.T) {
	c, err := (&Spec{Address: checktest.UDP(t, "127.0.0.1", replies("PONG\n")).String(), Send: "PING"}).New()
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { seen.WriteString(string(d) + " " + text + "\n") })
	if err := c.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if want := "> 4 bytes: \"PING\", sent from 127.0.0.1\n< 5 bytes: \"PONG\\n\"\n"; seen.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &seen, want)
	}
}

// No round leaves anything behind, however it ends.
func TestNoLeak(t *testing.T) {
	specs := []Spec{
		{Address: checktest.UDP(t, "127.0.0.1", echo).String(), Send: "a", Expect: "a"},
		{Address: checktest.UDP(t, "127.0.0.1", echo).String(), Send: "a", Expect: "b"},
		{Address: checktest.UDP(t, "127.0.0.1", nil).String(), Send: "a"},
		{Address: checktest.Closed(t, "127.0.0.1").String(), Send: "a"},
	}
	checktest.Flat(t, func() {
		for range 100 {
			for _, s := range specs {
				_ = probe(t, s, 5*time.Millisecond)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	c, err := (&Spec{Address: checktest.UDP(b, "127.0.0.1", echo).String(), Send: "PING", Expect: "PING"}).New()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
