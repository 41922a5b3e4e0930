package frr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// words writes changes as "-10.0.0.1" and "+10.0.0.1".
func words(cs []routers.Change) string {
	var out []string
	for _, c := range cs {
		sign := "+"
		if c.Want == routers.Withdrawn {
			sign = "-"
		}
		out = append(out, sign+c.Prefix.Addr().String())
	}
	return strings.Join(out, " ")
}

// parse reads such words.
func parse(s string) []routers.Change {
	var cs []routers.Change
	for _, w := range strings.Fields(s) {
		a := netip.MustParseAddr(w[1:])
		c := routers.Change{Prefix: netip.PrefixFrom(a, a.BitLen()), Want: routers.Announced}
		if w[0] == '-' {
			c.Want = routers.Withdrawn
		}
		cs = append(cs, c)
	}
	return cs
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		cs, held   string
		young      bool
		now, later string
	}{
		{"", "", false, "", ""},
		{"-10.0.0.1", "", false, "-10.0.0.1", ""},
		{"-10.0.0.1", "", true, "", "-10.0.0.1"},
		{"-10.0.0.1 -10.0.0.2", "", false, "-10.0.0.1", "-10.0.0.2"},
		{"-10.0.0.1 -10.0.0.2", "", true, "-10.0.0.1", "-10.0.0.2"},
		{"+10.0.0.1 -10.0.0.2 +10.0.0.3", "", false, "-10.0.0.2 +10.0.0.1", "+10.0.0.3"},
		{"-10.0.0.1 -::1", "", false, "-10.0.0.1 -::1", ""},
		{"-10.0.0.1 -::1 -10.0.0.2", "", false, "-10.0.0.1 -::1", "-10.0.0.2"},
		{"-10.0.0.1 -::1 -10.0.0.2", "", true, "-10.0.0.1", "-::1 -10.0.0.2"},
		{"+10.0.0.1 -::1 -::2 +10.0.0.2", "", false, "-::1 +10.0.0.1", "-::2 +10.0.0.2"},
		{"-10.0.0.2", "-10.0.0.2", false, "", "-10.0.0.2"},
		{"-10.0.0.1 -10.0.0.2", "-10.0.0.2", false, "-10.0.0.2", "-10.0.0.1"},
		{"-10.0.0.1 -10.0.0.2", "-10.0.0.1", false, "-10.0.0.1", "-10.0.0.2"},
		{"-10.0.0.1 -10.0.0.2 -10.0.0.3", "-10.0.0.3", false, "-10.0.0.1 -10.0.0.3", "-10.0.0.2"},
		{"-10.0.0.1 +10.0.0.2", "+10.0.0.2", false, "+10.0.0.2", "-10.0.0.1"},
		{"-10.0.0.1 -::1", "-10.0.0.1", false, "-::1", "-10.0.0.1"},
	} {
		held := func(h routers.Change) bool { return slices.Contains(parse(c.held), h) }
		now, later := plan(parse(c.cs), held, func(routers.Change) bool { return c.young })
		if words(now) != c.now || words(later) != c.later {
			t.Errorf("%q (held %q, young %v): now %q, later %q", c.cs, c.held, c.young, words(now), words(later))
		}
	}
}

// Whatever is asked: nothing is lost or doubled, at most one change of a family is kept back, it is no
// withdraw if there is an announce, none twice unless it is alone, and a lone change on a calm LSA never
// waits.
func TestPlanProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var cs []routers.Change
		for i := range r.IntN(9) {
			a := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i))
			if r.IntN(2) == 0 {
				a = netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i))
			}
			cs = append(cs, routers.Change{Prefix: netip.PrefixFrom(a, a.BitLen()), Want: routers.Withdrawn + routers.Want(r.IntN(2))})
		}
		young := r.IntN(2) == 0
		before := map[routers.Change]bool{}
		for _, c := range cs {
			if c.Prefix.Addr().Is4() && len(before) == 0 && r.IntN(2) == 0 {
				before[c] = true
			}
		}
		now, later := plan(cs, func(c routers.Change) bool { return before[c] }, func(routers.Change) bool { return young })
		less := cmpopts.SortSlices(func(a, b routers.Change) bool { return a.Prefix.Addr().Less(b.Prefix.Addr()) })
		if diff := cmp.Diff(cs, append(append([]routers.Change(nil), now...), later...), less, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Fatalf("%s: %s", words(cs), diff)
		}
		count, kept, announces := map[bool]int{}, map[bool]int{}, map[bool]int{}
		for _, c := range cs {
			count[c.Prefix.Addr().Is4()]++
			if !before[c] {
				announces[c.Prefix.Addr().Is4()] += int(c.Want - routers.Withdrawn)
			}
		}
		for _, c := range later {
			v4 := c.Prefix.Addr().Is4()
			kept[v4]++
			if c.Want == routers.Withdrawn && announces[v4] > 0 || kept[v4] > 1 ||
				before[c] && count[v4] > 1 || count[v4] == 1 && !young && !before[c] {
				t.Fatalf("%s: kept back %s", words(cs), words(later))
			}
		}
	}
}

