package dns

import (
	"bytes"
	"fmt"
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
		`proto = "dot"`:               "proto: must be udp or tcp (dot)",
		`accept = "NOERROR"`:          `accept: must be "any" or a list of rcodes ("NOERROR")`,
		`accept = []`:                 `accept: must be "any" or a list of rcodes ([])`,
		`accept = 3`:                  `accept: must be "any" or a list of rcodes (3)`,
		`accept = [0, 3]`:             `accept: must be "any" or a list of rcodes ([0 3])`,
		`accept = ["NOERROR", "any"]`: "accept: is not the name of an rcode (ANY)",
		`accept = ["BOGUS", "NOPE"]`:  "accept: is not the name of an rcode (BOGUS)|accept: is not the name of an rcode (NOPE)",
		`source = "lo"`:               "source: must be an IP address (lo)",
		`source = "::1"`:              "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		`source = "0.0.0.0"`:          "source: must be the address of one host (0.0.0.0)",
		"server = \"x\"\nqtype = \"y\"\nproto = \"z\"\nsource = \"w\"": "server: is not an IP address with a port (x)|" +
			"qtype: is not a type that can be asked for (Y)|proto: must be udp or tcp (z)|source: must be an IP address (w)",
	} {
		if text != "" && !strings.Contains(text, "server") {
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

// A list of rcodes is to prove that the server can resolve; that it lives can be seen from any
// answer, for which it need ask nobody.
func TestRecursionDesired(t *testing.T) {
	for text, want := range map[string]bool{
		``: false, `accept = "any"`: false, `accept = ["NOERROR"]`: true,
		"recursion_desired = true": true, "accept = [\"NOERROR\"]\nrecursion_desired = false": false,
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
		s := decode(t, `accept = `+v)
		var b bytes.Buffer
		if err := toml.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "accept = "+v+"\n") {
			t.Errorf("%s is written as %s", v, &b)
		}
	}
}
