package dns

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

const host = "ns.example.net"

// over gives the Spec of a check over TLS or HTTPS that trusts ca.
func over(proto string, at netip.AddrPort, ca *checktest.CA) Spec {
	return Spec{Proto: proto, Server: at.String(), Spec: trust.Spec{CA: ca.File, ServerName: host}}
}

func TestOverTLS(t *testing.T) {
	ca := checktest.NewCA(t)
	good := ca.Issue(t, host).Config()
	for name, c := range map[string]struct {
		conf    *tls.Config
		handler dns.HandlerFunc
		reason  checks.Reason
		words   string
	}{
		"noerror":        {good, ok, "", ""},
		"large":          {good, tooMuch, "", ""},
		"right, then id": {good, checktest.Each(ok, wrongID, garbage), "", ""},
		"id, then right": {good, checktest.Each(wrongID, ok), checks.ReasonProtocol, "what came is no reply to the question: another id"},
		"truncated":      {good, checktest.Truncated(), checks.ReasonProtocol, "the answer over tls is truncated"},
		"closes":         {good, checktest.Close(), checks.ReasonProtocol, "closed before an answer"},
		"silent":         {good, checktest.Silent(), checks.ReasonTimeout, "timeout after 2s (sent from 127.0.0.1, 0 of 1 replies)"},
		"expired":        {ca.Issue(t, host, checktest.Expired).Config(), ok, checks.ReasonTLS, "expired"},
		"not yet":        {ca.Issue(t, host, checktest.NotYet).Config(), ok, checks.ReasonTLS, "not valid before"},
		"wrong name":     {ca.Issue(t, "other.example.net").Config(), ok, checks.ReasonTLS, "other.example.net"},
		"wrong chain":    {checktest.NewCA(t).Issue(t, host).Config(), ok, checks.ReasonTLS, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.DNSOverTLS(t, "127.0.0.1", c.conf, c.handler)
			want(t, probeFor(t, over("tls", at, ca), patience(c.reason)), c.reason, c.words)
		})
	}
}

// patience is short where the check is to run into its end.
func patience(r checks.Reason) time.Duration {
	if r == checks.ReasonTimeout {
		return 2 * time.Second // the text rounds it, and a busy machine loses some
	}
	return 5 * time.Second
}

// A server that dribbles, or that sends ever more, does not hold the check beyond its end.
func TestOverTLSHostile(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, host).Config()
	for name, c := range map[string]struct {
		serve  func(*tls.Conn)
		reason checks.Reason
		words  string
	}{
		"dribbles": {func(c *tls.Conn) { dribble(c, []byte{0, 50, 0}) }, checks.ReasonTimeout, "0 of 1 replies"},
		"half":     {func(c *tls.Conn) { _, _ = c.Write([]byte{255, 255, 1, 2, 3}) }, checks.ReasonProtocol, "closed before an answer; what came is no whole message: ff ff 01 02 03"},
		"HTTP": {func(c *tls.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nDate: Mon\r\n\r\n")) },
			checks.ReasonProtocol, `protocol: what came is no DNS: "HTTP/1.1 400 Bad Request" (sent from`},
		"flood": {func(c *tls.Conn) {
			for {
				if _, err := c.Write(append([]byte{255, 255}, make([]byte, 65535)...)); err != nil {
					return
				}
			}
		}, checks.ReasonProtocol, "what came is no DNS: ff ff 00 00 00 00 00 00 00 00 00 00 00 00 (sent from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.TLS(t, "127.0.0.1", conf, c.serve)
			want(t, probeFor(t, over("tls", at, ca), patience(c.reason)), c.reason, c.words)
		})
	}
	t.Run("no handshake", func(t *testing.T) {
		at := checktest.TCP(t, "127.0.0.1", nil)
		want(t, probeFor(t, over("tls", at, ca), 2*time.Second), checks.ReasonTimeout, "handshake within 2s", "sent from 127.0.0.1")
	})
	t.Run("no TLS", func(t *testing.T) {
		at := checktest.DNS(t, "127.0.0.1", nil, checktest.Close())
		want(t, probe(t, over("tls", at, ca)), checks.ReasonTLS, "during the handshake")
	})
	t.Run("closed port", func(t *testing.T) {
		want(t, probe(t, over("tls", checktest.Closed(t, "127.0.0.1"), ca)), checks.ReasonRefused)
	})
}

// dribble sends the bytes and nothing more until the other side goes.
func dribble(c net.Conn, b []byte) {
	_, err := c.Write(b)
	for err == nil {
		_, err = c.Read(make([]byte, 4096))
	}
}

