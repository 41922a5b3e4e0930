package tcp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// TLS is spoken from the first byte on, and what is expected is looked for inside.
func TestTLS(t *testing.T) {
	ca := checktest.NewCA(t)
	greet := func(c *tls.Conn) {
		_, _ = io.WriteString(c, "* OK ready\r\n")
		_, _ = io.Copy(c, c)
	}
	conf := func() *tls.Config { return ca.Issue(t, "imap.example").Config() }
	asks := conf()
	asks.ClientAuth = tls.RequireAnyClientCert
	trusted := trust.Spec{CA: ca.File, ServerName: "imap.example"}
	for name, c := range map[string]struct {
		conf  *tls.Config
		serve func(*tls.Conn)
		spec  Spec
		want  string
	}{
		"stays open":       {conf(), greet, Spec{Spec: trusted}, ""},
		"greets, answers":  {conf(), greet, Spec{Greeting: "* OK", Send: "a NOOP\r\n", Expect: "a NOOP", Spec: trusted}, ""},
		"greets otherwise": {conf(), greet, Spec{Expect: "+OK", Spec: trusted}, `timeout: timeout after 2s: expected the answer "+OK", got 12 bytes: "* OK ready\r\n"`},
		"closes at once":   {conf(), nil, Spec{Spec: trusted}, "refused: accepted, and closed at once"},
		"closes, asked":    {conf(), nil, Spec{Expect: "x", Spec: trusted}, `mismatch: closed too early: expected the answer "x", got nothing`},
		"another name":     {conf(), greet, Spec{Spec: trust.Spec{CA: ca.File, ServerName: "x.example"}}, "tls: the certificate is for imap.example, not for x.example"},
		"no certificate":   {asks, greet, Spec{Spec: trusted}, "tls: the server demands a client certificate, and got none (alert 116, certificate required)"},
		"none, asked":      {asks, greet, Spec{Expect: "* OK", Spec: trusted}, "tls: the server demands a client certificate, and got none (alert 116, certificate required)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Address, c.spec.TLS = checktest.TLS(t, "127.0.0.1", c.conf, c.serve).String(), true
			wait := 10 * time.Second
			if strings.HasPrefix(c.want, "timeout") {
				wait = 2 * time.Second
			}
			if err := probe(t, c.spec, wait); err == nil && c.want != "" || err != nil && err.Error() != c.want+sent {
				t.Errorf("\n got %v\nwant %s%s", err, c.want, sent)
			}
		})
	}
	plain := checktest.TCP(t, "127.0.0.1", say("* OK ready\r\n"))
	err := probe(t, Spec{Address: plain.String(), TLS: true, Spec: trusted}, 10*time.Second)
	if err == nil || err.Error() != `tls: the server does not speak TLS here: its answer begins with "* OK "`+sent {
		t.Error(err)
	}
}

// Over a long way a server's refusal of the client's certificate comes late: with TLS 1.3 the client's handshake is
// over before the server has seen it.
func TestLateRefusal(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, "x.example").Config()
	conf.ClientAuth = tls.RequireAnyClientCert
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, pass(t, 400*time.Millisecond) }
	conf.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error {
		return errors.Join(pass(t, 2*settle), errors.New("nobody is let in"))
	}
	me := ca.Issue(t, "client")
	s := Spec{Address: checktest.TLS(t, "127.0.0.1", conf, nil).String(), TLS: true,
		Spec: trust.Spec{CA: ca.File, ServerName: "x.example", Cert: me.CertFile, Key: me.KeyFile}}
	err := probe(t, s, 10*time.Second)
	if want := "tls: the server does not take the client certificate, or misses one (alert 42, bad certificate)" + sent; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

// pass takes its time, as a long way does.
func pass(t *testing.T, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-t.Context().Done():
		return t.Context().Err()
	}
}

