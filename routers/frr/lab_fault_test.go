package frr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/rtnl"
)

// until waits for an observation of one prefix, and wants an error of a class beside it, or none.
func (b *bench) until(what string, p netip.Prefix, class error, is func(routers.Observation) bool) routers.Observation {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	var os []routers.Observation
	err := lab.Wait(ctx, fmt.Sprintf("%s to be %s", p, what), 5*time.Millisecond, func() (bool, error) {
		var err error
		os, err = b.observe(p)
		return is(os[0]) && errors.Is(err, class) && (err == nil) == (class == nil), err
	})
	if err != nil {
		b.Fatalf("%v: %+v", err, os)
	}
	return os[0]
}

func broken(o routers.Observation) bool { return o.Stage == routers.Advertised && o.Broken }
func whole(o routers.Observation) bool  { return o.Stage == routers.Advertised && !o.Broken }

// An address that is taken away while zebra hangs, so that OSPF goes on announcing it, is as wanted
// neither way, and comes back when it is asked for.
func TestLabBlackhole(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{}, Options{Via: ViaSocket, Timeout: time.Second})
	p := lab.Service
	b.apply(announce(p)...)
	b.until("whole", p, nil, whole)
	check(t, l.Quiet(t.Context(), l.Nodes[0]))
	check(t, b.frr.Signal("zebra", syscall.SIGSTOP))
	check(t, b.node.Address(t.Context(), "del", p.String(), "lo"))
	o := b.until("broken", p, routers.ErrUnavailable, broken)
	for _, part := range []string{`announced although not on interface "lo"`, "zebra does not answer within 1s (hung?)"} {
		if !strings.Contains(o.Detail, part) {
			t.Errorf("detail %q", o.Detail)
		}
	}
	b.hops(l.Core, p, l.Nodes[0].Via, true)
	b.apply(announce(p)...)
	b.until("whole", p, routers.ErrUnavailable, whole)

	// A withdrawal does not take effect: that is told.
	b.apply(withdraw(p)...)
	b.until("broken", p, routers.ErrUnavailable, broken)
	check(t, b.frr.Signal("zebra", syscall.SIGCONT))
	b.await(routers.Absent, p)
	b.hops(l.Core, p, l.Nodes[0].Via, false)
}

// The same by BGP, where a network statement alone announces when import-check is off.
func TestLabBlackholeBGP(t *testing.T) {
	b, _, core := bgpLab(t, Options{Protocol: ProtocolBGP})
	_, err := b.frr.Vtysh(t.Context(), "configure terminal", "router bgp 65001", "no bgp network import-check", "address-family ipv4 unicast", "network 10.53.53.53/32")
	check(t, err)
	b.until("broken", p4, nil, broken)
	b.hops(core, p4, node1, true)
	b.apply(announce(p4)...)
	b.until("whole", p4, nil, whole)
	b.r = New(Options{Method: MethodNetwork, SocketDir: b.frr.SocketDir(), Timeout: unhurried})
	if o := b.until("whole", p4, nil, whole); o.Detail != "" {
		t.Errorf("detail %q", o.Detail)
	}
	check(t, b.node.Address(t.Context(), "del", p4.String(), "lo"))
	b.until("without an address", p4, nil, func(o routers.Observation) bool { return whole(o) && o.Detail == "no address of it on this node" })
}

// Without a full neighbour nothing is advertised, to whichever family; with one it is.
func TestLabNoNeighbour(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{IPv6: true}, Options{})
	ps := []netip.Prefix{lab.Service, lab.Service6}
	b.apply(announce(ps...)...)
	b.await(routers.Advertised, ps...)
	for _, daemon := range []string{"ospfd", "ospf6d"} {
		check(t, l.CoreFRR.StopDaemon(daemon))
	}
	for _, p := range ps {
		b.until("without a neighbour", p, nil, func(o routers.Observation) bool {
			return o.Stage == routers.Selected && strings.HasSuffix(o.Detail, "no full neighbour to tell")
		})
	}
	for _, daemon := range []string{"ospfd", "ospf6d"} {
		check(t, l.CoreFRR.StartDaemon(t.Context(), daemon))
	}
	b.await(routers.Advertised, ps...)
	b.hops(l.Core, lab.Service, l.Nodes[0].Via, true)
}

