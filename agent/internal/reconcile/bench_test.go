package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"vouch/routers"
)

// BenchmarkTurn measures from Want to the report that all is verified, all prefixes changing at
// once. The millisecond that the loop waits for its second reading is in it.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1, 8, 1000} {
		b.Run(fmt.Sprintf("prefixes=%d", n), func(b *testing.B) {
			turns := [2]Desired{{}, {}}
			for i := range n {
				p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
				turns[0][p], turns[1][p] = announced, withdrawn
			}
			reports := make(chan Report, 100)
			loop := New(&fake{stages: map[netip.Prefix]routers.Stage{}}, Options{}, func(r Report) { reports <- r })
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- loop.Run(ctx) }()
			for i := 0; b.Loop(); i++ {
				d := turns[i%2]
				loop.Want(d)
				for r := range reports {
					if r.Synced && r.Desired[r.Observations[0].Prefix] == d[r.Observations[0].Prefix] {
						break
					}
				}
			}
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
	}
}
