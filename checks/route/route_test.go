package route

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"vouch/checks"
	"vouch/routers/rtnl"
	"vouch/routers/rtnl/rtnltest"
)

// ip runs each line as an ip command in the namespace of the test's thread; one that begins with "-6" is
// of IPv6, where nothing else in it says so.
func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	for _, line := range lines {
		var options []string
		if rest, six := strings.CutPrefix(line, "-6 "); six {
			options, line = []string{"-6"}, rest
		}
		batch(tb, options, line)
	}
}

func batch(tb testing.TB, options []string, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", append(options, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("ip %s: %v\n%s", strings.Join(lines, "; ip "), err, out)
	}
}

// node makes a namespace with one interface, eth0, whose carrier peer0 gives.
func node(tb testing.TB) *rtnltest.Namespace {
	tb.Helper()
	ns := rtnltest.New(tb)
	ip(tb, "link set lo up", "link add eth0 type veth peer name peer0", "link set peer0 up", "link set eth0 up",
		"addr add 10.0.1.2/30 dev eth0", "addr add fd00:1::2/64 dev eth0 nodad")
	return ns
}

func checker(tb testing.TB, s Spec) checks.Checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("%+v: %+v", s, ps)
	}
	c, err := s.New()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	const via4, via6 = "route add default via 10.0.1.1", "route add ::/0 via fd00:1::1"
	for _, c := range []struct {
		spec   Spec
		lines  []string
		reason checks.Reason
		detail string
	}{
		{Spec{}, nil, checks.ReasonAbsent, "no default route for IPv4 in table main (254)"},
		{Spec{}, []string{via4}, "", ""},
		{Spec{}, []string{via6}, checks.ReasonAbsent, "no default route for IPv4 in table main (254)"},
		{Spec{}, []string{"route add blackhole default"}, checks.ReasonUnusable, `no usable default route for IPv4 in table main (254): only "blackhole default"`},
		{Spec{}, []string{via4, "link set peer0 down"}, checks.ReasonUnusable, `no usable default route for IPv4 in table main (254): only "default via 10.0.1.1 dev eth0: link has no carrier"`},
		{Spec{Family: "ipv6"}, []string{via6}, "", ""},
		{Spec{Family: "ipv6"}, []string{via4}, checks.ReasonAbsent, "no default route for IPv6 in table main (254)"},
		{Spec{Family: "both"}, []string{via4, via6}, "", ""},
		{Spec{Family: "both"}, []string{via4}, checks.ReasonAbsent, "no default route for IPv6 in table main (254)"},
		{Spec{Family: "both"}, []string{via6, "route add throw default"}, checks.ReasonUnusable, `no usable default route for IPv4 in table main (254): only "throw default"`},
		{Spec{Family: "both"}, nil, checks.ReasonAbsent, "no default route for IPv4 in table main (254); no default route for IPv6 in table main (254)"},
		{Spec{Table: 100}, []string{via4}, checks.ReasonAbsent, "no default route for IPv4 in table 100"},
		{Spec{Table: 100}, []string{via4 + " table 100"}, "", ""},
	} {
		t.Run(fmt.Sprintf("%+v %s", c.spec, strings.Join(c.lines, "; ")), func(t *testing.T) {
			ns := node(t)
			if c.lines != nil {
				ip(t, c.lines...)
			}
			check := checker(t, c.spec)
			ns.Wait("the check tells "+string(c.reason), func() bool { // a lost carrier shows late
				r := checks.Result{Start: testStart, Err: check.Check(t.Context())}
				return r.Reason() == c.reason
			})
			wantFailure(t, check.Check(t.Context()), c.reason, c.detail)
		})
	}
}

func TestUnreadableIsUnknown(t *testing.T) {
	node(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, family := range []string{"ipv4", "ipv6", "both"} {
		err := checker(t, Spec{Family: family}).Check(ctx)
		if r := (checks.Result{Start: testStart, Err: err}); r.Status() != checks.Unknown || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v is %s, want unknown", family, err, r.Status())
		}
	}
}

// TestKnownFaultCountsMore has one family unread and the other without a route.
func TestKnownFaultCountsMore(t *testing.T) {
	c := &check{table: rtnl.MainTable}
	unknown := c.failure(want{family: rtnl.IPv4}, rtnl.Way{}, errors.New("interrupted"))
	absent := c.failure(want{family: rtnl.IPv6}, rtnl.Way{}, nil)
	const none = "no default route for IPv6 in table main (254)"
	wantFailure(t, worse(unknown, absent), checks.ReasonAbsent, none)
	wantFailure(t, worse(absent, unknown), checks.ReasonAbsent, none)
	wantFailure(t, worse(unknown, nil), checks.ReasonUnknown, "")
}

// TestWatch checks on hints only, through faults that give no route message.
func TestWatch(t *testing.T) {
	for _, fault := range []string{"nexthop del id 7", "nexthop flush", "link set eth0 down", "link set peer0 down"} {
		t.Run(fault, func(t *testing.T) {
			ns := node(t)
			ip(t, "nexthop add id 7 via 10.0.1.1 dev eth0", "route add default nhid 7")
			c := checker(t, Spec{})
			var status atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ns.Go(func() {
				_ = c.(checks.Watcher).Watch(ctx, func() {
					r := checks.Result{Start: testStart, Err: c.Check(ctx)}
					status.Store(int32(r.Status()))
				})
			})
			ns.Wait("the check is ok", func() bool { return checks.Status(status.Load()) == checks.OK })
			ip(t, fault)
			ns.Wait("the check fails", func() bool { return checks.Status(status.Load()) == checks.Failed })
		})
	}
}
