package dns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// asks gives a server that hands each question, and a good reply to it with its length before, to f.
func asks(f func(c net.Conn, q *dns.Msg, reply []byte)) func(net.Conn) {
	return func(c net.Conn) {
		q, err := (&dns.Conn{Conn: c}).ReadMsg()
		if err != nil {
			return
		}
		if wire, err := new(dns.Msg).SetReply(q).Pack(); err == nil {
			f(c, q, append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...))
		}
	}
}

// ever writes the same again and again.
func ever(c net.Conn, b []byte) {
	b = bytes.Repeat(b, 1+1<<16/len(b))
	for err := error(nil); err == nil; {
		_, err = c.Write(b)
	}
}

// What comes over a connection and is not the reply ends the check, which says what it was.
func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		serve  func(c net.Conn, q *dns.Msg, reply []byte)
		reason checks.Reason
		words  string
	}{
		"in pieces": {func(c net.Conn, _ *dns.Msg, reply []byte) {
			for i := range reply {
				_, _ = c.Write(reply[i : i+1])
			}
		}, "", ""},
		"more behind it": {func(c net.Conn, _ *dns.Msg, reply []byte) { ever(c, append(reply, 0, 0, 0)) }, "", ""},
		"endless zeros": {func(c net.Conn, _ *dns.Msg, _ []byte) { ever(c, []byte{0}) },
			checks.ReasonProtocol, "protocol: what came is no reply to the question: a message of 0 bytes, too few for a header (sent"},
		"endless bytes": {func(c net.Conn, _ *dns.Msg, _ []byte) { ever(c, []byte{7}) },
			checks.ReasonProtocol, "protocol: what came is no DNS: 07 07 07 07 07 07 07 07 07 07 07 07 07 07 (sent"},
		"endless other ids": {func(c net.Conn, _ *dns.Msg, reply []byte) { reply[2]++; ever(c, reply) },
			checks.ReasonProtocol, "protocol: what came is no reply to the question: another id (sent"},
		"HTTP that stays": {func(c net.Conn, _ *dns.Msg, _ []byte) {
			dribble(c, []byte("HTTP/1.1 400 Bad Request\r\nDate: Mon\r\n\r\n"))
		},
			checks.ReasonProtocol, `protocol: what came is no DNS: "HTTP/1.1 400 Bad Request" (sent`},
		"a short greeting": {func(c net.Conn, _ *dns.Msg, _ []byte) { _, _ = c.Write([]byte("220 hi\r\n")) },
			checks.ReasonProtocol, `protocol: the connection was closed before an answer; what came is no DNS: "220 hi" (sent`},
		"one that stays": {func(c net.Conn, _ *dns.Msg, _ []byte) { dribble(c, []byte("220 hi\r\n")) },
			checks.ReasonTimeout, `timeout: timeout after 2s; what came is no DNS: "220 hi" (sent from 127.0.0.1, 0 of 1 replies)`},
		"an alert of TLS": {func(c net.Conn, _ *dns.Msg, _ []byte) { _, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 40}) },
			checks.ReasonProtocol, "before an answer; what came is no whole message: 15 03 03 00 02 02 28 (sent"},
		"half": {func(c net.Conn, _ *dns.Msg, reply []byte) { _, _ = c.Write(reply[:16]) },
			checks.ReasonProtocol, "before an answer; 14 of its 17 bytes came (sent"},
		"half, stays": {func(c net.Conn, _ *dns.Msg, reply []byte) { dribble(c, reply[:16]) },
			checks.ReasonTimeout, "timeout after 2s; 14 of its 17 bytes came (sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.TCP(t, "127.0.0.1", asks(c.serve))
			want(t, probeFor(t, Spec{Server: at.String(), Proto: "tcp"}, patience(c.reason)), c.reason, c.words)
		})
	}
}

// source counts the bytes that are read of what comes without end.
type source struct {
	fill func([]byte)
	read int
}

func (s *source) Read(b []byte) (int, error) {
	s.fill(b)
	s.read += len(b)
	return len(b), nil
}