// A process that is stopped still has its connections accepted by the kernel: only an answer tells (F57).
// The process is this test itself, started once more.
func TestStopped(t *testing.T) {
	if os.Getenv("VOUCH_TEST_GREETER") != "" {
		greeter()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopped$")
	cmd.Env = append(os.Environ(), "VOUCH_TEST_GREETER=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	at, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	plain := Spec{Address: strings.TrimSpace(at)}
	asks := Spec{Address: plain.Address, Expect: "220"}
	if err := errors.Join(probe(t, plain, 10*time.Second), probe(t, asks, 10*time.Second)); err != nil {
		t.Fatalf("before: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal takes hold when the kernel gets to it.
	for end := time.Now().Add(10 * time.Second); probe(t, asks, 2*time.Second) == nil; {
		if time.Now().After(end) {
			t.Fatal("a stopped process still answers")
		}
	}
	err = probe(t, asks, 2*time.Second)
	if want := `timeout: timeout after 2s: expected the answer "220", got nothing` + sent; err == nil || err.Error() != want {
		t.Errorf("stopped: %v\nwant %s", err, want)
	}
	if err := probe(t, plain, 10*time.Second); err != nil {
		t.Errorf("a plain connect is no longer weak, and the documentation is wrong: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := probe(t, asks, 10*time.Second); err != nil {
		t.Errorf("after: %v", err)
	}
}

// greeter tells its address, and greets until it is killed.
func greeter() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(ln.Addr().String() + "\n")
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			say("220 ready\r\n")(conn)
		}()
	}
}

// What is sent and what comes back can be looked at.
func TestTrace(t *testing.T) {
	at := checktest.TCP(t, "127.0.0.1", smtp)
	s := Spec{Address: at.String(), Greeting: "220 ", Send: "EHLO x\r\n", Expect: "250 SIZE"}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { seen.WriteString(string(d) + " " + text + "\n") })
	if err := c.Check(ctx); err != nil {
		t.Fatal(err)
	}
	want := "* connected from 127.0.0.1\n< 50 bytes:\n\"220-mail.example\\r\\n\"\n\"220 ready, 250 is not said yet\\r\\n\"\n> 8 bytes: \"EHLO x\\r\\n\"\n< 30 bytes:\n"
	if !strings.HasPrefix(seen.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", &seen, want)
	}
}

func TestLocal(t *testing.T) {
	s := Spec{Address: "127.0.0.1:1", TLS: true, Spec: trust.Spec{CA: "/nowhere/ca.pem"}, Origin: checks.Origin{Source: "192.0.2.77"}}
	var keys []string
	for _, p := range s.Local() {
		keys = append(keys, p.Key)
	}
	if got := strings.Join(keys, " "); got != "source ca" {
		t.Errorf("problems of %s", got)
	}
}

// No round leaves anything behind, however it ends.
func TestNoLeak(t *testing.T) {
	ca := checktest.NewCA(t)
	trusted := trust.Spec{CA: ca.File, ServerName: "x.example"}
	secure := checktest.TLS(t, "127.0.0.1", ca.Issue(t, "x.example").Config(), nil)
	specs := []Spec{
		{Address: checktest.TCP(t, "127.0.0.1", echo).String(), Send: "a", Expect: "a"},
		{Address: checktest.TCP(t, "127.0.0.1", checktest.Reset).String(), Send: "a", Expect: "a"},
		{Address: checktest.TCP(t, "127.0.0.1", nil).String(), Expect: "a"},
		{Address: checktest.Closed(t, "127.0.0.1").String()},
		{Address: secure.String(), TLS: true, Spec: trusted},
		{Address: secure.String(), TLS: true, Spec: trust.Spec{ServerName: "x.example", CA: checktest.NewCA(t).File}},
		{Address: checktest.TCP(t, "127.0.0.1", echo).String(), TLS: true, Spec: trusted},
	}
	round := func() {
		for _, s := range specs {
			_ = probe(t, s, 20*time.Millisecond)
		}
	}
	round()
	checktest.Flat(t, func() {
		for range 40 {
			round()
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	ca := checktest.NewCA(b)
	for name, s := range map[string]Spec{
		"plain": {Address: checktest.TCP(b, "127.0.0.1", echo).String(), Send: "PING\r\n", Expect: "PING"},
		"tls": {Address: checktest.TLS(b, "127.0.0.1", ca.Issue(b, "x.example").Config(), func(c *tls.Conn) { _, _ = io.Copy(c, c) }).String(),
			Send: "PING\r\n", Expect: "PING", TLS: true, Spec: trust.Spec{CA: ca.File, ServerName: "x.example"}},
	} {
		b.Run(name, func(b *testing.B) {
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
			runtime.KeepAlive(c)
		})
	}
}
