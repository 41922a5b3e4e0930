package frr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/lab"
)

// everyRelease runs a test on each FRR that there is, beside others of its kind: they mostly wait.
func everyRelease(t *testing.T, test func(t *testing.T, release lab.Release)) {
	t.Parallel()
	for _, release := range lab.FRRs {
		t.Run(release.String(), func(t *testing.T) {
			t.Parallel()
			test(t, release)
		})
	}
}

// counted has the driver's changes counted: commands in a node that configures.
func (b *bench) counted(o Options) *atomic.Int64 {
	var commands atomic.Int64
	o.SocketDir, o.Timeout = b.frr.SocketDir(), cmp.Or(o.Timeout, unhurried)
	o = o.withDefaults()
	talk := newTalker(o)
	b.r = newRouter(o, func(ctx context.Context, s session) ([]vty.Reply, error) {
		if len(s.enter) > 0 {
			commands.Add(int64(len(s.commands)))
		}
		return talk(ctx, s)
	})
	return &commands
}

// steady wants that ten readings of what is as wanted ask for no change (F22).
func (b *bench) steady(commands *atomic.Int64, want routers.Want, ps ...netip.Prefix) {
	b.Helper()
	before := commands.Load()
	for range 10 {
		os, err := b.observe(ps...)
		for _, o := range os {
			if err != nil || want == routers.Withdrawn && o.Stage != routers.Absent ||
				want != routers.Withdrawn && (o.Stage != routers.Advertised || o.Degraded != (want == routers.Degraded)) {
				b.Errorf("%s is not steadily %s: %v, %+v", o.Prefix, want, err, o)
			}
		}
	}
	if n := commands.Load() - before; n != 0 {
		b.Errorf("%d commands in ten readings", n)
	}
}

// is waits until all prefixes are advertised the one way or the other.
func (b *bench) is(degraded bool, ps ...netip.Prefix) {
	b.Helper()
	for _, p := range ps {
		b.until(map[bool]string{true: "degraded", false: "not degraded"}[degraded], p, nil, func(o routers.Observation) bool { return whole(o) && o.Degraded == degraded })
	}
}

// watched wants that the core always has the next hop while do runs.
func (b *bench) watched(core *lab.Node, p netip.Prefix, via netip.Addr, do func()) {
	b.Helper()
	done, gone := make(chan struct{}), make(chan int)
	go func() {
		misses := 0
		for {
			if found, err := core.NextHops(p); err == nil && !slices.Contains(found, via) {
				misses++
			}
			select {
			case <-done:
				gone <- misses
				return
			default:
			}
		}
	}()
	var once sync.Once
	end := func() { once.Do(func() { close(done) }) }
	defer end()
	do()
	end()
	if n := <-gone; n > 0 {
		b.Errorf("%s was without the next hop %s in %d readings", p, via, n)
	}
}

func (b *bench) config(daemon string) string {
	b.Helper()
	text, err := b.frr.Show(b.Context(), daemon, "show running-config")
	check(b, err)
	return text
}

// The address of both families by OSPF, whoever holds it: announced, degraded and back without a moment
// of absence, degraded from nothing, withdrawn. Nothing of it is left in the configuration.
func TestLabDegradedAddress(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release}, Options{})
		n, ps := l.Nodes[0], []netip.Prefix{lab.Service, lab.Service6}
		before, soonest := b.config("ospfd")+b.config("ospf6d"), time.Hour
		for _, owner := range []string{OwnerKernel, OwnerFRR} {
			commands := b.counted(Options{Owner: owner, Degraded: Degraded{Cost: 500}})
			b.await(routers.Absent, ps...)
			b.apply(announce(ps...)...)
			b.is(false, ps...)
			b.hops(l.Core, lab.Service, n.Via, true)
			b.hops(l.Core, lab.Service6, n.Via6, true)
			b.steady(commands, routers.Announced, ps...)
			b.watched(l.Core, lab.Service, n.Via, func() {
				b.apply(degrade(ps...)...)
				b.is(true, ps...)
				b.costs(l.CoreFRR, 510)
				b.steady(commands, routers.Degraded, ps...)
				b.apply(announce(ps...)...)
				b.is(false, ps...)
			})
			b.apply(withdraw(ps...)...)
			b.await(routers.Absent, ps...)
			b.hops(l.Core, lab.Service, n.Via, false)
			b.hops(l.Core, lab.Service6, n.Via6, false)
			start := time.Now()
			b.apply(degrade(ps...)...)
			b.is(true, ps...)
			b.hops(l.Core, lab.Service, n.Via, true)
			b.hops(l.Core, lab.Service6, n.Via6, true)
			b.costs(l.CoreFRR, 510)
			soonest = min(soonest, time.Since(start))
			b.apply(withdraw(ps...)...)
			b.apply(withdraw(ps...)...)
			b.await(routers.Absent, ps...)
			b.hops(l.Core, lab.Service6, n.Via6, false)
			b.steady(commands, routers.Withdrawn, ps...)
			if after := b.config("ospfd") + b.config("ospf6d"); after != before {
				t.Errorf("%s: the configuration was\n%s\nand is\n%s", owner, before, after)
			}
		}
		if soonest > 4*time.Second { // when an LSA has to be sent again it is five; a busy machine may make it so once
			t.Errorf("the core was told after %v", soonest)
		}
	})
}

