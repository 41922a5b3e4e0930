package dns

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"vouch/checks"
)

// decode reads a table as the configuration does; no key may be left over.
func decode(t *testing.T, text string) *Spec {
	t.Helper()
	s := new(Spec)
	md, err := toml.Decode(text, s)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if left := md.Undecoded(); len(left) > 0 {
		t.Fatalf("%s: not decoded: %v", text, left)
	}
	return s
}

func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		`server = "127.0.0.1"`:          "udp 127.0.0.1:53 . NS",
		`server = "[::1]"`:              "udp [::1]:53 . NS",
		`server = "[::1]:5353"`:         "udp [::1]:5353 . NS",
		`server = "[::ffff:127.0.0.1]"`: "udp 127.0.0.1:53 . NS",
		`server = "[fe80::1%lo]"`:       "udp [fe80::1%lo]:53 . NS",
		"server = \"192.0.2.1:5353\"\nname = \"health.lab\"\nqtype = \"a\"\nproto = \"tcp\"":              "tcp 192.0.2.1:5353 health.lab. A",
		"server = \"127.0.0.1\"\nname = \"id.server\"\nqtype = \"TXT\"\nclass = \"CH\"\naccept = \"any\"": "udp 127.0.0.1:53 id.server. CH TXT",
		"server = \"127.0.0.1\"\nproto = \"TLS\"\nserver_name = \"ns.example.net\"":                       "tls 127.0.0.1:853 . NS",
		"server = \"127.0.0.1\"\nproto = \"https\"\nserver_name = \"ns.example.net\"":                     "https 127.0.0.1:443 . NS",
		"server = \"127.0.0.1\"\nname = \"example.net\"\nserial_from = \"192.0.2.1\"":                     "udp 127.0.0.1:53 example.net. SOA",
		"server = \"127.0.0.1\"\nname = \"example.net\"\nserial_max_age = \"72h\"":                        "udp 127.0.0.1:53 example.net. SOA",
		"server = \"127.0.0.1\"\nname = \"example.net\"\nrandom_label = true":                             "udp 127.0.0.1:53 *.example.net. NS",
		"server = \"127.0.0.1\"\nname = \".\"\nrandom_label = true\naccept = [\"NXDOMAIN\"]":              "udp 127.0.0.1:53 *. NS",
		"server = \"127.0.0.1\"\nflags = [\"ad\"]\nanswer = [\"a.\"]\nmatch = \"a\"\nmax_ttl = \"30s\"":   "udp 127.0.0.1:53 . NS",
	} {
		s := decode(t, text)
		if ps := s.Validate(); ps != nil {
			t.Errorf("%s: %+v", text, ps)
			continue
		}
		c, err := s.New()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c.String() != want {
			t.Errorf("%s: %q, want %q", text, c, want)
		}
		before := *s
		before.Flags = slices.Clone(s.Flags)
		if ps := s.Validate(); ps != nil || cmp.Diff(before, *s, cmp.AllowUnexported(Accept{})) != "" {
			t.Errorf("%s: validating again changes it: %+v %v", text, s, ps)
		}
	}
}

