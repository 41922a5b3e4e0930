package frr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"

	"golang.org/x/sys/unix"
)

// unhurried is what a daemon has for an answer on a busy machine, where it does not hang.
const unhurried = 5 * time.Second

// patience is how long a test waits for a state. Neighbours find each other within seconds, and an
// LSA that a neighbour dropped comes again within ten.
const patience = time.Minute

// A bench is a driver on a node of a lab.
type bench struct {
	testing.TB
	node *lab.Node
	frr  *lab.FRR
	r    *Router
}

func (b *bench) observe(ps ...netip.Prefix) (os []routers.Observation, err error) {
	_ = b.node.Do(func() error { os, err = b.r.Observe(b.Context(), ps); return nil })
	return os, err
}

// apply makes the changes, again while FRR is busy, as mgmtd may still commit what the lab loaded, or has no time to answer.
func (b *bench) apply(cs ...routers.Change) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	err := lab.Wait(ctx, "FRR to take changes", 50*time.Millisecond, func() (bool, error) {
		err := b.node.Do(func() error { return b.r.Apply(ctx, cs) })
		if err != nil && !errors.Is(err, routers.ErrBusy) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			cancel()
		}
		return err == nil, err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// await waits until all prefixes are at the stage.
func (b *bench) await(stage routers.Stage, ps ...netip.Prefix) []routers.Observation {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	var os []routers.Observation
	err := lab.Wait(ctx, fmt.Sprintf("%s to be %s", ps, stage), 5*time.Millisecond, func() (bool, error) {
		var err error
		if os, err = b.observe(ps...); err != nil && stage != routers.Unknown {
			return false, err
		}
		return !slices.ContainsFunc(os, func(o routers.Observation) bool { return o.Stage != stage }), nil
	})
	if err != nil {
		b.Fatalf("%v: %+v", err, os)
	}
	return os
}

// hops waits until the core does, or does not, send the prefix to a next hop.
func (b *bench) hops(core *lab.Node, p netip.Prefix, via netip.Addr, want bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	err := lab.Wait(ctx, fmt.Sprintf("the core's next hop %s to %s: %v", via, p, want), time.Millisecond, func() (bool, error) {
		found, err := core.NextHops(p)
		return err == nil && slices.Contains(found, via) == want, err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// unavailable wants all prefixes unknown, with a detail that says why, soon.
func (b *bench) unavailable(part string, ps ...netip.Prefix) {
	b.Helper()
	start := time.Now()
	os, err := b.observe(ps...)
	if !errors.Is(err, routers.ErrUnavailable) {
		b.Errorf("error %v", err)
	}
	for _, o := range os {
		if o.Stage != routers.Unknown || !strings.Contains(o.Detail, part) {
			b.Errorf("%s: %v, %q", o.Prefix, o.Stage, o.Detail)
		}
	}
	if took := time.Since(start); took > patience {
		b.Errorf("took %v", took)
	}
}

// asNobody runs f without root's rights to files, in the node.
func (b *bench) asNobody(f func()) {
	b.Helper()
	err := b.node.Do(func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := errors.Join(unix.Setfsgid(65534), unix.Setfsuid(65534)); err != nil {
			return err
		}
		f()
		return errors.Join(unix.Setfsuid(0), unix.Setfsgid(0))
	})
	if err != nil {
		b.Fatal(err)
	}
}

func ospfLab(t testing.TB, o lab.AnycastOptions, options Options) (*lab.AnycastLab, *bench) {
	o.NoUnbound = true
	l := lab.OpenAnycast(t, o)
	n := l.Nodes[0]
	options.SocketDir, options.Timeout = n.FRR.SocketDir(), cmp.Or(options.Timeout, unhurried)
	return l, &bench{t, n.Node, n.FRR, New(options)}
}

// The address of both families, by OSPF: it comes, stays when asked for again, and goes, at the core.
func TestLabAddress(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{IPv6: true}, Options{})
	n := l.Nodes[0]
	ps := []netip.Prefix{lab.Service, lab.Service6}
	b.await(routers.Absent, ps...)
	b.apply(announce(ps...)...)
	b.await(routers.Advertised, ps...)
	b.hops(l.Core, lab.Service, n.Via, true)
	b.hops(l.Core, lab.Service6, n.Via6, true)
	os := b.await(routers.Advertised, ps...)
	if strings.Join(os[0].Reached(), " ") != core || strings.Join(os[1].Reached(), " ") != core {
		t.Errorf("peers %v", os)
	}
	b.apply(announce(ps...)...)
	b.await(routers.Advertised, ps...)

	if err := l.Quiet(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b.apply(withdraw(ps...)...)
	applied := time.Since(start)
	b.await(routers.Absent, ps...)
	verified := time.Since(start)
	b.hops(l.Core, lab.Service, n.Via, false)
	t.Logf("applied after %v, verified after %v, the core without the next hop after %v", applied, verified, time.Since(start))
	b.hops(l.Core, lab.Service6, n.Via6, false)
	b.apply(withdraw(ps...)...)
	b.await(routers.Absent, ps...)
}

// Each daemon hung, dead, started again, and the sockets denied; every fault ends with its cause.
func TestLabAddressFaults(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{}, Options{Via: ViaSocket, Timeout: time.Second})
	p := lab.Service
	b.apply(announce(p)...)
	b.await(routers.Advertised, p)

	// ospf6d was never started: it announces nothing, and nothing is announced by it.
	b.until("absent", lab.Service6, syscall.ENOENT, func(o routers.Observation) bool {
		return o.Stage == routers.Absent && o.Detail == `not on interface "lo"; ospf6d has no socket (not enabled in /etc/frr/daemons?)`
	})
	if err := b.r.Apply(t.Context(), announce(lab.Service6)); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "ospf6d has no socket") {
		t.Errorf("announce without ospf6d: %v", err)
	}
	check(t, b.node.Address(t.Context(), "add", lab.Service6.String(), "lo"))
	b.unavailable("ospf6d.vty: no such socket: is ospf6d enabled", lab.Service6)
	b.apply(withdraw(lab.Service6)...)
	b.asNobody(func() {
		os, err := b.r.Observe(t.Context(), []netip.Prefix{p})
		if !errors.Is(err, syscall.EACCES) || os[0].Stage != routers.Unknown || !strings.Contains(os[0].Detail, "permission denied: join group frrvty") {
			t.Errorf("denied: %v, %+v", err, os)
		}
		b.r = New(Options{SocketDir: b.frr.SocketDir(), Timeout: unhurried}) // the child has root's rights again
		if os, err = b.r.Observe(t.Context(), []netip.Prefix{p}); err != nil || os[0].Stage != routers.Advertised {
			t.Errorf("by vtysh: %v, %+v", err, os)
		}
	})
	b.r = New(Options{Via: ViaSocket, SocketDir: b.frr.SocketDir(), Timeout: time.Second})

	check(t, b.frr.Signal("ospfd", syscall.SIGSTOP))
	b.unavailable("does not answer within 1s (hung?)", p)
	for range 10 { // its queue of connections is five long
		b.unavailable("ospfd", p)
	}
	b.apply(withdraw(p)...) // the kernel's part is done all the same
	b.unavailable("not on interface \"lo\"", p)
	b.apply(announce(p)...)
	check(t, b.frr.Signal("ospfd", syscall.SIGCONT))
	b.await(routers.Advertised, p)

	check(t, b.frr.Kill("ospfd"))
	b.unavailable("ospfd is not running (its socket was left behind)", p)
	check(t, b.frr.StartDaemon(t.Context(), "ospfd"))
	b.await(routers.Advertised, p)

	// Without zebra no change takes effect, which is told beside what is announced.
	check(t, b.frr.StopDaemon("zebra"))
	b.until("whole", p, routers.ErrUnavailable, func(o routers.Observation) bool {
		return whole(o) && strings.Contains(o.Detail, "zebra cannot be asked, so that a change may not take effect: "+b.frr.SocketDir()+"/zebra.vty: refused: zebra is not running")
	})
	check(t, b.frr.StartDaemon(t.Context(), "zebra"))
	b.await(routers.Advertised, p)
	check(t, b.node.Address(t.Context(), "add", "192.0.2.1/32", "lo"))
	b.await(routers.Selected, netip.MustParsePrefix("192.0.2.1/32"))
	check(t, b.frr.Signal("zebra", syscall.SIGSTOP))
	b.unavailable("zebra cannot be asked", netip.MustParsePrefix("192.0.2.1/32"))
	check(t, b.frr.Signal("zebra", syscall.SIGCONT))
	b.await(routers.Selected, netip.MustParsePrefix("192.0.2.1/32"))

	check(t, b.frr.Restart(t.Context()))
	b.await(routers.Advertised, p)
	b.apply(withdraw(p)...)
	b.await(routers.Absent, p)
	b.hops(l.Core, p, l.Nodes[0].Via, false)
	check(t, b.frr.Restart(t.Context()))
	b.await(routers.Absent, p)
}

// Daemons that live on while zebra is restarted do not hear of addresses that go away meanwhile, and are
// said to be what keeps them announced; restarting them helps.
func TestLabMissedDeletion(t *testing.T) {
	_, b := ospfLab(t, lab.AnycastOptions{IPv6: true}, Options{Via: ViaSocket})
	p, p6, later := lab.Service, lab.Service6, netip.MustParsePrefix("10.53.53.99/32")
	b.apply(announce(p, p6)...)
	b.await(routers.Advertised, p, p6)
	check(t, b.frr.StopDaemon("zebra"))
	check(t, b.node.Address(t.Context(), "del", p.String(), "lo"))
	check(t, b.node.Address(t.Context(), "del", p6.String(), "lo"))
	check(t, b.frr.StartDaemon(t.Context(), "zebra"))
	b.apply(announce(later)...)
	b.await(routers.Advertised, later) // ospfd hears of what is new
	for i, o := range b.await(routers.Advertised, p, p6) {
		daemon := []string{"ospfd", "ospf6d"}[i]
		if !strings.HasSuffix(o.Detail, "restart "+daemon) || !o.Broken {
			t.Errorf("%s: broken %v, %s", o.Prefix, o.Broken, o.Detail)
		}
		check(t, b.frr.RestartDaemon(t.Context(), daemon))
	}
	b.await(routers.Absent, p, p6)
	b.await(routers.Advertised, later)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eight prefixes go and come within two seconds, though OSPF would take seven or more for them. A busy machine may have an
// LSA come too soon after the one before, and be sent again after five: but not each time.
func TestLabAddressGroup(t *testing.T) {
	l, b := ospfLab(t, lab.AnycastOptions{Prefixes: 8}, Options{})
	n := l.Nodes[0]
	b.apply(announce(l.Prefixes...)...)
	for _, p := range l.Prefixes {
		b.hops(l.Core, p, n.Via, true)
	}
	soonest := map[bool]time.Duration{false: time.Hour, true: time.Hour}
	for round := 0; round < 5 && max(soonest[false], soonest[true]) > 4*time.Second; round++ {
		for _, want := range []bool{false, true} {
			cs := withdraw(l.Prefixes...)
			if want {
				cs = announce(l.Prefixes...)
			}
			check(t, l.Quiet(t.Context(), n))
			start := time.Now()
			b.apply(cs...)
			for _, p := range l.Prefixes {
				b.hops(l.Core, p, n.Via, want)
			}
			took := time.Since(start)
			t.Logf("announced %v: the core has all eight after %v", want, took)
			soonest[want] = min(soonest[want], took)
		}
	}
	for want, took := range soonest {
		if took > 4*time.Second {
			t.Errorf("announced %v: took %v", want, took)
		}
	}
}
