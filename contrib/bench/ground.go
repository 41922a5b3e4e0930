package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"

	"vouch/routers/lab"
)

// serverName is what the ground's certificate is for.
const serverName = "www.lab"

// A ground is a host with the servers that checks ask: unbound, nginx, chronyd and a greeter; and a router
// beside it, over which its default route leads.
type ground struct {
	*lab.Net
	host    *lab.Node
	dir     string // the host's directory
	paper   papers
	lacks   map[string]string // servers that are not there, by name, and why
	greeter string            // address that greets over TCP and echoes over UDP
	stop    func()
}

// The ground's addresses: of the host, and of the router beside it.
const hostAddr, routerAddr = "10.0.1.2", "10.0.1.1"

// newGround starts all servers there are.
func newGround(ctx context.Context) (*ground, error) {
	n, err := lab.New(ctx)
	if err != nil {
		return nil, err
	}
	g := &ground{Net: n, lacks: map[string]string{}, stop: func() {}}
	if err := g.build(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close ends the servers and removes the ground.
func (g *ground) Close() error {
	g.stop()
	return g.Net.Close()
}

func (g *ground) build(ctx context.Context) (err error) {
	if g.host, err = g.Node("host"); err != nil {
		return err
	}
	g.dir = g.host.Dir()
	router, err := g.Node("router")
	if err != nil {
		return err
	}
	if err := g.Link(g.host, "eth0", []string{hostAddr + "/30"}, router, "eth0", []string{routerAddr + "/30"}); err != nil {
		return err
	}
	if _, err := g.host.Run(ctx, "ip", "route", "add", "default", "via", routerAddr); err != nil {
		return err
	}
	if g.paper, err = newPapers(g.dir, serverName); err != nil {
		return err
	}
	if err := g.greet(); err != nil {
		return err
	}
	if _, err := g.host.Unbound(ctx, lab.UnboundConfig{Extra: fmt.Sprintf(`  interface: 127.0.0.1@853
  interface: 127.0.0.1@8443
  https-port: 8443
  tls-service-key: %q
  tls-service-pem: %q`, g.paper.key, g.paper.cert)}); err != nil {
		return err
	}
	return errors.Join(g.server(ctx, "nginx", g.nginx()), g.server(ctx, "chronyd", g.chronyd("source", "port 1123\nlocal stratum 3")),
		g.server(ctx, "chronyd", g.chronyd("chronyd", "server 127.0.0.1 port 1123 iburst minpoll -2 maxpoll 0")), g.inTime(ctx), g.serveHTTP3())
}

// server starts a server that need not be installed, and waits until it listens.
func (g *ground) server(ctx context.Context, name string, s server) error {
	if _, err := exec.LookPath(name); err != nil {
		g.lacks[name] = name + " is not installed"
		return nil
	}
	if err := os.WriteFile(filepath.Join(g.dir, cmp.Or(s.file, name+".conf")), []byte(s.conf), 0o644); err != nil {
		return err
	}
	p, err := g.host.Start(name, append([]string{name}, s.args...)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return lab.Wait(ctx, name+" to listen", 20*time.Millisecond, func() (bool, error) {
		if !p.Running() {
			return false, fmt.Errorf("%s ended: %w: %s", name, p.Err(), p.Log())
		}
		out, err := g.host.Run(ctx, "ss", "-Hln", s.socket)
		return strings.TrimSpace(out) != "", err
	})
}

// A server is one that is started by its program.
type server struct {
	file   string // where conf goes; default: as the program is called
	conf   string
	args   []string
	socket string // which ss shows once it listens
}

// nginx has one worker, as it is to have little part in what is measured.
func (g *ground) nginx() server {
	dir := g.dir
	return server{socket: "sport = 443", args: []string{"-p", dir, "-e", filepath.Join(dir, "nginx.error"), "-c", filepath.Join(dir, "nginx.conf"), "-g", "daemon off;"},
		conf: fmt.Sprintf(`user root;
worker_processes 1;
worker_rlimit_nofile 8192;
pid %[1]s/nginx.pid;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen 127.0.0.1:80 backlog=4096;
    listen 127.0.0.1:443 ssl http2;
    ssl_certificate %[2]s;
    ssl_certificate_key %[3]s;
    location / { return 200 "ready\n"; }
    location /served { stub_status; }
  }
}
`, dir, g.paper.cert, g.paper.key)}
}

// chronyd does not touch the clock. One that follows nobody says that it is not synchronised, so there are two.
func (g *ground) chronyd(name, follows string) server {
	file, port := name+".conf", "123"
	if name == "source" {
		port = "1123"
	}
	return server{file: file, socket: "sport = " + port, args: []string{"-d", "-x", "-u", "root", "-f", filepath.Join(g.dir, file)},
		conf: fmt.Sprintf("%s\nallow 127.0.0.1\nbindaddress 127.0.0.1\ncmdport 0\nbindcmdaddress /\npidfile %s/%s.pid\n", follows, g.dir, name)}
}

// inTime waits until the chronyd that is asked, if there is one, has found that it is in time.
func (g *ground) inTime(ctx context.Context) error {
	if g.lacks["chronyd"] != "" {
		return nil
	}
	check, err := parse("ntp", `server = "127.0.0.1:123"`)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return lab.Wait(ctx, "chronyd to be in time", 50*time.Millisecond, func() (bool, error) {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return g.host.Do(func() error { return check.Check(asked) }) == nil, nil
	})
}

// serveHTTP3 answers HTTP/3 on UDP port 8444 of the host; Debian 12 has no server that does.
func (g *ground) serveHTTP3() error {
	pair, err := tls.LoadX509KeyPair(g.paper.cert, g.paper.key)
	if err != nil {
		return err
	}
	var pc net.PacketConn
	if err := g.host.Do(func() (err error) { pc, err = net.ListenPacket("udp", "127.0.0.1:8444"); return err }); err != nil {
		return err
	}
	s := &http3.Server{TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ready\n")) })}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(pc) })
	before := g.stop
	g.stop = func() { before(); _ = s.Close(); pc.Close(); serving.Wait() }
	return nil
}

// served is how many requests nginx has had so far.
func (g *ground) served(ctx context.Context) (int, error) {
	out, err := g.host.Run(ctx, "curl", "-sf", "http://127.0.0.1/served")
	if err != nil {
		return 0, err
	}
	return readServed(out)
}

// readServed reads the text of nginx's stub_status: below the heading stand connections accepted and
// handled, and requests.
func readServed(text string) (accepted int, err error) {
	_, after, _ := strings.Cut(text, "requests")
	f := strings.Fields(after)
	if len(f) < 3 {
		return 0, fmt.Errorf("nginx says %q", text)
	}
	_, err = fmt.Sscan(f[2], &accepted)
	return accepted, err
}

// greet starts a server on the host that greets whoever connects, and echoes datagrams.
func (g *ground) greet() error {
	var l net.Listener
	var pc net.PacketConn
	err := g.host.Do(func() (err error) {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		pc, err = net.ListenPacket("udp", l.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	g.greeter = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { greetAll(l) })
	serving.Go(func() { echoAll(pc) })
	g.stop = func() { l.Close(); pc.Close(); serving.Wait() }
	return nil
}

func echoAll(pc net.PacketConn) {
	for buf := make([]byte, 2048); ; {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = pc.WriteTo(buf[:n], from)
	}
}
