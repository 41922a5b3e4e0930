package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneCheck loads a configuration with one check, whose table begins in line 6.
func oneCheck(t *testing.T, table string) (file string, c *Config) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "vouch.toml")
	text := "[router]\ndaemon = \"kernel\"\n[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.c]\n" + table + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	return file, c
}

// TestLocalZones: an address that is probed on an interface that is not there is told of, whatever the kind.
func TestLocalZones(t *testing.T) {
	for table, missing := range map[string]string{
		"type = \"tcp\"\naddress = \"[fe80::b%lo]:53\"":                       "",
		"type = \"tcp\"\naddress = \"[fe80::b%nosuch0]:53\"":                  "fe80::b%nosuch0",
		"type = \"icmp\"\naddress = \"fe80::b%nosuch0\"":                      "fe80::b%nosuch0",
		"type = \"mtu\"\ndestinations = [\"192.0.2.1\", \"fe80::b%nosuch0\"]": "fe80::b%nosuch0",
		"type = \"http\"\nurl = \"http://[fe80::b%25nosuch0]/\"":              "fe80::b%nosuch0",
	} {
		file, c := oneCheck(t, table)
		var got []string
		for _, p := range c.Local() {
			if strings.Contains(p.What, "interface") {
				got = append(got, p.Error())
			}
		}
		want := ""
		if missing != "" {
			want = file + ":5:1: service.a.check.c: there is no interface nosuch0, which the address " + missing + " is of, create it, or name another (ip link)"
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%s:\ngot  %s\nwant %s", table, s, want)
		}
	}
}

// TestLocalAstray: what can come to no answer from where it asks is told of, whatever the kind.
func TestLocalAstray(t *testing.T) {
	for _, table := range []string{
		`type = "tcp"` + "\n" + `address = "192.0.2.1:53"`,
		`type = "udp"` + "\n" + `address = "192.0.2.1:53"` + "\n" + `send = "?"`,
		`type = "tls"` + "\n" + `address = "192.0.2.1:443"` + "\n" + `server_name = "www.example.net"`,
		`type = "dns"` + "\n" + `server = "192.0.2.1:53"` + "\n" + `name = "example.net"`,
		`type = "ntp"` + "\n" + `server = "192.0.2.1"`,
		`type = "icmp"` + "\n" + `address = "192.0.2.1"`,
		`type = "mtu"` + "\n" + `destinations = ["192.0.2.1"]`,
		`type = "route"` + "\n" + `destinations = ["192.0.2.1"]`,
		`type = "http"` + "\n" + `url = "http://www.example.net/"` + "\n" + `connect = "192.0.2.1:80"`,
	} {
		file, c := oneCheck(t, "source = \"127.0.0.1\"\n"+table)
		const want = ":6:1: service.a.check.c.source: reaches nothing but this node, and 192.0.2.1 is not on it (got \"127.0.0.1\"), write an address of this node that answers find their way to, or leave it out"
		if ps := c.Local(); len(ps) != 1 || ps[0].Error() != file+want {
			t.Errorf("%s:\ngot  %v\nwant %s", table, ps, want)
		}
	}
}
