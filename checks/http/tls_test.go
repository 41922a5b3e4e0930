package http

import (
	"crypto/tls"
	"net"
	nethttp "net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// secure are the ways to ask that use TLS.
var secure = []string{"1.1", "2", "auto", "3"}

// hello is a handler that says so.
var hello = nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = w.Write([]byte("hello")) })

// listen serves HTTP over QUIC or over TCP, as a way to ask needs it.
func listen(t testing.TB, way string, conf *tls.Config, handler nethttp.Handler) netip.AddrPort {
	if way == "3" {
		return checktest.HTTP3(t, "127.0.0.1", conf, handler)
	}
	return checktest.HTTP(t, "127.0.0.1", conf, handler)
}

func TestCertificates(t *testing.T) {
	ca, stranger := checktest.NewCA(t), checktest.NewCA(t)
	no := false
	for what, c := range map[string]struct {
		pair   checktest.Pair
		twist  func(*Spec)
		reason checks.Reason
		words  string
	}{
		"good":          {pair: ca.Issue(t, name)},
		"expired":       {ca.Issue(t, name, checktest.Expired), nil, checks.ReasonTLS, "the certificate of " + name + " expired "},
		"not yet":       {ca.Issue(t, name, checktest.NotYet), nil, checks.ReasonTLS, "is not valid before "},
		"wrong name":    {ca.Issue(t, "other.example"), nil, checks.ReasonTLS, "the certificate is for other.example, not for " + name},
		"stranger":      {stranger.Issue(t, name), nil, checks.ReasonTLS, "signed in the name of"},
		"self-signed":   {checktest.SelfSigned(t, name), nil, checks.ReasonTLS, "is self-signed"},
		"chain":         {pair: ca.Intermediate(t).Issue(t, name)},
		"chain missing": {ca.Intermediate(t).Issue(t, name).Bare(t), nil, checks.ReasonTLS, "did not come along"},
		"not verified":  {checktest.SelfSigned(t, name, checktest.Expired), func(s *Spec) { s.Verify, s.CA = &no, "" }, "", ""},
		"other name":    {ca.Issue(t, "other.example"), func(s *Spec) { s.ServerName = "other.example" }, "", ""},
		"few days":      {ca.Issue(t, name, checktest.Ends(72*time.Hour)), func(s *Spec) { s.MinCertDays = 14 }, checks.ReasonTLS, "min_cert_days is 14"},
		"enough days":   {ca.Issue(t, name), func(s *Spec) { s.MinCertDays = 14 }, "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, way := range secure {
				s := Spec{URL: "https://" + name + "/", Connect: listen(t, way, c.pair.Config(), hello).String(), Version: way, Spec: trust.Spec{CA: ca.File}}
				if c.twist != nil {
					c.twist(&s)
				}
				err := probe(t, s, long)
				want(t, err, c.reason, c.words)
			}
		})
	}
}

// The certificate of a server that is called by its address is for that address.
func TestAddressURL(t *testing.T) {
	ca := checktest.NewCA(t)
	for _, way := range secure {
		at := listen(t, way, ca.Issue(t, "127.0.0.1").Config(), hello)
		want(t, probe(t, Spec{URL: "https://" + at.String() + "/", Version: way, Spec: trust.Spec{CA: ca.File}}, long), "")
		at = listen(t, way, ca.Issue(t, "127.0.0.2").Config(), hello)
		want(t, probe(t, Spec{URL: "https://" + at.String() + "/", Version: way, Spec: trust.Spec{CA: ca.File}}, long),
			checks.ReasonTLS, "is for 127.0.0.2, not for 127.0.0.1")
	}
}

func TestClientCertificate(t *testing.T) {
	ca, stranger := checktest.NewCA(t), checktest.NewCA(t)
	conf := ca.Issue(t, name).Config()
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	good, bad := ca.Issue(t, "prober", checktest.ForClients), stranger.Issue(t, "prober", checktest.ForClients)
	for _, way := range secure {
		s := Spec{URL: "https://" + name + "/", Connect: listen(t, way, conf, hello).String(), Version: way, Spec: trust.Spec{CA: ca.File}}
		for range 10 { // the alert comes after the handshake, and what we send crosses it
			want(t, probe(t, s, long), checks.ReasonTLS, "the server demands a client certificate, and got none (alert 116")
		}
		s.Cert, s.Key = good.CertFile, good.KeyFile
		want(t, probe(t, s, long), "")
		s.Cert, s.Key = bad.CertFile, bad.KeyFile
		want(t, probe(t, s, long), checks.ReasonTLS, "client certificate")
	}
}

