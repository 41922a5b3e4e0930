package tls

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// need gives the path of a program; without it the test is skipped, and fails where CI=true.
func need(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("SKIPPED: %s is not installed: run `make deps` as root", name)
	return ""
}

// run starts a program that ends with the test, and gives what it writes.
func run(t *testing.T, name string, args ...string) *bufio.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	})
	return bufio.NewReader(r)
}

// openssl starts s_server, and gives where it listens.
func openssl(t *testing.T, p checktest.Pair, args ...string) string {
	t.Helper()
	out := run(t, need(t, "openssl"), append([]string{"s_server", "-accept", "127.0.0.1:0", "-www", "-cert", p.CertFile,
		"-cert_chain", p.CertFile, "-key", p.KeyFile}, args...)...)
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("openssl does not start: %s", line)
		}
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "ACCEPT "); ok {
			go io.Copy(io.Discard, out) // until the pipe is closed
			return at
		}
	}
}

func TestOpenSSL(t *testing.T) {
	ca, other := checktest.NewCA(t), checktest.NewCA(t)
	sub := ca.Intermediate(t)
	good, client, foreign := ca.Issue(t, www), ca.Issue(t, "client"), other.Issue(t, "client")
	expired, bare := ca.Issue(t, www, checktest.Expired), sub.Issue(t, www).Bare(t)
	trusted := trust.Spec{CA: ca.File, ServerName: www}
	as := func(p checktest.Pair) trust.Spec {
		return trust.Spec{CA: ca.File, ServerName: www, Cert: p.CertFile, Key: p.KeyFile}
	}
	verify := []string{"-Verify", "3", "-verify_return_error", "-CAfile", ca.File}
	for name, c := range map[string]struct {
		pair checktest.Pair
		args []string
		spec Spec
		want string // the whole error
	}{
		"1.3":                     {good, []string{"-tls1_3"}, Spec{MinVersion: "1.3", Spec: trusted}, ""},
		"1.2":                     {good, []string{"-tls1_2"}, Spec{Spec: trusted}, ""},
		"1.2 is too old":          {good, []string{"-tls1_2"}, Spec{MinVersion: "1.3", Spec: trusted}, "tls: the server speaks none of the versions of TLS that are asked for: TLS 1.3 (alert 70, protocol version not supported)"},
		"by an intermediate":      {sub.Issue(t, www), nil, Spec{Spec: trusted}, ""},
		"no intermediate":         {bare, nil, Spec{Spec: trusted}, `tls: the certificate of www.example.com leads up to "CN=vouch test intermediate", which is not trusted and did not come along: the server may have to send an intermediate certificate too`},
		"expired":                 {expired, nil, Spec{Spec: trusted}, "tls: the certificate of www.example.com expired " + expired.Leaf.NotAfter.UTC().Format(time.RFC3339)},
		"agrees":                  {good, []string{"-alpn", "h2,http/1.1"}, Spec{ALPN: []string{"h2"}, Spec: trusted}, ""},
		"heeds no alpn":           {good, nil, Spec{ALPN: []string{"h2"}, Spec: trusted}, "tls: the server agreed to none of the protocols offered, h2"},
		"speaks another":          {good, []string{"-alpn", "http/1.1"}, Spec{ALPN: []string{"h2"}, Spec: trusted}, "tls: the server speaks none of the protocols that were offered: h2 (alert 120, no application protocol)"},
		"client given":            {good, verify, Spec{Spec: as(client)}, ""},
		"client given, 1.2":       {good, append(verify, "-tls1_2"), Spec{Spec: as(client)}, ""},
		"client absent":           {good, verify, Spec{Spec: trusted}, "tls: the server demands a client certificate, and got none (alert 116, certificate required)"},
		"client absent, 1.2":      {good, append(verify, "-tls1_2"), Spec{Spec: trusted}, "tls: the server found nothing in what was offered that it takes (ciphers, groups), or misses a client certificate (alert 40, handshake failure)"},
		"client of another":       {good, verify, Spec{Spec: as(foreign)}, "tls: the server does not trust who signed the client certificate (alert 48, unknown certificate authority)"},
		"client expired":          {good, verify, Spec{Spec: as(ca.Issue(t, "c", checktest.Expired))}, "tls: the server does not take the client certificate, or misses one (alert 45, expired certificate)"},
		"client of another, 1.2":  {good, append(verify, "-tls1_2"), Spec{Spec: as(foreign)}, "tls: the server does not trust who signed the client certificate (alert 48, unknown certificate authority)"},
		"no cipher in common":     {good, []string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-CCM"}, Spec{Spec: trusted}, "tls: the server found nothing in what was offered that it takes (ciphers, groups), or misses a client certificate (alert 40, handshake failure)"},
		"1.1 at most":             {good, []string{"-tls1_1", "-cipher", "ALL:@SECLEVEL=0"}, Spec{Spec: trusted}, "tls: the server speaks none of the versions of TLS that are asked for: TLS 1.2, TLS 1.3 (alert 70, protocol version not supported)"},
		"a name that is not here": {good, []string{"-servername", "x.example", "-servername_fatal", "-cert2", good.CertFile, "-key2", good.KeyFile}, Spec{Spec: trusted}, "tls: the server has nothing of that name (alert 112, unrecognized name)"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Address = openssl(t, c.pair, c.args...)
			if err := probe(t, c.spec, 10*time.Second); err == nil && c.want != "" || err != nil && err.Error() != c.want+sent {
				t.Errorf("\n got %v\nwant %s%s", err, c.want, sent)
			}
		})
	}
}

