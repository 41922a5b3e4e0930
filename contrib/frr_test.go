package contrib

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// coreFRR is the neighbour of the snippets. It takes whatever it is told.
const coreFRR = `hostname core
interface eth0
 ip ospf network point-to-point
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
` + fastOSPF + `exit
router ospf
 ospf router-id 10.0.0.1
 network 10.0.1.0/30 area 0
 timers lsa min-arrival 0
exit
router ospf6
 ospf6 router-id 10.0.0.1
 timers lsa min-arrival 0
exit
router bgp 65000
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 timers bgp 3 9
 neighbor 10.0.1.2 remote-as 65001
 neighbor 10.0.1.2 timers connect 1
 neighbor 2001:db8:1::2 remote-as 65001
 neighbor 2001:db8:1::2 timers connect 1
 address-family ipv6 unicast
  neighbor 2001:db8:1::2 activate
 exit-address-family
exit
`

// fastOSPF makes neighbours find each other ten times faster.
const fastOSPF = ` ip ospf hello-interval 1
 ip ospf dead-interval 4
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
`

// An frrSnippet is a pair of files, the addresses that the snippet wants to be on lo, and what else is on the node
// that must not get out: addresses on lo, and lines of configuration.
type frrSnippet struct {
	name      string
	addresses []string
	decoys    []string
	lines     string
	announced []string
	worse     string // a part of what the core has of the degraded prefix; empty: there is no such way
}

const (
	decoyRoutes = "ip route 198.51.100.0/24 blackhole\nipv6 route 2001:db8:66::/48 blackhole\n"
	decoyBGP    = "router bgp 65001\n address-family ipv4 unicast\n  network 198.51.100.0/24\n exit-address-family\n address-family ipv6 unicast\n  network 2001:db8:66::/48\n exit-address-family\nexit\n"
)

var (
	hosts       = []string{"192.0.2.53/32", "2001:db8:53::53/128"}
	networks    = []string{"192.0.2.0/24", "2001:db8:53::/48"}
	others      = []string{"192.0.2.99/32", "2001:db8:53::99/128"}
	frrSnippets = []frrSnippet{
		// OSPFv3 announces all of lo, as the snippet says.
		{"address-ospf", nil, others[:1], decoyRoutes, hosts, `"metric":110`},
		{"address-bgp", nil, others, decoyRoutes, hosts, ""},
		{"network-bgp", hosts, others, decoyRoutes + decoyBGP, hosts, `65001 65001 65001`},
		{"static-bgp", hosts, others, decoyRoutes + decoyBGP, networks, `65001 65001 65001`},
		{"static-ospf", nil, others, decoyRoutes, hosts, `"metric":20000`},
	}
)

// TestFRR: with each snippet and its vouch.toml the core learns the service's prefixes and nothing else, while
// the service is up and no longer, and in a worse way while it is degraded.
func TestFRR(t *testing.T) {
	for _, s := range frrSnippets {
		for _, release := range lab.FRRs {
			t.Run(s.name+"/"+release.String(), func(t *testing.T) {
				t.Parallel()
				s.test(t, release)
			})
		}
	}
}

func TestEveryFRRSnippetIsTested(t *testing.T) {
	var names []string
	for _, s := range frrSnippets {
		names = append(names, "frr/"+s.name+".conf")
	}
	slices.Sort(names)
	if got := files(t, "frr/*.conf"); !slices.Equal(got, names) {
		t.Errorf("there are %v, tested are %v", got, names)
	}
}

