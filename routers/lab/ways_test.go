package lab_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

// A stance is what a node does with its service.
type stance uint8

const (
	withdrawn stance = iota
	degraded
	announced
)

// take brings a node with BIRD to a stance the way its network has.
func take(t *testing.T, l *lab.AnycastLab, nd *lab.AnycastNode, w lab.Way, s stance) {
	t.Helper()
	for v, b := range map[int]*lab.BIRD{4: nd.BIRD, 6: nd.BIRD6} {
		switch {
		case b == nil:
		case w == lab.Protocol:
			enable(t, b, v, s)
		default:
			file := map[int]string{4: lab.IncludeFile, 6: lab.IncludeFile6}[v]
			if err := b.WriteFile(file, included(l, b.Release(), v, w, s)); err != nil {
				t.Fatal(err)
			}
			if err := b.Configure(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			if b.Release() == lab.BIRD207 { // takes some changes of a function for none
				if _, err := b.Show(t.Context(), "reload out all"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func enable(t *testing.T, b *lab.BIRD, v int, s stance) {
	t.Helper()
	names := []string{"anycast_resolver", "anycast6_resolver"}
	if b.Release().Split() {
		names = names[v/6 : v/6+1]
	}
	for _, name := range names {
		for protocol, on := range map[string]bool{name: s == announced, name + "_degraded": s == degraded} {
			if _, err := b.Show(t.Context(), map[bool]string{true: "enable ", false: "disable "}[on]+protocol); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// included is the text of the included file of a daemon: with BIRD 1 that of the family v.
func included(l *lab.AnycastLab, r lab.Release, v int, w lab.Way, s stance) string {
	off := map[bool]int{true: 0, false: 1}
	set := func(v int, on bool) string {
		var members []string
		for _, p := range l.Prefixes {
			if on && p.Addr().Is6() == (v == 6) {
				members = append(members, p.String())
			}
		}
		if members == nil && !r.EmptySet() {
			members = []string{map[int]string{4: "0.0.0.0/32", 6: "::/128"}[v]}
		}
		return "[ " + strings.Join(members, ", ") + " ]"
	}
	switch w {
	case lab.Switch:
		return fmt.Sprintf("define RESOLVER_OFF = %d;\ndefine RESOLVER_DEGRADED_OFF = %d;\n", off[s == announced], off[s == degraded])
	case lab.List:
		var b strings.Builder
		for f, six := range map[int]string{4: "", 6: "6"} {
			if !r.Split() || f == v {
				fmt.Fprintf(&b, "define ANYCAST_PREFIXES%[1]s = %[2]s;\ndefine ANYCAST_DEGRADED%[1]s = %[3]s;\n", six, set(f, s == announced), set(f, s == degraded))
			}
		}
		return b.String()
	case lab.Function:
		return fmt.Sprintf("function anycast_announced() { return %t; }\nfunction anycast_degraded() { return %t; }\n", s == announced, s == degraded)
	}
	return routes(l, r, v, s)
}

// routes are the static protocols. A degraded route has a longer AS path, or a MED: BIRD
// 1 does not send the path that a static route has, and BIRD 3 not the MED (seen with 1.6.8 and 3.1.8).
func routes(l *lab.AnycastLab, r lab.Release, v int, s stance) string {
	var b strings.Builder
	worse := " { bgp_path = prepend(prepend(+empty+, 64999), 64999); }"
	if r.Split() {
		worse = " { bgp_med = 1000; }"
	}
	for _, f := range []int{4, 6} {
		if r.Split() && f != v {
			continue
		}
		fmt.Fprintf(&b, "protocol static vouch%d {\n", f)
		if !r.Split() {
			fmt.Fprintf(&b, "\tipv%d;\n", f)
		}
		for _, p := range l.Prefixes {
			if s != withdrawn && p.Addr().Is6() == (f == 6) {
				fmt.Fprintf(&b, "\troute %s blackhole%s;\n", p, map[bool]string{true: worse}[s == degraded])
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func TestWays(t *testing.T) {
	t.Parallel()
	for _, r := range lab.BIRDs {
		for _, w := range lab.Ways[1:] {
			t.Run(r.String()+"/"+w.String(), func(t *testing.T) {
				t.Parallel()
				l := lab.OpenAnycast(t, lab.AnycastOptions{BGP: true, IPv6: true, Nodes: r, Way: w, NoUnbound: true})
				goes(t, l, w)
			})
		}
	}
}

// goes leads the nodes through the stances and looks where the core sends packets.
func goes(t *testing.T, l *lab.AnycastLab, w lab.Way) {
	t.Helper()
	one, two := l.Nodes[0], l.Nodes[1]
	hops := map[netip.Prefix][2]netip.Addr{lab.Service: {one.Via, two.Via}, lab.Service6: {one.Via6, two.Via6}}
	for _, step := range []struct {
		one, two stance
		want     []int // which nodes the core uses
	}{
		{withdrawn, withdrawn, nil},
		{announced, withdrawn, []int{0}},
		{announced, announced, []int{0, 1}},
		{degraded, announced, []int{1}},
		{degraded, withdrawn, []int{0}},
		{announced, announced, []int{0, 1}},
		{withdrawn, announced, []int{1}},
		{withdrawn, withdrawn, nil},
	} {
		take(t, l, one, w, step.one)
		take(t, l, two, w, step.two)
		for p, via := range hops {
			var want []netip.Addr
			for _, i := range step.want {
				want = append(want, via[i])
			}
			err := lab.Wait(within(t, time.Minute), fmt.Sprintf("%+v", step), 5*time.Millisecond, func() (bool, error) {
				got, err := l.Core.NextHops(p)
				if err == nil && !slices.Equal(got, want) {
					err = fmt.Errorf("the next hops to %s are %v, not %v", p, got, want)
				}
				return err == nil, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
