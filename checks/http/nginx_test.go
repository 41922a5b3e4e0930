package http

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

const nginxConf = `
daemon off; master_process off; error_log stderr; pid %[1]s/pid;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen 127.0.0.1:%[2]d ssl http2; server_name www.example.net; ssl_certificate %[3]s; ssl_certificate_key %[4]s;
		add_header X-Node node1 always;
		location / { return 200 "www over $server_protocol\n"; }
		location /503 { return 503; }
		location /to { return 301 https://other.example/; } }
	server { listen 127.0.0.1:%[2]d ssl http2; server_name other.example; ssl_certificate %[5]s; ssl_certificate_key %[6]s;
		ssl_client_certificate %[7]s; ssl_verify_client on;
		location / { return 200 "other\n"; } }
}
`

// nginx starts one with two sites on one address: name, and other, which wants a client certificate.
func nginx(t *testing.T, ca *checktest.CA) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; !isFile(path) {
			if os.Getenv("CI") == "true" {
				t.Fatal("nginx is not installed")
			}
			t.Skip("NOT TESTED: nginx is not installed (apt install nginx-light)")
		}
	}
	dir, at := t.TempDir(), checktest.Closed(t, "127.0.0.1")
	www, second := ca.Issue(t, name), ca.Issue(t, other)
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConf, dir, at.Port(), www.CertFile, www.KeyFile, second.CertFile, second.KeyFile, ca.File)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(path, "-e", "stderr", "-c", conf, "-p", dir)
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", said.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("tcp", at.String())
		if err == nil {
			conn.Close()
			return at.String()
		}
		if time.Now().After(end) {
			t.Fatalf("nginx does not listen: %v", err)
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func TestNginx(t *testing.T) {
	ca := checktest.NewCA(t)
	at := nginx(t, ca)
	client := ca.Issue(t, "prober", checktest.ForClients)
	for way, proto := range map[string]string{"1.1": "HTTP/1.1", "2": "HTTP/2.0", "auto": "HTTP/2.0"} {
		spec := func(host, path string) Spec {
			return Spec{URL: "https://" + host + path, Connect: at, Version: way, Spec: trust.Spec{CA: ca.File}}
		}
		s := spec(name, "/")
		s.ExpectBody, s.ExpectHeaders = "^www over "+proto, map[string]string{"X-Node": "^node1$"}
		want(t, probe(t, s, long), "")
		want(t, probe(t, spec(name, "/503"), long), checks.ReasonStatus, "status 503 Service ", ", want 2xx; the body begins ", `; the body begins "<html>`)
		want(t, probe(t, spec("third.example", "/"), long), checks.ReasonTLS, "the certificate is for "+name+", not for third.example")
		// nginx answers one who has no certificate as if it were an HTTP fault.
		want(t, probe(t, spec(other, "/"), long), checks.ReasonStatus, "status 400 Bad Request")
		s = spec(other, "/")
		s.Cert, s.Key, s.ExpectBody = client.CertFile, client.KeyFile, "^other\n$"
		want(t, probe(t, s, long), "")
		s = spec(name, "/to")
		s.Redirects, s.Cert, s.Key, s.RedirectHosts = 1, client.CertFile, client.KeyFile, []string{other}
		s.ExpectBody = "^other\n$"
		want(t, probe(t, s, long), "")
	}
}