// A withdrawal that the core does not acknowledge, as it hangs, is said to be so, but not at once.
func TestLabUnacknowledged(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{CoreConfig: "exit\n" + patientLink4("eth1") + patientLink4("eth2"), NodeConfig: "exit\n" + patientLink4("eth0")}, Options{})
	p := lab.Service
	b.apply(announce(p)...)
	b.await(routers.Advertised, p)
	check(t, l.Quiet(t.Context(), l.Nodes[0]))
	check(t, l.CoreFRR.Signal("ospfd", syscall.SIGSTOP))
	const text = "the last change is not yet acknowledged by 10.0.0.1"
	start := time.Now()
	b.apply(withdraw(p)...)
	if o := b.await(routers.Absent, p)[0]; strings.Contains(o.Detail, text) && time.Since(start) < patient*time.Second {
		t.Errorf("at once: %s", o.Detail)
	}
	b.until("not acknowledged", p, nil, func(o routers.Observation) bool {
		return o.Stage == routers.Absent && strings.HasSuffix(o.Detail, text)
	})
	b.hops(l.Core, p, l.Nodes[0].Via, true)
	check(t, l.CoreFRR.Signal("ospfd", syscall.SIGCONT))
	b.until("acknowledged", p, nil, func(o routers.Observation) bool { return !strings.Contains(o.Detail, text) })
	b.hops(l.Core, p, l.Nodes[0].Via, false)
}

// Eight services fail one after another, the one with the highest address first; each withdraw breaks
// off the Apply under way, as the agent has it. None is held up by those that come after. A busy machine may hold one up,
// as in TestLabAddressGroup, but not each time.
func TestLabOneAfterAnother(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{Prefixes: 8}, Options{})
	held := []string{"not played"}
	for round := 0; round < 5 && len(held) > 0; round++ {
		held = b.heldUp(l)
	}
	if len(held) > 0 {
		t.Error(strings.Join(held, "; "))
	}
}

// heldUp has all come, and go one after another, and tells of those that were held up.
func (b *bench) heldUp(l *lab.AnycastLab) (held []string) {
	b.Helper()
	t, n, ps := b.TB, l.Nodes[0], l.Prefixes
	b.apply(announce(ps...)...)
	for _, p := range ps {
		b.hops(l.Core, p, n.Via, true)
	}
	check(t, l.Quiet(t.Context(), n))
	offNode, offCore := make(chan map[netip.Prefix]time.Time, 1), make(chan map[netip.Prefix]time.Time, 1)
	go func() {
		offNode <- b.absences(ps, func() ([]routers.Observation, error) { return rtnl.ObserveAddresses(t.Context(), "lo", ps) })
	}()
	go func() {
		offCore <- b.absences(ps, func() (os []routers.Observation, err error) {
			for _, p := range ps {
				via, err := l.Core.NextHops(p)
				if err != nil {
					return nil, err
				}
				o := routers.Observation{Prefix: p, Stage: routers.Absent}
				if slices.Contains(via, n.Via) {
					o.Stage = routers.Selected
				}
				os = append(os, o)
			}
			return os, nil
		})
	}()
	asked := b.oneAfterAnother(ps, 300*time.Millisecond)
	atNode, atCore := <-offNode, <-offCore
	for _, p := range slices.Backward(ps) {
		node, core := atNode[p].Sub(asked[p]), atCore[p].Sub(asked[p])
		t.Logf("%s: off lo after %v, gone from the core after %v", p, node.Round(time.Millisecond), core.Round(time.Millisecond))
		if node > 3*time.Second || core > 4*time.Second {
			held = append(held, fmt.Sprintf("%s was held up: off lo after %v, gone from the core after %v", p, node, core))
		}
	}
	return held
}

// oneAfterAnother withdraws the prefixes, the last first, and tells when each was first asked for.
func (b *bench) oneAfterAnother(ps []netip.Prefix, gap time.Duration) map[netip.Prefix]time.Time {
	asked := map[netip.Prefix]time.Time{}
	var cs []routers.Change
	for _, p := range slices.Backward(ps) {
		asked[p] = time.Now()
		cs = append(withdraw(p), cs...)
		ctx, cancel := context.WithTimeout(b.Context(), gap)
		_ = b.node.Do(func() error { return b.r.Apply(ctx, cs) }) // broken off
		<-ctx.Done()
		cancel()
	}
	b.apply(cs...)
	return asked
}

// absences tells when each prefix was first read absent.
func (b *bench) absences(ps []netip.Prefix, read func() ([]routers.Observation, error)) map[netip.Prefix]time.Time {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	gone := map[netip.Prefix]time.Time{}
	err := b.node.Do(func() error {
		return lab.Wait(ctx, "all to be gone", 5*time.Millisecond, func() (bool, error) {
			os, err := read()
			for _, o := range os {
				if o.Stage == routers.Absent && gone[o.Prefix].IsZero() {
					gone[o.Prefix] = time.Now()
				}
			}
			return len(gone) == len(ps), err
		})
	})
	if err != nil {
		b.Error(err)
	}
	return gone
}
