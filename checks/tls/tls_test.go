package tls

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

const www = "www.example.com"

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

func TestCheck(t *testing.T) {
	ca := checktest.NewCA(t)
	good, soon := ca.Issue(t, www), ca.Issue(t, www, checktest.Ends(3*24*time.Hour+time.Hour))
	client := ca.Issue(t, "client")
	no := false
	trusted := trust.Spec{CA: ca.File, ServerName: www}
	asClient := trusted
	asClient.Cert, asClient.Key = client.CertFile, client.KeyFile
	days := trusted
	days.MinCertDays = 4
	conf := func(p checktest.Pair, change ...func(*tls.Config)) *tls.Config {
		c := p.Config()
		for _, f := range change {
			f(c)
		}
		return c
	}
	alpn := func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }
	asks := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool() }
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	stays := func(c *tls.Conn) { _, _ = c.Read(make([]byte, 1)) }
	for name, c := range map[string]struct {
		conf *tls.Config
		spec Spec
		want string // the whole error
	}{
		"valid":              {conf(good), Spec{Spec: trusted}, ""},
		"not verified":       {conf(good), Spec{Spec: trust.Spec{Verify: &no}}, ""},
		"another name":       {conf(ca.Issue(t, "x.example")), Spec{Spec: trusted}, "tls: the certificate is for x.example, not for www.example.com" + sent},
		"soon to end":        {conf(soon), Spec{Spec: days}, "tls: the certificate of www.example.com ends " + soon.Leaf.NotAfter.UTC().Format(time.RFC3339) + ", in 3 days; min_cert_days is 4" + sent},
		"agrees":             {conf(good, alpn), Spec{ALPN: []string{"h2", "http/1.1"}, Spec: trusted}, ""},
		"agrees to none":     {conf(good), Spec{ALPN: []string{"h2", "http/1.1"}, Spec: trusted}, "tls: the server agreed to none of the protocols offered, h2, http/1.1" + sent},
		"speaks others":      {conf(good, alpn), Spec{ALPN: []string{"h2"}, Spec: trusted}, "tls: the server speaks none of the protocols that were offered: h2 (alert 120, no application protocol)" + sent},
		"too old":            {conf(good, old), Spec{MinVersion: "1.3", Spec: trusted}, "tls: the server speaks none of the versions of TLS that are asked for: TLS 1.3 (alert 70, protocol version not supported)" + sent},
		"old enough":         {conf(good, old), Spec{Spec: trusted}, ""},
		"certificate given":  {conf(good, asks), Spec{Spec: asClient}, ""},
		"certificate absent": {conf(good, asks), Spec{Spec: trusted}, "tls: the server demands a client certificate, and got none (alert 116, certificate required)" + sent},
		"files are not here": {conf(good), Spec{Spec: trust.Spec{CA: "/nowhere/ca.pem", ServerName: www}}, "unknown: ca /nowhere/ca.pem: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Address = checktest.TLS(t, "127.0.0.1", c.conf, stays).String()
			if err := probe(t, c.spec, 10*time.Second); err == nil && c.want != "" || err != nil && err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

// Servers that never come to a handshake are not waited for longer than configured.
func TestNoServer(t *testing.T) {
	drip := func(c net.Conn) { // one byte of a handshake at a time, each as soon as the last has gone
		for _, err := c.Write([]byte{22, 3, 3, 64, 0, 2, 1, 0, 0}); err == nil; _, err = c.Write([]byte{0}) {
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"hangs":    {nil, "timeout: no handshake within 2s (sent from 127.0.0.1, nothing came back)"},
		"drips":    {drip, ""},
		"starttls": {func(c net.Conn) { _, _ = io.WriteString(c, "220 ready\r\n"); _, _ = io.Copy(io.Discard, c) }, `tls: the server does not speak TLS here: its answer begins with "220 r"` + sent},
		"closes":   {func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }, "tls: the server closed the connection during the handshake" + sent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := 10 * time.Second
			if strings.HasPrefix(c.want, "timeout") {
				wait = 2 * time.Second // the text rounds it to a fourteenth, and a busy machine loses some
			}
			err := probe(t, Spec{Address: checktest.TCP(t, "127.0.0.1", c.serve).String(), Spec: trust.Spec{ServerName: www}}, wait)
			if err == nil || c.want != "" && err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
	err := probe(t, Spec{Address: checktest.Closed(t, "::1").String(), Spec: trust.Spec{ServerName: www}}, 10*time.Second)
	if err == nil || err.Error() != "refused: connect: connection refused (sent from ::1)" {
		t.Error(err)
	}
}

// A server with TLS 1.3 that closes instead of saying that it dislikes the client does not pass.
func TestClosesAfterAsking(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, www).Config()
	conf.ClientAuth = tls.RequestClientCert
	at := checktest.TCP(t, "127.0.0.1", func(c net.Conn) { _ = tls.Server(c, conf).Handshake() })
	err := probe(t, Spec{Address: at.String(), Spec: trust.Spec{CA: ca.File, ServerName: www}}, 10*time.Second)
	if want := "tls: the server asked for a client certificate, and closed the connection right after the handshake" + sent; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestProblems(t *testing.T) {
	const one = "address = \"127.0.0.1:1\"\n"
	const named = one + "server_name = \"x.example\"\n"
	for text, want := range map[string]string{
		``:                                     "address: is missing ()|server_name: is missing: without it no certificate can be the right one ()",
		one:                                    "server_name: is missing: without it no certificate can be the right one ()",
		one + "verify = false":                 "",
		named:                                  "",
		one + "server_name = \"127.0.0.1\"":    "",
		named + "min_version = \"1.3\"":        "",
		named + "min_version = \"1.1\"":        "min_version: is not a version of TLS that can be asked for (1.1)",
		named + "alpn = [\"h2\", \"\"]":        "alpn: must be names of 1 to 255 bytes ()",
		named + "alpn = [\"h2\", \"h2\"]":      "alpn: is named twice (h2)",
		named + "source = \"::1\"":             "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		named + "cert = \"/c\"":                "cert: needs key as well (/c)",
		"address = \"x\"\nserver_name = \"*\"": "address: is not an IP address with a port (x)|server_name: must be the name of one host: the certificate may have a wildcard, which is not to be asked for (*)",
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
	s := Spec{Address: "127.0.0.1:1", Spec: trust.Spec{ServerName: "x"}}
	for i := range 33 {
		s.ALPN = append(s.ALPN, fmt.Sprint(i))
	}
	if ps := s.Validate(); len(ps) != 1 || ps[0].Key != "alpn" {
		t.Errorf("too many protocols: %+v", ps)
	}
}

func TestNames(t *testing.T) {
	s := &Spec{Address: "[::ffff:10.53.53.53]:443", Spec: trust.Spec{ServerName: www, CA: "/nowhere"}, Origin: checks.Origin{Source: "192.0.2.77"}}
	if ps := s.Validate(); ps != nil || s.MinVersion != "1.2" {
		t.Fatal(ps, s.MinVersion)
	}
	c, err := s.New()
	if err != nil || c.String() != "tls 10.53.53.53:443 www.example.com" {
		t.Errorf("%v, %v", c, err)
	}
	var target checks.Targeter = s
	if got := target.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
	var keys []string
	for _, p := range checks.Localer(s).Local() {
		keys = append(keys, p.Key)
	}
	if got := strings.Join(keys, " "); got != "source ca" {
		t.Errorf("problems of %s", got)
	}
}

// No round leaves anything behind, however it ends.
func TestNoLeak(t *testing.T) {
	ca := checktest.NewCA(t)
	trusted := trust.Spec{CA: ca.File, ServerName: www}
	asks := ca.Issue(t, www).Config()
	asks.ClientAuth = tls.RequireAnyClientCert
	specs := []Spec{
		{Address: checktest.TLS(t, "127.0.0.1", ca.Issue(t, www).Config(), nil).String(), Spec: trusted},
		{Address: checktest.TLS(t, "127.0.0.1", ca.Issue(t, www, checktest.Expired).Config(), nil).String(), Spec: trusted},
		{Address: checktest.TLS(t, "127.0.0.1", asks, nil).String(), Spec: trusted},
		{Address: checktest.TCP(t, "127.0.0.1", checktest.Reset).String(), Spec: trusted},
		{Address: checktest.TCP(t, "127.0.0.1", nil).String(), Spec: trusted},
		{Address: checktest.Closed(t, "127.0.0.1").String(), Spec: trusted},
	}
	checktest.Flat(t, func() {
		for range 40 {
			for _, s := range specs {
				_ = probe(t, s, 30*time.Millisecond)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	ca := checktest.NewCA(b)
	at := checktest.TLS(b, "127.0.0.1", ca.Issue(b, www).Config(), nil)
	s := Spec{Address: at.String(), Spec: trust.Spec{CA: ca.File, ServerName: www}}
	c, err := s.New()
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
