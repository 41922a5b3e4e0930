package vyos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
)

var (
	one  = netip.MustParsePrefix("10.53.54.1/32")
	one6 = netip.MustParsePrefix("2001:db8:54::1/128")
	two  = netip.MustParsePrefix("10.53.54.2/32")
	both = []netip.Prefix{one, one6}
)

// source redistributes what the methods make, in the way that is worse when it is degraded.
const source = ` address-family ipv4 unicast
  redistribute static route-map STATIC
  redistribute kernel route-map OURS
 exit-address-family
 address-family ipv6 unicast
  redistribute static route-map STATIC
  redistribute kernel route-map OURS
 exit-address-family
exit
` + ownList + `route-map STATIC permit 5
 match tag 666
 set metric 666
exit
route-map STATIC permit 10
 call OURS
exit
`

// ownList lets through what the tests announce.
const ownList = `ip prefix-list OURS permit 10.0.0.0/8 le 32
ipv6 prefix-list OURS permit 2001:db8::/32 le 128
route-map OURS permit 10
 match ip address prefix-list OURS
exit
route-map OURS permit 20
 match ipv6 address prefix-list OURS
exit
`

// busyFRR is what FRR may take to answer on a busy machine.
const busyFRR = 10 * time.Second

// A bench is a node of a network with a VyOS of its own over its FRR.
type bench struct {
	testing.TB
	lab    *lab.AnycastLab
	system *vyostest.System
}

func open(t *testing.T, o vyostest.Options) *bench {
	t.Helper()
	l := lab.OpenAnycast(t, lab.AnycastOptions{BGP: true, IPv6: true, NoUnbound: true, NodeConfig: source, CoreConfig: "exit\nno zebra nexthop kernel enable\n"})
	o.SocketDir = l.Nodes[0].FRR.SocketDir()
	return &bench{t, l, vyostest.New(t, o)}
}

// router makes a driver for the system; what o leaves out is short enough for a test.
func (b *bench) router(o Options) *Router {
	o.Root = b.system.Root()
	o.Timeout = cmp.Or(o.Timeout, busyFRR)
	if o.Degraded == (Degraded{}) {
		o.Degraded = Degraded{Tag: 666, Metric: 666}
	}
	r := New(o)
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// delivers has the kernel of the node take in what comes for the prefixes.
func (b *bench) delivers(ps ...netip.Prefix) {
	b.Helper()
	for _, p := range ps {
		family := map[bool]string{true: "-4", false: "-6"}[p.Addr().Is4()]
		_, err := b.lab.Nodes[0].Run(b.Context(), "ip", family, "route", "replace", "local", p.String(), "dev", "lo")
		b.must(err)
	}
}

func (b *bench) do(f func() error) error { return b.lab.Nodes[0].Do(f) }

func (b *bench) apply(r *Router, w routers.Want, ps ...netip.Prefix) error {
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	return b.applyWithin(ctx, r, w, ps...)
}

func (b *bench) applyWithin(ctx context.Context, r *Router, w routers.Want, ps ...netip.Prefix) error {
	cs := make([]routers.Change, len(ps))
	for i, p := range ps {
		cs[i] = routers.Change{Prefix: p, Want: w}
	}
	return b.do(func() error { return r.Apply(ctx, cs) })
}

// applying begins to apply; the channel gives what comes of it.
func (b *bench) applying(r *Router, w routers.Want, ps ...netip.Prefix) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.apply(r, w, ps...) }()
	return done
}

// heldUp begins to apply, and returns when that has come to a verb, which begins with release.
func (b *bench) heldUp(verb string, r *Router, w routers.Want, ps ...netip.Prefix) (done <-chan error, release func()) {
	b.Helper()
	waiting, release := b.system.HoldUp(verb)
	done = b.applying(r, w, ps...)
	waiting()
	return done, release
}

