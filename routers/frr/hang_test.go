package frr

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

const ospfdHangs = "ospfd does not answer within 1s (hung?); "

// A daemon that hangs takes all the time there is. What the others know, the kernel too, is told all
// the same.
func TestHungDaemon(t *testing.T) {
	static := Options{Method: MethodStatic, SocketDir: t.TempDir()}
	for name, c := range map[string]struct {
		options Options
		replay  *replay
		kernel  *kernel
		ps      []netip.Prefix
		want    []seen
	}{
		"the other family is announced": {
			Options{}, recording(t, stub...).hang("ospfd"), on(p4, p6), []netip.Prefix{p4, p6},
			[]seen{{routers.Unknown, "", ospfdHangs + "the address is on lo"}, {routers.Advertised, core, "cost 10"}},
		},
		"the other family is absent": {
			Options{}, recording(t, absent...).hang("ospfd"), on(), []netip.Prefix{p6, p4},
			[]seen{{routers.Absent, "", "not on interface"}, {routers.Unknown, "", ospfdHangs + "not on interface"}},
		},
		"zebra is asked of the other family": {
			Options{}, recording(t, append(absent, "zebra-address")...).hang("ospfd"), on(p4, p6), []netip.Prefix{p4, p6},
			[]seen{{routers.Unknown, "", ospfdHangs + "the address is on lo"}, {routers.Selected, "", "does the protocol cover"}},
		},
		"ospf6d": {
			Options{}, recording(t, append(absent, "zebra-address")...).hang("ospf6d"), on(p4, p6), []netip.Prefix{p4, p6},
			[]seen{{routers.Selected, "", "does the protocol cover"}, {routers.Unknown, "", "ospf6d does not answer within 1s (hung?); the address is on lo"}},
		},
		"zebra, which one address waits for": {
			Options{}, recording(t, "ospfd-absent", "ospf6d-stub").hang("zebra"), on(p4, p6), []netip.Prefix{p4, p6},
			[]seen{{routers.Unknown, "", "the address is on lo; zebra cannot be asked, so that a change may not take effect: zebra does not answer"}, {routers.Advertised, core, "cost 10; zebra cannot be asked"}},
		},
		"zebra, which both wait for": {
			Options{}, recording(t, "ospfd-absent", "ospf6d-absent").hang("zebra"), on(p4, p6), []netip.Prefix{p4, p6},
			[]seen{{routers.Unknown, "", "zebra does not answer within 1s (hung?)"}, {routers.Unknown, "", "zebra does not answer"}},
		},
		"bgpd": {
			Options{Protocol: ProtocolBGP}, recording(t, "zebra-address").hang("bgpd"), on(p4), []netip.Prefix{p4, p6},
			[]seen{{routers.Unknown, "", "bgpd does not answer within 1s (hung?); the address is on lo"}, {routers.Unknown, "", "(hung?); not on interface"}},
		},
		"static": {
			static, recording(t, "ospf6d-external", "zebra-static", "staticd-static").hang("ospfd"), nil, []netip.Prefix{s4, s6},
			[]seen{{routers.Unknown, "", ospfdHangs + "the static route is selected"}, {routers.Advertised, core, "external LSA"}},
		},
		"zebra and static": {
			static, recording(t, "ospfd-external", "ospf6d-absent").hang("zebra"), nil, []netip.Prefix{s4, s6},
			[]seen{{routers.Advertised, core, "the static route cannot be read: zebra does not answer"}, {routers.Unknown, "", "zebra does not answer"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := c.replay.router(c.options)
				if c.kernel != nil {
					r.with(c.kernel)
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				os, err := r.Observe(ctx, c.ps)
				text := "frr: " + c.replay.hung + " does not answer within 1s (hung?)"
				if !errors.Is(err, routers.ErrUnavailable) || err.Error() != text || time.Since(start) != time.Second {
					t.Errorf("error %v after %v", err, time.Since(start))
				}
				checkSeen(t, c.ps, os, c.want)
			})
		})
	}
}
