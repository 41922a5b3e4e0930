package http

import (
	"fmt"
	"net"
	nethttp "net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

const other = "other.example"

// redirections: in path and words <n> stands for name, <o> for other, <p> for the server's port.
var redirections = []struct {
	path   string
	twist  func(*Spec)
	reason checks.Reason
	words  string // of the failure, or what the server saw: method, SNI, Host and path
}{
	{"/?to=/b", nil, "", "GET <n> <n>/, GET <n> <n>/b"},
	{"/?to=b", nil, "", "GET <n> <n>/, GET <n> <n>/b"},
	{"/?to=//<n>/b%23there", nil, "", "GET <n> <n>/, GET <n> <n>/b"},
	{"/?to=https://<n>/b", nil, "", "GET <n> <n>/, GET <n> <n>/b"},
	{"/a/?to=..%3Fto=/b", func(s *Spec) { s.Redirects = 2 }, "", "GET <n> <n>/a/, GET <n> <n>/, GET <n> <n>/b"},
	{"/a/?to=..%3Fto=/b", nil, checks.ReasonMismatch, "redirected to https://<n>/?… at 127.0.0.1:<p>: status 302 Found leads to \"/b\""},
	{"/?to=/", func(s *Spec) { s.Redirects = 0 }, checks.ReasonStatus, "status 302 Found, want 2xx"},
	{"/?to=/b", func(s *Spec) { s.ExpectStatus.spans = []span{{302, 302}} }, "", "GET <n> <n>/"},
	{"/?to=https://<o>/b", nil, checks.ReasonMismatch, "the address 127.0.0.1 is only for <n>"},
	{"/?to=https://127.0.0.1/b", nil, checks.ReasonMismatch, "the address 127.0.0.1 is only for <n>"},
	{"/?to=https://Other.Example./b", func(s *Spec) { s.RedirectHosts = []string{"OTHER.example"} }, "", "GET <n> <n>/, GET <o> <o>/b"},
	{"/?to=https://<o>:<p>/b", func(s *Spec) { s.RedirectHosts = []string{other} }, "", "GET <n> <n>/, GET <o> <o>:<p>/b"},
	{"/?to=http://<n>/b", nil, checks.ReasonMismatch, "from https:// to http:// none is followed"},
	{"/?to=ftp://<n>/b", nil, checks.ReasonMismatch, "the URL must begin with http:// or https://"},
	{"/?to=https://<n>:0/b", nil, checks.ReasonMismatch, "the URL has a port that is none"},
	{"/304?to=/b", nil, checks.ReasonStatus, "status 304 Not Modified, want 2xx"},
	{"/302?none", nil, checks.ReasonStatus, "status 302 Found, want 2xx, and it has no Location to be followed to; the body is empty"},
	{"/301?to=/b", func(s *Spec) { s.Method = "POST" }, "", "POST <n> <n>/301, GET <n> <n>/b"},
	{"/303?to=/b", func(s *Spec) { s.Method = "PUT" }, "", "PUT <n> <n>/303, GET <n> <n>/b"},
	{"/303?to=/b", func(s *Spec) { s.Method = "HEAD" }, "", "HEAD <n> <n>/303, HEAD <n> <n>/b"},
	{"/307?to=/b", func(s *Spec) { s.Method, s.Body = "POST", "x" }, "", "POST <n> <n>/307, POST <n> <n>/b"},
	{"/308?to=/b", func(s *Spec) { s.Headers = map[string]string{"Host": "h.example"} }, "", "GET <n> h.example/308, GET <n> <n>/b"},
}

// A visited server sends on to the query's "to", with the status that is the path, and notes who came.
type visited struct {
	mu   sync.Mutex
	seen []string
}

func (v *visited) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	v.mu.Lock()
	v.seen = append(v.seen, fmt.Sprint(r.Method, " ", r.TLS.ServerName, " ", r.Host, r.URL.Path))
	v.mu.Unlock()
	if to := r.URL.Query().Get("to"); to != "" || r.URL.RawQuery == "none" {
		code := 302
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		if to != "" {
			w.Header().Set("Location", to)
		}
		w.WriteHeader(code)
	}
}

// taken gives what was noted, and forgets it.
func (v *visited) taken() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer func() { v.seen = nil }()
	return strings.Join(v.seen, ", ")
}

