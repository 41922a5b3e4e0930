package frr

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// configure gives commands to the node's FRR.
func (b *bench) configure(lines ...string) {
	b.Helper()
	out, err := b.frr.Vtysh(b.Context(), append([]string{"configure terminal"}, lines...)...)
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

// lists are what the filters before a neighbour go by.
var lists = []string{
	"ip prefix-list NONE deny any", "ip prefix-list SOME deny 10.53.0.0/16 le 24", "ip prefix-list SOME permit 10.53.53.0/24 ge 32",
	"access-list 7 permit 10.53.0.0 0.0.255.255", "access-list AL deny 10.53.53.53/32", "access-list AL permit any",
	"bgp as-path access-list EMPTY permit ^$", "bgp as-path access-list CORE permit _65000_",
	"route-map GOOD deny 10", "match ip address prefix-list NONE", "exit", "route-map GOOD permit 20", "match ip address prefix-list SOME", "set metric 5", "exit",
	"route-map FIRST deny 10", "match ip address 7", "exit", "route-map FIRST permit 20", "exit",
	"route-map ONWARD permit 10", "match as-path EMPTY", "on-match next", "exit", "route-map ONWARD permit 20", "set metric 7", "exit",
	"route-map CALLS permit 10", "call FIRST", "exit",
	"route-map SIX permit 10", "match ipv6 address prefix-list SOME", "exit",
	"route-map TAG deny 10", "match metric 4711", "exit", "route-map TAG permit 20", "exit",
}

// What the filters before a neighbour do is foreseen as bgpd does it, and told by name when the prefix is held
// back by one.
func TestLabFilters(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, _ := bgpLabOf(t, release, Options{Method: MethodNetwork})
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		b.configure(lists...)
		b.apply(announce(p4)...)
		b.await(routers.Advertised, p4)
		for _, c := range []struct { // in turns, so that each is seen to take effect
			filter string
			want   verdict
			sent   bool
		}{
			{"prefix-list NONE", deny, false}, {"prefix-list SOME", permit, true}, {"prefix-list NEVER", deny, false},
			{"distribute-list 7", permit, true}, {"distribute-list AL", deny, false}, {"filter-list EMPTY", permit, true}, {"filter-list CORE", deny, false},
			{"route-map GOOD", permit, true}, {"route-map FIRST", deny, false}, {"route-map ONWARD", permit, true}, {"route-map CALLS", deny, false},
			{"route-map TAG", untold, true}, {"route-map NEVER", deny, false}, {"prefix-list SOME", permit, true}, {"route-map SIX", deny, false},
		} {
			statement := "neighbor 10.0.1.1 " + c.filter + " out"
			b.configure("router bgp 65001", "address-family ipv4 unicast", statement)
			text := "established, ipv4 through " + c.filter
			if c.sent {
				b.await(routers.Advertised, p4)
			} else {
				b.await(routers.Selected, p4)
				b.until("held back by name", p4, nil, func(o routers.Observation) bool {
					return strings.Contains(o.Peers[0].Detail, "not sent: "+c.filter+",")
				})
				text = "fail neighbor 10.0.1.1: established, ipv4: it is not sent 10.53.53.53/32: " + why(c.filter)
			}
			b.examined(text, p4)
			if v := b.foreseen(); v != c.want {
				t.Errorf("%s: foreseen %v, want %v", c.filter, v, c.want)
			}
			b.configure("router bgp 65001", "address-family ipv4 unicast", "no "+statement)
			b.await(routers.Advertised, p4)
		}
		b.configure("router bgp 65001", "address-family ipv4 unicast", "neighbor 10.0.1.1 prefix-list NONE out")
		b.apply(withdraw(p4)...)
		b.await(routers.Absent, p4)
		b.examined("fail neighbor 10.0.1.1: established, ipv4: it would not be sent 10.53.53.53/32: prefix-list NONE denies it", p4)
		b.configure("router bgp 65001", "address-family ipv4 unicast", "no neighbor 10.0.1.1 prefix-list NONE out", "neighbor 10.0.1.1 route-map TAG out")
		b.examined("note neighbor 10.0.1.1: established, ipv4: 10.53.53.53/32: whether route-map TAG lets it through cannot be told from here", p4)
	})
}

// why is what is told of a filter.
func why(filter string) string {
	if strings.HasSuffix(filter, " NEVER") {
		return "there is no " + filter
	}
	return filter + " denies it"
}

// foreseen is what bgpd's configuration is taken to do to p4 before the core.
func (b *bench) foreseen() verdict {
	b.Helper()
	text, err := b.frr.Show(b.Context(), "bgpd", showNeighbors)
	check(b, err)
	var neighbors map[string]bgpNeighbor
	check(b, decode(text, &neighbors))
	v, _ := parseFilters(b.config("bgpd")).outbound(neighbors["10.0.1.1"].Families[bgpFamilyOf(p4)], p4)
	return v
}

