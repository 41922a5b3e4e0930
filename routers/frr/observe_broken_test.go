package frr

import (
	"net/netip"
	"strings"
	"testing"

	"vouch/routers"
)

// What is announced and stands on nothing is broken, and nothing else is.
func TestObserveBroken(t *testing.T) {
	unusable := &kernel{stages: map[netip.Prefix]routers.Stage{p4: routers.Configured, p6: routers.Configured}}
	const gone, unused = "announced although not on interface", "announced although the address cannot be used"
	static := Options{Method: MethodStatic, SocketDir: t.TempDir()}
	for name, c := range map[string]struct {
		options Options
		replay  *replay
		kernel  *kernel
		prefix  netip.Prefix
		broken  bool
		want    seen
	}{
		"no address":          {Options{}, recording(t, stub...), on(), p4, true, seen{routers.Advertised, core, gone}},
		"no IPv6 address":     {Options{}, recording(t, stub...), on(), p6, true, seen{routers.Advertised, core, gone}},
		"zebra away too":      {Options{}, recording(t, stub...).fail("zebra"), on(), p4, true, seen{routers.Advertised, core, gone}},
		"no neighbour either": {Options{}, recording(t, stub...).edit("ospfd", "neighbor", func(string) string { return "{}" }), on(), p4, true, seen{routers.Selected, "", gone}},
		"redistributed":       {Options{}, recording(t, "ospfd-external", "zebra-static"), on(), s4, true, seen{routers.Advertised, core, gone}},
		"bgp":                 {Options{Protocol: ProtocolBGP}, recording(t, "bgpd-advertised", "zebra-absent"), on(), p4, true, seen{routers.Advertised, "10.0.1.1", gone}},
		"not usable":          {Options{}, recording(t, stub...), unusable, p6, true, seen{routers.Advertised, core, unused}},
		"address":             {Options{}, recording(t, stub...), on(p4), p4, false, seen{routers.Advertised, core, "cost 0"}},
		"not usable nor said": {Options{}, recording(t, absent...), unusable, p6, false, seen{routers.Configured, "", ""}},
		"absent":              {Options{}, recording(t, absent...), on(), p4, false, seen{routers.Absent, "", "not on"}},
		"kernel unreadable":   {Options{}, recording(t, stub...), &kernel{err: routers.ErrUnavailable}, p4, false, seen{routers.Advertised, core, "cannot be read"}},
		"no static route":     {static, recording(t, "ospfd-external", "zebra-absent", "staticd-empty"), nil, s4, true, seen{routers.Advertised, core, "although our static route is not in zebra's table; if that lasts"}},
		"not ours":            {static, recording(t, "ospfd-external", "zebra-static-foreign", "staticd-foreign"), nil, s4, false, seen{routers.Advertised, core, "although our static route"}},
		"configured":          {static, recording(t, "ospfd-external", "zebra-absent", "staticd-static"), nil, s4, false, seen{routers.Advertised, core, "although our static route"}},
		"static route":        {static, recording(t, "ospfd-external", "zebra-static", "staticd-static"), nil, s4, false, seen{routers.Advertised, core, "cost 20"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.replay.router(c.options)
			if c.kernel != nil {
				d.with(c.kernel)
			}
			os, _ := d.Observe(t.Context(), []netip.Prefix{c.prefix})
			checkSeen(t, []netip.Prefix{c.prefix}, os, []seen{c.want})
			if os[0].Broken != c.broken {
				t.Errorf("broken %v: %s", os[0].Broken, os[0].Detail)
			}
		})
	}
}

// Right after a change no neighbour can have acknowledged it; only later that is worth a word.
func TestAcknowledged(t *testing.T) {
	for age, late := range map[string]bool{"0": false, "1": false, "2": true, "500": true} {
		for _, c := range []struct {
			state string
			k     *kernel
			stage routers.Stage
		}{{"ospfd-stub", on(p4), routers.Advertised}, {"ospfd-absent", on(), routers.Absent}} {
			r := recording(t, c.state, "zebra-address").edit("ospfd", "neighbor", behind).
				edit("ospfd", "router", replace(`"lsaAge": `, `"lsaAge": `+age+`, "was": `))
			os, err := r.router(Options{}).with(c.k).Observe(t.Context(), []netip.Prefix{p4})
			if err != nil || os[0].Stage != c.stage || strings.Contains(os[0].Detail, "not yet acknowledged by 10.0.0.1") != late {
				t.Errorf("%s, age %s: %v, %v, %s", c.state, age, err, os[0].Stage, os[0].Detail)
			}
		}
	}
	// Since when an external LSA is being flushed is not told.
	r := recording(t, "ospfd-absent", "zebra-absent").edit("ospfd", "neighbor", behind).router(Options{}).with(on())
	os, err := r.Observe(t.Context(), []netip.Prefix{s4, p4})
	if err != nil || strings.Contains(os[0].Detail, "acknowledged") || !strings.Contains(os[1].Detail, "acknowledged") {
		t.Errorf("%v, %+v", err, os)
	}
}
