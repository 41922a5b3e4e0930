package icmp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                    "address: is missing ()",
		`address = "127.0.0.1:53"`:            "address: is not an IP address; names are not looked up, and ping knows no ports (127.0.0.1:53)",
		`address = "example.com"`:             "address: is not an IP address; names are not looked up, and ping knows no ports (example.com)",
		`address = "0.0.0.0"`:                 "address: is not the address of one host (0.0.0.0)",
		`address = "255.255.255.255"`:         "address: is not the address of one host (255.255.255.255)",
		`address = "ff02::1"`:                 "address: is not the address of one host (ff02::1)",
		`address = "fe80::1"`:                 "address: is link-local, and there is one of these on each interface (fe80::1)",
		"address = \"::1\"\ncount = 101":      "count: must be 1 to 100 requests (101)",
		"address = \"::1\"\ncount = -1":       "count: must be 1 to 100 requests (-1)",
		"address = \"::1\"\nmax_loss = 1":     "max_loss: must be 0 to 0, less than count: else the check could never fail (1)",
		"address = \"::1\"\nmax_loss = -1":    "max_loss: must be 0 to 0, less than count: else the check could never fail (-1)",
		"address = \"::1\"\nsize = 15":        "size: must be 16 to 8952 bytes of payload (15)",
		"address = \"::1\"\nsize = 9000":      "size: must be 16 to 8952 bytes of payload (9000)",
		"address = \"::1\"\nsource = \"1.1\"": "source: must be an IP address (1.1)",
		"address = \"x\"\ncount = -1\nsize = 1\ndevice = \"a b\"": "address: is not an IP address; names are not looked up, and ping knows no ports (x)|" +
			"count: must be 1 to 100 requests (-1)|size: must be 16 to 8952 bytes of payload (1)|" +
			"device: must be the name of an interface: at most 15 bytes, without blanks and slashes (a b)",
		"address = \"::1\"\nsource = \"127.0.0.1\"": "source: must be of the same family as the address that is probed, ::1 (127.0.0.1)",
		"address = \"fe80::1\"\ndevice = \"eth0\"":  "", `address = "fe80::1%eth0"`: "", "address = \"::1\"\ncount = 3\nmax_loss = 2": "",
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
}

func TestDefaults(t *testing.T) {
	s := &Spec{Address: "::ffff:10.53.53.53"}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	if *s != (Spec{Address: "10.53.53.53", Count: 1, Size: 56}) {
		t.Errorf("defaults: %+v", *s)
	}
	c, err := s.New()
	if err != nil || c.String() != "10.53.53.53" {
		t.Errorf("%v, %v", c, err)
	}
	if got := s.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
	if got := (&Spec{Address: "fe80::1%eth0"}).Targets(); got[0] != netip.MustParseAddr("fe80::1%eth0") {
		t.Errorf("targets %v", got)
	}
	if _, err := new(Spec).New(); err == nil {
		t.Error("a check of nothing")
	}
}