func TestOverHTTPS(t *testing.T) {
	ca := checktest.NewCA(t)
	good := ca.Issue(t, host).Config()
	typed := func(kind string, status, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write(bytes.Repeat([]byte{1}, size))
		}
	}
	for name, c := range map[string]struct {
		conf    *tls.Config
		handler http.HandlerFunc
		reason  checks.Reason
		words   string
	}{
		"noerror":    {good, checktest.Message(ok), "", ""},
		"large":      {good, checktest.Message(tooMuch), "", ""},
		"servfail":   {good, checktest.Message(checktest.Answer(2)), "", ""},
		"truncated":  {good, checktest.Message(checktest.Truncated()), checks.ReasonProtocol, "over https is truncated"},
		"wrong id":   {good, checktest.Message(wrongID), checks.ReasonProtocol, "no reply to the question: another id"},
		"wrong q":    {good, checktest.Message(wrongQ), checks.ReasonProtocol, "no reply to the question: another question"},
		"garbage":    {good, checktest.Message(garbage), checks.ReasonProtocol, `no DNS reply: 7 bytes are too few for a header; the body begins "garbage"`},
		"half":       {good, checktest.Message(half), checks.ReasonProtocol, "no DNS reply: dns: "},
		"empty":      {good, checktest.Message(checktest.Silent()), checks.ReasonProtocol, "no DNS reply: 0 bytes are too few for a header; the body is empty"},
		"breaks off": {good, checktest.Message(checktest.Close()), checks.ReasonProtocol, "HTTP/2 broke off, no response"},
		"status":     {good, typed("text/html", 503, 10), checks.ReasonStatus, "HTTP status 503 Service Unavailable for https://ns.example.net:"},
		"says why": {good, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not from here", http.StatusForbidden) },
			checks.ReasonStatus, `/dns-query, want 200; the body begins "not from here\n" (sent from`},
		"says nothing": {good, typed("text/plain", 403, 0), checks.ReasonStatus, "want 200; the body is empty (sent from"},
		"says bytes":   {good, typed("text/plain", 403, 10), checks.ReasonStatus, "want 200 (sent from"},
		"hangs": {good, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "slow", http.StatusForbidden)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, checks.ReasonStatus, `want 200; the body begins "slow\n"`},
		"page": {good, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>" + strings.Repeat("x", 9999)))
		},
			checks.ReasonProtocol, `want application/dns-message; the body begins "<html>x`},
		"odd status":   {good, typed("text/html", 799, 10), checks.ReasonStatus, "HTTP status 799 for https"},
		"redirect":     {good, http.RedirectHandler("https://elsewhere.example/", http.StatusFound).ServeHTTP, checks.ReasonStatus, "HTTP status 302 Found"},
		"type":         {good, typed("text/html", 200, 10), checks.ReasonProtocol, `of type "text/html", want application/dns-message`},
		"no type":      {good, typed("", 200, 10), checks.ReasonProtocol, `of type ""`},
		"too long":     {good, typed(mediaType+"; a=b", 200, 70000), checks.ReasonProtocol, "longer than 65535 bytes"},
		"expired":      {ca.Issue(t, host, checktest.Expired).Config(), checktest.Message(ok), checks.ReasonTLS, "expired"},
		"wrong name":   {ca.Issue(t, "other.example.net").Config(), checktest.Message(ok), checks.ReasonTLS, "other.example.net"},
		"no response":  {good, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, checks.ReasonTimeout, "timeout after 2s (sent from 127.0.0.1, no response)"},
		"body hangs":   {good, stall(mediaType), checks.ReasonTimeout, "timeout after 2s (sent from 127.0.0.1, response not whole)"},
		"long headers": {good, headers(40000), checks.ReasonProtocol, "HTTP/2 broke off, no response"},
		"endless body": {good, endless, checks.ReasonProtocol, "longer than 65535 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.DNSOverHTTPS(t, "127.0.0.1", c.conf, c.handler)
			want(t, probeFor(t, over("https", at, ca), patience(c.reason)), c.reason, c.words)
		})
	}
}

