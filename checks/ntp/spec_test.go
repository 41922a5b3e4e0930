package ntp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
)

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "server: is missing ()",
		`server = "ntp.example.net"`:     "server: is not an IP address with a port (ntp.example.net)",
		`server = "::1"`:                 "server: is an IPv6 address without brackets (::1)",
		`server = "0.0.0.0"`:             "server: is not the address of one host (0.0.0.0)",
		`max_stratum = 16`:               "max_stratum: must be 1 to 15; 16 is what a server says that is not synchronised (16)",
		`max_stratum = -1`:               "max_stratum: must be 1 to 15; 16 is what a server says that is not synchronised (-1)",
		`max_root_distance = "-1s"`:      "max_root_distance: must not be negative (-1s)",
		`max_offset = "-100ms"`:          "max_offset: must not be negative; a clock that is slow counts as one that is fast (-100ms)",
		`source = "x"`:                   "source: must be an IP address (x)",
		`source = "::1"`:                 "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		`device = "a b"`:                 "device: must be the name of an interface: at most 15 bytes, without blanks and slashes (a b)",
		"server = \"x\"\nsource = \"y\"": "server: is not an IP address with a port (x)|source: must be an IP address (y)",
		`max_offset = "100ms"`:           "",
	} {
		if text != "" && !strings.Contains(text, "server") {
			text = "server = \"127.0.0.1\"\n" + text
		}
		s := new(Spec)
		if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
			t.Fatalf("%s: %v, %v", text, err, md.Undecoded())
		}
		var got []string
		for _, p := range s.Validate() {
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

func TestDefaults(t *testing.T) {
	s := &Spec{Server: "[::ffff:10.53.53.53]"}
	for range 2 {
		if ps := s.Validate(); ps != nil {
			t.Fatal(ps)
		}
		if *s != (Spec{Server: "10.53.53.53:123", MaxStratum: 15, MaxRootDistance: 1500 * time.Millisecond}) {
			t.Errorf("defaults: %+v", *s)
		}
	}
	c, err := s.New()
	if err != nil || c.String() != "10.53.53.53:123" {
		t.Errorf("%v, %v", c, err)
	}
	if got := s.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
	if _, err := new(Spec).New(); err == nil {
		t.Error("a check of nothing")
	}
}
