package http

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// drain keeps a connection until the other side closes it.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// asked waits for the end of a request's headers.
func asked(c net.Conn) bool {
	_, err := nethttp.ReadRequest(bufio.NewReader(c))
	return err == nil
}

// say answers a request with a text, and keeps the connection.
func say(text string) func(net.Conn) {
	return func(c net.Conn) {
		if asked(c) {
			_, _ = io.WriteString(c, text)
			drain(c)
		}
	}
}

// sayAndClose answers a request with a text, and closes.
func sayAndClose(text string) func(net.Conn) {
	return func(c net.Conn) {
		if asked(c) {
			_, _ = io.WriteString(c, text)
		}
	}
}

// endless answers a request with a beginning, and then with the same text until the other side has enough.
func endless(begin, again string) func(net.Conn) {
	return func(c net.Conn) {
		if !asked(c) {
			return
		}
		more := bytes.Repeat([]byte(again), 1+8192/len(again))
		for _, err := io.WriteString(c, begin); err == nil; {
			_, err = c.Write(more)
		}
	}
}

// drip answers with a beginning, and then a byte at a time until the other side has enough.
func drip(begin string) func(net.Conn) {
	return func(c net.Conn) {
		if !asked(c) {
			return
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for _, err := io.WriteString(c, begin); err == nil; <-tick.C {
			_, err = io.WriteString(c, "x")
		}
	}
}

const head = "HTTP/1.1 200 OK\r\n"

// Servers that do what they must not, over HTTP/1.1.
func TestHostile(t *testing.T) {
	for name, c := range map[string]struct {
		serve  func(net.Conn)
		expect string
		reason checks.Reason
		words  string
	}{
		"never accepts":      {nil, "", checks.ReasonTimeout, "(sent from 127.0.0.1, over http/1.1)"},
		"says nothing":       {drain, "", checks.ReasonTimeout, "no answer within "},
		"closes at once":     {func(net.Conn) {}, "", checks.ReasonRefused, "the connection was closed before an answer"},
		"resets":             {checktest.Reset, "", checks.ReasonRefused, ""},
		"another protocol":   {say("220 mail.example.net ESMTP\r\n"), "", checks.ReasonProtocol, "malformed HTTP"},
		"half a header":      {sayAndClose(head + "X-Half"), "", checks.ReasonProtocol, `no understandable answer: malformed MIME header: missing colon: "X-Half" (sent from 127.0.0.1, over http/1.1)`},
		"stalls in header":   {say(head + "X-Half"), "", checks.ReasonTimeout, ": it stopped midway (sent from 127.0.0.1, over http/1.1)"},
		"ends in headers":    {sayAndClose(head + "X-Half: y\r\n"), "", checks.ReasonProtocol, "the connection was closed midway through the answer (sent from 127.0.0.1, over http/1.1)"},
		"endless header":     {endless(head+"X-Long: ", "x"), "", checks.ReasonProtocol, "headers exceeded"},
		"endless headers":    {endless(head, "X-Long: y\r\n"), "", checks.ReasonProtocol, "headers exceeded"},
		"informational":      {endless("", "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n"), "", checks.ReasonProtocol, "headers exceeded"},
		"continue":           {endless("", "HTTP/1.1 100 Continue\r\n\r\n"), "", checks.ReasonProtocol, "headers exceeded"},
		"answers unasked":    {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"); drain(c) }, "", checks.ReasonStatus, "status 503 Busy"},
		"switches":           {say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "", checks.ReasonStatus, "status 101"},
		"long phrase":        {say("HTTP/1.1 500 " + strings.Repeat("A", 60000) + "\r\nContent-Length: 0\r\n\r\n"), "", checks.ReasonStatus, "status 500 " + strings.Repeat("A", 196) + "…, want 2xx"},
		"long rubbish":       {say("HTTP/1.1 " + strings.Repeat("A", 60000) + "\r\n\r\n"), "", checks.ReasonProtocol, "AAA…"},
		"no status":          {say("HTTP/1.1 \r\n\r\n"), "", checks.ReasonProtocol, "malformed HTTP status code"},
		"status -1":          {say("HTTP/1.1 -20 OK\r\n\r\n"), "", checks.ReasonProtocol, "malformed HTTP status code"},
		"HTTP/0.9":           {sayAndClose("<html>ok</html>"), "", checks.ReasonProtocol, ""},
		"body stalls":        {say(head + "Content-Length: 10\r\n\r\nhalf"), "", checks.ReasonTimeout, "status 200 OK, but the body did not end within "},
		"match, then stalls": {say(head + "Content-Length: 10\r\n\r\nhalf"), "half", checks.ReasonTimeout, "the body did not end"},
		"body never begins":  {say(head + "\r\n"), "", checks.ReasonTimeout, "the body did not end"},
		"slow-loris body":    {drip(head + "Content-Length: 1000000\r\n\r\n"), "", checks.ReasonTimeout, "the body did not end"},
		"slow-loris header":  {drip(head + "X-Slow: "), "", checks.ReasonTimeout, "no whole answer within "},
		"503 stalls":         {say("HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\nhalf"), "", checks.ReasonStatus, `status 503 No, want 2xx`},
		"body too short":     {sayAndClose(head + "Content-Length: 10\r\n\r\nhalf"), "", checks.ReasonProtocol, "status 200 OK, but the body is broken: the connection was closed before the end"},
		"two lengths":        {sayAndClose(head + "Content-Length: 10\r\nContent-Length: 4\r\n\r\nhalf"), "", checks.ReasonProtocol, "Content-Length"},
		"negative length":    {sayAndClose(head + "Content-Length: -4\r\n\r\nhalf"), "", checks.ReasonProtocol, "Content-Length"},
		"more than said":     {sayAndClose(head + "Content-Length: 4\r\n\r\nhalf and more"), "^half$", "", ""},
		"endless body":       {endless(head+"\r\n", "x"), "", "", ""},
		"endless, no match":  {endless(head+"\r\n", "x"), "y", checks.ReasonMismatch, "in the first 1048576 bytes of the body"},
		"1 GB declared":      {endless(head+"Content-Length: 1000000000\r\n\r\n", "x"), "", "", ""},
		"chunk of no size":   {say(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "", checks.ReasonProtocol, "the body is broken: no understandable answer"},
		"endless chunk line": {endless(head+"Transfer-Encoding: chunked\r\n\r\n", "1"), "", checks.ReasonProtocol, "the body is broken"},
		"chunk extensions":   {endless(head+"Transfer-Encoding: chunked\r\n\r\n1;x=", "y"), "", checks.ReasonProtocol, "the body is broken"},
		"endless trailer":    {endless(head+"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n", "X: y\r\n"), "", checks.ReasonProtocol, "the body is broken"},
		"gzip unasked":       {sayAndClose(head + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nhalf"), "^half$", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.TCP(t, "127.0.0.1", c.serve)
			d := long
			if c.reason == checks.ReasonTimeout || strings.Contains(name, "stalls") {
				d = short
			}
			want(t, probe(t, Spec{URL: "http://" + at.String() + "/", ExpectBody: c.expect}, d), c.reason, c.words)
		})
	}
}

// The same over each version: what does not end, and what is too much.
func TestHostileEach(t *testing.T) {
	each(t, func(t *testing.T, way string) {
		s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			flush := nethttp.NewResponseController(w)
			switch r.URL.Path {
			case "/silent":
				<-r.Context().Done()
			case "/stalls":
				fmt.Fprint(w, "half")
				_ = flush.Flush()
				<-r.Context().Done()
			case "/breaks":
				fmt.Fprint(w, "half")
				_ = flush.Flush()
				panic(nethttp.ErrAbortHandler)
			case "/endless":
				for more := bytes.Repeat([]byte("x"), 8192); r.Context().Err() == nil; {
					if _, err := w.Write(more); err != nil {
						return
					}
				}
			case "/header":
				for i := range 100 {
					w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("y", 1000))
				}
			case "/early":
				w.Header().Set("X-Early", strings.Repeat("y", 10000))
				for range 100 {
					w.WriteHeader(103)
				}
			}
		}))
		for path, c := range map[string]struct {
			reason checks.Reason
			words  string
		}{
			"/silent":  {checks.ReasonTimeout, "no answer within "},
			"/stalls":  {checks.ReasonTimeout, "status 200 OK, but the body did not end within "},
			"/breaks":  {checks.ReasonProtocol, ""}, // over h3 a reset may overtake the status,
			"/endless": {},
			"/header":  {checks.ReasonProtocol, ""},
			"/early":   {checks.ReasonProtocol, ""},
		} {
			d := long
			if c.reason == checks.ReasonTimeout {
				d = short
			}
			err := probe(t, s.spec(way, path), d)
			want(t, err, c.reason, c.words)
		}
	})
}

