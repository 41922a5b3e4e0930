package kinds

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"reflect"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// A way is one in which a check of a kind asks a server. It starts the server in the world, and gives the
// table of the check; what is only an address needs none.
type way struct {
	name  string
	table func(testing.TB, *world) string
}

// ways has those of each kind whose check says where it asks from.
var ways = map[string][]way{
	"dns": {
		{"udp", func(tb testing.TB, w *world) string {
			return fmt.Sprintf("server = %q", w.dns(tb, answers, nil))
		}},
		{"tcp", func(tb testing.TB, w *world) string {
			return fmt.Sprintf("server = %q\nproto = \"tcp\"", w.dns(tb, nil, answers))
		}},
		{"udp, then tcp", func(tb testing.TB, w *world) string {
			return fmt.Sprintf("server = %q", w.dns(tb, checktest.Truncated(), answers))
		}},
		{"two servers", func(tb testing.TB, w *world) string {
			soa := checktest.Change(func(m *mdns.Msg) {
				m.Answer = []mdns.RR{&mdns.SOA{Hdr: mdns.RR_Header{Name: m.Question[0].Name, Rrtype: mdns.TypeSOA, Class: mdns.ClassINET}, Ns: ".", Mbox: ".", Serial: 7}}
			})
			return fmt.Sprintf("server = %q\nname = \"example.net\"\nserial_from = %q", w.dns(tb, soa, nil), w.dns(tb, soa, nil))
		}},
		{"tls", func(tb testing.TB, w *world) string {
			at := checktest.DNSOverTLS(tb, w.host, w.pair.Config(), answers)
			return fmt.Sprintf("server = %q\nproto = \"tls\"\n", at) + w.trusts
		}},
		{"https", func(tb testing.TB, w *world) string {
			at := checktest.DNSOverHTTPS(tb, w.host, w.pair.Config(), checktest.Message(answers))
			return fmt.Sprintf("server = %q\nproto = \"https\"\n", at) + w.trusts
		}},
	},
	"http": {
		{"plain", func(tb testing.TB, w *world) string {
			return fmt.Sprintf("url = \"http://%s/\"", checktest.HTTP(tb, w.host, nil, page))
		}},
		{"1.1", overTLS("1.1", checktest.HTTP)}, {"2", overTLS("2", checktest.HTTP)}, {"auto", overTLS("auto", checktest.HTTP)},
		{"3", overTLS("3", checktest.HTTP3)},
	},
	"icmp": {{"echo", func(_ testing.TB, w *world) string { return fmt.Sprintf("address = %q", w.host) }}},
	"mtu": {
		{"icmp", func(_ testing.TB, w *world) string { return fmt.Sprintf("destinations = [%q]", w.host) }},
		{"quic", func(tb testing.TB, w *world) string {
			at := checktest.HTTP3(tb, w.host, w.pair.Config(), page)
			return fmt.Sprintf("destinations = [%q]\nprobe = \"quic\"", at)
		}},
	},
	"ntp": {{"ntp", func(tb testing.TB, w *world) string {
		return fmt.Sprintf("server = %q\nmax_root_distance = \"1m\"", checktest.UDP(tb, w.host, ntpReply(func([]byte) {})))
	}}},
	"route": {{"lookup", func(_ testing.TB, w *world) string {
		return fmt.Sprintf("destinations = [%q]\ninterfaces = [\"good0\"]", w.host)
	}}},
	"tcp": {
		{"plain", func(tb testing.TB, w *world) string {
			return fmt.Sprintf("address = %q", checktest.TCP(tb, w.host, drain))
		}},
		{"tls", func(tb testing.TB, w *world) string { return w.tls(tb) + "tls = true" }},
	},
	"tls": {{"tls", func(tb testing.TB, w *world) string { return w.tls(tb) }}},
	"udp": {{"udp", func(tb testing.TB, w *world) string {
		at := checktest.UDP(tb, w.host, func(d checktest.Datagram) { d.Reply(d.Bytes) })
		return fmt.Sprintf("address = %q\nsend = \"PING\"\nexpect = \"PING\"", at)
	}}},
}

var (
	answers = checktest.Answer(mdns.RcodeSuccess)
	page    = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ready\n")) })
)

func overTLS(version string, serve func(testing.TB, string, *tls.Config, http.Handler) netip.AddrPort) func(testing.TB, *world) string {
	return func(tb testing.TB, w *world) string {
		return fmt.Sprintf("url = \"https://%s/\"\nconnect = %q\nversion = %q\n", certName, serve(tb, w.host, w.pair.Config(), page), version) + w.trusts
	}
}

// A world has servers behind the first of its two links. What is sent without a mark, from anywhere, takes the
// other one, where a host of the same address serves nothing, and does not answer ping.
type world struct {
	here, good *checktest.Space
	pair       checktest.Pair
	trusts     string // the keys that trust the pair

	host string // the servers' address
}