// keys gives the problems as "key: what (got)".
func keys(ps []checks.Problem) (out []string) {
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s: %s (%s)", p.Key, p.What, p.Got))
	}
	return out
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "server: is missing ()",
		`server = "localhost:53"`:     "server: is not an IP address with a port (localhost:53)",
		`server = "127.0.0.1:0"`:      "server: has no port (127.0.0.1:0)",
		`server = "127.0.0.1:99999"`:  "server: is not an IP address with a port (127.0.0.1:99999)",
		`server = "0.0.0.0"`:          "server: is not the address of one host (0.0.0.0)",
		`server = "[ff02::1]"`:        "server: is not the address of one host ([ff02::1])",
		`server = "::1:53"`:           "server: is an IPv6 address without brackets (::1:53)",
		`name = "a..b"`:               "name: is not a domain name (a..b.)",
		`qtype = "BOGUS"`:             "qtype: is not a type that can be asked for (BOGUS)",
		`qtype = "axfr"`:              "qtype: is not a type that can be asked for (AXFR)",
		`class = "XX"`:                "class: is not a class (XX)",
		`proto = "dot"`:               "proto: must be udp, tcp, tls or https (dot)",
		`accept = "NOERROR"`:          `accept: must be "any" or a list of rcodes ("NOERROR")`,
		`accept = []`:                 `accept: must be "any" or a list of rcodes ([])`,
		`accept = 3`:                  `accept: must be "any" or a list of rcodes (3)`,
		`accept = [0, 3]`:             `accept: must be "any" or a list of rcodes ([0 3])`,
		`accept = ["NOERROR", "any"]`: "accept: is not the name of an rcode (ANY)",
		`accept = ["BOGUS", "NOPE"]`:  "accept: is not the name of an rcode (BOGUS)|accept: is not the name of an rcode (NOPE)",
		`source = "lo"`:               "source: must be an IP address (lo)",
		`source = "::1"`:              "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		`source = "0.0.0.0"`:          "source: must be the address of one host (0.0.0.0)",
		"random_label = true":         "random_label: needs a name ()",
		"random_label = true\nname = \"" + long(237) + "\"":           "name: has no room for a random label before it (" + long(237) + ".)",
		"name = \"" + long(254) + "\"":                                "name: is not a domain name (" + long(254) + ".)",
		"accept = \"any\"\nmatch = \"x\"":                             `accept: must be ["NOERROR"] with match, as other answers have no records (any)`,
		"accept = [\"NOERROR\", \"NXDOMAIN\"]\nanswer = [\"a\"]":      `accept: must be ["NOERROR"] with answer, as other answers have no records (["NOERROR", "NXDOMAIN"])`,
		"accept = \"any\"\nmax_ttl = \"30s\"\nmin_answers = 1":        `accept: must be ["NOERROR"] with min_answers, as other answers have no records (any)`,
		`min_answers = -1`:                                            "min_answers: must be from 0 to 1000 (-1)",
		"qtype = \"A\"\nanswer = [\"192.0.2.1\", \"x\", \"\"]":        "answer: is not the data of a record of type A (x)|answer: is not the data of a record of type A ()",
		"qtype = \"MX\"\nanswer = [\"10 a\\n$ORIGIN b\"]":             "answer: is not the data of a record of type MX (10 a\n$ORIGIN b)",
		"qtype = \"ANY\"\nanswer = [\"x\"]":                           "answer: is not the data of a record of type ANY (x)",
		`match = "("`:                                                 "match: error parsing regexp: missing closing ): `(` (()",
		`max_ttl = "1500ms"`:                                          "max_ttl: must be whole seconds (1.5s)",
		`max_ttl = "-1s"`:                                             "max_ttl: must be whole seconds (-1s)",
		`flags = ["AA", "do", "qr"]`:                                  "flags: is not a flag that can be wanted (do)|flags: is not a flag that can be wanted (qr)",
		`name = "bücher.example"`:                                     "name: must be in ASCII, as it goes over the wire (bücher.example.)",
		"min_answers = 0\nmax_ttl = \"30s\"":                          "min_answers: cannot be 0 with max_ttl, which looks at a record (0)",
		"min_answers = 0\nmatch = \"x\"\nserial_max_age = \"1h\"":     "min_answers: cannot be 0 with match, which looks at a record (0)",
		`min_answers = 0`:                                             "",
		`nsid = "0x"`:                                                 "nsid: is neither text nor hexadecimal (0x)",
		`nsid = "0xabc"`:                                              "nsid: is neither text nor hexadecimal (0xabc)",
		`serial_from = "primary"`:                                     "serial_from: is not an IP address with a port (primary)",
		"serial_from = \"192.0.2.1\"\nqtype = \"NS\"":                 "qtype: must be SOA with serial_from (NS)",
		"serial_max_age = \"1h\"\nrandom_label = true\nname = \"a\"":  "random_label: cannot be with serial_max_age, which needs the name of a zone ()",
		"serial_from = \"[2001:db8::1]:53\"\nsource = \"127.0.0.1\"":  "serial_from: must be of the same family as source, 127.0.0.1 ([2001:db8::1]:53)",
		`serial_lag = 1`:                                              "serial_lag: has no effect without serial_from ()",
		"serial_lag = 2147483648\nserial_from = \"192.0.2.1\"":        "serial_lag: must be below 2147483648, half of all serials (RFC 1982) (2147483648)",
		`serial_max_age = "-1h"`:                                      "serial_max_age: must not be negative (-1h0m0s)",
		`path = "/dns-query"`:                                         `path: has no effect without proto = "https" (/dns-query)`,
		"proto = \"tls\"\nserver_name = \"a\"\npath = \"/x\"":         `path: has no effect without proto = "https" (/x)`,
		"proto = \"https\"\nserver_name = \"a\"\npath = \"dns\"":      "path: is not the path of a URL (dns)",
		"proto = \"https\"\nserver_name = \"a\"\npath = \"/d{?dns}\"": "path: is not the path of a URL (/d{?dns})",
		`proto = "tls"`:                                               "server_name: is missing: without it no certificate can be the right one ()",
		"proto = \"tls\"\nserver_name = \"a\"\ncert = \"/x\"":         "cert: needs key as well (/x)",
		"proto = \"tcp\"\nserver_name = \"a\"\nverify = false":        "verify: has no effect without TLS ()|server_name: has no effect without TLS ()",
		"ca = \"/a\"\ncert = \"/b\"\nkey = \"/c\"\nmin_cert_days = 3": "ca: has no effect without TLS ()|cert: has no effect without TLS ()|" +
			"key: has no effect without TLS ()|min_cert_days: has no effect without TLS ()",
		"server = \"x\"\nqtype = \"y\"\nproto = \"z\"\nsource = \"w\"": "proto: must be udp, tcp, tls or https (z)|" +
			"server: is not an IP address with a port (x)|qtype: is not a type that can be asked for (Y)|source: must be an IP address (w)",
	} {
		if text != "" && !strings.Contains(text, "server =") {
			text = "server = \"127.0.0.1\"\n" + text
		}
		ps := decode(t, text).Validate()
		if got := strings.Join(keys(ps), "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		for _, p := range ps {
			if p.WayOut == "" {
				t.Errorf("%s: %s has no way out", text, p.Key)
			}
		}
	}
}

