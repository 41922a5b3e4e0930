package kinds

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// The addresses of TestSent: two of this node, one of the servers, and some where nothing is come by.
const (
	here, hereToo = "10.1.0.2", "10.1.0.3"
	there         = "10.1.0.1"
	silent        = "10.1.0.9"
	blackhole     = "10.8.0.1"
	prohibited    = "10.9.0.1"
)

// A question is how a kind asks; of its keys AT is the server's address and port, HOST the address, and TRUST has the
// keys that trust its certificate.
type question struct{ kind, keys string }

var questions = []question{
	{"dns", "server = 'AT'"}, {"dns", "server = 'AT'\nproto = 'tcp'"},
	{"dns", "server = 'AT'\nproto = 'tls'\nTRUST"}, {"dns", "server = 'AT'\nproto = 'https'\nTRUST"},
	{"http", "url = 'http://AT/'"}, {"http", overHTTP("1.1")}, {"http", overHTTP("2")}, {"http", overHTTP("auto")}, {"http", overHTTP("3")},
	{"icmp", "address = 'HOST'"},
	{"mtu", "destinations = ['HOST']"}, {"mtu", "destinations = ['AT']\nprobe = 'quic'"},
	{"ntp", "server = 'AT'"},
	{"tcp", "address = 'AT'"}, {"tcp", "address = 'AT'\ntls = true\nTRUST"},
	{"tls", "address = 'AT'\nTRUST"},
	{"udp", "address = 'AT'\nsend = 'PING'\nexpect = 'PONG'"},
}

func overHTTP(version string) string {
	return "url = 'https://" + certName + "/'\nconnect = 'AT'\nversion = '" + version + "'\nTRUST"
}

// A fault is what a server does wrong to those who ask it with these keys, among others.
type fault struct {
	kind, keys string
	serve      func(testing.TB) netip.AddrPort
	want       checks.Reason
}

// over gives the questions of a kind that are asked so, with more keys.
func over(kind, how, more string, serve func(testing.TB) netip.AddrPort, want checks.Reason) (fs []fault) {
	for _, q := range questions {
		if q.kind == kind && strings.Contains(q.keys, how) {
			fs = append(fs, fault{kind, q.keys + "\n" + more, serve, want})
		}
	}
	return fs
}

func faults(good, bad *tls.Config) (fs []fault) {
	tcp := func(serve func(net.Conn)) func(testing.TB) netip.AddrPort {
		return func(tb testing.TB) netip.AddrPort { return checktest.TCP(tb, there, serve) }
	}
	ends := tcp(func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) })
	resets := tcp(func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); checktest.Reset(c) })
	secure := func(conf *tls.Config) func(testing.TB) netip.AddrPort {
		return func(tb testing.TB) netip.AddrPort {
			return checktest.TLS(tb, there, conf, func(c *tls.Conn) { drain(c) })
		}
	}
	for kind, proto := range map[string]string{"dns": "'tls'", "http": "'1.1'", "tcp": "tls = true", "tls": "TRUST"} {
		fs = append(fs, over(kind, proto, "", secure(bad), checks.ReasonTLS)...)
		fs = append(fs, over(kind, proto, "", ends, checks.ReasonTLS)...)
		fs = append(fs, over(kind, proto, "", resets, checks.ReasonRefused)...)
		fs = append(fs, over(kind, proto, "", tcp(nil), checks.ReasonTimeout)...)
		fs = append(fs, over(kind, proto, "min_cert_days = 3650", secure(good), checks.ReasonTLS)...)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	web := func(conf *tls.Config) func(testing.TB) netip.AddrPort {
		return func(tb testing.TB) netip.AddrPort { return checktest.HTTP(tb, there, conf, page) }
	}
	quic := func(conf *tls.Config) func(testing.TB) netip.AddrPort {
		return func(tb testing.TB) netip.AddrPort { return checktest.HTTP3(tb, there, conf, page) }
	}
	for _, version := range []string{"'1.1'", "'2'", "'auto'"} {
		fs = append(fs, over("http", version, "", web(good), checks.ReasonStatus)...)
		fs = append(fs, over("http", version, "expect_status = 418\nexpect_body = 'x'", web(good), checks.ReasonMismatch)...)
	}
	fs = append(fs, over("http", "'3'", "", quic(good), checks.ReasonStatus)...)
	fs = append(fs, over("http", "'3'", "", quic(bad), checks.ReasonTLS)...)
	fs = append(fs, over("http", "http://", "", ends, checks.ReasonRefused)...)
	fs = append(fs, over("http", "http://", "", resets, checks.ReasonRefused)...)
	fs = append(fs, over("http", "http://", "", tcp(func(c net.Conn) { _, _ = c.Write([]byte("220 hello\r\n")); drain(c) }), checks.ReasonProtocol)...)
	fs = append(fs, over("dns", "'https'", "", web(good), checks.ReasonStatus)...)
	fs = append(fs, over("dns", "'tcp'", "", ends, checks.ReasonProtocol)...)
	fs = append(fs, over("dns", "'tcp'", "", resets, checks.ReasonRefused)...)
	for want, h := range map[checks.Reason]mdns.HandlerFunc{checks.ReasonStatus: checktest.Answer(mdns.RcodeServerFailure),
		checks.ReasonMismatch: checktest.Answer(mdns.RcodeSuccess), checks.ReasonTimeout: checktest.Silent()} {
		serve := func(tb testing.TB) netip.AddrPort { return checktest.DNS(tb, there, h, h) }
		fs = append(fs, fault{"dns", "server = 'AT'\naccept = ['NOERROR']\nanswer = ['x']\nqtype = 'TXT'", serve, want},
			fault{"dns", "server = 'AT'\nproto = 'tcp'\naccept = ['NOERROR']\nanswer = ['x']\nqtype = 'TXT'", serve, want})
	}
	cut := func(tb testing.TB) netip.AddrPort { return checktest.DNS(tb, there, checktest.Truncated(), nil) }
	fs = append(fs, fault{"dns", "server = 'AT'", cut, checks.ReasonRefused})
	fs = append(fs, over("tcp", "AT", "expect = 'x'\nsend = 'y'", ends, checks.ReasonMismatch)[:1]...)
	fs = append(fs, over("tcp", "AT", "expect = 'x'\nsend = 'y'", resets, checks.ReasonRefused)[:1]...)
	udp := func(answer func(checktest.Datagram)) func(testing.TB) netip.AddrPort {
		return func(tb testing.TB) netip.AddrPort { return checktest.UDP(tb, there, answer) }
	}
	fs = append(fs, over("udp", "AT", "", udp(func(d checktest.Datagram) { d.Reply(d.Bytes) }), checks.ReasonMismatch)...)
	fs = append(fs, over("ntp", "AT", "", udp(ntpReply(func(r []byte) { r[1] = 16 })), checks.ReasonMismatch)...)
	return append(fs, over("ntp", "AT", "", udp(ntpReply(func(r []byte) { r[0] = 7<<3 | 4 })), checks.ReasonProtocol)...)
}

