//go:build system

package system

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

var (
	vip     = netip.MustParsePrefix("192.0.2.53/32")
	nodeHop = netip.MustParseAddr("10.0.1.2")
)

// A site is a core router and one machine beside it that serves vip.
type site struct {
	*machine
	core *lab.FRR
	hops *lab.Follower // the core's kernel: where it sends what is for vip
}

const coreConf = `hostname core
interface eth0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
router ospf
 ospf router-id 10.0.0.1
 network 10.0.0.0/16 area 0
 timers lsa min-arrival 0
 default-information originate always metric 10
router bgp 65000
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor 10.0.1.2 remote-as 65001
 neighbor 10.0.1.2 timers connect 1
`

const nodeConf = `hostname node
interface eth0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
router ospf
 ospf router-id 10.0.1.2
 network 10.0.1.0/30 area 0
 network 192.0.2.53/32 area 0
`

const unboundConf = `server:
  interface: 127.0.0.1
  interface: 192.0.2.53
  ip-freebind: yes
  access-control: 0.0.0.0/0 allow
  local-zone: "lab." static
  local-data: "health.lab. 5 IN A 192.0.2.1"
remote-control:
  control-enable: no
`

// open brings up a core and a machine of that release of Debian, which runs nothing yet, with the package files
// at /root/old.deb and /root/new.deb.
func open(t *testing.T, release string) *site {
	t.Helper()
	n := lab.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	core, err := n.Node("core")
	must(t, err)
	node, err := n.Node("node")
	must(t, err)
	must(t, n.Link(core, "eth0", []string{"10.0.1.1/30"}, node, "eth0", []string{"10.0.1.2/30"}))
	frr, err := core.FRR(ctx, coreConf, "ospfd", "bgpd")
	must(t, err)
	hops, err := core.FollowNextHops(t.Context(), vip)
	must(t, err)
	t.Cleanup(hops.Stop)
	s := &site{machine: boot(t, node, release), core: frr, hops: hops}
	for _, which := range []string{"old", "new"} {
		deb, err := os.ReadFile(filepath.Join(debs(t), "vouch-"+which+".deb"))
		must(t, err)
		must(t, os.WriteFile(s.file("root/"+which+".deb"), deb, 0o644))
	}
	s.write("/etc/unbound/unbound.conf", unboundConf)
	return s
}

// debs is the directory that "make test-system" has put the packages into.
func debs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("VOUCH_DEBS")
	if dir == "" {
		t.Fatal("VOUCH_DEBS names no directory with vouch-old.deb and vouch-new.deb: run make test-system")
	}
	return dir
}

// frr starts FRR on the machine as an operator would, with an OSPF neighbour in the core.
func (s *site) frr() {
	s.t.Helper()
	daemons, err := os.ReadFile(s.file("/etc/frr/daemons"))
	must(s.t, err)
	s.write("/etc/frr/daemons", strings.Replace(string(daemons), "ospfd=no", "ospfd=yes", 1))
	must(s.t, os.WriteFile(s.file("/etc/frr/frr.conf"), []byte(nodeConf), 0o640)) // keeps its owner
	s.do("systemctl", "enable", "--now", "frr")
	s.await("an OSPF neighbour", func() (bool, error) {
		out, err := s.try("vtysh", "-c", "show ip ospf neighbor")
		return strings.Contains(out, "Full"), err
	})
}

// reaches waits until the core sends what is for vip to the node, or with false until it does not.
func (s *site) reaches(want bool) lab.Seen {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	seen, err := s.hops.Await(ctx, time.Now(), func(hops []netip.Addr) bool { return slices.Contains(hops, nodeHop) == want })
	if err != nil {
		status, _ := s.try("vouch", "status")
		s.t.Fatalf("the core's route to %s is to be there: %t: %v\n%s", vip, want, err, status)
	}
	return seen
}

func (s *site) there() bool { return slices.Contains(s.hops.Now().Addrs, nodeHop) }

// unmoved checks that the core has had its route to the node all the time since then.
func (s *site) unmoved(since time.Time, what string) {
	s.t.Helper()
	for _, seen := range s.hops.Since(since) {
		if !slices.Contains(seen.Addrs, nodeHop) {
			s.t.Fatalf("%s: the core lost its route at %s", what, seen.Time)
		}
	}
	if !s.there() {
		s.t.Fatalf("%s: the core has no route", what)
	}
}

// config writes /etc/vouch/vouch.toml: one resolver with its dns check, and more lines of its service.
func (s *site) config(router, more string) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.file("/etc/vouch/vouch.toml"), fmt.Appendf(nil, `[router]
%s

[service.resolver]
prefixes = ["%s"]
interval = "500ms"
fast = "100ms"
%s

[service.resolver.check.dns]
type = "dns"
server = "127.0.0.1:53"
name = "health.lab."
timeout = "2s"
`, router, vip, more), 0o644))
}

// settled waits until vouch says that what the tables have is what ought to be, and gives what it shows.
func (s *site) settled(stage string) (status string) {
	s.t.Helper()
	s.await("vouch to say "+stage, func() (bool, error) {
		out, err := s.try("vouch", "status")
		status = out
		return strings.Contains(out, stage) && !strings.Contains(out, "DIVERGED"), err
	})
	return status
}

// pid gives the agent's, "0" when it does not run.
func (s *site) pid() string { return s.property("vouch", "MainPID") }