// leave applies with a time that is over when begun returns.
func (b *bench) leave(begun func(), r *Router, w routers.Want, ps ...netip.Prefix) error {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.applyWithin(ctx, r, w, ps...) }()
	begun()
	cancel()
	return <-done
}

// begun waits until a session of method static is under way.
func (b *bench) begun(r *Router) {
	b.Helper()
	b.wait("a session to begin", func() error {
		method := r.method.(*static)
		method.mu.Lock()
		defer method.mu.Unlock()
		if method.running == nil {
			return errors.New("not yet")
		}
		return nil
	})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// wantError wants an error of a class that names all of these.
func (b *bench) wantError(err, class error, names ...string) {
	b.Helper()
	if !errors.Is(err, class) {
		b.Fatalf("error %v is not of class %q", err, class)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			b.Errorf("error %q does not name %q", err, name)
		}
	}
}

func (b *bench) observe(r *Router, ps ...netip.Prefix) []routers.Observation {
	b.Helper()
	var os []routers.Observation
	b.must(b.do(func() (err error) { os, err = r.Observe(b.Context(), ps); return err }))
	return os
}

// becomes waits until the prefixes are read to be so, and the core has them, or not.
func (b *bench) becomes(r *Router, stage routers.Stage, degraded bool, ps ...netip.Prefix) {
	b.Helper()
	b.reads(r, stage, degraded, ps...)
	b.core(stage == routers.Advertised, ps...)
}

// reads waits until the prefixes are read to be so.
func (b *bench) reads(r *Router, stage routers.Stage, degraded bool, ps ...netip.Prefix) {
	b.Helper()
	b.wait(fmt.Sprintf("%v to be %s", ps, stage), func() error {
		var os []routers.Observation
		if err := b.do(func() (err error) { os, err = r.Observe(b.Context(), ps); return err }); err != nil {
			return err
		}
		for _, o := range os {
			if o.Stage != stage || o.Degraded != degraded || o.Broken {
				return fmt.Errorf("it is %+v", o)
			}
		}
		return nil
	})
}

func (b *bench) core(has bool, ps ...netip.Prefix) {
	b.Helper()
	b.wait(fmt.Sprintf("the core to have %v: %v", ps, has), func() error {
		for _, p := range ps {
			via, err := b.lab.Core.NextHops(p)
			if err != nil || len(via) > 0 != has {
				return fmt.Errorf("%s: %v, %v", p, via, err)
			}
		}
		return nil
	})
}

func (b *bench) wait(what string, ok func() error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.must(lab.Wait(ctx, what, 5*time.Millisecond, func() (bool, error) { err := ok(); return err == nil, err }))
}

// vtysh has somebody change FRR behind VyOS's back.
func (b *bench) vtysh(lines ...string) {
	b.Helper()
	_, err := b.lab.Nodes[0].FRR.Vtysh(b.Context(), append([]string{"configure terminal"}, lines...)...)
	b.must(err)
}

func routeLine(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip route " + p.String() + " blackhole"
	}
	return "ipv6 route " + p.String() + " blackhole"
}

// configured tells whether VyOS's configuration has the prefix.
func (b *bench) configured(p netip.Prefix) bool {
	return slices.ContainsFunc(b.system.Active(), func(line string) bool { return strings.Contains(line, " "+p.String()+" ") })
}

// clean wants nothing left of a session, and every commit harmless.
func (b *bench) clean() {
	b.Helper()
	if left := b.system.Sessions(); len(left) > 0 {
		b.Errorf("sessions are left: %q", left)
	}
	if mounted := b.system.Mounted(); len(mounted) > 0 {
		b.Errorf("mounts are left: %q", mounted)
	}
	for _, line := range []string{"protocols bgp system-as 65001", "system host-name r1"} {
		if !slices.Contains(b.system.Active(), line) {
			b.Errorf("the configuration has lost %q: %q", line, b.system.Active())
		}
	}
	if n := len(b.system.CallsOf("vyos-save-config.py")); n > 0 {
		b.Errorf("it was saved %d times", n)
	}
}
