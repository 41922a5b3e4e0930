package kinds

import (
	"slices"
	"testing"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

func TestKinds(t *testing.T) {
	if want := []string{"address", "dns", "exec", "file", "http", "icmp", "mtu", "ntp", "route", "systemd", "tcp", "tls", "udp"}; !slices.Equal(Names(), want) {
		t.Errorf("names %q, want %q", Names(), want)
	}
	if s, ok := New("nosuch"); ok || s != nil {
		t.Errorf("a kind that is not there: %v", s)
	}
}

// The least that each kind needs makes a check, and each call makes another Spec.
func TestLeast(t *testing.T) {
	for kind, text := range map[string]string{
		"address": `address = "192.0.2.1"`,
		"dns":     `server = "127.0.0.1"`,
		"exec":    `command = ["true"]`,
		"file":    `path = "/run/flag"`,
		"http":    `url = "http://127.0.0.1/"`,
		"icmp":    `address = "127.0.0.1"`,
		"mtu":     `destinations = ["127.0.0.1"]`,
		"ntp":     `server = "127.0.0.1"`,
		"route":   ``,
		"systemd": `unit = "unbound"`,
		"tcp":     `address = "127.0.0.1:80"`,
		"tls":     "address = \"127.0.0.1:443\"\nserver_name = \"www.example.com\"",
		"udp":     "address = \"127.0.0.1:123\"\nsend = \"?\"",
	} {
		s, ok := New(kind)
		if !ok {
			t.Errorf("%s is missing", kind)
			continue
		}
		if other, _ := New(kind); other == s {
			t.Errorf("%s: the same Spec twice", kind)
		}
		if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
			t.Errorf("%s: %v, not decoded %v", kind, err, md.Undecoded())
		}
		if ps := s.Validate(); ps != nil {
			t.Errorf("%s: %+v", kind, ps)
		}
		c, err := s.New()
		if err != nil || c.String() == "" {
			t.Errorf("%s: %v, %v", kind, c, err)
		}
		if _, ok := s.(checks.Targeter); ok != (kind == "dns" || kind == "http" || kind == "icmp" || kind == "mtu" || kind == "ntp" || kind == "tcp" || kind == "tls" || kind == "udp" || kind == "address") {
			t.Errorf("%s says whom it asks: %v", kind, ok)
		}
		if _, ok := c.(checks.Watcher); ok == slices.Contains([]string{"exec", "icmp", "mtu", "ntp", "udp"}, kind) {
			t.Errorf("%s watches: %v", kind, ok)
		}
	}
}
