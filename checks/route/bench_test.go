package route

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"vouch/checks"
)

// BenchmarkCheck is one check of each sort beside the tables of a node with few routes, and of one with all
// of the Internet's.
func BenchmarkCheck(b *testing.B) {
	for _, routes := range []int{0, 100000} {
		for name, s := range map[string]Spec{
			"default": {}, "default6": {Family: "ipv6"}, "halves": {Halves: true}, "address": to("192.0.2.1"),
			"prefix": to("192.0.2.0/24"), "source": from("10.53.53.53", "192.0.2.1"),
		} {
			b.Run(fmt.Sprintf("%s/routes=%d", name, routes), func(b *testing.B) {
				two(b)
				ip(b, via4, via6)
				fill(b, routes)
				c := checker(b, s)
				b.ReportAllocs()
				for b.Loop() {
					if err := c.Check(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestNoLeak has some hundred rounds, ok and failed, leave nothing behind.
func TestNoLeak(t *testing.T) {
	ns := two(t)
	ip(t, via4, "route add blackhole 192.0.2.0/24")
	var all []checks.Checker
	for _, s := range []Spec{
		{}, {Family: "both"}, {Halves: true}, {Table: 77}, to("198.51.100.1"), to("192.0.2.1"), to("192.0.2.0/25", "2001:db8::/32"),
		from("10.53.53.53", "198.51.100.1"), from("10.53.53.54", "198.51.100.1"),
	} {
		all = append(all, checker(t, s))
	}
	rounds := func(n int) {
		for range n {
			for _, c := range all {
				_ = c.Check(t.Context())
			}
		}
	}
	rounds(1)
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	rounds(200)
	if got := descriptors(t); got != files {
		t.Errorf("%d descriptors, %d before", got, files)
	}
	ns.Wait("the goroutines are as many as before", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(all)
}

// fill adds routes to the main table.
func fill(tb testing.TB, n int) {
	tb.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("route add %d.%d.%d.0/24 via 10.0.1.1", 11+i>>16, i>>8&255, i&255)
	}
	batch(tb, nil, lines...)
}