// nginx starts one that has two names with a certificate each, and a port where it speaks plain HTTP.
func nginx(t *testing.T, one, two checktest.Pair) (secure, plain netip.AddrPort) {
	t.Helper()
	bin, dir := need(t, "nginx"), t.TempDir()
	secure, plain = checktest.Closed(t, "127.0.0.1"), checktest.Closed(t, "127.0.0.1")
	vhost := func(p checktest.Pair, name string) string {
		return fmt.Sprintf("server { listen %s ssl http2; server_name %s; ssl_certificate %s; ssl_certificate_key %s; }\n", secure, name, p.CertFile, p.KeyFile)
	}
	conf := "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {}\nhttp { access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	conf += vhost(one, "one.example") + vhost(two, "two.example") + fmt.Sprintf("server { listen %s; }\n}\n", plain)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, bin, "-p", dir, "-c", file)
	go io.Copy(os.Stderr, out) // mostly nothing; until the pipe is closed
	return secure, plain
}

func TestNginx(t *testing.T) {
	ca := checktest.NewCA(t)
	secure, plain := nginx(t, ca.Issue(t, "one.example"), ca.Issue(t, "two.example"))
	spec := func(at netip.AddrPort, name string, alpn ...string) Spec {
		return Spec{Address: at.String(), ALPN: alpn, Spec: trust.Spec{CA: ca.File, ServerName: name}}
	}
	var err error
	up := func() bool { err = probe(t, spec(secure, "one.example"), 10*time.Second); return err == nil }
	if !checktest.Becomes(time.Minute, up) {
		t.Fatalf("nginx does not come up: %v", err)
	}
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{spec(secure, "two.example"), ""},
		{spec(secure, "two.example", "h2"), ""},
		{spec(secure, "three.example"), "tls: the certificate is for one.example, not for three.example" + sent},
		{spec(plain, "one.example"), `tls: the server does not speak TLS here: its answer begins with "HTTP/"` + sent},
	} {
		if err := probe(t, c.spec, 10*time.Second); err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("\n got %v\nwant %s", err, c.want)
		}
	}
	var seen strings.Builder
	c, err := (&Spec{Address: secure.String(), ALPN: []string{"h2"}, Spec: trust.Spec{CA: ca.File, ServerName: "two.example"}}).New()
	if err != nil {
		t.Fatal(err)
	}
	ctx := checks.WithTrace(context.Background(), func(d checks.Direction, text string) { fmt.Fprintf(&seen, "%c %s\n", d, text) })
	if err := c.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"> TLS handshake with two.example, offering h2, to " + secure.String() + " from 127.0.0.1\n", "< TLS 1.", " h2\n", `certificate of two.example by "CN=vouch test root", valid `} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("%q is not in\n%s", want, &seen)
		}
	}
}