// A network statement without a route is told before anything is announced. One that a neighbour sends is none.
func TestLabImportCheck(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, coreFRR, core := bgpLabOf(t, release, Options{Method: MethodNetwork})
		const lacks = "warn bgp network import-check: on, and there is no route of 10.53.53.53/32 in the table"
		b.examined(lacks, p4)
		_, err := coreFRR.Vtysh(t.Context(), "configure terminal", "ip route 10.53.53.53/32 Null0", "router bgp 65000", "address-family ipv4 unicast", "network 10.53.53.53/32")
		check(t, err)
		b.awaitDetail("learned from 10.0.1.1", p4)
		b.until("learned by zebra", p4, nil, func(routers.Observation) bool {
			text, err := b.frr.Show(t.Context(), "zebra", showRoute(p4))
			return err == nil && strings.Contains(text, `"bgp"`)
		})
		b.examined(lacks, p4)
		b.apply(announce(p4)...)
		b.await(routers.Configured, p4)
		b.examined(lacks, p4)
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		b.await(routers.Advertised, p4)
		b.examined("ok bgp network import-check: on: a network statement needs", p4)
		_ = core
	})
}

// A reading in the midst of a change gives no reason that is not one.
func TestLabSettling(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, _ := bgpLabOf(t, release, Options{Method: MethodNetwork})
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		b.until("on lo, as zebra has heard", p4, nil, func(routers.Observation) bool { // else there is nothing to announce yet
			text, err := b.frr.Show(t.Context(), "zebra", showRoute(p4))
			return err == nil && strings.Contains(text, `"connected"`)
		})
		seen := 0
		for range 3 {
			for stage, cs := range map[routers.Stage][]routers.Change{routers.Advertised: announce(p4), routers.Absent: withdraw(p4)} {
				b.apply(cs...)
				b.until(stage.String(), p4, nil, func(o routers.Observation) bool {
					if o.Stage == routers.Configured {
						if seen++; o.Detail != "" {
							t.Errorf("on the way to %s: %s", stage, o.Detail)
						}
					}
					return o.Stage == stage
				})
			}
		}
		t.Logf("%d readings in the midst", seen)
	})
}

// A daemon of OSPF that comes back is neighbours with the core at once, but the core is without a route until
// it takes the LSA that says so. Till then nothing is called advertised.
func TestLabRejoin(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{Core: release, Nodes: release, IPv6: true}, Options{})
		b.apply(announce(lab.Service, lab.Service6)...)
		b.await(routers.Advertised, lab.Service, lab.Service6)
		check(t, l.Quiet(t.Context(), l.Nodes[0]))
		for _, c := range []struct {
			daemon, question, link string
			p                      routers.Change
		}{
			{"ospfd", "show ip ospf database router adv-router 10.0.1.2 json", "another Router", announce(lab.Service)[0]},
			{"ospf6d", "show ipv6 ospf6 database router adv-router 10.0.1.2 detail json", "10.0.0.1", announce(lab.Service6)[0]},
		} {
			check(t, b.frr.Kill(c.daemon))
			check(t, b.frr.StartDaemon(t.Context(), c.daemon))
			joining := 0
			b.until("advertised again", c.p.Prefix, nil, func(o routers.Observation) bool {
				if strings.Contains(o.Detail, "not yet acknowledged by 10.0.0.1 since the adjacency is there") {
					if joining++; o.Stage != routers.Selected || o.Peers[0].Stage != routers.Selected {
						t.Errorf("%s: %+v", c.daemon, o)
					}
				}
				return o.Stage == routers.Advertised
			})
			text, err := l.CoreFRR.Show(t.Context(), c.daemon, c.question)
			if err != nil || !strings.Contains(text, c.link) {
				t.Errorf("%s: advertised, but the core has, %v:\n%s", c.daemon, err, text)
			}
			t.Logf("%s: %d readings before the core had acknowledged", c.daemon, joining)
		}
	})
}

// What is told of the others when an OSPF neighbour is long there: they are advertised, whatever is not
// acknowledged of a later change.
func TestLabLaterChange(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{Nodes: release, Prefixes: 2, CoreConfig: "exit\n" + patientLink4("eth1") + patientLink4("eth2"), NodeConfig: "exit\n" + patientLink4("eth0")}, Options{})
		b.apply(announce(l.Prefixes...)...)
		b.await(routers.Advertised, l.Prefixes...)
		b.until("long adjacent", lab.Service, nil, func(routers.Observation) bool {
			db, err := ospf{talk: b.r.talk}.read4(t.Context())
			return err == nil && db.full["10.0.0.1"] > joins
		})
		check(t, l.CoreFRR.Signal("ospfd", syscall.SIGSTOP))
		b.apply(withdraw(l.Prefixes[1])...)
		b.until("not acknowledged", lab.Service, nil, func(o routers.Observation) bool {
			if o.Stage != routers.Advertised {
				t.Errorf("%+v", o)
			}
			return strings.HasSuffix(o.Detail, "not yet acknowledged by 10.0.0.1")
		})
		check(t, l.CoreFRR.Signal("ospfd", syscall.SIGCONT))
	})
}

