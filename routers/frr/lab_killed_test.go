package frr

import (
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// An FRR whose daemons were all killed takes the blackhole that it left in the kernel for a static route of its own,
// at some times, and announces it. That is withdrawn all the same.
func TestLabKilled(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, core := bgpLabOf(t, release, Options{Method: MethodStatic, Protocol: ProtocolBGP})
		b.apply(announce(s4)...)
		b.await(routers.Advertised, s4)
		for _, daemon := range []string{"zebra", "mgmtd", "staticd", "bgpd"} {
			if b.frr.PID(daemon) != 0 {
				check(t, b.frr.Kill(daemon))
			}
		}
		check(t, b.frr.Start(t.Context()))
		b.until("absent", s4, nil, func(o routers.Observation) bool {
			b.apply(withdraw(s4)...)
			return o.Stage == routers.Absent && o.Detail == ""
		})
		b.hops(core, s4, node1, false)
		b.until("gone from the kernel", s4, nil, func(routers.Observation) bool {
			left, err := b.node.Run(t.Context(), "ip", "route", "show", s4.String())
			return err == nil && left == ""
		})
	})
}

// A zebra that is restarted alone is not heard by the protocol's daemon any more. What stays announced is told, with
// the way out, and that way leads out.
func TestLabZebraAlone(t *testing.T) {
	everyRelease(t, func(t *testing.T, release lab.Release) {
		b, _, core := bgpLabOf(t, release, Options{Method: MethodStatic, Protocol: ProtocolBGP})
		b.apply(announce(s4)...)
		b.await(routers.Advertised, s4)
		check(t, b.frr.Kill("zebra"))
		b.until("read as far as it goes", s4, routers.ErrUnavailable, func(o routers.Observation) bool { return o.Stage == routers.Advertised })
		check(t, b.frr.StartDaemon(t.Context(), "zebra"))
		b.until("told to be announced", s4, nil, func(o routers.Observation) bool {
			b.apply(withdraw(s4)...) // staticd is not heard at once either
			return broken(o) && strings.HasSuffix(o.Detail, ": restart bgpd")
		})
		b.hops(core, s4, node1, true)
		check(t, b.frr.RestartDaemon(t.Context(), "bgpd"))
		b.await(routers.Absent, s4)
		b.hops(core, s4, node1, false)
	})
}