// An expression that takes long on what a server sends ends with the check.
func TestSlowExpression(t *testing.T) {
	s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		fmt.Fprint(w, strings.Repeat("abcz", 256<<10))
	}))
	spec := s.spec("plain", "/")
	spec.ExpectBody = `(?:(?:a?){100}(?:b?){100}(?:c?){100}){3}[x-z]{900}$`
	want(t, probe(t, spec, short), checks.ReasonTimeout, "the regular expression takes too long on what came")
}

// Where HTTP/2 is switched off from outside, that is told, and says nothing about the server.
func TestSwitchedOff(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=0")
	s := serve(t, nethttp.NotFoundHandler())
	for _, way := range []string{"2", "auto", "h2c"} {
		want(t, probe(t, s.spec(way, "/"), long), checks.ReasonUnknown, "HTTP/2 is switched off in this process: take http2client=0 out of its GODEBUG")
	}
	want(t, probe(t, s.spec("1.1", "/"), long), checks.ReasonStatus, "404")
}

// What may come over HTTP/2 without end, and is no answer, ends the check before its time.
func TestEndlessPings(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, name).Config()
	conf.NextProtos = []string{"h2"}
	at := checktest.TLS(t, "127.0.0.1", conf, checktest.HTTP2(func(c net.Conn) {
		var answers sync.WaitGroup
		defer answers.Wait()
		answers.Go(func() { drain(c) })
		for err := error(nil); err == nil; {
			err = checktest.Frame(c, 6, 0, 0, make([]byte, 8)) // PING (RFC 9113, section 6.7)
		}
	}))
	s := Spec{URL: "https://" + name + "/", Connect: at.String(), Version: "2", MaxBody: 1, Method: "POST", Body: "x", Spec: trust.Spec{CA: ca.File}}
	want(t, probe(t, s, long), checks.ReasonProtocol, "no understandable answer: more than 1024 KiB came")
}

