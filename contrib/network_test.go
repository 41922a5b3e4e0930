package contrib

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

const networkd = "/lib/systemd/systemd-networkd"

// networkds are the roots that have a systemd-networkd: this machine's own, 252, and that of Debian 13, 257.
func networkds(t *testing.T) map[string]string {
	t.Helper()
	cache := os.Getenv("VOUCH_LAB_CACHE")
	if cache == "" {
		cache = "/var/cache/vouch-lab"
	}
	roots := map[string]string{"host": "/", "trixie": filepath.Join(cache, "trixie")}
	for _, root := range roots {
		need(t, filepath.Join(root, networkd))
	}
	return roots
}

// networkdIn runs a systemd-networkd in the namespace that it is started in. It sees a /run of its own, with the
// configuration of a directory, and believes of all links that udev is done with them.
const networkdIn = `root=$1 conf=$2
mount --bind "$root" "$root" 2>/dev/null || true
user=$(sed -n 's/^systemd-network:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/passwd")
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -p "$root/run/systemd/netif/links" "$root/run/systemd/netif/leases" "$root/run/udev/data" "$root/run/systemd/networkd.conf.d" "$root/run/systemd/network"
chown -R "$user" "$root/run/systemd/netif"
cp "$conf"/*.network "$root/run/systemd/network"
cp "$conf"/*.conf "$root/run/systemd/networkd.conf.d" 2>/dev/null || true
touch "$root/run/udev/control"
mount -t sysfs sys "$root/sys"
for i in "$root"/sys/class/net/*/ifindex; do echo I:1 >"$root/run/udev/data/n$(cat "$i")"; done
if [ "$root" != / ]; then
	mount -t proc proc "$root/proc"
	mount --bind /dev "$root/dev"
fi
export SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=debug
exec chroot "$root" ` + networkd

// mine is what a routing daemon and vouch have put there.
var mine = []string{"192.0.2.53/32", "203.0.113.0/24", "203.0.114.0/24", "id 77"}

// networkNode is a node with all that.
func networkNode(t *testing.T) *lab.Node {
	t.Helper()
	net := lab.Open(t)
	core, err := net.Node("core")
	if err != nil {
		t.Fatal(err)
	}
	node, err := net.Node("node")
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Link(core, "eth0", []string{"10.0.1.1/30"}, node, "eth0", []string{"10.0.1.2/30"}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"addr del 10.0.1.2/30 dev eth0", "addr add 10.0.1.2/30 brd + dev eth0", // as systemd-networkd itself has it
		"addr add 192.0.2.53/32 dev lo", "route add 203.0.113.0/24 via 10.0.1.1 proto ospf",
		"nexthop add id 77 via 10.0.1.1 dev eth0 proto zebra", "route add 203.0.114.0/24 nhid 77 proto ospf",
	} {
		if _, err := node.Run(t.Context(), append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			t.Fatal(err)
		}
	}
	return node
}

// missing are those of mine that are gone.
func missing(t *testing.T, node *lab.Node) []string {
	t.Helper()
	var all strings.Builder
	for _, args := range [][]string{{"ip", "addr"}, {"ip", "route"}, {"ip", "nexthop"}} {
		out, err := node.Run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(out)
	}
	return slices.DeleteFunc(slices.Clone(mine), func(s string) bool { return strings.Contains(all.String(), s) })
}

