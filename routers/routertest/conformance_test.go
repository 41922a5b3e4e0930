package routertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/routertest"
)

// TestMain has several networks stand at the same time, where nothing else is asked for: most of the time is
// waited.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", "4")
	}
	m.Run()
}

// Each network is one of these subtests, and its subjects are played one after the other.
func TestConformance(t *testing.T) {
	t.Parallel()
	table := &results{}
	t.Run("networks", func(t *testing.T) {
		for _, r := range lab.FRRs {
			t.Run(r.String()+" ospf", func(t *testing.T) { t.Parallel(); table.play(t, frrOSPF(t, r)...) })
			t.Run(r.String()+" bgp", func(t *testing.T) { t.Parallel(); table.play(t, frrBGP(t, r)...) })
			t.Run(r.String()+" vyos bgp", func(t *testing.T) { t.Parallel(); table.play(t, vyosBGP(t, r)...) })
		}
		for _, r := range lab.BIRDs {
			for _, way := range bgpWays(r) {
				t.Run(r.String()+" bgp "+way.String(), func(t *testing.T) { t.Parallel(); table.play(t, birdBGP(t, r, way)...) })
			}
			for _, way := range ospfWays[r] {
				t.Run(r.String()+" ospf "+way.String(), func(t *testing.T) { t.Parallel(); table.play(t, birdOSPF(t, r, way)...) })
			}
		}
	})
	t.Logf("\n%s", routertest.Matrix(table.all))
}

// all has everything played with every release, which takes half an hour.
var all = flag.Bool("all", false, "play every way of every BIRD, and cut its replies after every byte")

// own says that everything is played with a release: this machine's own one, or every one.
func own(r lab.Release) bool { return *all || r == lab.FRRHost || r == lab.BIRDHost }

// bgpWays are what is played with BIRD and BGP.
func bgpWays(r lab.Release) []lab.Way {
	if own(r) {
		return lab.Ways
	}
	return []lab.Way{lab.Switch}
}

// ospfWays are what is played with BIRD and OSPF, which takes its time.
var ospfWays = map[lab.Release][]lab.Way{lab.BIRDHost: {lab.Direct, lab.Routes}, lab.BIRD3: {lab.Routes}}

// results gathers what networks of their own found.
type results struct {
	mu  sync.Mutex
	all []routertest.Result
}

func (rs *results) play(t *testing.T, subjects ...*routertest.Subject) {
	for _, s := range subjects {
		t.Run(s.Name, func(t *testing.T) {
			found := routertest.Run(t, s)
			rs.mu.Lock()
			defer rs.mu.Unlock()
			rs.all = append(rs.all, found...)
		})
	}
}

// Prefixes of a subject: the number says which service, of both families.
func service(number int) []netip.Prefix { return inRange(53, number) }

// inRange is a service in one of several ranges. In the first one there are addresses on lo.
func inRange(third, number int) []netip.Prefix {
	return []netip.Prefix{host("10.53.%d.%d", third, number), host("2001:db8:%d::%d", third, number)}
}

func host(format string, args ...any) netip.Prefix {
	a := netip.MustParseAddr(fmt.Sprintf(format, args...))
	return netip.PrefixFrom(a, a.BitLen())
}

// many are so many prefixes, some of them of IPv6.
func many(n, six int) []netip.Prefix {
	ps := make([]netip.Prefix, 0, n)
	for i := range n {
		if i < six {
			ps = append(ps, host("2001:db8:60::%x", i))
		} else {
			ps = append(ps, host("10.60.%d.%d", i>>8, i&255))
		}
	}
	return ps
}

// unhurried is what a daemon has for an answer on a busy machine, where it does not hang. It is longer than a call may
// come back late, so that one that does not mind the end of its context is seen.
const unhurried = 3 * time.Second

// blink: zebra at the core replaces an IPv6 route by deleting and adding it. When one of a node's OSPFv3
// prefixes changes it does so with all of them, in 0.1 ms, or more when there are hundreds (FRR 8.4.4).
const blink = time.Second