// Of two services with IPv4 addresses on one interface each has a cost of its own.
func TestLabOneOfTwoIsDegraded(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{Nodes: release}, Options{Degraded: Degraded{Cost: 500}})
		other := netip.MustParsePrefix("10.53.53.54/32")
		b.apply(announce(lab.Service, other)...)
		b.is(false, lab.Service, other)
		b.apply(degrade(lab.Service)...)
		b.is(true, lab.Service)
		b.is(false, other)
		b.apply(withdraw(lab.Service)...)
		b.await(routers.Absent, lab.Service)
		b.is(false, other)
		b.apply(degrade(other)...)
		b.is(true, other)
	})
}

// costs waits until the core's own routes have the metric.
func (b *bench) costs(core *lab.FRR, metric int) {
	b.Helper()
	for question, p := range map[string]netip.Prefix{"show ip route 10.53.53.53/32 json": lab.Service, "show ipv6 route 2001:db8:53::53/128 json": lab.Service6} {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		err := lab.Wait(ctx, "the core's metric of "+p.String(), 5*time.Millisecond, func() (bool, error) {
			text, err := core.Show(ctx, "zebra", question)
			var table map[string][]struct {
				Metric int `json:"metric"`
			}
			return err == nil && json.Unmarshal([]byte(text), &table) == nil && len(table[p.String()]) > 0 && table[p.String()][0].Metric == metric, err
		})
		cancel()
		check(b, err)
	}
}

// An operator's own costs are not touched; what they forbid is refused.
func TestLabOwnCost(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		_, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release, NodeConfig: "exit\ninterface lo\n ip ospf cost 7\n ipv6 ospf6 cost 7\n"}, Options{Degraded: Degraded{Cost: 500}})
		ps := []netip.Prefix{lab.Service, lab.Service6}
		b.apply(announce(ps...)...)
		b.is(false, ps...)
		var err error
		check(t, b.node.Do(func() error { err = b.r.Apply(t.Context(), degrade(ps...)); return nil }))
		if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "not ours and would be lost") {
			t.Errorf("error %v", err)
		}
		b.is(true, lab.Service)
		b.is(false, lab.Service6)
		b.apply(announce(ps...)...)
		b.is(false, ps...)
		if o := b.await(routers.Advertised, lab.Service)[0]; !strings.Contains(o.Detail, "cost 7") {
			t.Errorf("restored: %s", o.Detail)
		}
	})
}

// FRR's own addresses: one that is taken away behind its back comes again; one that is the kernel's alone,
// as when FRR was restarted, is withdrawn all the same; and a saved one is withdrawn after the restart.
func TestLabOwner(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		l, b := ospfLab(t, lab.AnycastOptions{IPv6: true, Nodes: release}, Options{Owner: OwnerFRR})
		n, ps := l.Nodes[0], []netip.Prefix{lab.Service, lab.Service6}
		b.apply(announce(ps...)...)
		b.await(routers.Advertised, ps...)
		for _, p := range ps {
			check(t, b.node.Address(t.Context(), "del", p.String(), "lo"))
		}
		b.await(routers.Configured, ps...)
		b.apply(announce(ps...)...)
		b.await(routers.Advertised, ps...)
		b.hops(l.Core, lab.Service, n.Via, true)

		check(t, b.frr.Restart(t.Context()))
		b.until("the kernel's alone", lab.Service, nil, func(o routers.Observation) bool { return whole(o) && strings.Contains(o.Detail, "the kernel's alone") })
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.hops(l.Core, lab.Service, n.Via, false)
		b.hops(l.Core, lab.Service6, n.Via6, false)

		b.saved("exit\ninterface lo\n ip address 10.53.53.53/32\n ipv6 address 2001:db8:53::53/128\n")
		check(t, b.frr.Restart(t.Context()))
		b.await(routers.Advertised, ps...)
		b.examined("announces 10.53.53.53/32 when FRR starts", ps...)
		b.apply(withdraw(ps...)...)
		b.await(routers.Absent, ps...)
		b.hops(l.Core, lab.Service, n.Via, false)
	})
}

// saved adds to the configuration that the node's daemons read when they start.
func (b *bench) saved(lines string) {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.frr.SocketDir(), "frr.conf"), os.O_APPEND|os.O_WRONLY, 0)
	check(b, err)
	_, err = f.WriteString(lines)
	check(b, errors.Join(err, f.Close()))
}

// examined wants a finding that says so.
func (b *bench) examined(part string, ps ...netip.Prefix) {
	b.Helper()
	o := b.r.options
	o.ConfigDir = o.SocketDir
	var found []routers.Finding
	check(b, b.node.Do(func() error { found = New(o).Examine(b.Context(), ps); return nil }))
	if !slices.ContainsFunc(told(found), func(s string) bool { return strings.Contains(s, part) }) {
		b.Errorf("nothing says %q:\n%s", part, strings.Join(told(found), "\n"))
	}
}
