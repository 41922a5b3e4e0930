package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// timers make neighbours find each other and lose each other ten times faster than the defaults
// of 10 s and 40 s. They have no part in how fast a change of an address spreads.
func timers(family string) string {
	return fmt.Sprintf(" %[1]s ospf hello-interval 1\n %[1]s ospf dead-interval 4\n", family)
}

// link is the configuration of an interface between the core and a node.
func link(o AnycastOptions, iface string) string {
	s := "interface " + iface + "\n ip ospf network point-to-point\n" + timers("ip")
	if o.IPv6 {
		s += " ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n" + strings.ReplaceAll(timers("ipv6"), "ospf", "ospf6")
	}
	return s
}

// minArrival is FRR's default of MinLSArrival.
const minArrival = time.Second

// noMinArrival lets a router take an LSA that comes within a second of the one before it. Without
// it some of those sent while the neighbours form are dropped, and sent again 5 to 10 s later. The
// nodes keep it; the core has it only until the network stands, as it is the core that decides how
// fast a node's change shows.
const noMinArrival = " timers lsa min-arrival 0\n"

func (o AnycastOptions) families() []int {
	if o.IPv6 {
		return []int{4, 6}
	}
	return []int{4}
}

// daemons are what FRR needs on the core and on the nodes.
func (o AnycastOptions) daemons() []string {
	switch {
	case o.BGP:
		return []string{"bgpd", "staticd"}
	case o.IPv6:
		return []string{"ospfd", "ospf6d"}
	}
	return []string{"ospfd"}
}

func coreConfig(o AnycastOptions) string {
	var b strings.Builder
	b.WriteString("hostname core\n")
	if o.BGP {
		b.WriteString(coreBGP(o))
	} else {
		b.WriteString(coreOSPF(o))
	}
	return b.String() + o.CoreConfig
}

func coreOSPF(o AnycastOptions) string {
	var b strings.Builder
	b.WriteString(link(o, "eth1") + link(o, "eth2"))
	b.WriteString("interface eth0\n ip ospf passive\n")
	if o.IPv6 {
		b.WriteString(" ipv6 ospf6 area 0\n ipv6 ospf6 passive\n")
	}
	b.WriteString("router ospf\n ospf router-id 10.0.0.1\n network 10.0.0.0/16 area 0\n default-information originate always metric 10\n" + noMinArrival + o.CoreOSPF)
	if o.IPv6 {
		b.WriteString("router ospf6\n ospf6 router-id 10.0.0.1\n default-information originate always metric 10\n" + noMinArrival)
	}
	return b.String()
}

func nodeConfig(o AnycastOptions, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hostname apu%02d\n", i)
	if o.NoNexthopObjects {
		b.WriteString("no zebra nexthop kernel enable\n")
	}
	if o.BGP {
		b.WriteString(nodeBGP(o, i))
	} else {
		b.WriteString(nodeOSPF(o, i))
	}
	return b.String() + o.NodeConfig
}

func nodeOSPF(o AnycastOptions, i int) string {
	var b strings.Builder
	b.WriteString(link(o, "eth0"))
	if o.IPv6 && !o.NoStatements {
		b.WriteString("interface lo\n ipv6 ospf6 area 0\n")
	}
	fmt.Fprintf(&b, "router ospf\n ospf router-id 10.0.%[1]d.2\n network 10.0.%[1]d.0/30 area 0\n%[2]s%[3]s", i, noMinArrival, o.NodeOSPF)
	if !o.NoStatements {
		fmt.Fprintf(&b, " network %s area 0\n", anycastNet[4])
	}
	if o.IPv6 {
		fmt.Fprintf(&b, "router ospf6\n ospf6 router-id 10.0.%d.2\n%s", i, noMinArrival)
	}
	return b.String()
}

// The AS of the core, and that which the number of a node is added to.
const (
	coreAS = 65000
	nodeAS = 65000
)

// router begins a router bgp with its neighbours. What they send is taken whatever it is. Each family has
// a session of its own over addresses of that family, as BIRD 1 needs it.
func router(as int, id netip.Addr, neighbors map[netip.Addr]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n bgp bestpath as-path multipath-relax\n timers bgp 3 9\n", as, id)
	for _, a := range slices.SortedFunc(maps.Keys(neighbors), netip.Addr.Compare) {
		fmt.Fprintf(&b, " neighbor %[1]s remote-as %[2]d\n neighbor %[1]s timers connect 1\n", a, neighbors[a])
	}
	return b.String()
}

func coreBGP(o AnycastOptions) string {
	neighbors := map[netip.Addr]int{}
	var families strings.Builder
	for _, v := range o.families() {
		fmt.Fprintf(&families, " address-family ipv%d unicast\n", v)
		for i := 1; i <= 2; i++ {
			neighbors[nodeAddr(i, v, 2)] = nodeAS + i
			fmt.Fprintf(&families, "  neighbor %[1]s activate\n  neighbor %[1]s default-originate\n", nodeAddr(i, v, 2))
		}
		families.WriteString(" exit-address-family\n")
	}
	return router(coreAS, addr("10.0.%d.1", 0), neighbors) + " bgp always-compare-med\n" + families.String()
}

// nodeBGP has the node announce what is on lo of the anycast addresses, and the static routes to them.
func nodeBGP(o AnycastOptions, i int) string {
	neighbors := map[netip.Addr]int{}
	var lists, families strings.Builder
	for _, v := range o.families() {
		ip := map[int]string{4: "ip", 6: "ipv6"}[v]
		fmt.Fprintf(&lists, "%[1]s prefix-list ANYCAST permit %[2]s le %[3]d\nroute-map ANYCAST%[4]d permit 10\n match %[1]s address prefix-list ANYCAST\n",
			ip, anycastNet[v], anycastNet[v].Addr().BitLen(), v)
		neighbors[nodeAddr(i, v, 1)] = coreAS
		fmt.Fprintf(&families, " address-family ipv%[1]d unicast\n  neighbor %[2]s activate\n  redistribute static route-map ANYCAST%[1]d\n", v, nodeAddr(i, v, 1))
		if !o.NoStatements {
			fmt.Fprintf(&families, "  redistribute connected route-map ANYCAST%d\n", v)
		}
		families.WriteString(" exit-address-family\n")
	}
	return lists.String() + router(nodeAS+i, nodeAddr(i, 4, 2), neighbors) + families.String()
}