// long gives a name of n characters.
func long(n int) string { return strings.Repeat("a.", n)[:n-1] + "a" }

// Only an answer that says whose it is may come from an address that another node may have.
func TestIdentifies(t *testing.T) {
	for text, want := range map[string]bool{
		``:              false,
		`nsid = "ams1"`: true,
		"name = \"ID.server\"\nclass = \"ch\"\nqtype = \"txt\"\nanswer = [\"ams1\"]":      true,
		"name = \"hostname.bind.\"\nclass = \"CH\"\nqtype = \"TXT\"\nanswer = [\"ams1\"]": true,
		"name = \"hostname.bind.\"\nclass = \"CH\"\nqtype = \"TXT\"\nmatch = \"ams\"":     false,
		"name = \"hostname.bind.\"\nclass = \"CH\"\nqtype = \"TXT\"":                      false,
		"name = \"version.bind\"\nclass = \"CH\"\nqtype = \"TXT\"\nanswer = [\"9.18\"]":   false,
		"name = \"id.server\"\nqtype = \"TXT\"\nanswer = [\"ams1\"]":                      false,
	} {
		s := decode(t, "server = \"127.0.0.1\"\n"+text)
		if ps := s.Validate(); ps != nil {
			t.Errorf("%s: %+v", text, ps)
		}
		var id checks.Identifier = s
		if id.Identifies() != want {
			t.Errorf("%s: identifies: %v", text, !want)
		}
	}
}

// The reference is asked too, and must not be reached through a managed prefix either.
func TestTargetsOfSerial(t *testing.T) {
	s := decode(t, "server = \"127.0.0.1\"\nname = \"example.net\"\nserial_from = \"192.0.2.1:5353\"")
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	want := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}
	if got := s.Targets(); !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

// What is amiss on this machine is told of the origin, and of the files of TLS where it is spoken.
func TestLocal(t *testing.T) {
	for text, want := range map[string]string{
		``:                      "",
		`source = "192.0.2.77"`: "source",
		"proto = \"tls\"\nserver_name = \"a\"\nca = \"/nonexistent/ca.pem\"": "ca",
	} {
		s := decode(t, "server = \"127.0.0.1\"\n"+text)
		if ps := s.Validate(); ps != nil {
			t.Fatalf("%s: %+v", text, ps)
		}
		got := ""
		for _, p := range s.Local() {
			got += p.Key
		}
		if got != want {
			t.Errorf("%s: problems of %q, want %q", text, got, want)
		}
	}
}

// A list of rcodes is to prove that the server can resolve; that it lives can be seen from any
// answer, for which it need ask nobody.
func TestRecursionDesired(t *testing.T) {
	for text, want := range map[string]bool{
		``: false, `accept = "any"`: false, `accept = ["NOERROR"]`: true,
		"recursion_desired = true": true, `match = "x"`: true, "match = \"x\"\nflags = [\"AA\"]": false, "accept = [\"NOERROR\"]\nrecursion_desired = false": false,
	} {
		s := decode(t, "server = \"127.0.0.1\"\n"+text)
		if ps := s.Validate(); ps != nil {
			t.Fatalf("%s: %+v", text, ps)
		}
		c, err := s.New()
		if err != nil {
			t.Fatal(err)
		}
		if c.(*checker).recurse != want || *s.RecursionDesired != want {
			t.Errorf("%q: asks for recursion: %v, shown as %v; want %v", text, c.(*checker).recurse, *s.RecursionDesired, want)
		}
	}
}

// What is shown of the effective configuration reads back as the same.
func TestAcceptIsWrittenAsRead(t *testing.T) {
	for _, v := range []string{`"any"`, `["NOERROR", "NXDOMAIN"]`} {
		s := decode(t, "server = \"127.0.0.1\"\naccept = "+v)
		if ps := s.Validate(); ps != nil {
			t.Fatal(ps)
		}
		var b bytes.Buffer
		if err := toml.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "accept = "+v+"\n") {
			t.Errorf("%s is written as %s", v, &b)
		}
	}
}

// An rcode that is written twice is one, with the same defaults.
func TestAcceptTwice(t *testing.T) {
	s := decode(t, "server = \"127.0.0.1\"\naccept = [\"NOERROR\", \"noerror\"]")
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	if s.Accept.String() != `["NOERROR"]` || s.MinAnswers == nil || *s.MinAnswers != 1 {
		t.Errorf("%s, min_answers %v", s.Accept, s.MinAnswers)
	}
}