// A neighbour that is to keep routes over a restart keeps what is withdrawn meanwhile. It is warned of, and
// as long as bgpd is away nothing is called withdrawn.
func TestLabGraceful(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, coreFRR, core := bgpLabOf(t, release, Options{Method: MethodNetwork})
		graceful := []string{"bgp graceful-restart", "bgp graceful-restart preserve-fw-state"}
		b.configure(append([]string{"router bgp 65001"}, graceful...)...)
		b.saved("exit\nrouter bgp 65001\n bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n")
		_, err := b.frr.Vtysh(t.Context(), "clear bgp *")
		check(t, err)
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		b.apply(announce(p4)...)
		b.await(routers.Advertised, p4)
		b.hops(core, p4, node1, true)
		b.examined("warn neighbor 10.0.1.1: graceful restart: it keeps routes of this node alive when bgpd dies", p4)

		check(t, b.frr.Kill("bgpd"))
		b.core(coreFRR, "stale", func(text string) bool { return strings.Contains(text, `"stale":true`) })
		b.unavailable("bgpd is not running", p4)
		if err := b.r.Apply(t.Context(), withdraw(p4)); err == nil {
			t.Error("a withdraw is taken by nobody")
		}
		check(t, coreFRR.Signal("bgpd", syscall.SIGSTOP)) // so that the session does not come back yet
		check(t, b.frr.StartDaemon(t.Context(), "bgpd"))
		b.until("kept", p4, nil, func(o routers.Observation) bool {
			return o.Stage == routers.Absent && strings.HasPrefix(o.Detail, "10.0.1.1 may keep it until the session is there again")
		})
		b.hops(core, p4, node1, true) // still
		check(t, coreFRR.Signal("bgpd", syscall.SIGCONT))
		b.until("withdrawn", p4, nil, func(o routers.Observation) bool { return o.Stage == routers.Absent && o.Detail == "" })
		b.hops(core, p4, node1, false)
	})
}

// core waits for what the core's bgpd has of p4.
func (b *bench) core(f *lab.FRR, what string, is func(text string) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	last := ""
	err := lab.Wait(ctx, fmt.Sprintf("the core to have %s %s", p4, what), 5*time.Millisecond, func() (bool, error) {
		var err error
		last, err = f.Show(ctx, "bgpd", showBGP(p4))
		return err == nil && is(last), err
	})
	if err != nil {
		b.Fatalf("%v\n%s", err, last)
	}
}

// No change of vouch's touches a session (F23): on both sides it is the same one as before.
func TestLabSessionsStay(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, coreFRR, core := bgpLabOf(t, release, Options{Method: MethodNetwork, Degraded: Degraded{RouteMap: "WORSE"}})
		b.configure("route-map WORSE permit 10", "set metric 500")
		check(t, b.node.Address(t.Context(), "add", p4.String(), "lo"))
		sessions := func() string {
			t.Helper()
			text := ""
			for f, name := range map[*lab.FRR]string{b.frr: "10.0.1.1", coreFRR: "10.0.1.2"} {
				reply, err := f.Show(t.Context(), "bgpd", showNeighbors)
				check(t, err)
				var all map[string]struct {
					State string `json:"bgpState"`
					Epoch int64  `json:"bgpTimerUpEstablishedEpoch"`
					Made  int    `json:"connectionsEstablished"`
					Lost  int    `json:"connectionsDropped"`
				}
				check(t, decode(reply, &all))
				if all[name].State != "Established" || all[name].Epoch == 0 || all[name].Made == 0 {
					t.Fatalf("%s: %+v", name, all[name])
				}
				one := fmt.Sprintf("%s %d made, %d lost", name, all[name].Made, all[name].Lost)
				if name == "10.0.1.1" {
					text = one + text
				} else {
					text += ", " + one
				}
			}
			return text
		}
		b.apply(announce(p4)...)
		b.await(routers.Advertised, p4)
		b.hops(core, p4, node1, true) // by then the session is there for the core too
		before := sessions()
		for range 3 {
			b.apply(degrade(p4)...)
			b.is(true, p4)
			b.apply(withdraw(p4)...)
			b.await(routers.Absent, p4)
			b.apply(announce(p4)...)
			b.is(false, p4)
		}
		if after := sessions(); after != before {
			t.Errorf("before: %s; after: %s", before, after)
		}
	})
}
