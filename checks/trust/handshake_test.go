package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

const www = "www.example.com"

// shake makes one handshake with a server, and then reads once, as a server's refusal of a client's
// certificate comes only then.
func shake(t *testing.T, at net.Addr, s Spec, min uint16, wait time.Duration) error {
	t.Helper()
	if ps := s.Problems(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	start := time.Now()
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(start.Add(wait))
	client := s.Client(www)
	client.MinVersion = min
	secure, err := client.Handshake(ctx, conn, start)
	if err != nil || !secure.Asked {
		return err
	}
	_ = secure.CloseWrite() // the server says goodbye, or what it dislikes
	if _, err = secure.Read(make([]byte, 1)); err == io.EOF {
		return nil
	}
	return Failure(ctx, "late", err)
}

// plain gives a server that answers whatever comes with a text.
func plainServer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := c.Read(make([]byte, 2048)); err == nil {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

// A shakeCase is one handshake; min is the oldest version that will do, if not 1.2.
type shakeCase struct {
	conf *tls.Config
	spec Spec
	min  uint16
	want string // the whole error
}

func shakeAll(t *testing.T, cases map[string]shakeCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := net.TCPAddrFromAddrPort(checktest.TLS(t, "127.0.0.1", c.conf, nil))
			if got := text(shake(t, at, c.spec, max(c.min, tls.VersionTLS12), 10*time.Second)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// with gives a server's configuration.
func with(p checktest.Pair, change ...func(*tls.Config)) *tls.Config {
	conf := p.Config()
	for _, f := range change {
		f(conf)
	}
	return conf
}

func until(v uint16) func(*tls.Config) { return func(c *tls.Config) { c.MaxVersion = v } }

func TestServersCertificate(t *testing.T) {
	ca, stranger, twin := checktest.NewCA(t), checktest.SelfSigned(t, "root.example", authority), checktest.NewCA(t)
	sub, no := ca.Intermediate(t), false
	good, trusting := ca.Issue(t, www), Spec{CA: ca.File}
	expired, early := ca.Issue(t, www, checktest.Expired), ca.Issue(t, www, checktest.NotYet)
	other := ca.Issue(t, "other.example", checktest.Also("192.0.2.7"))
	unnamed := ca.Issue(t, www, func(c *x509.Certificate) { c.DNSNames = nil })
	shakeAll(t, map[string]shakeCase{
		"valid":                  {with(good), trusting, 0, ""},
		"valid, 1.2":             {with(good, until(tls.VersionTLS12)), trusting, tls.VersionTLS12, ""},
		"by an intermediate":     {with(sub.Issue(t, www)), trusting, 0, ""},
		"by two intermediates":   {with(sub.Intermediate(t).Issue(t, www)), trusting, 0, ""},
		"wildcard":               {with(ca.Issue(t, "*.example.com")), trusting, 0, ""},
		"an address":             {with(other), Spec{CA: ca.File, ServerName: "192.0.2.7"}, 0, ""},
		"another address":        {with(other), Spec{CA: ca.File, ServerName: "192.0.2.8"}, 0, "tls: the certificate is for other.example, 192.0.2.7, not for 192.0.2.8"},
		"expired":                {with(expired), trusting, 0, "tls: the certificate of www.example.com expired " + date(expired.Leaf.NotAfter)},
		"expired, not verified":  {with(expired), Spec{Verify: &no}, 0, ""},
		"not yet valid":          {with(early), trusting, 0, "tls: the certificate of www.example.com is not valid before " + date(early.Leaf.NotBefore)},
		"another name":           {with(other), trusting, 0, "tls: the certificate is for other.example, 192.0.2.7, not for www.example.com"},
		"another name asked for": {with(good), Spec{CA: ca.File, ServerName: "x.example"}, 0, "tls: the certificate is for www.example.com, not for x.example"},
		"a common name only":     {with(unnamed), trusting, 0, `tls: the certificate is for nobody, not for www.example.com: it has no subject alternative names, and the common name in "CN=www.example.com" does not count`},
		"for clients only":       {with(ca.Issue(t, www, checktest.ForClients)), trusting, 0, "tls: the certificate of www.example.com is not one for servers"},
		"self-signed":            {with(checktest.SelfSigned(t, www)), trusting, 0, "tls: the certificate of www.example.com is self-signed, and not among those trusted"},
		"no intermediate":        {with(sub.Issue(t, www).Bare(t)), trusting, 0, `tls: the certificate of www.example.com leads up to "CN=vouch test intermediate", which is not trusted and did not come along: the server may have to send an intermediate certificate too`},
		"no ca":                  {with(good), Spec{}, 0, `tls: the certificate of www.example.com leads up to "CN=vouch test root", which is not trusted and did not come along: without ca = "/path/to/ca.pem" only the system's authorities are trusted; or else the server may have to send an intermediate certificate too`},
		"no ca, root sent":       {with(good, sendRoot(t, ca)), Spec{}, 0, `tls: the certificate of www.example.com leads up to the root "CN=vouch test root", which is not trusted: without ca = "/path/to/ca.pem" only the system's authorities are trusted`},
		"no ca, self-signed":     {with(checktest.SelfSigned(t, www)), Spec{}, 0, `tls: the certificate of www.example.com is self-signed, and not among those trusted: without ca = "/path/to/ca.pem" only the system's authorities are trusted`},
		"a root of that name":    {with(twin.Issue(t, www)), trusting, 0, `tls: the certificate of www.example.com is signed in the name of "CN=vouch test root", but not with the key of the one that is trusted under that name`},
		"another root":           {with(good), Spec{CA: stranger.CertFile}, 0, `tls: the certificate of www.example.com leads up to "CN=vouch test root", which is not trusted and did not come along: the server may have to send an intermediate certificate too`},
		"another root, sent":     {with(good, sendRoot(t, ca)), Spec{CA: stranger.CertFile}, 0, `tls: the certificate of www.example.com leads up to the root "CN=vouch test root", which is not trusted`},
		"not verified":           {with(twin.Issue(t, "x")), Spec{Verify: &no}, 0, ""},
	})
}

func TestClientsOffer(t *testing.T) {
	ca, twin := checktest.NewCA(t), checktest.NewCA(t)
	good, trusting := ca.Issue(t, www), Spec{CA: ca.File}
	as := func(p checktest.Pair) Spec { return Spec{CA: ca.File, Cert: p.CertFile, Key: p.KeyFile} }
	asClient, asForeign := as(ca.Issue(t, "client.example")), as(twin.Issue(t, "client.example"))
	asSelf := as(checktest.SelfSigned(t, "self.example"))
	asks := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool() }
	wants := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, ca.Pool() }
	nobody := func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }
	shakeAll(t, map[string]shakeCase{
		"too old":                {with(good, until(tls.VersionTLS12)), trusting, tls.VersionTLS13, "tls: the server speaks none of the versions of TLS that are asked for: TLS 1.3 (alert 70, protocol version not supported)"},
		"much too old":           {with(good, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }), trusting, 0, "tls: the server speaks none of the versions of TLS that are asked for: TLS 1.2, TLS 1.3 (alert 70, protocol version not supported)"},
		"no cipher in common":    {with(good, until(tls.VersionTLS12), func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256} }), trusting, 0, "tls: the server found nothing in what was offered that it takes (ciphers, groups), or misses a client certificate (alert 40, handshake failure)"},
		"asks, gets":             {with(good, asks), asClient, 0, ""},
		"asks, gets, 1.2":        {with(good, asks, until(tls.VersionTLS12)), asClient, tls.VersionTLS12, ""},
		"asks, gets none":        {with(good, asks), trusting, 0, "tls: the server demands a client certificate, and got none (alert 116, certificate required)"},
		"asks, gets none, 1.2":   {with(good, asks, until(tls.VersionTLS12)), trusting, tls.VersionTLS12, "tls: the server found nothing in what was offered that it takes (ciphers, groups), or misses a client certificate (alert 40, handshake failure)"},
		"would like one":         {with(good, wants), trusting, 0, ""},
		"asks, gets another's":   {with(good, asks), asForeign, 0, "tls: the server does not trust who signed the client certificate (alert 48, unknown certificate authority)"},
		"asks, gets a self-made": {with(good, asks), asSelf, 0, "tls: the server does not trust who signed the client certificate (alert 48, unknown certificate authority)"},
		"takes any":              {with(good, nobody), asForeign, 0, ""},
		"no such vhost":          {&tls.Config{}, trusting, 0, "tls: the server has nothing of that name (alert 112, unrecognized name)"},
	})
}

