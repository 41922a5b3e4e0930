//go:build system

package system

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
	"vouch/routers/vyos/vyostest/store"
)

// A router is a site whose machine has VyOS's configuration system over its FRR.
type router struct {
	*site
	system *vyostest.System
}

// block is what the files of contrib/vyos announce.
var block = netip.MustParsePrefix("192.0.2.0/24")

const vyosCore = `hostname core
router bgp 65000
 bgp router-id 10.0.1.1
 no bgp ebgp-requires-policy
 neighbor 10.0.1.2 remote-as 65001
 neighbor 10.0.1.2 timers connect 1
 neighbor 2001:db8:1::2 remote-as 65001
 neighbor 2001:db8:1::2 timers connect 1
 address-family ipv4 unicast
  neighbor 10.0.1.2 default-originate
  no neighbor 2001:db8:1::2 activate
 address-family ipv6 unicast
  neighbor 2001:db8:1::2 activate
`

// What VyOS does at each boot: a fresh place for sessions, the saved configuration, the mark that it is in force, and
// then the script of whoever has one.
const vyosRouter = `#!/bin/sh
umask 0002
rm -rf /opt/vyatta/config/tmp/* /opt/vyatta/config/active/.nodes
[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229
ip addr add 192.0.2.53/32 dev lo
ip -6 addr add 2001:db8:53::53/128 dev lo
cp /config/boot/active /opt/vyatta/config/active/.nodes
chgrp -R vyattacfg /opt/vyatta/config
vtysh -f /config/boot/frr.conf
echo 0 >/tmp/vyos-config-status
[ ! -x /config/scripts/vyos-postconfig-bootup.script ] || /config/scripts/vyos-postconfig-bootup.script
exec sleep infinity
`

// What VyOS adds to the system; its FRR forgets all at a restart.
var vyosUnits = map[string]string{
	"vyos.target": "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\nAllowIsolate=yes\n",
	"vyos-router.service": "[Unit]\nAfter=frr.service\n[Service]\nType=simple\nKillMode=process\n" +
		"ExecStart=/usr/libexec/vyos/init/vyos-router\n[Install]\nWantedBy=vyos.target\n",
	"frr.service.d/override.conf": "[Service]\nExecStartPre=/bin/sh -c 'echo log syslog >/etc/frr/frr.conf'\n",
}

// openVyOS brings up a core and a router that has booted with nothing configured, and the files of a newcomer in /root.
func openVyOS(t *testing.T, release string) *router {
	t.Helper()
	n := lab.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	core, err := n.Node("core")
	must(t, err)
	node, err := n.Node("node")
	must(t, err)
	must(t, n.Link(core, "eth0", []string{"10.0.1.1/30", "2001:db8:1::1/64", "fe80::1/64"}, node, "eth0", []string{"10.0.1.2/30", "2001:db8:1::2/64", "fe80::2/64"}))
	frr, err := core.FRR(ctx, vyosCore, "bgpd")
	must(t, err)
	hops, err := core.FollowNextHops(t.Context(), block)
	must(t, err)
	t.Cleanup(hops.Stop)
	r := &router{site: &site{machine: assemble(t, node, release), core: frr, hops: hops}}
	r.image()
	r.save()
	r.poweron()
	r.booted()
	r.do("systemctl", "enable", "--now", "unbound")
	return r
}

// image makes the root that of a router whose resolver is not started at a boot.
func (r *router) image() {
	r.t.Helper()
	r.system = vyostest.Install(r.t, r.root, vyostest.Options{SocketDir: "/run/frr"})
	r.edit("/etc/group", func(text string) string {
		return text + "vyattacfg:x:" + strconv.Itoa(vyostest.Group) + ":\n"
	})
	r.edit("/etc/frr/daemons", func(text string) string { return strings.Replace(text, "bgpd=no", "bgpd=yes", 1) })
	r.write("/etc/unbound/unbound.conf", unboundConf)
	r.write("/usr/libexec/vyos/init/vyos-router", vyosRouter)
	must(r.t, os.Chmod(r.file("/usr/libexec/vyos/init/vyos-router"), 0o755))
	for name, text := range vyosUnits {
		r.write("/etc/systemd/system/"+name, text)
	}
	for _, args := range [][]string{{"disable", "unbound"}, {"enable", "frr", "vyos-router"}, {"set-default", "vyos.target"}} {
		out, err := exec.Command("chroot", append([]string{r.root, "systemctl"}, args...)...).CombinedOutput()
		if err != nil {
			r.t.Fatalf("systemctl %q: %v: %s", args, err, out)
		}
	}
}

// off switches the machine off. A network namespace keeps what a machine's kernel forgets.
func (r *router) off() {
	r.t.Helper()
	r.poweroff()
	for _, args := range [][]string{{"-4", "route", "flush", "proto", "200"}, {"-6", "route", "flush", "proto", "200"}, {"addr", "flush", "dev", "lo", "scope", "global"}} {
		out, err := exec.Command("ip", append([]string{"-n", r.name}, args...)...).CombinedOutput()
		if err != nil {
			r.t.Fatalf("ip %q: %v: %s", args, err, out)
		}
	}
}

func (r *router) edit(path string, change func(string) string) {
	r.t.Helper()
	text, err := os.ReadFile(r.file(path))
	must(r.t, err)
	must(r.t, os.WriteFile(r.file(path), []byte(change(string(text))), 0o640)) // keeps its owner
}