// configured runs a systemd-networkd with the files until it has brought a link into shape.
func configured(t *testing.T, node *lab.Node, root, link string, files map[string]string) string {
	t.Helper()
	conf := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(conf, name), text)
	}
	p, err := node.Start("networkd", "unshare", "--mount", "sh", "-ec", networkdIn, "networkd", root, conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = lab.Wait(ctx, "systemd-networkd to configure "+link, 10*time.Millisecond, func() (bool, error) {
		return strings.Contains(p.Log(), link+": State changed: configuring -> configured"), nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	return p.Log()
}

// TestNetworkd: with the files systemd-networkd starts on a node that announces, and takes nothing away.
func TestNetworkd(t *testing.T) {
	for name, root := range networkds(t) {
		for _, lo := range []string{"10-lo-vouch.network", "10-lo-anycast.network"} {
			t.Run(name+"/"+lo, func(t *testing.T) {
				t.Parallel()
				node := networkNode(t)
				texts := map[string]string{}
				for _, f := range append(files(t, "networkd/5*.conf"), "networkd/20-uplink.network", "networkd/"+lo) {
					texts[filepath.Base(f)] = read(t, f)
				}
				log := configured(t, node, root, "eth0", texts)
				if gone := missing(t, node); len(gone) > 0 {
					t.Errorf("%v: gone\n%s", gone, log)
				}
				for line := range strings.Lines(log) {
					// The file for it says that 252 does not know this key.
					if unknown := strings.Contains(line, "Unknown") && strings.Contains(line, "/run/systemd/"); unknown && (name != "host" || !strings.Contains(line, "ManageForeignNextHops")) {
						t.Errorf("it does not take: %s", line)
					}
				}
				out, err := node.Run(t.Context(), "ip", "addr", "show", "dev", "lo")
				if err != nil || strings.Contains(out, "2001:db8:53::53/128") != (lo == "10-lo-anycast.network") {
					t.Errorf("on lo: %v %s", err, out)
				}
			})
		}
	}
}

// TestNetworkdForeign: a link whose own file says nothing. The settings for all links keep what is on it from 256 on; 252
// takes nexthop objects and the address away all the same, and with them the routes. So it does without the settings,
// which shows that the tests can fail.
func TestNetworkdForeign(t *testing.T) {
	const plain = "[Match]\nName=eth0\n[Network]\nAddress=10.0.1.2/30\n"
	for name, root := range networkds(t) {
		for _, settings := range []string{"none", "50-vouch.conf"} {
			t.Run(name+"/"+settings, func(t *testing.T) {
				t.Parallel()
				node := networkNode(t)
				texts := map[string]string{"eth0.network": plain}
				if settings != "none" {
					for _, f := range files(t, "networkd/5*.conf") {
						texts[filepath.Base(f)] = read(t, f)
					}
				}
				log := configured(t, node, root, "eth0", texts)
				kept := settings != "none" && name == "trixie"
				if gone := missing(t, node); kept != (len(gone) == 0) || !kept && !slices.Contains(gone, "203.0.114.0/24") {
					t.Errorf("%v: gone\n%s", gone, log)
				}
			})
		}
	}
}

// TestNetplan: netplan takes the file, and what it makes of it leaves lo alone and the link as it is.
func TestNetplan(t *testing.T) {
	need(t, "/usr/sbin/netplan")
	root := t.TempDir()
	file := write(t, filepath.Join(root, "etc/netplan/60-vouch.yaml"), read(t, "netplan/60-vouch.yaml"))
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, nil, "/usr/sbin/netplan", "generate", "--root-dir", root); out != "" {
		t.Errorf("it complains: %s", out)
	}
	made := files(t, filepath.Join(root, "run/systemd/network/*"))
	if len(made) != 1 || filepath.Base(made[0]) != "10-netplan-eth0.network" {
		t.Fatalf("it made %v", made)
	}
	got := read(t, made[0])
	for _, want := range []string{"Address=10.0.1.2/30", "Address=2001:db8:1::2/64", "IPv6AcceptRA=no"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if !strings.Contains(got, "CriticalConnection=true") && !strings.Contains(got, "KeepConfiguration=true") {
		t.Errorf("nothing keeps the addresses on the link:\n%s", got)
	}
	if strings.Contains(got, "192.0.2.53") || strings.Contains(got, "Gateway") {
		t.Errorf("it has what is not netplan's:\n%s", got)
	}
	for name, of := range networkds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := networkNode(t)
			log := configured(t, node, of, "eth0", map[string]string{
				"10-netplan-eth0.network": got, "50-vouch.conf": read(t, "networkd/50-vouch.conf"), "51-vouch-nexthops.conf": read(t, "networkd/51-vouch-nexthops.conf"),
			})
			if gone := missing(t, node); len(gone) > 0 {
				t.Errorf("%v: gone\n%s", gone, log)
			}
		})
	}
}

// TestNeedrestart: read as needrestart does, with perl, the override is for our unit and for no other.
func TestNeedrestart(t *testing.T) {
	need(t, "/usr/bin/perl")
	const ask = `use strict; our %nrconf = (override_rc => {}); my $text = do { local (@ARGV, $/) = shift @ARGV; <> };
eval $text; die $@ if $@;
for my $unit (@ARGV) { for my $re (keys %{$nrconf{override_rc}}) { print "$unit=$nrconf{override_rc}{$re}\n" if $unit =~ /$re/; } }`
	out := must(t, nil, "/usr/bin/perl", "-e", ask, "needrestart/vouch.conf", "vouch.service", "vouchsafe.service", "my-vouch.service", "vouch-service", "frr.service")
	if out != "vouch.service=0\n" {
		t.Errorf("got %q", out)
	}
}
