package vyos

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// stopped has a daemon of FRR hang until the end that it gives is called.
func (b *bench) stopped(daemon string) (end func()) {
	b.Helper()
	node := b.lab.Nodes[0].FRR
	b.must(node.Signal(daemon, syscall.SIGSTOP))
	return func() { b.Helper(); b.must(node.Signal(daemon, syscall.SIGCONT)) }
}

func blames(text string) bool {
	return strings.Contains(text, "the kernel cannot be read") || strings.Contains(text, "VyOS's configuration cannot be read") || strings.Contains(text, "no time was left")
}

// kernelHas tells whether the kernel has our route of the prefix.
func (b *bench) kernelHas(p netip.Prefix) bool {
	b.Helper()
	out, err := b.lab.Nodes[0].Run(b.Context(), "ip", "route", "show", "table", "all", "proto", fmt.Sprint(Protocol))
	b.must(err)
	return strings.Contains(out, p.Addr().String())
}

// What method kernel left behind goes with method static, whatever is wanted.
func TestKernelRouteLeftToStatic(t *testing.T) {
	b := open(t, vyostest.Options{})
	kernel := b.router(Options{})
	for _, via := range []string{ViaConfig, ViaVbash} {
		r := b.router(Options{Method: MethodStatic, Via: via})
		b.announced(kernel, one)
		if o := b.observe(r, one)[0]; o.Stage < routers.Configured || !o.Broken || !strings.Contains(o.Detail, "protocol 200") {
			t.Errorf("%+v", o)
		}
		commits := len(b.system.CallsOf("my_commit"))
		b.withdrawn(r, one)
		b.calls("my_commit", commits)
		for _, w := range []routers.Want{routers.Announced, routers.Degraded} {
			b.announced(kernel, one)
			b.must(b.apply(r, w, one))
			b.becomes(r, routers.Advertised, w == routers.Degraded, one)
			if b.kernelHas(one) {
				t.Errorf("%s: the kernel's route stays", w)
			}
		}
		b.announced(kernel, one)
		release := b.system.HoldLock()
		done := b.applying(r, routers.Withdrawn, one)
		b.core(false, one) // both at once, while nothing can be committed
		release()
		b.must(<-done)
		b.becomes(r, routers.Absent, false, one)
	}
}

// What method static left behind method kernel leaves alone, and tells.
func TestStaticRouteLeftToKernel(t *testing.T) {
	b := open(t, vyostest.Options{})
	static, r := b.router(Options{Method: MethodStatic}), b.router(Options{})
	b.announced(static, one)
	b.must(b.apply(r, routers.Announced, one))
	b.must(b.apply(r, routers.Withdrawn, one))
	line := "delete protocols static route " + one.String()
	b.wait("it to be told", func() error {
		if o := b.observe(r, one)[0]; o.Stage != routers.Advertised || !o.Broken || !strings.Contains(o.Detail, "`"+line+"`") {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	told := false
	for _, f := range r.Examine(t.Context(), both) {
		told = told || f.Severity == routers.Failing && strings.Contains(f.WayOut, line)
	}
	if !told {
		t.Error("vouch doctor does not say it")
	}
	b.calls("my_commit", 1)
	b.withdrawn(static, one)
	b.becomes(r, routers.Absent, false, one)
}

// foreigners are blackholes of managed prefixes that vouch would have made in another way.
var foreigners = []scene{
	{name: "spelled otherwise", play: func(b *bench, r *Router) {
		for _, name := range []string{"2001:DB8:54::1/128", "2001:db8:54:0:0:0:0:1/128"} {
			b.system.OperatorCommit("set protocols static route6 " + name + " blackhole")
			b.becomes(r, routers.Advertised, false, one6)
			b.must(b.apply(r, routers.Announced, one6))
			b.must(b.apply(r, routers.Degraded, one6))
			b.becomes(r, routers.Advertised, true, one6)
			b.withdrawn(r, one6)
			if active := strings.Join(b.system.Active(), "\n"); strings.Contains(active, "route6") {
				b.Errorf("%q", active)
			}
		}
		b.system.OperatorCommit("set protocols static route6 2001:DB8:54::1/128 blackhole", "set protocols static route6 "+one6.String()+" blackhole")
		b.withdrawn(r, one6)
	}},
	hisOwn("tag 5", Options{}, "tag in [router.degraded]"),
	hisOwn("distance 9", Options{}, "distance in [router]"),
	hisOwn("distance 10", Options{Distance: 9}, "distance in [router]"),
	{name: "without the distance", options: Options{Distance: 9}, play: func(b *bench, r *Router) {
		b.system.OperatorCommit("set protocols static route " + one.String() + " blackhole")
		b.becomes(r, routers.Advertised, false, one)
		b.must(b.apply(r, routers.Announced, one))
		b.calls("my_commit", 1)
		b.withdrawn(r, one)
		if b.configured(one) {
			b.Errorf("%q", b.system.Active())
		}
	}},
}

// hisOwn is an operator's blackhole, by what we would not have put below it: it goes from FRR when it is withdrawn, and
// stays in VyOS's configuration.
func hisOwn(leaf string, o Options, wayOut string) scene {
	return scene{name: "an operator's " + leaf, options: o, play: func(b *bench, r *Router) {
		line := "protocols static route " + one.String() + " blackhole " + leaf
		b.system.OperatorCommit("set " + line)
		b.core(true, one)
		if o := b.observe(r, one)[0]; !strings.Contains(o.Detail, "blackhole "+leaf) {
			b.Errorf("%+v", o)
		}
		b.wantError(b.apply(r, routers.Withdrawn, one), routers.ErrRefused, one.String(), "left in VyOS's configuration", "blackhole "+leaf, wayOut)
		b.core(false, one)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, one.String(), leaf, "remove them")
		b.core(true, one)
		b.wantError(b.apply(r, routers.Degraded, one), routers.ErrRefused, leaf)
		if active := strings.Join(b.system.Active(), "\n"); !strings.Contains(active, line) {
			b.Errorf("%q", active)
		}
		b.calls("my_commit", 1)
		b.system.OperatorCommit("delete protocols static route " + one.String())
	}}
}
