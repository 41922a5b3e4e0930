package ntp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// made gives the check of a valid Spec.
func made(tb testing.TB, s Spec) checks.Checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("%+v: %+v", s, ps)
	}
	c, err := s.New()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func probe(tb testing.TB, s Spec, timeout time.Duration) error {
	tb.Helper()
	c := made(tb, s)
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	return c.Check(ctx)
}

// waited is how long a check says that it waited, which a busy machine makes shorter.
var waited = regexp.MustCompile(`within [0-9.]+m?s`)

// want compares an error with a reason and with a part of its text; "" is ok.
func want(t *testing.T, what string, err error, reason checks.Reason, words string) {
	t.Helper()
	got := checks.Result{Start: time.Now(), Err: err}.Reason()
	if got != reason || err != nil && !strings.Contains(waited.ReplaceAllString(err.Error(), "within D"), words) {
		t.Errorf("%s:\n got %v\nwant %q with %q", what, err, reason, words)
	}
}

const (
	short = time.Second
	long  = 10 * time.Second
)

// A message is what a fake server says, as bytes of RFC 5905, section 7.3.
type message []byte

// stamp is a time of the first era.
func stamp(t time.Time) uint64 {
	return uint64(t.Unix()+2208988800)<<32 | uint64(t.Nanosecond())<<32/1e9
}

// good is the answer of a server of stratum 2 to a question.
func good(q []byte) message {
	m := make(message, messageSize)
	now := stamp(time.Now())
	m[0], m[1], m[2] = 0<<6|4<<3|modeServer, 2, 6
	copy(m[12:], []byte{192, 0, 2, 1})
	binary.BigEndian.PutUint64(m[16:], now-5<<32)
	copy(m[originAt:], q[transmitAt:messageSize])
	binary.BigEndian.PutUint64(m[32:], now)
	binary.BigEndian.PutUint64(m[transmitAt:], now)
	return m
}

// change edits the good answer.
func change(f func(m message)) func(q []byte) [][]byte {
	return func(q []byte) [][]byte {
		m := good(q)
		f(m)
		return [][]byte{m}
	}
}

// server answers each question by these datagrams, until the test ends.
func server(tb testing.TB, host string, answer func(q []byte) [][]byte) string {
	tb.Helper()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 1024)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, b := range answer(buf[:n]) {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	tb.Cleanup(func() {
		pc.Close()
		<-ended
	})
	return pc.LocalAddr().String()
}

func set64(m message, at int, v uint64) { binary.BigEndian.PutUint64(m[at:], v) }

// claim has a server say that the question came and the answer went this much after they did.
func claim(came, went time.Duration) func(q []byte) [][]byte {
	return change(func(m message) {
		now := time.Now()
		set64(m, receiveAt, stamp(now.Add(came)))
		set64(m, transmitAt, stamp(now.Add(went)))
	})
}

