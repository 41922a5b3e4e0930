package mtu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                                             "destinations: is missing ()",
		`destinations = []`:                                            "destinations: is missing ()",
		`destinations = ["a", "::"]`:                                   "destinations: is not an IP address; names are not looked up, and only QUIC knows ports (a)|destinations: is not the address of one host (::)",
		`destinations = ["::1", "x"]`:                                  "destinations: is not an IP address; names are not looked up, and only QUIC knows ports (x)",
		`destinations = ["1.1.1.1:443"]`:                               "destinations: is not an IP address; names are not looked up, and only QUIC knows ports (1.1.1.1:443)",
		`destinations = ["255.255.255.255"]`:                           "destinations: is not the address of one host (255.255.255.255)",
		`destinations = ["fe80::1"]`:                                   "destinations: is link-local, and there is one of these on each interface (fe80::1)",
		"destinations = [\"fe80::1\"]\nprobe = \"quic\"":               "destinations: is link-local, and there is one of these on each interface ([fe80::1]:443)",
		"destinations = [\"fe80::1\"]\ndevice = \"eth0\"":              "",
		"destinations = [\"::1\"]\nprobe = \"tcp\"":                    "probe: must be icmp or quic (tcp)",
		"destinations = [\"::1\"]\nrequire = \"most\"":                 "require: must be any or all (most)",
		"destinations = [\"::1\"]\nbytes = 100":                        "bytes: must be 101 to 65535 (100)",
		"destinations = [\"::1\"]\nbytes = 65536":                      "bytes: must be 101 to 65535 (65536)",
		"destinations = [\"::1\"]\nbytes = 1247\nprobe = \"quic\"":     "bytes: must be 1248 to 65535, as QUIC servers answer nothing smaller (1247)",
		"destinations = [\"1.1.1.1\"]\nbytes = 1227\nprobe = \"quic\"": "bytes: must be 1228 to 65535, as QUIC servers answer nothing smaller (1227)",
		"destinations = [\"1.1.1.1:0\"]\nprobe = \"quic\"":             "destinations: has no port (1.1.1.1:0)",
		"destinations = [\"x.example\"]\nprobe = \"quic\"":             "destinations: is not an IP address with a port (x.example)",
		"destinations = [\"::1\", \"127.0.0.1\"]":                      "",
		"destinations = [\"::1\", \"127.0.0.1\"]\nsource = \"::1\"":    "destinations: must be of one family, as there is one source (127.0.0.1)",
		"destinations = [\"127.0.0.1\"]\nsource = \"::1\"":             "source: must be of the same family as the address that is probed, 127.0.0.1 (::1)",
		`destinations = ["::1", "0:0::1"]`:                             "destinations: is named twice (0:0::1)",
		"destinations = [\"::1\", \"[::1]:443\"]\nprobe = \"quic\"":    "destinations: is named twice ([::1]:443)",
		"destinations = [\"::1\", \"[::1]:444\"]\nprobe = \"quic\"":    "",
		"bytes = 1\nprobe = \"x\"\nrequire = \"y\"\nsource = \"z\"": "probe: must be icmp or quic (x)|require: must be any or all (y)|destinations: is missing ()|" +
			"source: must be an IP address (z)|bytes: must be 101 to 65535 (1)",
	} {
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
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("192.0.2.%d", i))
	}
	s := to(many...)
	if ps := s.Validate(); len(ps) != 1 || ps[0].What != "has 17, and at most 16 are probed" {
		t.Errorf("%+v", ps)
	}
}

func TestDefaults(t *testing.T) {
	for probe, want := range map[string]string{
		"":     "1280 bytes to 192.0.2.1, 2001:db8::1",
		"quic": "1280 bytes over quic to 192.0.2.1:443, [2001:db8::1]:443",
	} {
		s := to("::ffff:192.0.2.1", "2001:db8::1")
		s.Probe = probe
		if c := made(t, s); c.String() != want {
			t.Errorf("%q, want %q", c, want)
		}
		if ps := s.Validate(); ps != nil || made(t, s).String() != want || s.Bytes != 1280 || s.Require != "any" {
			t.Errorf("validated twice: %+v %+v", s, ps)
		}
		if got := s.Targets(); len(got) != 2 || got[0].String() != "192.0.2.1" {
			t.Errorf("targets %v", got)
		}
	}
	if _, err := new(Spec).New(); err == nil {
		t.Error("a check of nothing")
	}
}