func (w *world) dns(tb testing.TB, udp, tcp mdns.HandlerFunc) netip.AddrPort {
	return checktest.DNS(tb, w.host, udp, tcp)
}

func (w *world) tls(tb testing.TB) string {
	return fmt.Sprintf("address = %q\n", checktest.TLS(tb, w.host, w.pair.Config(), func(c *tls.Conn) { drain(c) })) + w.trusts
}

// A plane is the addresses of a world in one family: this node's and its neighbours' by link, and the servers'.
type plane struct {
	family, link, alone string // how the ip program is told the family, and the lengths of prefixes
	near, router        map[string]string
	host, net           string
}

var planes = []plane{
	{"-4", "/24", "/32", map[string]string{"good0": "10.1.0.2", "other0": "10.2.0.2"}, map[string]string{"good0": "10.1.0.1", "other0": "10.2.0.1"}, "10.8.0.1", "10.8.0.0/24"},
	{"-6", "/64", "/128", map[string]string{"good0": "fd01::2", "other0": "fd02::2"}, map[string]string{"good0": "fd01::1", "other0": "fd02::1"}, "fd08::1", "fd08::/64"},
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ca := checktest.NewCA(t)
	w := &world{here: checktest.NewSpace(t), good: checktest.NewSpace(t), pair: ca.Issue(t, certName)}
	w.trusts = fmt.Sprintf("server_name = %q\nca = %q\n", certName, ca.File)
	other := checktest.NewSpace(t)
	other.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	other.Sysctl("ipv6/icmp/echo_ignore_all", "1")
	w.here.Sysctl("ipv4/conf/all/rp_filter", "0")
	w.here.Sysctl("ipv4/conf/default/rp_filter", "0")
	for name, there := range map[string]*checktest.Space{"good0": w.good, "other0": other} {
		var near, far []string
		for _, p := range planes {
			near = append(near, p.near[name]+p.link)
			far = append(far, p.router[name]+p.link, p.host+p.alone)
		}
		checktest.Link(w.here, there, name, "eth0", 1500, 1500, near, far)
	}
	for _, p := range planes {
		w.here.IP("route add "+p.net+" via "+p.router["other0"]+" dev other0 metric 100",
			"route add "+p.net+" via "+p.router["good0"]+" dev good0 metric 900",
			"route add "+p.net+" via "+p.router["good0"]+" dev good0 table 100")
		w.rule(t, p.family, "from", p.near["good0"])
		w.rule(t, p.family, "fwmark", "7")
		w.here.Await(p.router["good0"])
	}
	return w
}

// rule has what matches take the link to the servers.
func (w *world) rule(t *testing.T, family string, match ...string) {
	t.Helper()
	var out []byte
	var err error
	w.here.Do(func() {
		out, err = exec.Command("ip", append(append([]string{family, "rule", "add"}, match...), "table", "100")...).CombinedOutput()
	})
	if err != nil {
		t.Fatalf("ip %s rule add %v: %v, %s", family, match, err, out)
	}
}

// probe makes one round from this node.
func (w *world) probe(t *testing.T, c checks.Checker, timeout time.Duration) (err error) {
	w.here.Do(func() {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		err = c.Check(ctx)
	})
	return err
}

// origins are the keys that lead to the servers, or elsewhere.
func (p plane) origins() map[string]bool {
	return map[string]bool{
		"":                                      false,
		"source = \"" + p.near["good0"] + "\"":  true,
		"source = \"" + p.near["other0"] + "\"": false,
		"mark = 7":                              true,
		"mark = 8":                              false,
		`device = "good0"`:                      true,
		`device = "other0"`:                     false,
	}
}

// Each kind of check asks from where it is told to, whatever it speaks: with a source, a mark or a device it
// takes the link that the servers are behind, and with none of them, or another one, it does not.
func TestOrigin(t *testing.T) {
	w := newWorld(t)
	for _, kind := range Names() {
		spec, _ := New(kind)
		field, has := reflect.TypeOf(spec).Elem().FieldByName("Origin")
		has = has && field.Type == reflect.TypeFor[checks.Origin]()
		if has != (ways[kind] != nil) {
			t.Errorf("%s has source, mark and device: %t; it is in this test's table: %t", kind, has, !has)
		}
		for _, way := range ways[kind] {
			t.Run(kind+" "+way.name, func(t *testing.T) {
				for _, p := range planes {
					w.test(t, kind, way, p)
				}
			})
		}
	}
}

func (w *world) test(t *testing.T, kind string, way way, p plane) {
	w.host = p.host
	var table string
	w.good.Do(func() { table = way.table(t, w) })
	for origin, good := range p.origins() {
		timeout := plenty
		if !good {
			timeout = 200 * time.Millisecond
		}
		if err := w.probe(t, made(t, kind, table+"\n"+origin), timeout); (err == nil) != good {
			t.Errorf("%s with %q: ok is %t, want %t: %v", p.host, origin, err == nil, good, err)
		}
	}
}
