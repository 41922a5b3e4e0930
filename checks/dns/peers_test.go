package dns

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// need gives the path of a program; without it the test is skipped, and fails where CI=true.
func need(tb testing.TB, name string) string {
	tb.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path := filepath.Join(dir, name); executable(path) {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s is not installed", name)
	}
	tb.Skipf("SKIPPED: %s is not installed: run `make deps` as root", name)
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// daemon runs a real server in the foreground until the test ends, and waits until check is ok.
func daemon(tb testing.TB, up Spec, path string, args ...string) {
	tb.Helper()
	var log bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is ended by a signal
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if tb.Failed() {
			tb.Logf("%s: %s", filepath.Base(path), &log)
		}
	})
	var err error
	await(tb, func() string { return fmt.Sprintf("%s answers: %v", filepath.Base(path), err) }, func() bool {
		select {
		case <-ended:
			tb.Fatalf("%s has ended: %s", filepath.Base(path), &log)
		default:
		}
		err = once(tb, up)
		return err == nil
	})
}

// await waits for a state.
func await(tb testing.TB, what func() string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited in vain until %s", what())
		}
	}
}

// once checks once, for at most two seconds.
func once(tb testing.TB, s Spec) error {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
	defer cancel()
	return c.Check(ctx)
}

// home gives a loopback address that nobody else uses: that of the process, and another each time.
func home() string {
	n := uint32(os.Getpid())<<6 + homes.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 64+n>>16&63, n>>8&255, 1+n&127)
}

var homes atomic.Uint32

// write gives a file in dir with the lines.
func write(tb testing.TB, dir, name string, lines ...string) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		tb.Fatal(err)
	}
	return path
}

// zoneFile writes the zone example.net.
func zoneFile(tb testing.TB, dir string, serial int) string {
	tb.Helper()
	return write(tb, dir, "example.net.zone", "$ORIGIN example.net.", "$TTL 300",
		fmt.Sprintf("@ SOA ns hm %d 3600 600 86400 300", serial), "@ NS ns", "ns A 192.0.2.53",
		"www A 192.0.2.1", "www A 192.0.2.2", "alias CNAME www", "@ MX 10 mail", "mail A 192.0.2.25",
		`text TXT "two words" "and more"`, "*.probe A 192.0.2.9")
}

