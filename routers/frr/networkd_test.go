package frr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
)

// Nexthop objects are a danger where systemd-networkd runs and is not told to leave them; else they are worth
// knowing.
func TestNetworkd(t *testing.T) {
	const (
		state  = "run/systemd/netif/state"
		main   = "etc/systemd/networkd.conf"
		part   = "etc/systemd/networkd.conf.d/51-vouch.conf"
		leaves = "# a comment\n[Network]\nManageForeignNextHops = no\n"
		old    = "usr/lib/systemd/libsystemd-shared-252.so"
		young  = "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.13-1~deb13u1.so"
	)
	for name, c := range map[string]struct {
		files   map[string]string
		want    routers.Severity
		text    string
		command bool // the way out names the key
	}{
		"never ran":               {map[string]string{old: ""}, routers.Notice, "has not run here since boot", false},
		"runs":                    {map[string]string{state: "", old: ""}, routers.Warning, "ManageForeignNextHops is not off", false},
		"runs, young":             {map[string]string{state: "", young: ""}, routers.Warning, "ManageForeignNextHops is not off", true},
		"leaves them":             {map[string]string{state: "", young: "", part: leaves}, routers.Notice, "is told to leave them", false},
		"in the main file":        {map[string]string{state: "", young: "", main: leaves}, routers.Notice, "is told to leave them", false},
		"too old to know the key": {map[string]string{state: "", old: "", part: leaves}, routers.Warning, "is not known to systemd 252", false},
		"in another section":      {map[string]string{state: "", young: "", part: "[DHCPv4]\nManageForeignNextHops=no\n"}, routers.Warning, "", true},
		"the later file counts":   {map[string]string{state: "", young: "", part: leaves, "etc/systemd/networkd.conf.d/90.conf": "[Network]\nManageForeignNextHops=yes\n"}, routers.Warning, "", true},
		"etc before usr":          {map[string]string{state: "", young: "", part: leaves, "usr/lib/systemd/networkd.conf.d/51-vouch.conf": "[Network]\nManageForeignNextHops=yes\n"}, routers.Notice, "", false},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		rd := reading{version: "10.3", zebra: "Kernel NHG     Available\n", networkd: readNetworkd(root)}
		f := rd.objects()[0]
		if f.Severity != c.want || !strings.Contains(f.Text, c.text) || strings.Contains(f.WayOut, "ManageForeignNextHops=no") != c.command {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