func kissed(code string) func(q []byte) [][]byte {
	return change(func(m message) {
		m[0], m[1] = 3<<6|4<<3|modeServer, 0
		copy(m[12:], code)
		set64(m, 32, 0)
		set64(m, transmitAt, 0) // means nothing in a kiss-o'-death
	})
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(q []byte) [][]byte
		reason checks.Reason
		words  string
	}{
		"good":                 {change(func(message) {}), "", ""},
		"leap second ahead":    {change(func(m message) { m[0] |= 1 << 6 }), "", ""},
		"no reference time":    {change(func(m message) { set64(m, 16, 0) }), checks.ReasonMismatch, "not synchronised: stratum 2, but its clock was never set (reference timestamp 0)"},
		"none at stratum 1":    {change(func(m message) { m[1] = 1; copy(m[12:], "GPS\x00"); set64(m, 16, 0) }), "", ""},
		"its own clock":        {change(func(m message) { copy(m[12:], []byte{127, 127, 1, 0}) }), checks.ReasonMismatch, "it goes by its own clock alone (reference id 127.127.1.0, stratum 2)"},
		"its own, stratum 1":   {change(func(m message) { m[1] = 1; copy(m[12:], "LOCL") }), checks.ReasonMismatch, "its own clock alone (reference id .LOCL., stratum 1)"},
		"an address like LOCL": {change(func(m message) { copy(m[12:], "LOCL") }), "", ""},
		"another driver":       {change(func(m message) { copy(m[12:], []byte{127, 127, 20, 0}) }), "", ""},
		"version 3":            {change(func(m message) { m[0] = 3<<3 | modeServer }), "", ""},
		"version 0":            {change(func(m message) { m[0] = modeServer }), checks.ReasonProtocol, "the answer is of version 0, to a question of version 4"},
		"version 5":            {change(func(m message) { m[0] = 5<<3 | modeServer }), checks.ReasonProtocol, "version 5"},
		"longer than it took":  {claim(-100*time.Second, 100*time.Second), checks.ReasonProtocol, "its receive and transmit timestamps are about 3m0s apart, more than the round took"},
		"just longer":          {claim(0, 2*long), checks.ReasonProtocol, "about 20s apart"},
		"less than no time":    {claim(0, -5*time.Second), checks.ReasonProtocol, "the answer makes no sense"},
		"coarse ticks":         {claim(0, 15*time.Millisecond), "", ""},
		"another era":          {change(func(m message) { set64(m, receiveAt, 0) }), checks.ReasonProtocol, "the answer makes no sense"},
		"with an extension":    {func(q []byte) [][]byte { return [][]byte{append(good(q), make([]byte, 28)...)} }, "", ""},
		"oversized":            {func(q []byte) [][]byte { return [][]byte{append(good(q), make([]byte, 60000)...)} }, "", ""},
		"twice":                {func(q []byte) [][]byte { return [][]byte{good(q), good(q)} }, "", ""},
		"after a forgery":      {func(q []byte) [][]byte { return [][]byte{good(make([]byte, messageSize)), good(q)} }, "", ""},
		"after a short one":    {func(q []byte) [][]byte { return [][]byte{good(q)[:47], {}, good(q)} }, "", ""},
		"after the question":   {func(q []byte) [][]byte { return [][]byte{q, good(q)} }, "", ""},
		"stratum 16":           {change(func(m message) { m[1] = 16 }), checks.ReasonMismatch, "the server is not synchronised: stratum 16"},
		"stratum 200":          {change(func(m message) { m[1] = 200 }), checks.ReasonMismatch, "stratum 200"},
		"stratum 0":            {change(func(m message) { m[1] = 0; copy(m[12:], "\x00\x00\x00\x00") }), checks.ReasonMismatch, "the server is not synchronised: stratum 0"},
		"leap 3":               {change(func(m message) { m[0] |= 3 << 6 }), checks.ReasonMismatch, "the server is not synchronised: leap indicator 3, stratum 2"},
		"rate":                 {kissed("RATE"), checks.ReasonMismatch, `the server turned the question away: kiss-o'-death "RATE", asked too often`},
		"deny":                 {kissed("DENY"), checks.ReasonMismatch, `kiss-o'-death "DENY", access denied by its policy`},
		"an unknown kiss":      {kissed("X\x01\xff\n"), checks.ReasonMismatch, `kiss-o'-death "X\x01\xff\n"`},
		"no transmit time":     {change(func(m message) { set64(m, transmitAt, 0) }), checks.ReasonProtocol, "the answer makes no sense"},
		"back in time":         {change(func(m message) { set64(m, 32, stamp(time.Now().Add(time.Hour))) }), checks.ReasonProtocol, "ticked backwards"},
		"a reference to come":  {change(func(m message) { set64(m, 16, stamp(time.Now().Add(time.Hour))) }), checks.ReasonMismatch, "not fit to set a clock by: invalid time"},
		"an old reference":     {change(func(m message) { set64(m, 16, stamp(time.Now().Add(-50*time.Hour))) }), checks.ReasonMismatch, "clock not fresh"},
		"far from its source":  {change(func(m message) { binary.BigEndian.PutUint32(m[8:], 2<<16) }), checks.ReasonMismatch, "the root distance is more than max_root_distance, 1.5s: about 2s"},
		"a long way to it":     {change(func(m message) { binary.BigEndian.PutUint32(m[4:], 4<<16) }), checks.ReasonMismatch, "about 2s"},
		"another origin":       {change(func(m message) { m[originAt]++ }), checks.ReasonTimeout, "no answer within D; what came was no answer: it repeats another transmit timestamp than was sent (sent from 127.0.0.1)"},
		"no origin":            {change(func(m message) { set64(m, originAt, 0) }), checks.ReasonTimeout, "another transmit timestamp"},
		"a client's mode":      {func(q []byte) [][]byte { return [][]byte{q} }, checks.ReasonTimeout, "what came was no answer: mode 3, not that of a server"},
		"broadcast":            {change(func(m message) { m[0] = 4<<3 | 5 }), checks.ReasonTimeout, "mode 5"},
		"short":                {func(q []byte) [][]byte { return [][]byte{good(q)[:47]} }, checks.ReasonTimeout, "what came was no answer: too short"},
		"empty":                {func([]byte) [][]byte { return [][]byte{{}} }, checks.ReasonTimeout, "too short"},
		"silent":               {func([]byte) [][]byte { return nil }, checks.ReasonTimeout, "no answer within D (sent from 127.0.0.1)"},
		"kiss of another time": {func(q []byte) [][]byte { k := kissed("DENY")(q); k[0][originAt]++; return [][]byte{k[0], good(q)} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := long
			if c.reason == checks.ReasonTimeout {
				d = short
			}
			want(t, name, probe(t, Spec{Server: server(t, "127.0.0.1", c.answer)}, d), c.reason, c.words)
		})
	}
}