// Redirects are followed as far as is asked for, with the name that each one leads to.
func TestRedirects(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, name).Config()
	conf.Certificates = append(conf.Certificates, ca.Issue(t, other).Certificate) // chosen by SNI
	for _, way := range secure {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			server := new(visited)
			at := listen(t, way, conf, server)
			fill := strings.NewReplacer("<n>", name, "<o>", other, "<p>", fmt.Sprint(at.Port())).Replace
			for _, c := range redirections {
				s := Spec{URL: "https://" + name + fill(c.path), Connect: at.String(), Version: way, Redirects: 1, Spec: trust.Spec{CA: ca.File}}
				if c.twist != nil {
					c.twist(&s)
				}
				err := probe(t, s, long)
				got := server.taken()
				if c.reason != "" {
					want(t, err, c.reason, fill(c.words))
				} else if want(t, err, ""); got != fill(c.words) {
					t.Errorf("%s\n saw %s\nwant %s", c.path, got, fill(c.words))
				}
			}
		})
	}
}

// The commonest redirect is from port 80 to 443: the address stays, the port changes.
func TestRedirectToTLS(t *testing.T) {
	ca := checktest.NewCA(t)
	at := checktest.HTTP(t, "127.0.0.1", ca.Issue(t, name).Config(), hello)
	plain := checktest.HTTP(t, "127.0.0.1", nil, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, fmt.Sprintf("https://%s:%d/", name, at.Port()), nethttp.StatusMovedPermanently)
	}))
	s := Spec{URL: "http://" + name + "/", Connect: plain.String(), Redirects: 1, Spec: trust.Spec{CA: ca.File}}
	want(t, probe(t, s, long), "")
	s.CA = checktest.NewCA(t).File
	want(t, probe(t, s, long), checks.ReasonTLS, fmt.Sprintf("redirected to https://%s:%d/ at %s: the certificate", name, at.Port(), at))
	at = checktest.Closed(t, "127.0.0.1")
	want(t, probe(t, s, long), checks.ReasonRefused, fmt.Sprintf("redirected to https://%s:%d/ at %s: connect: connection refused", name, at.Port(), at))
}

// A redirect never leads to another address than the configured one.
func TestTarget(t *testing.T) {
	c := create(t, Spec{URL: "http://" + name + "/", Connect: "192.0.2.1:8080", Redirects: 1}).(*checker)
	for url, at := range map[string]string{"http://" + name + "/x": "192.0.2.1:8080", "https://" + name + "/": "192.0.2.1:443", "http://" + name + ":81/": "192.0.2.1:81"} {
		u, err := parseURL(url)
		if got := c.target(u); err != nil || got != netip.MustParseAddrPort(at) {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
}

// A connection is made anew each time: that an old one is still served is no proof.
func TestFresh(t *testing.T) {
	ca := checktest.NewCA(t)
	for _, way := range []string{"1.1", "2"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		from := make(chan string, 2)
		srv := &nethttp.Server{TLSConfig: ca.Issue(t, name).Config(), Handler: nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
			from <- r.RemoteAddr
		})}
		done := make(chan error, 1)
		go func() { done <- srv.ServeTLS(ln, "", "") }()
		c := create(t, Spec{URL: "https://" + name + "/", Connect: ln.Addr().String(), Version: way, Spec: trust.Spec{CA: ca.File}})
		want(t, c.Check(t.Context()), "")
		want(t, c.Check(t.Context()), "")
		if a, b := <-from, <-from; a == b {
			t.Errorf("over %s it was asked twice from %s", way, a)
		}
		ln.Close() // it accepts no more, and serves on what it has
		want(t, c.Check(t.Context()), checks.ReasonRefused)
		srv.Close()
		<-done
	}
}

// However long the URL is that a redirect leads to, the reason is told where people see it.
func TestRedirectedFar(t *testing.T) {
	ca := checktest.NewCA(t)
	far := "/" + strings.Repeat("far", 3000)
	at := checktest.HTTP(t, "127.0.0.1", ca.Issue(t, name).Config(), nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path != far {
			nethttp.Redirect(w, r, far, nethttp.StatusFound)
			return
		}
		w.WriteHeader(nethttp.StatusServiceUnavailable)
	}))
	err := probe(t, Spec{URL: "https://" + name + "/", Connect: at.String(), Redirects: 1, Spec: trust.Spec{CA: ca.File}}, long)
	want(t, err, checks.ReasonStatus, "redirected to https://"+name+"/farfar", "… at "+at.String()+": status 503 ")
	if n := len(err.Error()); n > 1000 {
		t.Errorf("%d bytes of detail", n)
	}
}