// An aging is an ospfd whose router-LSA is as old as the last change.
type aging struct {
	*replay
	born  time.Time
	asked int
}

func (a *aging) talk(ctx context.Context, s session) ([]vty.Reply, error) {
	a.asked++
	a.edit("ospfd", "router", func(text string) string {
		_, rest, _ := strings.Cut(text, `"lsaAge": `)
		_, rest, _ = strings.Cut(rest, ",")
		before, _, _ := strings.Cut(text, `"lsaAge": `)
		return fmt.Sprintf(`%s"lsaAge": %d,%s`, before, int(time.Since(a.born).Seconds()), rest)
	})
	return a.replay.talk(ctx, s)
}

// paced is a driver with a kernel and an ospfd that make time pass only in a bubble.
func paced(t *testing.T, age time.Duration, k *kernel) (*Router, *aging) {
	a := &aging{replay: recording(t, "ospfd-stub", "zebra-address"), born: time.Now().Add(-age)}
	r := newRouter(Options{}.withDefaults(), a.talk).with(k)
	m := r.method.(address)
	m.change = func(ctx context.Context, iface string, cs []routers.Change) error {
		if len(cs) > 0 {
			a.born = time.Now()
		}
		return k.change(ctx, iface, cs)
	}
	r.method = m
	return r, a
}

func TestPacing(t *testing.T) {
	eight := make([]netip.Prefix, 8)
	for i := range eight {
		eight[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 53, 53, byte(100 + i)}), 32)
	}
	for name, c := range map[string]struct {
		age     time.Duration
		kernel  *kernel
		cs      []routers.Change
		batches []int
		took    [2]time.Duration
	}{
		"one":               {time.Hour, on(p4), withdraw(p4), []int{1}, [2]time.Duration{0, 0}},
		"one, just changed": {300 * time.Millisecond, on(p4), withdraw(p4), []int{1}, [2]time.Duration{800 * time.Millisecond, 850 * time.Millisecond}},
		"eight":             {time.Hour, on(eight...), withdraw(eight...), []int{7, 1}, [2]time.Duration{minArrival, minArrival}},
		"eight, just changed": {300 * time.Millisecond, on(eight...), withdraw(eight...), []int{7, 1},
			[2]time.Duration{minArrival, minArrival}},
		"one of eight is still to be done": {time.Hour, on(eight[3]), withdraw(eight...), []int{1}, [2]time.Duration{0, 0}},
		"nothing to be done":               {0, on(), withdraw(eight...), nil, [2]time.Duration{0, 0}},
		"announces too":                    {0, on(eight...), announce(eight...), nil, [2]time.Duration{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := paced(t, c.age, c.kernel)
				start := time.Now()
				if err := r.Apply(t.Context(), c.cs); err != nil {
					t.Fatal(err)
				}
				var batches []int
				for _, b := range c.kernel.changes {
					batches = append(batches, len(b))
				}
				if diff := cmp.Diff(c.batches, batches); diff != "" {
					t.Errorf("batches: %s", diff)
				}
				if took := time.Since(start); took < c.took[0] || took > c.took[1] {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// Whoever keeps changing the LSA, or a daemon that does not answer, holds up a withdraw only so long.
func TestPacingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := on(p4)
		r, a := paced(t, 0, k)
		forever := r.method.(address)
		forever.pace = &pacer{talk: func(ctx context.Context, s session) ([]vty.Reply, error) {
			a.born = time.Now()
			return a.talk(ctx, s)
		}}
		r.method = forever
		start := time.Now()
		if err := r.Apply(t.Context(), withdraw(p4)); err != nil || len(k.changes) != 1 || time.Since(start) > minArrival+paceStep+margin {
			t.Errorf("%v, changes %v after %v", err, k.changes, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		k := on(p4)
		r, _ := paced(t, 0, k)
		hung := r.method.(address)
		hung.pace = &pacer{talk: func(ctx context.Context, _ session) ([]vty.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		r.method = hung
		start := time.Now()
		if err := r.Apply(t.Context(), withdraw(p4)); err != nil || len(k.changes) != 1 || time.Since(start) > paceAsk {
			t.Errorf("%v, changes %v after %v", err, k.changes, time.Since(start))
		}
	})
}

// A hung ospfd does not hide that the LSA of ospf6d is young.
func TestYoungBesideHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recording(t, "ospf6d-stub").edit("ospf6d", "intra", replace(`"age":`, `"age":0, "was":`)).hang("ospfd")
		if got := words((&pacer{talk: r.talk}).young(t.Context(), withdraw(p4, p6))); got != words(withdraw(p6)) {
			t.Errorf("young: %q", got)
		}
	})
}

// The end of ctx ends the wait at once and leaves the rest undone.
func TestPacingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := netip.MustParsePrefix("10.53.53.54/32")
		k := on(p4, q)
		r, _ := paced(t, time.Hour, k)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := r.Apply(ctx, withdraw(p4, q))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond || len(k.changes) != 1 {
			t.Errorf("%v after %v, changes %v", err, time.Since(start), k.changes)
		}
	})
}

