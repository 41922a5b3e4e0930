package lab

import (
	"fmt"
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

func coreConfig(o AnycastOptions) string {
	var b strings.Builder
	b.WriteString("hostname core\n" + link(o, "eth1") + link(o, "eth2"))
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
	b.WriteString(link(o, "eth0"))
	if o.IPv6 {
		b.WriteString("interface lo\n ipv6 ospf6 area 0\n")
	}
	fmt.Fprintf(&b, "router ospf\n ospf router-id 10.0.%[1]d.2\n network 10.0.%[1]d.0/30 area 0\n network 10.53.53.0/24 area 0\n%[2]s%[3]s", i, noMinArrival, o.NodeOSPF)
	if o.IPv6 {
		fmt.Fprintf(&b, "router ospf6\n ospf6 router-id 10.0.%d.2\n%s", i, noMinArrival)
	}
	b.WriteString(o.NodeConfig)
	return b.String()
}