// knot runs Knot DNS with the zone, unsigned or signed, and gives its directory.
func knot(tb testing.TB, at, id string, serial int, signed string) string {
	tb.Helper()
	dir := tb.TempDir()
	zoneFile(tb, dir, serial)
	conf := write(tb, dir, "knot.conf", "server:", "  listen: "+at+"@5300", "  rundir: "+dir, "  nsid: "+id, "  identity: "+id,
		"database:", "  storage: "+dir, "log:", "  - target: stderr", "    any: info",
		"zone:", "  - domain: example.net", "    storage: "+dir, "    file: example.net.zone", "    dnssec-signing: "+signed, "    zonefile-sync: -1", "    zonefile-load: difference-no-serial", "    journal-content: all")
	if signed == "off" {
		conf = write(tb, dir, "knot.conf", strings.Split(strings.Replace(read(tb, conf), "difference-no-serial\n    journal-content: all", "whole", 1), "\n")...)
	}
	daemon(tb, Spec{Server: at + ":5300", Name: "example.net", Qtype: "SOA", Flags: []string{"AA"}}, need(tb, "knotd"), "-c", conf)
	return dir
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// named runs BIND with the zone on 127.0.0.1, as it listens on addresses of interfaces only, and gives its ports for
// udp and tcp, tls, and https. It asks nobody beyond this machine.
func named(tb testing.TB, id string, serial int, cert checktest.Pair) (plain, tls, https string) {
	tb.Helper()
	dir := tb.TempDir()
	var ports [3]string
	for i := range ports {
		ports[i] = fmt.Sprint(checktest.Closed(tb, "127.0.0.1").Port())
	}
	conf := write(tb, dir, "named.conf",
		fmt.Sprintf("tls t { cert-file %q; key-file %q; };", cert.CertFile, cert.KeyFile),
		`http h { endpoints { "/dns-query"; }; };`,
		fmt.Sprintf("options { directory %q; pid-file none; session-keyfile none; lock-file none; managed-keys-directory %q; server-id %q;", dir, dir, id),
		"recursion no; dnssec-validation no; notify no; query-source address 127.0.0.1; listen-on-v6 { none; };",
		fmt.Sprintf("listen-on port %s { 127.0.0.1; }; listen-on port %s tls t { 127.0.0.1; }; listen-on port %s tls t http h { 127.0.0.1; }; };", ports[0], ports[1], ports[2]),
		"controls { };",
		fmt.Sprintf("zone example.net { type primary; file %q; };", zoneFile(tb, dir, serial)))
	up := Spec{Server: "127.0.0.1:" + ports[0], Name: "example.net", Qtype: "SOA", Flags: []string{"AA"}}
	daemon(tb, up, need(tb, "named"), "-g", "-n", "1", "-c", conf)
	return ports[0], ports[1], ports[2]
}

// unbound runs Unbound with these lines in its server clause, and what follows it.
func unbound(tb testing.TB, at string, server, rest []string) {
	tb.Helper()
	dir := tb.TempDir()
	lines := append([]string{"server:", "  username: \"\"", "  chroot: \"\"", "  use-syslog: no", "  pidfile: \"\"", "  directory: " + dir, "  do-not-query-localhost: no",
		"  outgoing-interface: 127.0.0.1", // which leads nowhere but here
		"  interface: " + at + "@5300", "  access-control: 127.0.0.0/8 allow", "  num-threads: 1", "  ede: yes", "  local-zone: health.lab. static", `  local-data: "health.lab. 60 A 192.0.2.7"`}, server...)
	conf := write(tb, dir, "unbound.conf", append(append(lines, "remote-control:", "  control-enable: no"), rest...)...)
	daemon(tb, Spec{Server: at + ":5300", Name: "health.lab", Qtype: "A", Answer: []string{"192.0.2.7"}}, need(tb, "unbound"), "-d", "-c", conf)
}

// on reads a table of a check of the server at an address of ours.
func on(t *testing.T, at, port, text string) Spec {
	t.Helper()
	return *decode(t, fmt.Sprintf("server = \"%s:%s\"\n%s", at, port, text))
}

// Authoritative servers, and all that they can be asked about themselves and their zone.
func TestAuthoritativeServers(t *testing.T) {
	ca := checktest.NewCA(t)
	k, n := home(), "127.0.0.1"
	knot(t, k, "ams1.knot", 2026010102, "off")
	plain, tls, https := named(t, "ams1.named", 2026010101, ca.Issue(t, host))
	for _, c := range []struct {
		text   string
		reason checks.Reason
		words  string
	}{
		{"name = \"www.example.net\"\nqtype = \"A\"\nflags = [\"AA\"]\nanswer = [\"192.0.2.2\", \"192.0.2.1\"]", "", ""},
		{"name = \"www.example.net\"\nqtype = \"A\"\nanswer = [\"192.0.2.3\"]", checks.ReasonMismatch, "there is 192.0.2.1, 192.0.2.2"},
		{"name = \"alias.example.net\"\nqtype = \"A\"\nmin_answers = 2", "", ""},
		{"name = \"www.example.net\"\nqtype = \"AAAA\"\naccept = [\"NOERROR\"]", checks.ReasonMismatch, "NOERROR with 0 of at least 1 records of type AAAA"},
		{"name = \"text.example.net\"\nqtype = \"TXT\"\nanswer = [\"two wordsand more\"]", "", ""},
		{"name = \"example.net\"\nqtype = \"MX\"\nanswer = [\"10 MAIL.example.net.\"]", "", ""},
		{"name = \"nosuch.example.net\"\nqtype = \"A\"\naccept = [\"NXDOMAIN\"]", "", ""},
		{"name = \"nosuch.example.net\"\nqtype = \"A\"\naccept = [\"NOERROR\"]", checks.ReasonStatus, "rcode NXDOMAIN"},
		{"name = \"probe.example.net\"\nqtype = \"A\"\nrandom_label = true\nanswer = [\"192.0.2.9\"]", "", ""},
		{"name = \"example.org\"\nqtype = \"A\"\naccept = [\"NOERROR\"]", checks.ReasonStatus, "rcode REFUSED"},
		{"name = \"www.example.net\"\nqtype = \"A\"\nflags = [\"RA\"]", checks.ReasonMismatch, "the flag RA is not set in the answer, NOERROR"},
		{"name = \"www.example.net\"\nqtype = \"A\"\nflags = [\"AD\"]", checks.ReasonMismatch, "the flag AD is not set in the answer, NOERROR"},
		{"name = \"example.net\"\nserial_max_age = \"24h\"", checks.ReasonMismatch, "is of 2026-01-01T00:00:00Z"},
		{"name = \"example.net\"\nserial_max_age = \"876000h\"", "", ""},
	} {
		for _, proto := range []string{"udp", "tcp"} {
			want(t, once(t, on(t, k, "5300", "proto = \""+proto+"\"\n"+c.text)), c.reason, c.words)
			want(t, once(t, on(t, n, plain, "proto = \""+proto+"\"\n"+c.text)), c.reason, c.words)
		}
	}
	for id, at := range map[string]string{"ams1.knot": k + ":5300", "ams1.named": n + ":" + plain} {
		at, port, _ := strings.Cut(at, ":")
		want(t, once(t, on(t, at, port, "nsid = \""+id+"\"")), "")
		want(t, once(t, on(t, at, port, "nsid = \"ams2\"")), checks.ReasonMismatch, "answered by \""+id+"\"")
		self := "name = \"id.server\"\nclass = \"CH\"\nqtype = \"TXT\"\nanswer = [\"%s\"]"
		want(t, once(t, on(t, at, port, fmt.Sprintf(self, id))), "")
		want(t, once(t, on(t, at, port, fmt.Sprintf(self, "ams2"))), checks.ReasonMismatch, "there is "+id)
	}
	serial := "name = \"example.net\"\nserial_from = \"" + k + ":5300\"\n"
	want(t, once(t, on(t, n, plain, serial)), checks.ReasonMismatch, "serial 2026010101 is behind 2026010102 of "+k)
	want(t, once(t, on(t, n, plain, serial+"serial_lag = 1")), "")
	want(t, once(t, on(t, k, "5300", strings.Replace(serial, k+":5300", n+":"+plain, 1))), "")
	secure := fmt.Sprintf("name = \"www.example.net\"\nqtype = \"A\"\nanswer = [\"192.0.2.1\"]\nflags = [\"AA\"]\nnsid = \"ams1.named\"\nserver_name = %q\nca = %q\n", host, ca.File)
	want(t, once(t, on(t, n, tls, secure+`proto = "tls"`)), "")
	want(t, once(t, on(t, n, https, secure+`proto = "https"`)), "")
	want(t, once(t, on(t, n, https, secure+"proto = \"https\"\npath = \"/other\"")), checks.ReasonStatus, "HTTP status 404 Not Found")
	// A hello of TLS begins as a long message of DNS would, of which BIND awaits the rest.
	want(t, probeFor(t, on(t, n, plain, secure+`proto = "tls"`), 2*time.Second), checks.ReasonTimeout, "no handshake within 2s")
	want(t, once(t, on(t, n, tls, strings.Replace(secure, host, "other.example", 1)+`proto = "tls"`)), checks.ReasonTLS, host)
}

// A resolver that validates: over all ways, with the AD flag, and with a signed zone whose trust anchor is wrong.
func TestResolver(t *testing.T) {
	ca := checktest.NewCA(t)
	pair := ca.Issue(t, host)
	k, u := home(), home()
	dir := knot(t, k, "ams1.knot", 1, "on")
	out, err := exec.Command(need(t, "keymgr"), "-c", filepath.Join(dir, "knot.conf"), "example.net.", "ds").Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("no DS: %v", err)
	}
	ds, _, _ := strings.Cut(string(out), "\n")
	secure := []string{"  interface: " + u + "@8853", "  interface: " + u + "@8443", "  tls-port: 8853", "  https-port: 8443",
		"  tls-service-pem: " + pair.CertFile, "  tls-service-key: " + pair.KeyFile, "  identity: ams1.unbound", "  nsid: ascii_ams1.unbound", fmt.Sprintf("  trust-anchor: %q", ds)}
	stub := []string{"stub-zone:", "  name: example.net.", "  stub-addr: " + k + "@5300"}
	unbound(t, u, secure, stub)
	text := "name = \"www.example.net\"\nqtype = \"A\"\nanswer = [\"192.0.2.1\"]\nflags = [\"AD\", \"RA\"]\nnsid = \"ams1.unbound\"\n"
	tls := fmt.Sprintf("server_name = %q\nca = %q\n", host, ca.File)
	want(t, once(t, on(t, u, "5300", text)), "")
	want(t, once(t, on(t, u, "5300", text+`proto = "tcp"`)), "")
	want(t, once(t, on(t, u, "8853", text+tls+`proto = "tls"`)), "")
	want(t, once(t, on(t, u, "8443", text+tls+`proto = "https"`)), "")
	want(t, once(t, on(t, u, "5300", "name = \"www.example.net\"\nqtype = \"A\"\nflags = [\"AA\"]\nrecursion_desired = true")), checks.ReasonMismatch, "AA")
	want(t, once(t, on(t, u, "5300", "name = \"id.server\"\nclass = \"CH\"\nqtype = \"TXT\"\nanswer = [\"ams1.unbound\"]")), "")

	bogus := home()
	unbound(t, bogus, []string{"  trust-anchor: \"" + ds[:len(ds)-4] + "0000\""}, stub)
	want(t, once(t, on(t, bogus, "5300", strings.Replace(text, "nsid", "#", 1))), checks.ReasonStatus, "rcode SERVFAIL (DNSKEY Missing)")
	want(t, once(t, on(t, bogus, "5300", `flags = ["RA"]`)), "") // it lives
}