// save does what the operator's save does: the running configuration is that of the next boot.
func (r *router) save() {
	r.t.Helper()
	r.write("/config/boot/active", strings.Join(r.system.Active(), "\n")+"\n")
	r.write("/config/boot/frr.conf", frrConf(r.t, r.system.Active()))
}

// booted waits until the configuration is in force.
func (r *router) booted() {
	r.t.Helper()
	r.await("the end of VyOS's boot", func() (bool, error) {
		_, err := r.try("test", "-e", store.Boot)
		return err == nil, err
	})
}

// upgrade boots another image: of all that was there /config alone is carried over.
func (r *router) upgrade() {
	r.t.Helper()
	r.off()
	config := filepath.Join(r.t.TempDir(), "config")
	must(r.t, os.CopyFS(config, os.DirFS(r.file("/opt/vyatta/etc/config"))))
	must(r.t, syscall.Unmount(r.root, syscall.MNT_DETACH))
	dir := filepath.Dir(r.root)
	for _, d := range []string{"up", "work"} {
		must(r.t, os.RemoveAll(filepath.Join(dir, d)))
		must(r.t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	base := filepath.Join(cache(), "machine-bookworm")
	must(r.t, syscall.Mount("overlay", r.root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/up,workdir=%[2]s/work", base, dir)))
	r.image()
	must(r.t, os.RemoveAll(r.file("/opt/vyatta/etc/config")))
	must(r.t, os.CopyFS(r.file("/opt/vyatta/etc/config"), os.DirFS(config)))
	r.poweron()
	r.booted()
}

// operator runs commands in a session that stays, as one in configuration mode does: "set PATH", "delete PATH",
// "commit" and "exit".
func (r *router) operator(lines ...string) string {
	r.t.Helper()
	script := "umask 0002; export " + strings.Join(vyostest.RealEnv(), " ") + "; eval \"$(cli-shell-api getSessionEnv operator)\"\n" +
		"cli-shell-api setupSession || exit\n"
	for _, l := range lines {
		switch verb, path, _ := strings.Cut(l, " "); verb {
		case "set", "delete", "commit":
			script += "/opt/vyatta/sbin/my_" + verb + " " + path + " || exit\n"
		case "exit":
			script += "cli-shell-api teardownSession || exit\n"
		}
	}
	r.write("/root/operator", script)
	return r.do("sg", "vyattacfg", "-c", "bash /root/operator")
}

// commit has an operator make changes and save them, and FRR follow: the stand-in's own commits change its static
// routes alone.
func (r *router) commit(lines ...string) {
	r.t.Helper()
	r.operator(append(slices.Clone(lines), "commit", "exit")...)
	for _, l := range lines {
		if path, ok := strings.CutPrefix(l, "delete "); ok && strings.Contains(l, "redistribute") {
			r.write("/config/boot/delete.conf", strings.ReplaceAll(frrConf(r.t, []string{path}), "redistribute", "no redistribute"))
			r.do("vtysh", "-f", "/config/boot/delete.conf")
		}
	}
	r.save()
	r.do("vtysh", "-f", "/config/boot/frr.conf")
}

// frrLines say what VyOS makes of a line of its configuration, in the order in which FRR takes it.
var frrLines = []struct{ vyos, frr string }{
	{`protocols bgp system-as (\S+)`, "router bgp $1\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast"},
	{`protocols bgp neighbor (\S+) remote-as (\S+)`, "router bgp 65001\n neighbor $1 remote-as $2\n neighbor $1 timers connect 1"},
	{`protocols bgp neighbor (\S+) address-family (ipv4|ipv6)-unicast`, "router bgp 65001\n address-family $2 unicast\n  neighbor $1 activate"},
	{`policy prefix-list (\S+) rule (\S+) prefix (\S+)`, "ip prefix-list $1 seq $2 permit $3"},
	{`policy prefix-list6 (\S+) rule (\S+) prefix (\S+)`, "ipv6 prefix-list $1 seq $2 permit $3"},
	{`policy route-map (\S+) rule (\S+) action permit`, "route-map $1 permit $2"},
	{`policy route-map (\S+) rule (\S+) match (ip|ipv6) address prefix-list (\S+)`, "route-map $1 permit $2\n match $3 address prefix-list $4"},
	{`protocols bgp address-family (ipv4|ipv6)-unicast redistribute (.*)`, "router bgp 65001\n address-family $1 unicast\n  redistribute $2"},
	{`protocols static route (\S+) blackhole`, "ip route $1 blackhole"},
	{`protocols static route6 (\S+) blackhole`, "ipv6 route $1 blackhole"},
	{`policy prefix-list6? \S+ rule \S+ action permit|protocols (static|bgp address-family \S+( redistribute)?)|(interfaces dummy|system host-name) .*`, ""},
}

// frrConf is what VyOS makes of its configuration for FRR.
func frrConf(t *testing.T, active []string) string {
	t.Helper()
	var conf strings.Builder
	known := 0
	for _, l := range frrLines {
		re := regexp.MustCompile("^(?:" + l.vyos + ")$")
		for _, line := range active {
			if !re.MatchString(line) {
				continue
			}
			known++
			if l.frr != "" {
				conf.WriteString(re.ReplaceAllString(line, l.frr) + "\n")
			}
		}
	}
	if known != len(active) {
		t.Fatalf("nobody knows what VyOS makes of a line of %q", active)
	}
	return conf.String()
}