// A server that takes its time, and says so, is believed; so are timestamps on both sides of an era's end.
func TestSpell(t *testing.T) {
	at := server(t, "127.0.0.1", func(q []byte) [][]byte {
		m := good(q)
		for start := time.Now(); time.Since(start) < 30*time.Millisecond; { // as long as it says
		}
		set64(m, transmitAt, stamp(time.Now()))
		return [][]byte{m}
	})
	want(t, "slow", probe(t, Spec{Server: at}, long), "", "")
	for _, c := range []struct {
		from, to uint64
		want     time.Duration
	}{{1 << 32, 3 << 31, time.Second / 2}, {3 << 31, 1 << 32, -time.Second / 2}, {1<<64 - 1<<32, 1 << 32, 2 * time.Second}, {5, 5, 0}} {
		from, to := binary.BigEndian.AppendUint64(nil, c.from), binary.BigEndian.AppendUint64(nil, c.to)
		if got := spell(from, to); got != c.want {
			t.Errorf("%x to %x: %s, want %s", from, to, got, c.want)
		}
	}
}

// The answer to an earlier question comes late, and is none to this one.
func TestLate(t *testing.T) {
	var before message
	at := server(t, "::1", func(q []byte) [][]byte {
		if before == nil {
			before = good(q)
			return nil
		}
		return [][]byte{before}
	})
	for range 2 {
		want(t, "late", probe(t, Spec{Server: at}, 50*time.Millisecond), checks.ReasonTimeout, "sent from ::1")
	}
}