// Addresses that cannot be read are changed all the same, unpaced.
func TestApplyWithoutReading(t *testing.T) {
	k := on(p4)
	r, _ := paced(t, time.Hour, k)
	k.err = routers.ErrUnavailable
	if err := r.Apply(t.Context(), withdraw(p4)); err != nil || len(k.changes) != 1 {
		t.Errorf("%v, changes %v", err, k.changes)
	}
}

// A redistributed route whose LSA was just made is withdrawn when it can arrive; the others at once.
func TestPacingStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := recording(t, "ospfd-external", "ospf6d-external", "zebra-static", "staticd-static")
		born := time.Now().Add(-400 * time.Millisecond)
		rec.edit("ospf6d", "external", replace(`"age":`, `"age":7, "was":`))
		var at []time.Duration
		var one sync.Mutex
		start := time.Now()
		talk := func(ctx context.Context, s session) ([]vty.Reply, error) {
			one.Lock()
			defer one.Unlock()
			if len(s.enter) > 0 {
				at = append(at, time.Since(start))
			}
			rec.edit("ospfd", "external", func(text string) string {
				i := strings.Index(text, `"lsaAge": `) + len(`"lsaAge": `)
				j := i + strings.Index(text[i:], ",")
				return fmt.Sprintf("%s%d%s", text[:i], int(time.Since(born).Seconds()), text[j:])
			})
			return rec.talk(ctx, s)
		}
		o := Options{Method: MethodStatic, SocketDir: t.TempDir()}.withDefaults()
		if err := newRouter(o, talk).Apply(t.Context(), withdraw(s4, s6)); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"staticd: configure terminal: no ipv6 route 2001:db8:54::1/128 blackhole",
			"staticd: configure terminal: no ip route 10.53.54.1/32 blackhole",
		}
		if diff := cmp.Diff(want, rec.asked()); diff != "" {
			t.Error(diff)
		}
		if len(at) != 2 || at[0] != 0 || at[1] < 700*time.Millisecond || at[1] > 750*time.Millisecond {
			t.Errorf("asked at %v", at)
		}
	})
}

// Where the neighbours take anything, nothing is kept back.
func TestUnpaced(t *testing.T) {
	k := on(p4, s4)
	r := recording(t, "ospfd-stub").router(Options{Unpaced: true}).with(k)
	if err := r.Apply(t.Context(), withdraw(p4, s4)); err != nil || len(k.changes) != 1 || len(k.changes[0]) != 2 {
		t.Errorf("%v, changes %v", err, k.changes)
	}
}
