package address

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"vouch/routers/rtnl/rtnltest"
)

// BenchmarkCheck is one check beside few addresses, and beside a thousand.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			rtnltest.New(b)
			lines := []string{"link set lo up"}
			for i := range n {
				lines = append(lines, fmt.Sprintf("addr add 10.53.%d.%d/32 dev lo", i>>8, i&255))
			}
			ip(b, lines...)
			c := checker(b, Spec{Address: "10.53.0.0"})
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Check(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNoLeak has some hundred rounds, ok and failed, leave nothing behind.
func TestNoLeak(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link set lo up")
	good, bad := checker(t, Spec{Address: "127.0.0.1"}), checker(t, Spec{Address: "10.9.9.9"})
	rounds := func(n int) {
		for range n {
			if good.Check(t.Context()) != nil || bad.Check(t.Context()) == nil {
				t.Fatal("the checks do not tell what is so")
			}
		}
	}
	rounds(1)
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	rounds(300)
	if got := descriptors(t); got > files {
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