// base is what all subjects of a network have in common.
func base(l *lab.AnycastLab) routertest.Subject {
	nd := l.Nodes[0]
	s := routertest.Subject{
		Node: nd.Node, Core: l.Core, Hops: []netip.Addr{nd.Via, nd.Via6, netip.MustParseAddr("2001:db8:1::2")},
		One: service(1), Two: service(2), Many: many(1000, 500), Foreign: service(99),
		Undo: byHand(nd.Node, "del"), Redo: byHand(nd.Node, "add"), Refuse: sameAddress(nd.Node, service(2)[1]),
		Told: told(l.CoreFRR), Blink: blink,
	}
	return s
}

// labels names the services of a subject after its groups of prefixes.
func labels(s *routertest.Subject) map[netip.Prefix]routers.Label {
	ls := map[netip.Prefix]routers.Label{}
	for name, ps := range map[string][]netip.Prefix{"one": s.One, "two": s.Two, "many": s.Many} {
		for _, p := range ps {
			ls[p] = routers.Label{Service: name}
		}
	}
	return ls
}

// byHand has somebody change addresses on a node's lo.
func byHand(nd *lab.Node, action string) func(ctx context.Context, ps []netip.Prefix) error {
	return func(ctx context.Context, ps []netip.Prefix) error {
		return each(ps, func(p netip.Prefix) error { return nd.Address(ctx, action, p.String(), "lo") })
	}
}

// each does something for all, and joins the errors.
func each[T any](all []T, do func(T) error) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

// sameAddress has the kernel refuse an IPv6 address: it is there with another length.
func sameAddress(nd *lab.Node, p netip.Prefix) func(ctx context.Context) (routertest.Refusal, error) {
	other := netip.PrefixFrom(p.Addr(), p.Bits()-1)
	return func(ctx context.Context) (routertest.Refusal, error) {
		return routertest.Refusal{
			Change:  routers.Change{Prefix: p, Want: routers.Announced},
			Restore: func(ctx context.Context) error { return nd.Address(ctx, "del", other.String(), "lo") },
		}, nd.Address(ctx, "add", other.String(), "lo")
	}
}

// told asks the core's FRR for a prefix.
func told(core *lab.FRR) func(ctx context.Context, p netip.Prefix) string {
	return func(ctx context.Context, p netip.Prefix) string {
		text, err := core.Show(ctx, "zebra", fmt.Sprintf("show %s route %s", ip(p), p))
		if err != nil {
			return err.Error()
		}
		_, text, _ = strings.Cut(text, "\n")
		return text
	}
}

func ip(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ipv6"
}

// worseOSPF says whether the core has a prefix by OSPF at such a cost, or a higher one.
func worseOSPF(core *lab.FRR, cost int) func(ctx context.Context, p netip.Prefix) (bool, error) {
	return func(ctx context.Context, p netip.Prefix) (bool, error) {
		text, err := core.Show(ctx, "zebra", fmt.Sprintf("show %s route %s json", ip(p), p))
		if err != nil {
			return false, err
		}
		var routes map[string][]struct {
			Selected bool
			Metric   int
		}
		if err := json.Unmarshal([]byte(text), &routes); err != nil {
			return false, err
		}
		for _, r := range routes[p.String()] {
			if r.Selected {
				return r.Metric >= cost, nil
			}
		}
		return false, fmt.Errorf("it has no route to %s", p)
	}
}

// worseBGP says whether the core has a prefix by BGP with a MED, a path or a community that is not the usual one.
func worseBGP(core *lab.FRR) func(ctx context.Context, p netip.Prefix) (bool, error) {
	return func(ctx context.Context, p netip.Prefix) (bool, error) {
		text, err := core.Show(ctx, "bgpd", fmt.Sprintf("show bgp ipv%d unicast %s json", map[bool]int{true: 4, false: 6}[p.Addr().Is4()], p))
		if err != nil {
			return false, err
		}
		var entry struct {
			Paths []struct {
				Metric    int
				ASPath    struct{ Length int }
				Community struct{ String string }
			}
		}
		if err := json.Unmarshal([]byte(text), &entry); err != nil {
			return false, err
		}
		if len(entry.Paths) != 1 {
			return false, fmt.Errorf("it has %d paths to %s", len(entry.Paths), p)
		}
		path := entry.Paths[0]
		return path.Metric > 0 || path.ASPath.Length > 1 || path.Community.String == worseCommunity, nil
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
