package http

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

var (
	_ checks.Targeter   = new(Spec)
	_ checks.Localer    = new(Spec)
	_ checks.Hinter     = new(Spec)
	_ checks.Identifier = new(Spec)
)

// least is the least that is without a problem, for more to be added.
const least = "url = \"https://www.example.net/\"\nconnect = \"127.0.0.1\"\n"

func decode(t *testing.T, text string) *Spec {
	t.Helper()
	s := new(Spec)
	if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
		t.Fatalf("%s: %v, %v", text, err, md.Undecoded())
	}
	return s
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                               "url: is missing ()",
		least:                                            "",
		`url = "http://127.0.0.1:8080/x?y=z"`:            "",
		`url = "https://[::1]"`:                          "",
		`url = "www.example.net"`:                        "url: must begin with http:// or https:// (www.example.net)",
		`url = "ftp://127.0.0.1/"`:                       "url: must begin with http:// or https:// (ftp://127.0.0.1/)",
		`url = "https:///x"`:                             "url: has no host (https:///x)",
		`url = "https://127.0.0.1:99999/"`:               "url: has a port that is none (https://127.0.0.1:99999/)",
		`url = "https://127.0.0.1:x/"`:                   "url: is no URL (https://127.0.0.1:x/)",
		`url = "https://me:pw@127.0.0.1/"`:               "url: must not have a user in it (https://me:xxxxx@127.0.0.1/)",
		`url = "https://127.0.0.1/#top"`:                 "url: has a fragment, which is never sent (https://127.0.0.1/#top)",
		`url = "https://0.0.0.0/"`:                       "url: must be of one host (https://0.0.0.0/)",
		`url = "https://bücher.example/"`:                "url: has a host that is no name: letters, digits and hyphens (of others the xn-- form) (https://b%C3%BCcher.example/)",
		`url = "https://www.example.net/"`:               "connect: is missing: names such as www.example.net are not looked up ()",
		least + `version = "1.0"`:                        `version: must be "auto", "1.1", "2" or "3" (1.0)`,
		least + `method = "get"`:                         "method: must be in capitals (get)",
		least + `method = "CONNECT"`:                     "method: is not a method that can be asked with (CONNECT)",
		least + `method = "GET / HTTP/1.0"`:              "method: is not a method that can be asked with (GET / HTTP/1.0)",
		least + `method = "GET_0RTT"`:                    "method: is not a method that can be asked with (GET_0RTT)",
		least + `body = "x"`:                             "body: needs a method that takes one ()",
		least + "method = \"HEAD\"\nbody = \"x\"":        "body: HEAD takes none ()",
		least + "method = \"HEAD\"\nexpect_body = \"\"":  "",
		least + "method = \"HEAD\"\nexpect_body = \"x\"": "expect_body: the answer to HEAD has no body ()",
		least + `headers = { "X Y" = "z" }`:              "headers.X Y: is not the name of a header ()",
		least + `headers = { host = "a", Host = "b" }`:   "headers.host: is there twice: capitals make no difference ()",
		least + `headers = { Host = "a/b" }`:             "headers.Host: is not a host (a/b)",
		least + `headers = { "content-length" = "1" }`:   "headers.content-length: is set by the connection itself ()",
		least + `headers = { X = "a\r\nY: b" }`:          "headers.X: has a control character in its value ()",
		least + `expect_status = []`:                     "expect_status: must be codes from 200 to 599, or ranges of them ([])",
		least + `expect_status = [100, "6xx", "300-200", "2x", true, 204]`: "expect_status: must be codes from 200 to 599, or ranges of them (100)|expect_status: must be codes from 200 to 599, or ranges of them (6xx)|" +
			"expect_status: must be codes from 200 to 599, or ranges of them (300-200)|expect_status: must be codes from 200 to 599, or ranges of them (2x)|expect_status: must be codes from 200 to 599, or ranges of them (true)",
		least + `expect_body = "("`:                                                 "expect_body: is no regular expression: error parsing regexp: missing closing ): `(` (()",
		least + `expect_headers = { "X:" = "y" }`:                                   "expect_headers.X:: is not the name of a header ()",
		least + `expect_headers = { X-Node = "a", x-node = "" }`:                    "expect_headers.x-node: is there twice: capitals make no difference ()",
		least + "method = \"HEAD\"\nmax_body = 1":                                   "max_body: has no effect with HEAD, whose answer has no body (1)",
		least + "redirects = 3\nexpect_status = [200, \"3xx\"]":                     "redirects: has no effect where expect_status takes every redirect as the answer (3)",
		least + "redirects = 3\nexpect_status = [200, 301]":                         "",
		least + `headers = { Host = "" }`:                                           "headers.Host: has no effect when it is empty ()",
		least + `expect_headers = { X = "*" }`:                                      "expect_headers.X: is no regular expression: error parsing regexp: missing argument to repetition operator: `*` (*)",
		least + `max_body = -1`:                                                     "max_body: must be from 1 to 4194304 bytes (4 MiB) (-1)",
		least + `redirects = 21`:                                                    "redirects: must be from 0 to 20 (21)",
		least + `redirect_hosts = ["a.example"]`:                                    "redirect_hosts: has no effect without redirects ()",
		least + "redirects = 1\nredirect_hosts = [\"https://a\"]":                   "redirect_hosts: has a host that is no name: letters, digits and hyphens (of others the xn-- form) (https://a)",
		least + `source = "::1"`:                                                    "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		"url = \"http://127.0.0.1/\"\nversion = \"3\"\nverify = false\nca = \"/x\"": "version: HTTP/3 is for https:// only (3)",
		"url = \"http://127.0.0.1/\"\nca = \"x\"\nverify = false\ncert = \"/c\"":    "verify: has no effect with an http:// URL, nor has ca, cert ()",
		least + "method = \"HEAD\"\nmax_body = 1\nexpect_body = \"x\"":              "expect_body: the answer to HEAD has no body ()",
		least + "redirects = 21\nexpect_status = [\"3xx\"]":                         "redirects: must be from 0 to 20 (21)",
		least + "cert = \"x\"":                                                      "cert: needs key as well (x)",
		"url = \"http://127.0.0.1/\"\nredirects = 1\nca = \"/x\"":                   "",
	} {
		var got []string
		for _, p := range decode(t, text).Validate() {
			got = append(got, fmt.Sprintf("%s: %s (%s)", p.Key, p.What, p.Got))
			if p.WayOut == "" {
				t.Errorf("%s: %s has no way out", text, p.Key)
			}
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestStatuses(t *testing.T) {
	s := decode(t, least+`expect_status = [200, "3XX", "400-404"]`)
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	if got := s.ExpectStatus.String(); got != "200, 3xx, 400-404" {
		t.Error(got)
	}
	for code, want := range map[int]bool{199: false, 200: true, 201: false, 299: false, 300: true, 399: true, 400: true, 404: true, 405: false} {
		if got := s.ExpectStatus.accepts(code); got != want {
			t.Errorf("%d: %v", code, got)
		}
	}
	for _, one := range []string{"204", `"204"`} {
		s := decode(t, least+"expect_status = "+one)
		if ps := s.Validate(); ps != nil || !slices.Equal(s.ExpectStatus.spans, []span{{204, 204}}) {
			t.Errorf("%s: %v, %v", one, ps, s.ExpectStatus)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		least:                      "GET https://www.example.net/ at 127.0.0.1:443",
		`url = "http://127.0.0.1"`: "GET http://127.0.0.1/",
		"url = \"https://www.example.net:8443/a?token=b\"\nconnect = \"[::1]\"\nversion = \"3\"": "GET https://www.example.net:8443/a?… at [::1]:8443 over h3",
		"url = \"https://[::1]:443/\"\nmethod = \"HEAD\"\nversion = \"2\"":                       "HEAD https://[::1]/ over h2",
		"url = \"https://WWW.Example.NET./\"\nconnect = \"[::ffff:192.0.2.1]:1\"":                "GET https://www.example.net/ at 192.0.2.1:1",
	} {
		s := decode(t, text)
		if got := create(t, *s).String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	if got := decode(t, least).Targets(); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("127.0.0.1")}) {
		t.Errorf("targets %v", got)
	}
}

// Only a header that may differ from node to node tells them apart.
func TestIdentifies(t *testing.T) {
	for text, want := range map[string]bool{
		``:                                               false,
		`expect_headers = { "x-node" = "^a$" }`:          true,
		`expect_headers = { "x-node" = ".*" }`:           false,
		`expect_headers = { "x-node" = "" }`:             false,
		`expect_headers = { server = "nginx" }`:          false,
		`expect_headers = { server = "nginx", x = "y" }`: true,
	} {
		if got := decode(t, least+text).Identifies(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestLocal(t *testing.T) {
	s := decode(t, least+"source = \"192.0.2.77\"\nca = \"/nonexistent/ca.pem\"")
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	var keys []string
	for _, p := range s.Local() {
		keys = append(keys, p.Key)
	}
	if !slices.Equal(keys, []string{"source", "ca"}) {
		t.Errorf("problems with %v", keys)
	}
}

func TestHint(t *testing.T) {
	s := new(Spec)
	for _, key := range []string{"headers", "expect_headers", "version", "redirects"} {
		if s.Hint(key) == "" {
			t.Errorf("none for %s", key)
		}
	}
	if s.Hint("url") != "" {
		t.Error("one for url")
	}
}
