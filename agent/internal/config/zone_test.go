package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocalZones: an address that is probed on an interface that is not there is told of, whatever the kind.
func TestLocalZones(t *testing.T) {
	for table, missing := range map[string]string{
		"type = \"tcp\"\naddress = \"[fe80::b%lo]:53\"":                       "",
		"type = \"tcp\"\naddress = \"[fe80::b%nosuch0]:53\"":                  "fe80::b%nosuch0",
		"type = \"icmp\"\naddress = \"fe80::b%nosuch0\"":                      "fe80::b%nosuch0",
		"type = \"mtu\"\ndestinations = [\"192.0.2.1\", \"fe80::b%nosuch0\"]": "fe80::b%nosuch0",
		"type = \"http\"\nurl = \"http://[fe80::b%25nosuch0]/\"":              "fe80::b%nosuch0",
	} {
		file := filepath.Join(t.TempDir(), "vouch.toml")
		text := "[router]\ndaemon = \"kernel\"\n[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.c]\n" + table + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", table, err)
			continue
		}
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