// closing speaks HTTP/3 until a request begins, and closes the connection then.
func closing(t *testing.T, conf *tls.Config, code quic.ApplicationErrorCode, why string) netip.AddrPort {
	conf = conf.Clone()
	conf.NextProtos = []string{"h3"}
	return checktest.QUIC(t, "127.0.0.1", conf, func(ln *quic.EarlyListener) {
		for {
			conn, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			_, _ = conn.AcceptStream(conn.Context())
			_ = conn.CloseWithError(code, why)
		}
	})
}

// What a server says as it closes is told, but not all of a novel.
func TestLongFarewell(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, name).Config()
	conf.NextProtos = []string{"h2"}
	novel := strings.Repeat("N", 10000)
	away := checktest.TLS(t, "127.0.0.1", conf, checktest.HTTP2(func(c net.Conn) {
		_ = checktest.Frame(c, 7, 0, 0, append([]byte{0, 0, 0, 1, 0, 0, 0, 2}, novel...)) // GOAWAY (RFC 9113, section 6.8)
	}))
	shut := closing(t, conf, 7, novel[:1000])
	for version, at := range map[string]string{"2": away.String(), "3": shut.String()} {
		err := probe(t, Spec{URL: "https://" + name + "/", Connect: at, Version: version, Method: "POST", Body: "x", Spec: trust.Spec{CA: ca.File}}, long)
		want(t, err, checks.ReasonProtocol, "NNN…")
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%d bytes", len(err.Error()))
		}
	}
}