// Each failure of each kind that says where it asks from ends with that, also where no connection came about: the
// address that was asked for, or that the kernel chose, the mark and the device.
func TestSent(t *testing.T) {
	ca := checktest.NewCA(t)
	good, bad := ca.Issue(t, certName).Config(), ca.Issue(t, "other.example").Config()
	node, server := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(node, server, "eth0", "eth0", 1500, 1500, []string{here + "/24", hereToo + "/24"}, []string{there + "/24"})
	node.IP("neigh add "+silent+" lladdr 02:00:00:00:00:99 dev eth0", "route add blackhole "+blackhole, "route add prohibit "+prohibited)
	node.Await(there)
	at := func(host string) func(testing.TB) netip.AddrPort {
		return func(testing.TB) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(host), 9) }
	}
	all := faults(good, bad)
	for _, q := range questions {
		all = append(all, fault{q.kind, q.keys, at(silent), checks.ReasonTimeout}, fault{q.kind, q.keys, at(blackhole), checks.ReasonUnreachable},
			fault{q.kind, q.keys, at(prohibited), checks.ReasonDenied})
		if strings.Contains(q.keys, "AT") {
			all = append(all, fault{q.kind, q.keys, at(there), checks.ReasonRefused})
		}
	}
	met := make(map[string]bool)
	for i, f := range all {
		met[f.kind] = true
		t.Run(fmt.Sprint(i, " ", f.kind, " ", f.want), func(t *testing.T) {
			var to netip.AddrPort
			server.Do(func() { to = f.serve(t) })
			trust := "ca = '" + ca.File + "'"
			if f.kind != "http" {
				trust += "\nserver_name = '" + certName + "'"
			}
			keys := strings.NewReplacer("AT", to.String(), "HOST", to.Addr().String(), "TRUST", trust).Replace(f.keys)
			sent(t, node, f, to.Addr().String(), keys)
		})
	}
	for _, kind := range Names() {
		spec, _ := New(kind)
		if field, has := reflect.TypeOf(spec).Elem().FieldByName("Origin"); has && field.Type == reflect.TypeFor[checks.Origin]() && !met[kind] && kind != "route" { // which names it all by itself
			t.Errorf("%s has source, mark and device, and is not in this test's table", kind)
		}
	}
}

// sent runs the check from several origins, and looks at how each failure ends.
func sent(t *testing.T, node *checktest.Space, f fault, to, keys string) {
	t.Helper()
	origins := map[string]string{"mark = 7": "sent from " + here + ", mark 7",
		"source = '" + hereToo + "'\nmark = 7\ndevice = 'eth0'": "sent from " + hereToo + ", mark 7, device eth0"}
	if to == blackhole || to == prohibited { // where the kernel chooses no source, and with a device sends all the same
		origins = map[string]string{"mark = 7": "mark 7", "source = '" + hereToo + "'\nmark = 7": "sent from " + hereToo + ", mark 7"}
	}
	for origin, want := range origins {
		timeout := plenty
		if f.want == checks.ReasonTimeout {
			timeout = 500 * time.Millisecond
		}
		w := world{here: node}
		err := w.probe(t, made(t, f.kind, keys+"\n"+origin), timeout)
		got := (checks.Result{Start: time.Now(), Err: err}).Reason()
		if err == nil || got != f.want {
			t.Errorf("%s\n%v, want %s", keys, err, f.want)
			continue
		}
		_, end, _ := strings.Cut(err.Error(), " ("+want)
		if !strings.HasSuffix(end, ")") {
			t.Errorf("%s\n got %v\nwant it to end with (%s)", keys, err, want)
		}
		if to == blackhole && !strings.Contains(err.Error(), "a blackhole route leads there") {
			t.Errorf("%s\n%v does not tell of the blackhole route", keys, err)
		}
		if n := strings.Count(err.Error(), "mark 7"); n != 1 {
			t.Errorf("%s\n%v tells %d times from where", keys, err, n)
		}
	}
}
