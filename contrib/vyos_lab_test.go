package contrib

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// frrLines say what VyOS makes of a line of its configuration for FRR.
var frrLines = []struct{ vyos, frr string }{
	{`policy prefix-list (\S+) rule (\S+) prefix (\S+)`, "ip prefix-list $1 seq $2 permit $3"},
	{`policy prefix-list6 (\S+) rule (\S+) prefix (\S+)`, "ipv6 prefix-list $1 seq $2 permit $3"},
	{`policy route-map (\S+) rule (\S+) action permit`, "route-map $1 permit $2"},
	{`policy route-map (\S+) rule (\S+) match (ip|ipv6) address prefix-list (\S+)`, "route-map $1 permit $2\n match $3 address prefix-list $4"},
	{`protocols bgp system-as (\S+)`, "router bgp $1\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast"},
	{`protocols bgp neighbor (\S+) remote-as (\S+)`, "router bgp 65001\n neighbor $1 remote-as $2\n neighbor $1 timers connect 1"},
	{`protocols bgp neighbor (\S+) address-family (ipv4|ipv6)-unicast`, "router bgp 65001\n address-family $2 unicast\n  neighbor $1 activate"},
	{`protocols bgp address-family (ipv4|ipv6)-unicast redistribute (.*)`, "router bgp 65001\n address-family $1 unicast\n  redistribute $2"},
	{`protocols ospf parameters router-id (\S+)`, "router ospf\n ospf router-id $1"},
	{`protocols ospf area (\S+) network (\S+)`, "router ospf\n network $2 area $1"},
	{`protocols ospf redistribute (.*)`, "router ospf\n redistribute $1"},
	{`protocols ospfv3 parameters router-id (\S+)`, "router ospf6\n ospf6 router-id $1"},
	{`protocols ospfv3 interface (\S+) area (\S+)`, "interface $1\n ipv6 ospf6 area $2"},
	{`protocols ospfv3 redistribute (.*)`, "router ospf6\n redistribute $1"},
	{`policy prefix-list6? \S+ rule \S+ action permit`, ""},
}

// asFRR gives FRR's configuration of a file of commands, with the addresses of the lab's link, and the addresses that it
// puts on an interface.
func asFRR(t *testing.T, file string) (conf string, addresses []string) {
	t.Helper()
	text := strings.NewReplacer("198.51.100.0/24", "10.0.1.0/30", "198.51.100.1", "10.0.1.1", "198.51.100.2", "10.0.1.2").Replace(read(t, file))
next:
	for line := range strings.Lines(text) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "set ")
		if !ok {
			continue
		}
		if a, ok := strings.CutPrefix(path, "interfaces dummy dum0 address "); ok {
			addresses = append(addresses, a)
			continue
		}
		for _, l := range frrLines {
			if re := regexp.MustCompile("^(?:" + l.vyos + ")$"); re.MatchString(path) {
				if conf += re.ReplaceAllString(path, l.frr) + "\n"; strings.Contains(l.frr, "\n") {
					conf += "exit\n"
				}
				continue next
			}
		}
		t.Fatalf("%s: nobody knows what VyOS makes of %q", file, path)
	}
	return conf, addresses
}

// TestVyOSPairs: with what VyOS makes of each file of commands the core learns the prefixes of its vouch.toml and nothing
// else, while the service is up and no longer. Where that is a commit's to do, the test does it.
func TestVyOSPairs(t *testing.T) {
	for _, file := range files(t, "vyos/*.commands") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			net := lab.Open(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			conf, addresses := asFRR(t, file)
			core, node := frrSnippet{addresses: addresses}.wire(t, net)
			daemons := []string{"ospfd", "ospf6d", "bgpd", "staticd"}
			const point = "interface eth0\n ip ospf network point-to-point\n ipv6 ospf6 network point-to-point\n" + fastOSPF + "exit\n"
			frr, err := node.FRR(ctx, conf+decoyRoutes+point, daemons...)
			if err != nil {
				t.Fatal(err)
			}
			took(t, ctx, frr, conf)
			for _, args := range [][]string{{"-4", "203.0.113.0/24"}, {"-6", "2001:db8:77::/48"}} { // somebody else's
				if _, err := node.Run(ctx, "ip", args[0], "route", "add", "blackhole", args[1], "proto", "77"); err != nil {
					t.Fatal(err)
				}
			}
			neighbour, err := core.FRR(ctx, coreFRR, daemons...)
			if err != nil {
				t.Fatal(err)
			}
			down := announces(t, node, frr, strings.TrimSuffix(file, ".commands"))
			learns := func(want ...string) {
				t.Helper()
				err := lab.Wait(ctx, fmt.Sprintf("the core to have %v", want), 20*time.Millisecond, func() (bool, error) {
					got, err := learned(ctx, neighbour)
					return slices.Equal(slices.Sorted(maps.Keys(got)), want), fmt.Errorf("it has %v (%v)", got, err)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			learns(networks...)
			down()
			learns()
		})
	}
}

// announces has a service up, until down is called.
func announces(t *testing.T, node *lab.Node, frr *lab.FRR, pair string) (down func()) {
	t.Helper()
	if !strings.Contains(pair, "static") {
		flags := startVouch(t, node, frr, pair)
		return func() { remove(t, flags, "up") }
	}
	static := func(no string) {
		t.Helper()
		if _, err := frr.Vtysh(t.Context(), "configure terminal", no+"ip route "+networks[0]+" blackhole", no+"ipv6 route "+networks[1]+" blackhole"); err != nil {
			t.Fatal(err)
		}
	}
	static("")
	return func() { static("no ") }
}
