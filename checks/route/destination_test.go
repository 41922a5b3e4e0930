package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"vouch/checks"
	"vouch/routers/rtnl"
	"vouch/routers/rtnl/rtnltest"
)

const (
	via4, via6 = "route add default via 10.0.1.1", "route add ::/0 via fd00:1::1"
	vips       = "addr add 10.53.53.53/32 dev lo\naddr add fd53::53/128 dev lo nodad"
)

// two adds a second interface, eth1, to a node.
func two(tb testing.TB) *rtnltest.Namespace {
	tb.Helper()
	ns := node(tb)
	ip(tb, "link add eth1 type veth peer name peer1", "link set peer1 up", "link set eth1 up",
		"addr add 10.0.2.2/30 dev eth1", "addr add fd00:2::2/64 dev eth1 nodad", vips)
	return ns
}

func to(destinations ...string) Spec { return Spec{Destinations: destinations} }

// from is a lookup from a managed address, as answers of the service are sent.
func from(source string, destinations ...string) Spec {
	return Spec{Destinations: destinations, Origin: checks.Origin{Source: source}}
}

// TestDestination has the real kernel choose the route to an address.
func TestDestination(t *testing.T) {
	const out4, out6 = "192.0.2.1", "2001:db8::1"
	const vip = "10.53.53.53"
	for _, c := range []struct {
		spec   Spec
		lines  []string
		reason checks.Reason
		detail string
	}{
		{from(vip, out4), []string{via4}, "", ""},
		{from("fd53::53", out6), []string{via6}, "", ""},
		{from(vip, out4), nil, checks.ReasonAbsent, "no route to 192.0.2.1 from 10.53.53.53"},
		{from("fd53::53", out6), nil, checks.ReasonAbsent, "no route to 2001:db8::1 from fd53::53"},
		{from("10.53.53.54", out4), []string{via4}, checks.ReasonUnreachable, "the source address 10.53.53.54 is not on this node, or not usable yet"},
		{from("fd53::54", out6), []string{via6}, checks.ReasonUnreachable, "the source address fd53::54 is not on this node, or not usable yet"},
		{to(out4), []string{via4 + " table 77"}, checks.ReasonAbsent, "no route to 192.0.2.1"},
		{from(vip, out4), []string{via4 + " table 77", "rule add from 10.53.53.53 table 77"}, "", ""},
		{to(out4), []string{via4 + " table 77", "rule add from 10.53.53.53 table 77"}, checks.ReasonAbsent, "no route to 192.0.2.1"},
		{Spec{Destinations: []string{out4}, Origin: checks.Origin{Mark: 7}}, []string{via4 + " table 77", "rule add fwmark 7 table 77"}, "", ""},
		{Spec{Destinations: []string{out4}, Origin: checks.Origin{Mark: 8}}, []string{via4 + " table 77", "rule add fwmark 7 table 77"},
			checks.ReasonAbsent, "no route to 192.0.2.1 mark 8"},
		{Spec{Destinations: []string{out6}, Origin: checks.Origin{Mark: 7}}, []string{"-6 " + via6 + " table 77", "-6 rule add fwmark 7 table 77"}, "", ""},
		{Spec{Destinations: []string{out4}, Origin: checks.Origin{Device: "eth0"}}, []string{via4}, "", ""},
		{Spec{Destinations: []string{out4}, Origin: checks.Origin{Device: "nosuch0"}}, []string{via4}, checks.ReasonAbsent, "no route to 192.0.2.1 through nosuch0"},
		{to(out4), []string{via4, "route add blackhole 192.0.2.0/24"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "blackhole"`},
		{to(out4), []string{via4, "route add unreachable 192.0.2.0/24"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "unreachable"`},
		{to(out4), []string{via4, "route add prohibit 192.0.2.0/24"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "prohibit"`},
		{to(out4), []string{via4, "route add throw 192.0.2.0/24"}, checks.ReasonAbsent, "no route to 192.0.2.1"},
		{to(out6), []string{via6, "route add blackhole 2001:db8::/32"}, checks.ReasonUnusable, `no usable route to 2001:db8::1: only "blackhole"`},
		{to(out6), []string{via6, "route add unreachable 2001:db8::/32"}, checks.ReasonUnusable, `no usable route to 2001:db8::1: only "unreachable"`},
		{to(out6), []string{via6, "route add prohibit 2001:db8::/32"}, checks.ReasonUnusable, `no usable route to 2001:db8::1: only "prohibit"`},
		{to(out6), []string{via6, "route add throw 2001:db8::/32"}, checks.ReasonAbsent, "no route to 2001:db8::1"},
		{to(out4), []string{via4, "rule add to 192.0.2.0/24 prohibit"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "prohibit"`},
		{to("10.0.1.2"), nil, checks.ReasonUnusable, `no usable route to 10.0.1.2: only "local 10.0.1.2/32"`},
		{to("fd53::53"), nil, checks.ReasonUnusable, `no usable route to fd53::53: only "local fd53::53/128"`},
		{to(out4), []string{"route add 192.0.2.0/24 dev lo"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "192.0.2.0/24 dev lo: leads back to this host"`},
		{to(out4), []string{via4, "link set peer0 down"}, checks.ReasonUnusable, `no usable route to 192.0.2.1: only "default via 10.0.1.1 dev eth0: link has no carrier"`},
		{to(out4), []string{via4, "link set eth0 down"}, checks.ReasonAbsent, "no route to 192.0.2.1"},
		{to(out4), []string{"nexthop add id 7 via 10.0.1.1 dev eth0", "route add default nhid 7"}, "", ""},
		{to(out4), []string{"nexthop add id 7 via 10.0.1.1 dev eth0", "route add default nhid 7", "nexthop del id 7"}, checks.ReasonAbsent, "no route to 192.0.2.1"},
		{to(out4), []string{"route add 0.0.0.0/0 via inet6 fd00:1::1 dev eth0"}, "", ""},
		{to(out4), []string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1", "link set peer0 down"}, "", ""},
		{to(out6), []string{"route add ::/0 nexthop via fd00:1::1 nexthop via fd00:2::1"}, "", ""},
		{from("fd53::53", "2001:db8::1"), []string{"-6 route add 2001:db8::/32 from fd53::/64 via fd00:1::1"}, "", ""},
		{to(out4, "198.51.100.1", out6), []string{via4, "route add blackhole 192.0.2.0/24"}, checks.ReasonUnusable,
			`no usable route to 192.0.2.1: only "blackhole"; no route to 2001:db8::1`},
		{Spec{Destinations: []string{out4}, Interfaces: []string{"eth1"}}, []string{via4}, checks.ReasonUnusable,
			`no usable route to 192.0.2.1: only "default via 10.0.1.1 dev eth0: not over eth1"`},
	} {
		run(t, c.spec, c.lines, c.reason, c.detail)
	}
}

// run makes a node, has the check tell the reason in the end, and compares the detail.
func run(t *testing.T, spec Spec, lines []string, reason checks.Reason, detail string) {
	t.Helper()
	t.Run(fmt.Sprintf("%+v %s", spec, strings.Join(lines, "; ")), func(t *testing.T) {
		ns := two(t)
		ip(t, lines...)
		check := checker(t, spec)
		var err error
		defer func() { wantFailure(t, err, reason, detail) }()
		ns.Wait("the check tells what is so", func() bool { // a lost carrier, and a route of IPv6, show late
			err = check.Check(t.Context())
			var f *checks.Failure
			return err == nil && reason == "" || errors.As(err, &f) && f.Reason == reason && f.Detail == detail
		})
	})
}

// TestPrefix has routes in a table lead to exactly a prefix, to more, and to less.
func TestPrefix(t *testing.T) {
	const net4, net6 = "192.0.2.0/24", "2001:db8::/32"
	in := func(table int64, ds ...string) Spec { return Spec{Destinations: ds, Table: table} }
	for _, c := range []struct {
		spec   Spec
		lines  []string
		reason checks.Reason
		detail string
	}{
		{to(net4), []string{"route add 192.0.2.0/24 via 10.0.1.1"}, "", ""},
		{to(net4), []string{"route add 192.0.0.0/16 via 10.0.1.1"}, "", ""},
		{to(net4), []string{via4}, "", ""},
		{to(net6), []string{via6}, "", ""},
		{to(net6), []string{"-6 route add 2001:db8::/32 via fd00:1::1"}, "", ""},
		{to(net4), nil, checks.ReasonAbsent, "no route to 192.0.2.0/24 in table main (254)"},
		{to(net4), []string{"route add 192.0.2.0/25 via 10.0.1.1"}, checks.ReasonAbsent, "no route to 192.0.2.0/24 in table main (254)"},
		{to(net4), []string{"route add 192.0.2.0/25 via 10.0.1.1", "route add 192.0.2.128/25 via 10.0.1.1"}, checks.ReasonAbsent, "no route to 192.0.2.0/24 in table main (254)"},
		{to(net4), []string{"route add blackhole 192.0.2.0/25", via4}, "", ""},
		{to(net4), []string{via4, "route add blackhole 192.0.2.0/24 metric 9"}, checks.ReasonUnusable,
			`no usable route to 192.0.2.0/24 in table main (254): only "blackhole 192.0.2.0/24 metric 9"`},
		{to(net4), []string{via4, "route add blackhole 192.0.0.0/16"}, checks.ReasonUnusable,
			`no usable route to 192.0.2.0/24 in table main (254): only "blackhole 192.0.0.0/16"`},
		{to(net6), []string{"-6 " + via6, "-6 route add unreachable 2001::/16"}, checks.ReasonUnusable,
			`no usable route to 2001:db8::/32 in table main (254): only "unreachable 2001::/16 metric 1024"`},
		{to("10.0.1.2/32"), nil, "", ""}, // the network of eth0, for this node's address is in table local
		{in(77, net4), []string{via4}, checks.ReasonAbsent, "no route to 192.0.2.0/24 in table 77"},
		{in(77, net4), []string{via4, "route add 192.0.2.0/24 via 10.0.2.1 table 77"}, "", ""},
		{in(77, net6), []string{"-6 route add 2001:db8::/32 via fd00:2::1 table 77"}, "", ""},
		{in(77, "0.0.0.0/0"), []string{via4 + " table 77"}, "", ""},
		{to("0.0.0.0/0", "::/0"), []string{via4}, checks.ReasonAbsent, "no route to ::/0 in table main (254)"},
		{to(net4), []string{"route add 192.0.2.0/24 via 10.0.1.1", "route add 192.0.0.0/16 via 10.0.2.1", "link set peer0 down"}, checks.ReasonUnusable,
			`no usable route to 192.0.2.0/24 in table main (254): only "192.0.2.0/24 via 10.0.1.1 dev eth0: link has no carrier"`},
	} {
		run(t, c.spec, c.lines, c.reason, c.detail)
	}
}

// TestHalves has two halves count only when they are set to.
func TestHalves(t *testing.T) {
	const absent = "no default route or two halves for IPv4 in table main (254)"
	half := []string{"route add 0.0.0.0/1 via 10.0.1.1", "route add 128.0.0.0/1 via 10.0.2.1"}
	half6 := []string{"-6 route add ::/1 via fd00:1::1", "-6 route add 8000::/1 via fd00:2::1"}
	h, h6 := Spec{Halves: true}, Spec{Halves: true, Family: "ipv6"}
	for _, c := range []struct {
		spec   Spec
		lines  []string
		reason checks.Reason
		detail string
	}{
		{Spec{}, half, checks.ReasonAbsent, "no default route for IPv4 in table main (254)"},
		{Spec{Family: "ipv6"}, half6, checks.ReasonAbsent, "no default route for IPv6 in table main (254)"},
		{h, half, "", ""},
		{h6, half6, "", ""},
		{h, []string{via4}, "", ""},
		{h6, []string{via6}, "", ""},
		{h, nil, checks.ReasonAbsent, absent},
		{h, half[:1], checks.ReasonAbsent, absent},
		{h, half[1:], checks.ReasonAbsent, absent},
		{h, []string{half[0], via4}, "", ""},
		{h, append([]string{"route add blackhole default metric 4278198272"}, half...), "", ""},
		{h, []string{half[0], "route add blackhole 128.0.0.0/1"}, checks.ReasonUnusable,
			`no usable default route or two halves for IPv4 in table main (254): only "blackhole 128.0.0.0/1"`},
		{Spec{}, []string{"route add blackhole default metric 4278198272"}, checks.ReasonUnusable,
			`no usable default route for IPv4 in table main (254): only "blackhole default metric 4278198272"`},
		{Spec{Halves: true, Table: 77}, []string{half[0] + " table 77", half[1] + " table 77"}, "", ""},
	} {
		run(t, c.spec, c.lines, c.reason, c.detail)
	}
}

func TestInterfaces(t *testing.T) {
	over := Spec{Interfaces: []string{"eth1", "eth9"}}
	for _, c := range []struct {
		lines  []string
		reason checks.Reason
		detail string
	}{
		{[]string{via4}, checks.ReasonUnusable, `no usable default route for IPv4 in table main (254): only "default via 10.0.1.1 dev eth0: not over eth1 or eth9"`},
		{[]string{"route add default via 10.0.2.1"}, "", ""},
		{[]string{"route add default nexthop via 10.0.1.1 nexthop via 10.0.2.1"}, "", ""},
		{[]string{"route add default via 10.0.2.1 metric 20", via4}, checks.ReasonUnusable, // the kernel prefers the other
			`no usable default route for IPv4 in table main (254): only "default via 10.0.1.1 dev eth0: not over eth1 or eth9"`},
	} {
		run(t, over, c.lines, c.reason, c.detail)
	}
}

// TestWatchDestinations checks on hints only.
func TestWatchDestinations(t *testing.T) {
	for _, c := range []struct {
		spec  Spec
		setup []string
		fault string
	}{
		{to("192.0.2.1"), []string{via4}, "route add blackhole 192.0.2.0/24"},
		{to("192.0.2.1"), []string{via4}, "rule add to 192.0.2.0/24 prohibit"},
		{to("2001:db8::1"), []string{"-6 " + via6}, "-6 rule add to 2001:db8::/32 prohibit"},
		{to("192.0.2.1"), []string{"nexthop add id 7 via 10.0.1.1 dev eth0", "route add 192.0.2.0/24 nhid 7"}, "nexthop del id 7"},
		{from("10.53.53.53", "192.0.2.1"), []string{via4}, "addr del 10.53.53.53/32 dev lo"},
		{to("192.0.2.0/24"), []string{"route add 192.0.2.0/24 via 10.0.1.1"}, "route del 192.0.2.0/24"},
		{to("192.0.2.0/24"), []string{"route add 192.0.2.0/24 via 10.0.1.1"}, "link set eth0 down"},
		{Spec{Halves: true}, []string{"route add 0.0.0.0/1 via 10.0.1.1", "route add 128.0.0.0/1 via 10.0.1.1"}, "route del 128.0.0.0/1"},
		{Spec{}, []string{"route add default via 10.0.1.1 src 10.0.2.2"}, "addr del 10.0.2.2/30 dev eth1"}, // no message of the route
	} {
		t.Run(fmt.Sprintf("%+v %s", c.spec, c.fault), func(t *testing.T) {
			ns := two(t)
			ip(t, c.setup...)
			check := checker(t, c.spec)
			var status atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ns.Go(func() {
				_ = check.(checks.Watcher).Watch(ctx, func() {
					r := checks.Result{Start: testStart, Err: check.Check(ctx)}
					status.Store(int32(r.Status()))
				})
			})
			ns.Wait("the check is ok", func() bool { return checks.Status(status.Load()) == checks.OK })
			ip(t, c.fault)
			ns.Wait("the check fails", func() bool { return checks.Status(status.Load()) == checks.Failed })
		})
	}
}

// TestTrace shows a person what was asked, and what the kernel said.
func TestTrace(t *testing.T) {
	two(t)
	ip(t, via4)
	var mu sync.Mutex
	var got []string
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%c %s", d, text))
	})
	_ = checker(t, to("192.0.2.1", "2001:db8::/32")).Check(ctx)
	want := `> asked the kernel for the route to 192.0.2.1
< default via 10.0.1.1 dev eth0 (usable: true)
> asked the kernel for the route to 2001:db8::/32 in table main (254)
< there is none`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("trace:\n%s\nwant:\n%s", text, want)
	}
}

// TestWatchedChanges is what each sort of check must hear of. The kernel takes routes away with links,
// nexthop objects and addresses, without a word of the route.
func TestWatchedChanges(t *testing.T) {
	const always = rtnl.OnLinks | rtnl.OnAddresses | rtnl.OnDefaults
	for _, c := range []struct {
		spec Spec
		want rtnl.Concern
	}{
		{Spec{}, always}, {Spec{Halves: true}, always}, {to("192.0.2.0/24"), always | rtnl.OnNetworks},
		{to("192.0.2.1"), rtnl.OnEverything}, {to("192.0.2.1", "192.0.2.0/24"), rtnl.OnEverything},
	} {
		if got := checker(t, c.spec).(*check).changes; got != c.want {
			t.Errorf("%+v hears of %b, want %b", c.spec, got, c.want)
		}
	}
}
