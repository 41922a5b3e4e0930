package frr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
)

// A neighbour takes an instance of an LSA only a second after the one it took before (RFC 2328, 13), and
// here is never sent one again.
type neighbour struct {
	born, took time.Time
	has        map[netip.Prefix]bool
}

// An island is a node whose kernel, ospfd and ospf6d do at once what they are told, and its neighbour.
type island struct {
	*kernel
	families map[bool]*neighbour // by whether IPv4
	since    map[netip.Prefix]time.Time
	slowest  time.Duration // from being asked for to being made
}

func newIsland(age time.Duration, ps []netip.Prefix) *island {
	n := &island{kernel: on(ps...), families: map[bool]*neighbour{}, since: map[netip.Prefix]time.Time{}}
	for _, v4 := range []bool{false, true} {
		at := time.Now().Add(-age)
		n.families[v4] = &neighbour{at, at, n.there(v4)}
	}
	return n
}

// there gives what the node has of a family.
func (n *island) there(v4 bool) map[netip.Prefix]bool {
	all := map[netip.Prefix]bool{}
	for p, s := range n.stages {
		if isIPv4(p) == v4 && s == routers.Selected {
			all[p] = true
		}
	}
	return all
}

func (n *island) change(ctx context.Context, iface string, cs []routers.Change) error {
	for _, c := range cs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_ = n.kernel.change(ctx, iface, []routers.Change{c})
		n.slowest = max(n.slowest, time.Since(n.since[c.Prefix]))
		f := n.families[isIPv4(c.Prefix)]
		f.born = time.Now()
		if time.Since(f.took) >= time.Second {
			f.took, f.has = f.born, n.there(isIPv4(c.Prefix))
		}
	}
	return nil
}

// talk tells the ages of the LSAs, in whole seconds.
func (n *island) talk(ctx context.Context, s session) ([]vty.Reply, error) {
	text := `{"areaScopedLinkStateDb":[{"lsa":[{"age":%d}]}]}`
	if s.daemon == "ospfd" {
		text = `{"routerLinkStates":{"areas":{"0":[{"lsaAge":%d}]}}}`
	}
	age := int(time.Since(n.families[s.daemon == "ospfd"].born).Seconds())
	replies := slices.Repeat([]vty.Reply{{Text: "{}"}}, len(s.commands))
	replies[0].Text = fmt.Sprintf(text, age)
	return replies, ctx.Err()
}

func (n *island) router() *Router {
	r := newRouter(Options{}.withDefaults(), n.talk).with(n.kernel)
	m := r.method.(address)
	m.change = n.change
	r.method = m
	return r
}

// outstanding gives the changes that lead to what is wanted.
func (n *island) outstanding(want map[netip.Prefix]routers.Stage) []routers.Change {
	var cs []routers.Change
	for p, s := range want {
		switch {
		case s == n.stages[p]:
		case s == routers.Selected:
			cs = append(cs, announce(p)...)
		default:
			cs = append(cs, withdraw(p)...)
		}
	}
	slices.SortFunc(cs, func(a, b routers.Change) int { return comparePrefixes(a.Prefix, b.Prefix) })
	return cs
}

// settled tells whether the neighbour has what the node has.
func (n *island) settled() bool {
	return maps.Equal(n.families[true].has, n.there(true)) && maps.Equal(n.families[false].has, n.there(false))
}

// Whatever comes while a change is kept back: none is made later than 1.3 s after it was asked for, and
// in the end the neighbour has all, without being sent any LSA again.
func TestPacingInterrupted(t *testing.T) {
	var ps []netip.Prefix
	for i := range 12 {
		ps = append(ps, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 53, 53, byte(i)}), 32))
	}
	ps = append(ps, p6, s6)
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		synctest.Test(t, func(t *testing.T) {
			n := newIsland(time.Duration(r.IntN(2500))*time.Millisecond, ps)
			driver := n.router()
			want := maps.Clone(n.stages)
			var story string
			apply := func(ctx context.Context) <-chan error {
				done := make(chan error, 1)
				go func() { done <- driver.Apply(ctx, n.outstanding(want)) }()
				return done
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := apply(ctx)
			for range 1 + r.IntN(12) {
				<-time.After(time.Duration(r.IntN(1+r.IntN(1500))) * time.Millisecond)
				cancel()
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				for range 1 + r.IntN(3) {
					// What is outstanding is not taken back: then there would be no LSA to carry the others.
					if p := ps[r.IntN(len(ps))]; want[p] == n.stages[p] {
						n.since[p], want[p] = time.Now(), routers.Absent+routers.Selected-want[p]
						story += fmt.Sprintf(" %s %s", time.Now().Format("05.000"), p)
					}
				}
				ctx, cancel = context.WithCancel(t.Context())
				done = apply(ctx)
			}
			defer cancel()
			if err := <-done; err != nil || len(n.outstanding(want)) > 0 {
				t.Errorf("%v, outstanding %v", err, n.outstanding(want))
			}
			if n.slowest > 1300*time.Millisecond || !n.settled() {
				t.Errorf("round %d: slowest %v, the neighbour has all: %v;%s", round, n.slowest, n.settled(), story)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// Services fail one after another, each while the one before is kept back: all go in their turn.
func TestPacingOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ps []netip.Prefix
		for i := range 10 {
			ps = append(ps, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 53, 53, byte(100 - i)}), 32)) // the highest first
		}
		n := newIsland(time.Hour, ps)
		driver := n.router()
		want := maps.Clone(n.stages)
		const gap = 300 * time.Millisecond
		for _, p := range ps {
			ctx, cancel := context.WithTimeout(t.Context(), gap)
			want[p], n.since[p] = routers.Absent, time.Now()
			_ = driver.Apply(ctx, n.outstanding(want))
			<-ctx.Done()
			cancel()
		}
		if left := n.outstanding(want); n.slowest > gap || len(left) != 1 || left[0].Prefix != ps[9] {
			t.Errorf("slowest %v, left %v", n.slowest, left)
		}
		if err := driver.Apply(t.Context(), n.outstanding(want)); err != nil || n.slowest > longest || !n.settled() {
			t.Errorf("%v, slowest %v, the neighbour has %v", err, n.slowest, n.families[true].has)
		}
	})
}

// An Apply that is broken off before it has made anything does not make the next one forget.
func TestPacingBrokenOffAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := []netip.Prefix{netip.MustParsePrefix("10.53.53.1/32"), netip.MustParsePrefix("10.53.53.2/32"), netip.MustParsePrefix("10.53.53.3/32")}
		n := newIsland(time.Hour, ps)
		driver := n.router()
		for _, step := range []struct {
			allowed time.Duration
			ps      []netip.Prefix
			left    string
		}{
			{100 * time.Millisecond, ps[:2], "10.53.53.2/32 10.53.53.3/32"},
			{0, ps[1:], "10.53.53.2/32 10.53.53.3/32"},
			{100 * time.Millisecond, ps[1:], "10.53.53.3/32"},
			{time.Hour, ps[2:], ""},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), step.allowed)
			err := driver.Apply(ctx, withdraw(step.ps...))
			cancel()
			left := fmt.Sprint(slices.SortedFunc(maps.Keys(n.there(true)), comparePrefixes))
			if left != "["+step.left+"]" || (err == nil) != (step.left == "") {
				t.Fatalf("%v, left %s, want %s", err, left, step.left)
			}
		}
		if !n.settled() {
			t.Errorf("the neighbour has %v", n.families[true].has)
		}
	})
}
