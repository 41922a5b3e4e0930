package route

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/checks"
	"vouch/routers/rtnl"
	"vouch/routers/rtnl/rtnltest"
)

func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", "-batch", "-")
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
		{Spec{}, nil, checks.ReasonAbsent, "no default route in table main (254)"},
		{Spec{}, []string{via4}, "", ""},
		{Spec{}, []string{via6}, checks.ReasonAbsent, "no default route in table main (254)"},
		{Spec{}, []string{"route add blackhole default"}, checks.ReasonUnusable, "default route is blackhole"},
		{Spec{}, []string{via4, "link set peer0 down"}, checks.ReasonUnusable, "default via 10.0.1.1 dev eth0: link has no carrier"},
		{Spec{Family: "ipv6"}, []string{via6}, "", ""},
		{Spec{Family: "ipv6"}, []string{via4}, checks.ReasonAbsent, "no default route in table main (254)"},
		{Spec{Family: "both"}, []string{via4, via6}, "", ""},
		{Spec{Family: "both"}, []string{via4}, checks.ReasonAbsent, "ipv6: no default route in table main (254)"},
		{Spec{Family: "both"}, []string{via6, "route add throw default"}, checks.ReasonUnusable, "ipv4: default route is throw"},
		{Spec{Family: "both"}, nil, checks.ReasonAbsent, "ipv4: no default route in table main (254); ipv6: no default route in table main (254)"},
		{Spec{Table: 100}, []string{via4}, checks.ReasonAbsent, "no default route in table 100"},
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
	c := &check{families: []rtnl.Family{rtnl.IPv4, rtnl.IPv6}, table: rtnl.MainTable}
	unknown := c.failure(rtnl.IPv4, rtnl.Default{}, errors.New("interrupted"))
	absent := c.failure(rtnl.IPv6, rtnl.Default{Text: "none"}, nil)
	wantFailure(t, worse(unknown, absent), checks.ReasonAbsent, "ipv6: none")
	wantFailure(t, worse(absent, unknown), checks.ReasonAbsent, "ipv6: none")
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

func TestValidate(t *testing.T) {
	s := Spec{}
	if ps := s.Validate(); ps != nil || s != (Spec{Family: "ipv4", Table: 254}) {
		t.Errorf("defaults: %+v, %+v", s, ps)
	}
	s = Spec{Family: "ipx", Table: 1 << 32}
	want := []checks.Problem{
		{Key: "family", What: "must be ipv4, ipv6 or both", Got: `"ipx"`, WayOut: `write "ipv4", or leave it out`},
		{Key: "table", What: "must be the number of a routing table, from 1 to 4294967295", Got: "4294967296", WayOut: "write 254 for the main table, or leave it out"},
	}
	if diff := cmp.Diff(want, s.Validate()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if ps := (&Spec{Table: -1}).Validate(); len(ps) != 1 {
		t.Errorf("table -1: %+v", ps)
	}
}

func TestString(t *testing.T) {
	for want, s := range map[string]Spec{
		"default route ipv4 table 254":          {},
		"default route ipv6 table 7":            {Family: "ipv6", Table: 7},
		"default route ipv4 and ipv6 table 254": {Family: "both"},
	} {
		if got := checker(t, s).String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