func TestLimits(t *testing.T) {
	slow := server(t, "127.0.0.1", change(func(m message) {
		for _, at := range []int{16, 32, transmitAt} {
			set64(m, at, stamp(time.Now().Add(-30*time.Minute)))
		}
	}))
	now := server(t, "127.0.0.1", change(func(message) {}))
	fast := server(t, "127.0.0.1", change(func(m message) {
		set64(m, 32, stamp(time.Now().Add(time.Hour)))
		set64(m, transmitAt, stamp(time.Now().Add(time.Hour)))
	}))
	for _, c := range []struct {
		spec   Spec
		reason checks.Reason
		words  string
	}{
		{Spec{Server: slow}, "", ""},
		{Spec{Server: slow, MaxOffset: time.Hour}, "", ""},
		{Spec{Server: slow, MaxOffset: time.Minute}, checks.ReasonMismatch, "further apart than max_offset, 1m0s: this one is about 30m0s ahead"},
		{Spec{Server: fast, MaxOffset: time.Minute}, checks.ReasonMismatch, "further apart than max_offset, 1m0s: this one is about 1h0m0s behind"},
		{Spec{Server: now, MaxOffset: time.Minute}, "", ""},
		{Spec{Server: now, MaxStratum: 2}, "", ""},
		{Spec{Server: now, MaxStratum: 1}, checks.ReasonMismatch, "stratum 2 is more than max_stratum, 1"},
		{Spec{Server: now, MaxRootDistance: time.Nanosecond}, checks.ReasonMismatch, "more than max_root_distance, 1ns"},
	} {
		want(t, fmt.Sprintf("%+v", c.spec), probe(t, c.spec, long), c.reason, c.words)
	}
}

func TestCoarse(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 7: "7ns", 1234: "1µs", 345 * time.Millisecond: "300ms", 1499 * time.Millisecond: "1s",
		61 * time.Second: "1m0s", 35 * time.Minute: "40m0s", 7*time.Hour + time.Minute: "7h0m0s", 1000 * time.Hour: "1000h0m0s"} {
		if got := coarse(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// A port that nobody has, and a source that is not here.
func TestUnreached(t *testing.T) {
	at := checktest.Closed(t, "127.0.0.1").String()
	want(t, "closed", probe(t, Spec{Server: at}, long), checks.ReasonRefused, "connection refused")
	want(t, "source", probe(t, Spec{Server: at, Origin: checks.Origin{Source: "192.0.2.77"}}, long), checks.ReasonUnreachable,
		"the source address 192.0.2.77 is not on this node")
	from := server(t, "127.0.0.1", change(func(message) {}))
	want(t, "from", probe(t, Spec{Server: from, Origin: checks.Origin{Source: "127.0.0.9", Mark: 7, Device: "lo"}}, long), "", "")
}

func TestCanceled(t *testing.T) {
	at := server(t, "127.0.0.1", func([]byte) [][]byte { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	ctx = checks.WithTrace(ctx, func(checks.Direction, string) { cancel() })
	want(t, "canceled", made(t, Spec{Server: at}).Check(ctx), checks.ReasonUnknown, "broken off")
}

// What `vouch check -v` shows.
func TestTrace(t *testing.T) {
	at := server(t, "127.0.0.1", func(q []byte) [][]byte { return [][]byte{{1, 2}, q, good(q)} })
	var lines []string
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { lines = append(lines, string(d)+" "+text) })
	want(t, "traced", made(t, Spec{Server: at}).Check(ctx), "", "")
	for i, words := range []string{"> version 4, mode 3, transmit timestamp ", "< 2 bytes: no answer, too short", "< leap 0, version 4, mode 3, stratum 0",
		"< leap 0, version 4, mode 4, stratum 2, poll 6", "* offset "} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], words) {
			t.Fatalf("line %d is not %q:\n%s", i, words, strings.Join(lines, "\n"))
		}
	}
}

// Rounds leave nothing behind, however they end.
func TestNoLeak(t *testing.T) {
	specs := []Spec{{Server: server(t, "127.0.0.1", change(func(message) {}))}, {Server: server(t, "127.0.0.1", kissed("RATE"))},
		{Server: server(t, "127.0.0.1", func([]byte) [][]byte { return [][]byte{bytes.Repeat([]byte{7}, 40)} })}, {Server: "127.0.0.1:1"},
		{Server: "127.0.0.1", Origin: checks.Origin{Source: "192.0.2.77"}}}
	rounds := func(n int) {
		for range n {
			for _, s := range specs {
				_ = probe(t, s, 2*time.Millisecond)
			}
		}
	}
	rounds(5)
	checktest.Flat(t, func() { rounds(100) })
}

func BenchmarkCheck(b *testing.B) {
	c := made(b, Spec{Server: server(b, "127.0.0.1", change(func(message) {}))})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