func authority(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }

// sendRoot has the server send the root as well, which nobody needs.
func sendRoot(t *testing.T, ca *checktest.CA) func(*tls.Config) {
	t.Helper()
	pem, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *tls.Config) {
		pair := &c.Certificates[0]
		pair.Certificate = append(pair.Certificate[:1:1], blocksOf(pem)[0].Bytes)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is no TLS server is told from one that hangs, from one that stops midway, and from one that goes.
func TestNoHandshake(t *testing.T) {
	endless := func(c net.Conn) { // one handshake message that never ends, as slow as it can be
		head := []byte{22, 3, 3, 64, 0, 2, 1, 0, 0}
		for _, err := c.Write(head); err == nil; _, err = c.Write([]byte{0}) {
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"plain http":     {plainServer("HTTP/1.1 400 Bad Request\r\n\r\n"), `tls: the server does not speak TLS here: its answer begins with "HTTP/"`},
		"a greeting":     {plainServer("220 mail.example ESMTP\r\n"), `tls: the server does not speak TLS here: its answer begins with "220 m"`},
		"never accepts":  {nil, "timeout: no handshake within 2s (nothing came back)"},
		"stops midway":   {plainServer("\x16\x03\x03\x00\x40\x02"), "timeout: no handshake within 2s (it stopped midway, after 6 bytes)"},
		"closes at once": {func(c net.Conn) { _, _ = c.Read(make([]byte, 2048)) }, "tls: the server closed the connection during the handshake"},
		"resets":         {func(c net.Conn) { _, _ = c.Read(make([]byte, 2048)); checktest.Reset(c) }, "refused: broken off during the handshake: read: connection reset by peer"},
		"a flood":        {endless, ""},
		"an alert":       {plainServer("\x15\x03\x03\x00\x02\x02\x50"), "tls: the server failed by itself (alert 80, internal error)"},
		"an odd alert":   {plainServer("\x15\x03\x03\x00\x02\x02\x33"), "tls: the server broke off (alert 51, error decrypting message)"},
		"an old version": {plainServer("\x16\x03\x02\x00\x2a\x02\x00\x00\x26\x03\x02" + strings.Repeat("r", 32) + "\x00\x00\x2f\x00"), "tls: no secure connection: the server chose TLS 1.1; offered: TLS 1.2, TLS 1.3"},
		"rubbish":        {plainServer("\x16\x03\x03\x00\x04\x63\x00\x00\x00"), "tls: no secure connection: unexpected message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := 10 * time.Second
			if strings.HasPrefix(c.want, "timeout") {
				wait = 2 * time.Second // the text rounds it to a fourteenth, and a busy machine loses some
			}
			err := shake(t, net.TCPAddrFromAddrPort(checktest.TCP(t, "127.0.0.1", c.serve)), Spec{}, tls.VersionTLS12, wait)
			if got := text(err); got != c.want && c.want != "" || err == nil {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// A check that is broken off has found nothing out.
func TestHandshakeCanceled(t *testing.T) {
	at := checktest.TCP(t, "127.0.0.1", nil)
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = new(Spec).Client(www).Handshake(ctx, conn, time.Now())
	var f *checks.Failure
	if !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
		t.Error(err)
	}
}

// Whoever looks on sees what was asked for and which certificates came, also those that were refused, and
// never a key.
func TestTrace(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, www).Config()
	conf.ClientAuth = tls.RequestClientCert
	at := checktest.TLS(t, "127.0.0.1", conf, nil)
	client := ca.Issue(t, "client")
	for _, c := range []struct {
		spec  Spec
		words []string
	}{
		{Spec{CA: ca.File, Cert: client.CertFile, Key: client.KeyFile}, []string{"> TLS handshake with www.example.com, offering h2",
			"> the client's certificate " + client.CertFile, "< TLS 1.3 TLS_", `certificate of www.example.com by "CN=vouch test root", valid 20`}},
		{Spec{CA: ca.File}, []string{"* the server asks for a certificate; none is configured"}},
		{Spec{CA: ca.File, ServerName: "x"}, []string{"> TLS handshake with x", "< certificate of www.example.com by"}},
	} {
		var seen strings.Builder
		ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { seen.WriteString(string(d) + " " + text + "\n") })
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.spec.Client(www, "h2").Handshake(ctx, conn, time.Now())
		conn.Close()
		for _, w := range c.words {
			if !strings.Contains(seen.String(), w) {
				t.Errorf("%q is not in\n%s", w, &seen)
			}
		}
	}
}

// Whoever looks on sees what came of a server that makes no handshake.
func TestTraceOfNoHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(net.Conn)
		wait  time.Duration
		shown string
	}{
		"plain http":   {plainServer("HTTP/1.1 400 Bad Request\r\nSet-Cookie: s3cret\r\n\r\n"), time.Minute, "< 48 bytes:\n\"HTTP/1.1 400 Bad Request\\r\\n\"\n\"Set-Cookie: …\\r\\n\"\n\"\\r\\n\"\n"},
		"ssh":          {plainServer("SSH-2.0-OpenSSH_9.2\r\n"), time.Minute, "< 21 bytes: \"SSH-2.0-OpenSSH_9.2\\r\\n\"\n"},
		"stops midway": {plainServer("\x16\x03\x03\x00\x40\x02"), time.Second, "< 6 bytes: 16 03 03 00 40 02\n"},
		"an alert":     {plainServer("\x15\x03\x03\x00\x02\x02\x50"), time.Minute, "< 7 bytes: 15 03 03 00 02 02 50\n"},
		"nothing":      {plainServer(""), time.Second, "< nothing came back\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", checktest.TCP(t, "127.0.0.1", c.serve).String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var seen strings.Builder
			ctx, cancel := context.WithTimeout(t.Context(), c.wait)
			defer cancel()
			ctx = checks.WithTrace(ctx, func(d checks.Direction, text string) { seen.WriteString(string(d) + " " + text + "\n") })
			_, err = new(Spec).Client(www).Handshake(ctx, conn, time.Now())
			if err == nil || !strings.HasSuffix(seen.String(), c.shown) {
				t.Errorf("%v\n%s\nwant %s", err, &seen, c.shown)
			}
		})
	}
}

// What the server chose that was not offered is told beside what was.
func TestChosen(t *testing.T) {
	c := new(Spec).Client(www, "h2", "dot")
	for text, want := range map[string]string{
		"server selected unadvertised ALPN protocol": "no secure connection: server selected unadvertised ALPN protocol; offered: h2, dot",
		"unexpected message":                         "no secure connection: unexpected message",
	} {
		if got := c.explain(errors.New("tls: " + text)); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