// What a server does not speak is not spoken, and nothing else in its stead.
func TestVersions(t *testing.T) {
	ca := checktest.NewCA(t)
	pair := ca.Issue(t, name)
	serve := func(alpn ...string) netip.AddrPort {
		conf := pair.Config()
		conf.NextProtos = alpn
		return checktest.TLS(t, "127.0.0.1", conf, func(c *tls.Conn) {
			sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(c)
		})
	}
	spec := func(version string, at netip.AddrPort) Spec {
		return Spec{URL: "https://" + name + "/", Connect: at.String(), Version: version, Spec: trust.Spec{CA: ca.File}}
	}
	none := func(offered string) string {
		return "the server speaks none of the protocols that were offered: " + offered + " (alert 120"
	}
	want(t, probe(t, spec("1.1", serve()), long), "")
	want(t, probe(t, spec("auto", serve()), long), "")
	want(t, probe(t, spec("auto", serve("http/1.1")), long), "")
	want(t, probe(t, spec("2", serve()), long), checks.ReasonTLS, "the server did not choose h2, which alone was offered")
	want(t, probe(t, spec("2", serve("http/1.1")), long), checks.ReasonTLS, none("h2"))
	want(t, probe(t, spec("auto", serve("imap")), long), checks.ReasonTLS, none("h2, http/1.1"))
	want(t, probe(t, spec("auto", checktest.TCP(t, "127.0.0.1", drain)), short), checks.ReasonTimeout, "no handshake within ")
	want(t, probe(t, spec("auto", checktest.HTTP(t, "127.0.0.1", nil, nethttp.NotFoundHandler())), long), checks.ReasonTLS, "does not speak TLS here")
	want(t, probe(t, Spec{URL: "http://" + checktest.TCP(t, "127.0.0.1", func(net.Conn) {}).String(), Version: "2"}, long), checks.ReasonRefused, "closed before an answer")
	want(t, probe(t, Spec{URL: "http://" + checktest.TCP(t, "127.0.0.1", say("HTTP/1.1 200 OK\r\n\r\n")).String(), Version: "2"}, long), checks.ReasonProtocol)

	conf := pair.Config()
	conf.NextProtos = []string{"doq"}
	at := checktest.QUIC(t, "127.0.0.1", conf, func(ln *quic.EarlyListener) {
		for {
			if _, err := ln.Accept(t.Context()); err != nil {
				return
			}
		}
	})
	want(t, probe(t, spec("3", at), long), checks.ReasonTLS, none("h3"))
	// There is HTTP over TCP on the same port, which is not to be used.
	both := checktest.HTTP(t, "127.0.0.1", pair.Config(), hello)
	want(t, probe(t, spec("2", both), long), "")
	want(t, probe(t, spec("3", both), long), checks.ReasonRefused, "no answer: connection refused (sent from 127.0.0.1")
}

func TestNobody(t *testing.T) {
	for host, v := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "[::1]"} {
		closed := checktest.Closed(t, host)
		for _, way := range secure {
			want(t, probe(t, Spec{URL: "https://" + v + "/", Connect: closed.String(), Version: way}, long), checks.ReasonRefused)
		}
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	hole := Spec{URL: "https://" + name + "/", Connect: pc.LocalAddr().String(), Version: "3"}
	want(t, probe(t, hole, short), checks.ReasonTimeout, "no QUIC handshake within ", ": udp is blocked, or nobody answers (sent from 127.0.0.1)")
	for _, way := range secure {
		s := Spec{URL: "https://127.0.0.1/", Connect: pc.LocalAddr().String(), Version: way, Origin: checks.Origin{Source: "192.0.2.77"}}
		want(t, probe(t, s, long), checks.ReasonUnreachable, "the source address 192.0.2.77 is not on this node")
		s.Origin = checks.Origin{Device: "nosuch0"}
		want(t, probe(t, s, long), checks.ReasonUnreachable, "there is no interface nosuch0")
	}
}

// A server that does not read what it is sent keeps nobody longer than the timeout.
func TestUnread(t *testing.T) {
	ca, done := checktest.NewCA(t), make(chan struct{})
	at := checktest.TLS(t, "127.0.0.1", ca.Issue(t, name).Config(), func(*tls.Conn) { <-done })
	t.Cleanup(func() { close(done) }) // before the server's
	s := Spec{URL: "https://" + name + "/", Connect: at.String(), Version: "1.1", Method: "PUT",
		Body: strings.Repeat("x", 16<<20), Spec: trust.Spec{CA: ca.File}}
	want(t, probe(t, s, short), checks.ReasonTimeout, "no answer within ")
}