// Whatever comes, no more is read than one message, and there are words for it.
func TestStreamIsBounded(t *testing.T) {
	query := new(dns.Msg).SetQuestion(".", dns.TypeNS)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size, id, flags := uint16(random.Uint32()), query.Id, byte(random.Uint32())
		if random.IntN(2) == 0 {
			size, id = uint16(random.IntN(40)), id+uint16(random.IntN(2))
		}
		head := append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size), id), flags)
		s := &source{fill: func(b []byte) {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			copy(b, head)
			head = nil
		}}
		a, err := first(s, query, make([]byte, 20))
		if err != nil || s.read > lengthSize+dns.MaxMsgSize {
			t.Fatalf("%v, %d bytes read", err, s.read)
		}
		if a.misfit.kind != fits && (a.fault(query) == "" || a.tell(query) == "") {
			t.Fatalf("no words for %x", a.bytes)
		}
	}
	for n := range 40 {
		a, err := first(bytes.NewReader(bytes.Repeat([]byte{0xff}, n)), query, make([]byte, 20))
		if (err == io.EOF) != (a.misfit.kind == fits) || err != nil && n > 0 && a.half(query) == "" {
			t.Errorf("%d bytes: %v, %+v", n, err, a)
		}
	}
}

// Whoever looks on sees what came in place of a reply.
func TestStreamTraced(t *testing.T) {
	for _, c := range []struct {
		serve func(c net.Conn, q *dns.Msg, reply []byte)
		lines string
	}{
		{func(c net.Conn, _ *dns.Msg, _ []byte) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n<html>"))
		},
			"< no reply to the question: no DNS reply, or a malformed one: not marked as a reply\n34 bytes:\n\"HTTP/1.1 400 Bad Request\\r\\n\"\n\"\\r\\n\"\n\"<html>\"\n"},
		{func(c net.Conn, _ *dns.Msg, _ []byte) { _, _ = c.Write([]byte{0, 17, 1}) },
			"< not whole; what came is no whole message: 00 11 01\n3 bytes: 00 11 01\n"},
		{func(c net.Conn, q *dns.Msg, reply []byte) {
			binary.BigEndian.PutUint16(reply[2:], q.Id^0x8000)
			_, _ = c.Write(reply)
		}, ", asked with "},
	} {
		got, err := traced(t, Spec{Server: checktest.TCP(t, "127.0.0.1", asks(c.serve)).String(), Proto: "tcp"}, 5*time.Second)
		if want(t, err, checks.ReasonProtocol); !strings.Contains(got, c.lines) {
			t.Errorf("got %s\nwant %s", got, c.lines)
		}
	}
}

// Whoever looks on sees what was dropped.
func TestDropsTraced(t *testing.T) {
	ids := make(chan uint16, 1)
	at := checktest.DNS(t, "127.0.0.1", func(w dns.ResponseWriter, q *dns.Msg) {
		ids <- q.Id
		checktest.Each(wrongID, wrongQ, garbage, ok)(w, q)
	}, nil)
	got, err := traced(t, Spec{Server: at.String()}, 5*time.Second)
	want(t, err, "")
	id := <-ids
	for _, w := range []string{
		fmt.Sprintf("< 38 bytes, dropped: another id: %d, asked with %d\n%02x %02x 80 ", id+1, id, (id+1)>>8, (id+1)&0xff),
		"< 38 bytes, dropped: another question: . IN MX, asked . IN NS\n",
		"< 7 bytes, dropped: no DNS reply, or a malformed one: 7 bytes are too few for a header\n\"garbage\"\n",
	} {
		if !strings.Contains(got, w) {
			t.Errorf("got %s\nwant %s", got, w)
		}
	}
}

// flood is a socket on which junk comes without end, until the time is over or much more has come than is to be read.
type flood struct {
	junk []byte
	end  time.Time
	read int
}

func (f *flood) Read(b []byte) (int, error) {
	if f.read++; f.read > 1<<20 || !time.Now().Before(f.end) {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, f.junk), nil
}

// A flood of datagrams costs little of a CPU, and few lines, and does not keep the reply from being heard.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query := new(dns.Msg).SetQuestion(".", dns.TypeNS)
		other := new(dns.Msg).SetReply(query)
		other.Id++
		junk, err := other.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		ctx := checks.WithTrace(t.Context(), func(_ checks.Direction, text string) { lines = append(lines, text) })
		f, d := &flood{junk: junk, end: time.Now().Add(time.Second)}, dropped{}
		if _, err := receive(ctx, f, query, make([]byte, bufferSize+1), &d); err != os.ErrDeadlineExceeded {
			t.Fatal(err)
		}
		if d.traceRest(ctx); f.read > burst*1001 || d.all() != f.read-1 {
			t.Errorf("%d read in a second, %d dropped", f.read, d.all())
		}
		if want := "10 or more replies dropped: 10 or more with another id"; d.String() != want {
			t.Errorf("%s, want %s", &d, want)
		}
		if n := len(lines); n != shownDrops+1 || !strings.HasPrefix(lines[n-1], "and ") || !strings.Contains(lines[n-1], " more, dropped: in all ") {
			t.Errorf("%d lines, the last: %s", n, lines[n-1])
		}
	})
}
