package frr

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// patientLink has an interface wait long for a neighbour that hangs, and patientLink4 that of IPv4 alone.
func patientLink(iface string) string {
	return strings.TrimSuffix(patientLink4(iface), "exit\n") + " ipv6 ospf6 area 0\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 60\n ipv6 ospf6 network point-to-point\nexit\n"
}

func patientLink4(iface string) string {
	return "interface " + iface + "\n ip ospf hello-interval 1\n ip ospf dead-interval 60\n ip ospf network point-to-point\nexit\n"
}

// Of two neighbours that hang none has what is announced meanwhile; it is advertised once one of them takes it.
func TestLabTwoNeighbours(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{Core: release, Nodes: release, IPv6: true, NoMinArrival: true, CoreConfig: "exit\n" + patientLink("eth1") + patientLink("eth2"),
			NodeOSPF: " network 10.9.9.0/30 area 0\n", NodeConfig: "exit\n" + patientLink("eth0") + patientLink("eth9")}, Options{})
		side, err := l.Node("side")
		check(t, err)
		check(t, l.Link(side, "eth0", []string{"10.9.9.1/30"}, b.node, "eth9", []string{"10.9.9.2/30"}))
		second, err := side.FRRFrom(t.Context(), release, "hostname side\n"+patientLink("eth0")+
			"router ospf\n ospf router-id 10.9.0.1\n network 10.9.9.0/30 area 0\n timers lsa min-arrival 0\nrouter ospf6\n ospf6 router-id 10.9.0.1\n timers lsa min-arrival 0\n", "ospfd", "ospf6d")
		check(t, err)
		ps, daemons := []netip.Prefix{lab.Service, lab.Service6}, []string{"ospfd", "ospf6d"}
		signal := func(f *lab.FRR, s syscall.Signal) {
			t.Helper()
			for _, d := range daemons {
				check(t, f.Signal(d, s))
			}
		}
		reached := func(stage routers.Stage, peers, detail string) {
			t.Helper()
			for _, p := range ps {
				b.until(stage.String()+", reached: "+peers, p, nil, func(o routers.Observation) bool {
					return o.Stage == stage && strings.Join(o.Reached(), " ") == peers && strings.HasSuffix(o.Detail, detail)
				})
			}
		}
		const first, other = "10.0.0.1", "10.9.0.1"
		b.apply(announce(ps...)...)
		reached(routers.Advertised, first+" "+other, "")
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)

		signal(l.CoreFRR, syscall.SIGSTOP)
		signal(second, syscall.SIGSTOP)
		b.apply(announce(ps...)...)
		reached(routers.Selected, "", ", not yet acknowledged by "+first+", "+other)
		signal(second, syscall.SIGCONT)
		reached(routers.Advertised, other, ", not yet acknowledged by "+first)
		signal(l.CoreFRR, syscall.SIGCONT)
		reached(routers.Advertised, first+" "+other, "")
	})
}

// A distribute-list of ospfd is foreseen as ospfd heeds it.
func TestLabDistributeList(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{Nodes: release, Daemons: []string{"staticd"}, NodeOSPF: " redistribute static\n",
			NodeConfig: "access-list NET deny 10.53.54.0/24\naccess-list NET permit any\naccess-list EXACT permit 10.53.54.1/32 exact-match\naccess-list OTHER permit 10.9.0.0/16\n"}, Options{Method: MethodStatic})
		b.apply(announce(s4)...)
		b.await(routers.Advertised, s4)
		for _, c := range []struct {
			list string
			sent bool
		}{{"NET", false}, {"EXACT", true}, {"OTHER", false}, {"EXACT", true}, {"NOSUCH", true}} {
			b.configure("router ospf", "distribute-list "+c.list+" out static")
			if c.sent {
				b.await(routers.Advertised, s4)
				b.examined("ok ospfd: redistributes static routes", s4)
			} else {
				b.await(routers.Selected, s4)
				b.examined("fail ospfd: redistributes static routes through distribute-list "+c.list+", which does not permit 10.53.54.1/32: not announced", s4)
			}
		}
	})
}