// While its upstream is dead a resolver answers from its cache: a random label sees that, and so does the TTL
// that it gives out with what has expired; that it is alive is still true.
func TestCacheHidesADeadUpstream(t *testing.T) {
	var dead atomic.Bool
	up := checktest.DNS(t, "127.0.0.1", func(w dns.ResponseWriter, q *dns.Msg) {
		if !dead.Load() {
			zone(t, 0, func(q, m *dns.Msg) { m.RecursionAvailable, m.Answer[0].Header().Name = true, q.Question[0].Name }, "x. 1 IN A 192.0.2.9")(w, q)
		}
	}, nil)
	u := home()
	unbound(t, u, []string{"  module-config: iterator", "  serve-expired: yes", "  serve-expired-reply-ttl: 30", "  ede-serve-expired: yes"},
		[]string{"forward-zone:", "  name: probe.example.", "  forward-addr: " + strings.Replace(up.String(), ":", "@", 1)})
	fixed := "name = \"www.probe.example\"\nqtype = \"A\"\nanswer = [\"192.0.2.9\"]\n"
	random := "name = \"probe.example\"\nqtype = \"A\"\nanswer = [\"192.0.2.9\"]\nrandom_label = true\n"
	want(t, once(t, on(t, u, "5300", fixed+`max_ttl = "1s"`)), "")
	want(t, once(t, on(t, u, "5300", random)), "")
	dead.Store(true)
	want(t, once(t, on(t, u, "5300", random)), checks.ReasonTimeout, "timeout after 2s (sent from ")
	want(t, once(t, on(t, u, "5300", fixed)), "")
	var err error
	await(t, func() string { return fmt.Sprintf("the record has expired: %v", err) }, func() bool {
		err = once(t, on(t, u, "5300", fixed+`max_ttl = "1s"`))
		return err != nil
	})
	want(t, err, checks.ReasonMismatch, "the TTL of a record of type A is above max_ttl, 1s")
	want(t, once(t, on(t, u, "5300", `name = "health.lab"`)), "")
}