func (s frrSnippet) test(t *testing.T, release lab.Release) {
	net := lab.Open(t, release)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	core, node := s.wire(t, net)
	daemons := []string{"ospfd", "ospf6d", "bgpd", "staticd"}
	frr, err := node.FRRFrom(ctx, release, s.config(t), daemons...)
	if err != nil {
		t.Fatal(err)
	}
	took(t, ctx, frr, s.config(t))
	neighbour, err := core.FRRFrom(ctx, release, coreFRR, daemons...)
	if err != nil {
		t.Fatal(err)
	}
	flags := startVouch(t, node, frr, "frr/"+s.name)
	learns := func(what string, want []string, part string) {
		t.Helper()
		err := lab.Wait(ctx, fmt.Sprintf("%s: the core to have %v, %s", what, want, part), 20*time.Millisecond, func() (bool, error) {
			got, err := learned(ctx, neighbour)
			return slices.Equal(slices.Sorted(maps.Keys(got)), want) && all(got, part), fmt.Errorf("it has %v (%v)", got, err)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	learns("up", s.announced, "")
	if s.worse != "" {
		remove(t, flags, "soft")
		learns("degraded", s.announced, s.worse)
	}
	remove(t, flags, "up")
	learns("down", nil, "")
}

// wire joins the core and a node, which has the addresses on lo.
func (s frrSnippet) wire(t *testing.T, net *lab.Net) (core, node *lab.Node) {
	t.Helper()
	core, err := net.Node("core")
	if err != nil {
		t.Fatal(err)
	}
	node, err = net.Node("node")
	if err != nil {
		t.Fatal(err)
	}
	err = net.Link(core, "eth0", []string{"10.0.1.1/30", "2001:db8:1::1/64", "fe80::1/64"}, node, "eth0", []string{"10.0.1.2/30", "2001:db8:1::2/64", "fe80::2/64"})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(slices.Clone(s.addresses), s.decoys...) {
		if err := node.Address(t.Context(), "add", a, "lo"); err != nil {
			t.Fatal(err)
		}
	}
	if s.name == "static-ospf" { // as the snippet says
		for _, args := range [][]string{{"ip", "route", "add", "local", "192.0.2.53/32", "dev", "lo"}, {"ip", "-6", "route", "add", "local", "2001:db8:53::53/128", "dev", "lo"}} {
			if _, err := node.Run(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	return core, node
}

// config is the snippet, with the decoys and quick timers behind it.
func (s frrSnippet) config(t *testing.T) string {
	text := read(t, filepath.Join("frr", s.name+".conf")) + s.lines
	if strings.HasSuffix(s.name, "ospf") {
		text += "interface eth0\n" + fastOSPF + "exit\n"
	}
	return text
}

// took fails for lines that are not in the running configuration. Some stand for what is the default there, and
// some are written in another way.
func took(t *testing.T, ctx context.Context, frr *lab.FRR, config string) {
	t.Helper()
	running, err := frr.Vtysh(ctx, "show running-config")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '!' || strings.HasPrefix(line, "exit") || strings.HasSuffix(line, " activate") {
			continue
		}
		if !strings.Contains(running, line) {
			t.Errorf("not in the running configuration: %s\n%s", line, running)
			return
		}
	}
}

// learned is what a core has in its routing table by OSPF and BGP, with all that it says of the route.
func learned(ctx context.Context, core *lab.FRR) (map[string]string, error) {
	found := map[string]string{}
	for _, family := range []string{"ip", "ipv6"} {
		var routes map[string][]struct{ Protocol string }
		text, err := core.Vtysh(ctx, "show "+family+" route json")
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &routes); err != nil {
			return nil, err
		}
		for prefix, rs := range routes {
			for _, r := range rs {
				var show string
				switch {
				case r.Protocol == "bgp":
					show = "show bgp " + strings.Replace(family+"v4", "ipv6v4", "ipv6", 1) + " unicast " + prefix
				case strings.HasPrefix(r.Protocol, "ospf") && !strings.HasPrefix(prefix, "10.0.1.") && !strings.HasPrefix(prefix, "2001:db8:1:"): // of the link
					show = "show " + family + " route " + prefix + " json"
				default:
					continue
				}
				text, err := core.Vtysh(ctx, show)
				if err != nil {
					return nil, err
				}
				found[prefix] = strings.ReplaceAll(text, `": `, `":`)
			}
		}
	}
	return found, nil
}

// all says whether a part is in all of them.
func all(of map[string]string, part string) bool {
	for _, text := range of {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// startVouch runs vouch with the snippet's vouch.toml, but that the checks are flags: files of the directory that is
// returned.
func startVouch(t *testing.T, node *lab.Node, frr *lab.FRR, name string) string {
	t.Helper()
	dir := t.TempDir()
	text, _, cut := strings.Cut(read(t, name+".toml"), "[service.resolver.check.")
	if !cut || !strings.Contains(text, "[router]\n") {
		t.Fatalf("%s.toml has no [router], or no checks", name)
	}
	text = strings.Replace(text, "[router]\n", fmt.Sprintf("[router]\nsocket_dir = %q\n", frr.SocketDir()), 1)
	text += fmt.Sprintf("[agent]\nstate_file = %q\n[control]\nsocket = %q\n", filepath.Join(dir, "state.json"), filepath.Join(dir, "control.sock"))
	for flag, onFail := range map[string]string{"up": "withdraw", "soft": "degrade"} {
		if onFail == "degrade" && !strings.Contains(text, "[router.degraded]") {
			continue
		}
		file := write(t, filepath.Join(dir, flag), "")
		text += fmt.Sprintf("[service.resolver.check.%s]\ntype = \"exec\"\non_fail = %q\ncommand = [\"test\", \"-e\", %q]\n", flag, onFail, file)
	}
	config := write(t, filepath.Join(dir, "vouch.toml"), text)
	p, err := node.Start("vouch", vouch(t), "run", "--config", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() }) // it would write into dir while that is removed
	return dir
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}