// stall gives the head of a response and part of its body.
func stall(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte{0, 0, 1})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// headers gives a response with that many bytes of headers.
func headers(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("X-Long", strings.Repeat("x", n))
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", mediaType)
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// What breaks the rules of HTTP/2 breaks nothing here.
func TestOverHTTPSHostile(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, host).Config()
	conf.NextProtos = []string{"h2"}
	const data, head, reset, settings, goaway, continuation = 0, 1, 3, 4, 7, 9
	field := append([]byte{0, 1, 'x', 127, 0}, bytes.Repeat([]byte{'y'}, 127)...)
	for name, c := range map[string]struct {
		then   func(net.Conn)
		reason checks.Reason
		words  string
	}{
		"reset":     {func(c net.Conn) { _ = checktest.Frame(c, reset, 0, 1, []byte{0, 0, 0, 2}) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"goes away": {func(c net.Conn) { _ = checktest.Frame(c, goaway, 0, 0, make([]byte, 8)) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"is going":  {func(c net.Conn) { _ = checktest.Frame(c, goaway, 0, 0, make([]byte, 8)); _, _ = io.Copy(io.Discard, c) }, checks.ReasonProtocol, "graceful shutdown GOAWAY"},
		"says why": {func(c net.Conn) {
			_ = checktest.Frame(c, goaway, 0, 0, append([]byte{0, 0, 0, 1, 0, 0, 0, 2}, strings.Repeat("N", 9999)...))
		}, checks.ReasonProtocol, "NNN…"},
		"refuses": {func(c net.Conn) {
			_ = checktest.Frame(c, reset, 0, 1, []byte{0, 0, 0, 7})
			_, _ = io.Copy(io.Discard, c)
		}, checks.ReasonProtocol, "HTTP/2 broke off, no response: stream error: stream ID 1; REFUSED_STREAM"},
		"bad frame":    {func(c net.Conn) { _ = checktest.Frame(c, head, 4, 1, []byte{255, 255, 255}) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"bad settings": {func(c net.Conn) { _ = checktest.Frame(c, settings, 0, 0, []byte{1}) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"body first":   {func(c net.Conn) { _ = checktest.Frame(c, data, 1, 1, []byte{1}) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"closes":       {func(net.Conn) {}, checks.ReasonProtocol, "HTTP/2 broke off, no response: unexpected EOF"},
		"http/1.1":     {func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, checks.ReasonProtocol, "HTTP/2 broke off"},
		"dribbles":     {func(c net.Conn) { dribble(c, []byte{0, 0, 50, 1, 0}) }, checks.ReasonTimeout, "no response"},
		"endless headers": {func(c net.Conn) {
			for err := checktest.Frame(c, head, 0, 1, []byte{0x88}); err == nil; {
				err = checktest.Frame(c, continuation, 0, 1, field)
			}
		}, checks.ReasonProtocol, "HTTP/2 broke off"},
		"endless informational": {func(c net.Conn) {
			for err := error(nil); err == nil; {
				err = checktest.Frame(c, head, 4, 1, append([]byte{8, 3, '1', '0', '3'}, field...))
			}
		}, checks.ReasonProtocol, "HTTP/2 broke off"},
		"endless pings": {func(c net.Conn) {
			for err := error(nil); err == nil; {
				err = checktest.Frame(c, 6, 0, 0, make([]byte, 8))
			}
		}, checks.ReasonProtocol, "HTTP/2 broke off, no response: more than 512 KiB came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.TLS(t, "127.0.0.1", conf, checktest.HTTP2(c.then))
			want(t, probeFor(t, over("https", at, ca), patience(c.reason)), c.reason, c.words)
		})
	}
}

// What is asked over HTTPS is as RFC 8484 has it, at the name of the certificate.
func TestRequest(t *testing.T) {
	ca := checktest.NewCA(t)
	got := make(chan *http.Request, 2)
	id := make(chan uint16, 2)
	at := checktest.DNSOverHTTPS(t, "127.0.0.1", ca.Issue(t, host).Config(), func(w http.ResponseWriter, r *http.Request) {
		got <- r
		checktest.Message(func(w dns.ResponseWriter, q *dns.Msg) { id <- q.Id; ok(w, q) })(w, r)
	})
	s := over("https", at, ca)
	want(t, probe(t, s), "")
	s.Path, s.Origin.Source = "/doh/x", "127.0.0.9"
	want(t, probe(t, s), "")
	first, second := <-got, <-got
	if first.Proto != "HTTP/2.0" || first.Method != "POST" || first.URL.Path != "/dns-query" || first.Host != fmt.Sprintf("%s:%d", host, at.Port()) ||
		first.Header.Get("Content-Type") != mediaType || first.Header.Get("Accept") != mediaType || first.TLS.ServerName != host {
		t.Errorf("request %s %s %s to %s, %v", first.Proto, first.Method, first.URL, first.Host, first.Header)
	}
	if second.URL.Path != "/doh/x" || !strings.HasPrefix(second.RemoteAddr, "127.0.0.9:") {
		t.Errorf("request for %s from %s", second.URL, second.RemoteAddr)
	}
	if a, b := <-id, <-id; a != 0 || b != 0 {
		t.Errorf("ids %d and %d, want 0 (RFC 8484, section 4.1)", a, b)
	}
	for text, want := range map[string]string{
		"192.0.2.1:443": "https://192.0.2.1/q", "192.0.2.1:8443": "https://192.0.2.1:8443/q",
		"[2001:db8::1]:443": "https://[2001:db8::1]/q", "[fe80::1%eth0]:44": "https://[fe80::1]:44/q",
	} {
		s := Spec{Path: "/q"}
		if got := s.url(netip.MustParseAddrPort(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for name, want := range map[string]string{"a.example": "https://a.example/q", "2001:db8::2": "https://[2001:db8::2]/q"} {
		s := Spec{Path: "/q", Spec: trust.Spec{ServerName: name}}
		if got := s.url(netip.MustParseAddrPort("192.0.2.1:443")); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Each round over TLS and HTTPS ends with the descriptors and goroutines that it began with.
func TestNothingIsLeft(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, host).Config()
	dot, doh := checktest.DNSOverTLS(t, "127.0.0.1", conf, ok), checktest.DNSOverHTTPS(t, "127.0.0.1", conf, checktest.Message(ok))
	bad := checktest.DNSOverHTTPS(t, "127.0.0.1", ca.Issue(t, "other.example.net").Config(), checktest.Message(ok))
	hangs := checktest.DNSOverHTTPS(t, "127.0.0.1", conf, stall(mediaType))
	status := checktest.DNSOverHTTPS(t, "127.0.0.1", conf, http.NotFound)
	specs := []Spec{over("tls", dot, ca), over("https", doh, ca), over("https", bad, ca), over("https", status, ca),
		over("tls", checktest.Closed(t, "127.0.0.1"), ca)}
	stuck := over("https", hangs, ca)
	round := func() {
		for _, s := range specs {
			_ = probe(t, s)
		}
	}
	round()
	fds, routines := open(t), runtime.NumGoroutine()
	for range 100 {
		round()
	}
	for range 5 {
		_ = probeFor(t, stuck, 20*time.Millisecond)
	}
	settled := func() bool { return open(t) <= fds+5 && runtime.NumGoroutine() <= routines+5 }
	for end := time.Now().Add(10 * time.Second); !settled(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines before, %d and %d after", fds, routines, open(t), runtime.NumGoroutine())
		}
	}
}

func open(tb testing.TB) int {
	tb.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(es)
}

// Whoever looks on sees the question, the answer, and how they went; what the name is random in is seen too.
func TestTrace(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, host).Config()
	doh := over("https", checktest.DNSOverHTTPS(t, "127.0.0.1", conf, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=s3cret")
		checktest.Message(tooMuch)(w, r)
	}), ca)
	plain := Spec{Server: checktest.DNS(t, "127.0.0.1", checktest.Each(wrongID, checktest.Truncated()), ok).String(), Name: "probe.example.net", RandomLabel: true}
	for name, c := range map[string]struct {
		spec  Spec
		words []string
	}{
		"udp":   {plain, []string{"* udp to 127.0.0.1:", ".probe.example.net.\tIN\t NS", "< ", "dropped: another id: ", "* the answer over udp is truncated: asking again over tcp", "* tcp to", "checktest"}},
		"https": {doh, []string{"TLS 1.3", "> POST https://ns.example.net:", "Content-Type: application/dns-message", "< HTTP/2.0 200", "Set-Cookie: …", "…"}},
	} {
		var all strings.Builder
		ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { fmt.Fprintf(&all, "%c %s\n", d, text) })
		if ps := c.spec.Validate(); ps != nil {
			t.Fatal(ps)
		}
		check, err := c.spec.New()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := check.Check(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		for _, w := range c.words {
			if !strings.Contains(all.String(), w) {
				t.Errorf("%s: the trace does not have %q:\n%s", name, w, &all)
			}
		}
		if strings.Contains(all.String(), "s3cret") {
			t.Errorf("%s: a secret is shown:\n%s", name, &all)
		}
		if all.Len() > 4*traceSize {
			t.Errorf("%s: %d bytes of trace", name, all.Len())
		}
	}
}

func BenchmarkSecure(b *testing.B) {
	ca := checktest.NewCA(b)
	conf := ca.Issue(b, host).Config()
	for _, s := range []Spec{
		over("tls", checktest.DNSOverTLS(b, "127.0.0.1", conf, ok), ca),
		over("https", checktest.DNSOverHTTPS(b, "127.0.0.1", conf, checktest.Message(ok)), ca),
	} {
		b.Run(s.Proto, func(b *testing.B) { bench(b, s) })
	}
}
