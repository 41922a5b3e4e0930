package frr

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

func degrade(ps ...netip.Prefix) []routers.Change { return changes(routers.Degraded, ps) }

// releasesOf are those that there are recordings of.
var releasesOf = []string{"8.4.4", "10.3"}

// A plain recording of both releases has no costs of lo.
func plain(release string) []string {
	if release == "8.4.4" {
		return []string{"ospfd-config", "ospf6d-config"}
	}
	return []string{"10.3/ospfd-absent", "10.3/ospf6d-absent"}
}

func both(release, state string) []string {
	return []string{release + "/ospfd-" + state, release + "/ospf6d-" + state}
}

// The cost comes before the address, and goes after it.
func TestDegradeAddress(t *testing.T) {
	const (
		set4, set6     = "ospfd: configure terminal/interface lo: ip ospf cost 500 10.53.53.53", "ospf6d: configure terminal/interface lo: ipv6 ospf6 cost 500"
		unset4, unset6 = "ospfd: configure terminal/interface lo: no ip ospf cost 10.53.53.53", "ospf6d: configure terminal/interface lo: no ipv6 ospf6 cost"
	)
	for _, release := range releasesOf {
		for name, c := range map[string]struct {
			state []string
			cs    []routers.Change
			want  []string
		}{
			"degrade":        {plain(release), degrade(p4, p6), []string{set4, set6}},
			"degrade again":  {both(release, "degraded"), degrade(p4, p6), nil},
			"announce":       {both(release, "degraded"), announce(p4, p6), []string{unset4, unset6}},
			"announce plain": {plain(release), announce(p4, p6), nil},
			"withdraw":       {both(release, "degraded"), withdraw(p4, p6), []string{unset4, unset6}},
			"withdraw plain": {plain(release), withdraw(p4, p6), nil},
			"own cost":       {both(release, "own-cost"), append(degrade(p4), withdraw(p6)...), []string{set4}},
			"one of two":     {plain(release), append(announce(p4), degrade(p6)...), []string{set6}},
			"another p4":     {both(release, "degraded"), announce(s4), nil},
		} {
			for _, there := range []bool{true, false} {
				k := on()
				if there {
					k = on(p4, p6)
				}
				r := recording(t, c.state...)
				if err := r.router(Options{Degraded: Degraded{Cost: 500}, Unpaced: true}).with(k).Apply(t.Context(), c.cs); err != nil {
					t.Errorf("%s %s: %v", release, name, err)
				}
				if diff := cmp.Diff(c.want, r.asked()); diff != "" {
					t.Errorf("%s %s, there %v:\n%s", release, name, there, diff)
				}
				for _, change := range c.cs {
					if want := change.Want != routers.Withdrawn; (k.stages[change.Prefix] == routers.Selected) != want {
						t.Errorf("%s %s: %s is %v", release, name, change.Prefix, k.stages[change.Prefix])
					}
				}
			}
		}
	}
}

// What cannot be degraded is not announced better than asked for, and all else goes on.
func TestDegradeAddressRefused(t *testing.T) {
	o := Options{Degraded: Degraded{Cost: 500}, Unpaced: true}
	q6 := netip.MustParsePrefix("2001:db8:53::54/128")
	for _, release := range releasesOf {
		for name, c := range map[string]struct {
			r     *replay
			cs    []routers.Change
			there []netip.Prefix // then
			class error
			text  string
		}{
			"own cost":    {recording(t, both(release, "own-cost")...), degrade(p4, p6), []netip.Prefix{p4}, routers.ErrRefused, `frr: 2001:db8:53::53/128: not degraded, as there is a cost that is not ours and would be lost ("ipv6 ospf6 cost 7" on interface lo): remove it, or use another interface`},
			"shared":      {recording(t, plain(release)...), append(degrade(p4, p6), announce(q6)...), []netip.Prefix{p4, q6}, routers.ErrRefused, "it shares the cost of interface lo with 2001:db8:53::54/128"},
			"unread":      {recording(t, plain(release)...).fail("ospfd"), append(degrade(p4), announce(p6)...), []netip.Prefix{p6}, routers.ErrUnavailable, "10.53.53.53/32: not degraded, as the costs cannot be read: /run/frr/ospfd.vty"},
			"unread too":  {recording(t, plain(release)...).fail("ospfd"), append(withdraw(p6), announce(p4)...), []netip.Prefix{p4}, nil, ""},
			"not taken":   {recording(t, plain(release)...).refuse("ospfd", "ip ospf cost 500 10.53.53.53"), append(degrade(p4), announce(p6)...), []netip.Prefix{p6}, routers.ErrRefused, "status 13"},
			"withdraw on": {recording(t, both(release, "own-cost")...), append(degrade(p6), withdraw(p4)...), nil, routers.ErrRefused, "not ours"},
		} {
			k := on()
			err := c.r.router(o).with(k).Apply(t.Context(), c.cs)
			if !errors.Is(err, c.class) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s %s: error %v", release, name, err)
			}
			for _, p := range []netip.Prefix{p4, p6, q6} {
				if (k.stages[p] == routers.Selected) != slices.Contains(c.there, p) {
					t.Errorf("%s %s: %s is %v", release, name, p, k.stages[p])
				}
			}
		}
	}
}

// refuse has a daemon refuse a command.
func (r *replay) refuse(daemon, command string) *replay {
	reply := load(r.t, "10.3/mgmtd-locked")["interface lo"]
	reply.Status, reply.Text = 13, "% no\n"
	r.replies[daemon][command] = reply
	return r
}

// The cost in the own LSA decides, not the configuration.
func TestObserveDegradedAddress(t *testing.T) {
	for _, release := range releasesOf {
		o := Options{Degraded: Degraded{Cost: 500}}
		for state, want := range map[string]bool{"stub": false, "degraded": true, "own-cost": false} {
			os, err := recording(t, append(both(release, state), release+"/zebra-address")...).router(o).with(on(p4, p6)).Observe(t.Context(), []netip.Prefix{p4, p6})
			if err != nil || os[0].Stage != routers.Advertised || os[1].Stage != routers.Advertised || os[0].Degraded != want || os[1].Degraded != want {
				t.Errorf("%s %s: %v, %+v", release, state, err, os)
			}
		}
		os, _ := recording(t, append(both(release, "degraded"), release+"/zebra-address")...).router(Options{}).with(on(p4)).Observe(t.Context(), []netip.Prefix{p4})
		if os[0].Degraded || !strings.Contains(os[0].Detail, "cost 500") { // told, though nothing is made of it
			t.Errorf("%s: %+v", release, os[0])
		}
	}
}

// Of each method without a worse way nothing is asked, and the way out is told.
func TestNoWorseWay(t *testing.T) {
	for text, o := range map[string]Options{
		"set cost in [router.degraded]":      {},
		"use method network, with route_map": {Protocol: ProtocolBGP, Degraded: Degraded{Cost: 5}},
		"set route_map in [router.degraded]": {Method: MethodNetwork, Degraded: Degraded{Cost: 5, Tag: 5}},
		"set tag in [router.degraded]":       {Method: MethodStatic, Degraded: Degraded{Cost: 5, RouteMap: "X"}},
	} {
		r := recording(t, "bgpd-absent", "zebra-absent", "staticd-empty")
		err := r.router(o).Apply(t.Context(), degrade(p4))
		if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), text) || len(r.changes) > 0 {
			t.Errorf("%s: %v, asked %v", text, err, r.asked())
		}
	}
}

func TestDegradeNetwork(t *testing.T) {
	o := Options{Method: MethodNetwork, Degraded: Degraded{RouteMap: "WORSE"}}
	v4, v6 := "bgpd: configure terminal/router bgp/address-family ipv4 unicast: ", "bgpd: configure terminal/router bgp/address-family ipv6 unicast: "
	worse4, worse6 := v4+"network 10.53.53.53/32 route-map WORSE", v6+"network 2001:db8:53::53/128 route-map WORSE"
	for _, release := range releasesOf {
		withMap := func(state string) *replay {
			return recording(t, release+"/bgpd-"+state).edit("bgpd", "running", func(text string) string { return text + "\nroute-map WORSE permit 10\n" })
		}
		for name, c := range map[string]struct {
			r     *replay
			cs    []routers.Change
			want  []string
			class error
		}{
			"degrade":           {withMap("peers"), degrade(p4, p6), []string{worse4, worse6}, nil},
			"from absent":       {withMap("absent"), degrade(p4), []string{worse4}, nil},
			"again":             {recording(t, release+"/bgpd-degraded"), degrade(p4), []string{worse4}, nil},
			"announce":          {recording(t, release+"/bgpd-degraded"), announce(p4, p6), []string{v4 + "network 10.53.53.53/32", v6 + "network 2001:db8:53::53/128"}, nil},
			"withdraw":          {recording(t, release+"/bgpd-degraded"), withdraw(p4), []string{v4 + "no network 10.53.53.53/32"}, nil},
			"no route-map":      {recording(t, release+"/bgpd-peers"), append(degrade(p4), withdraw(p6)...), []string{v6 + "no network 2001:db8:53::53/128"}, routers.ErrRefused},
			"options":           {recording(t, release+"/bgpd-degraded").edit("bgpd", "running", replace("32 route-map WORSE", "32 route-map OTHER")), degrade(p4), nil, routers.ErrRefused},
			"announce, options": {recording(t, release+"/bgpd-degraded").edit("bgpd", "running", replace("32 route-map WORSE", "32 route-map OTHER")), announce(p4), nil, nil},
		} {
			t.Run(release+" "+name, func(t *testing.T) { checkApply(t, c.r, o, c.cs, c.want, c.class) })
		}
		for state, want := range map[string]struct {
			stage    routers.Stage
			degraded bool
		}{"peers": {routers.Advertised, false}, "degraded": {routers.Advertised, true}, "no-route-map": {routers.Configured, true}} {
			os, err := recording(t, release+"/bgpd-"+state).router(o).Observe(t.Context(), []netip.Prefix{p4, p6})
			for _, o := range os {
				if err != nil || o.Stage != want.stage || o.Degraded != want.degraded || strings.Contains(o.Detail, "loses") {
					t.Errorf("%s %s: %v, %+v", release, state, err, o)
				}
			}
		}
	}
}

func TestDegradeStatic(t *testing.T) {
	for release, dir := range releases(t) {
		o := Options{Method: MethodStatic, SocketDir: dir, Degraded: Degraded{Tag: 66}}
		daemon := map[string]string{"8.4.4": "staticd", "10.3": "mgmtd"}[release]
		node := daemon + ": configure terminal: "
		state := func(zebra, config string) *replay {
			return recording(t, release+"/zebra-"+zebra, release+"/"+daemon+"-"+config)
		}
		worse := node + "ip route 10.53.54.1/32 blackhole tag 66, ipv6 route 2001:db8:54::1/128 blackhole tag 66"
		better := node + "ip route 10.53.54.1/32 blackhole, ipv6 route 2001:db8:54::1/128 blackhole"
		checkApply(t, state("absent", "empty"), o, degrade(s4, s6), []string{worse}, nil)
		checkApply(t, state("static", "static"), o, degrade(s4, s6), []string{worse}, nil)
		checkApply(t, state("static-tag", "static-tag"), o, announce(s4, s6), []string{better}, nil)
		checkApply(t, state("static-tag", "static-tag"), o, withdraw(s4), []string{node + "no ip route 10.53.54.1/32 blackhole"}, nil)
		// Of another's blackhole nothing is taken away, though it would go with ours.
		checkApply(t, state("static-kin", "static-kin"), o, withdraw(s4, s6), nil, routers.ErrRefused)
		checkApply(t, state("static-tag", "static-tag"), Options{Method: MethodStatic, SocketDir: dir}, withdraw(s4), nil, routers.ErrRefused)
		checkApply(t, state("static-kin", "static-kin").edit(daemon, "running", func(string) string { return "" }), o, withdraw(s4), []string{node + "no ip route 10.53.54.1/32 blackhole"}, routers.ErrUnavailable)
		for zebra, want := range map[string]bool{"static": false, "static-tag": true} {
			r := recording(t, release+"/zebra-"+zebra, release+"/"+daemon+"-"+zebra, release+"/ospfd-external", release+"/ospf6d-external")
			os, err := r.router(o).Observe(t.Context(), []netip.Prefix{s4, s6})
			for _, o := range os {
				if err != nil || o.Stage != routers.Advertised || o.Degraded != want {
					t.Errorf("%s %s: %v, %+v", release, zebra, err, o)
				}
			}
		}
	}
}

// While an address is still there its cost stays: without it that would be announced better.
func TestCostStaysWithAddress(t *testing.T) {
	for _, release := range releasesOf {
		k := on(p4, p6)
		k.stuck = true
		r := recording(t, both(release, "degraded")...)
		if err := r.router(Options{Degraded: Degraded{Cost: 500}, Unpaced: true}).with(k).Apply(t.Context(), withdraw(p4, p6)); err != nil || len(r.changes) > 0 {
			t.Errorf("%s: %v, asked %v", release, err, r.asked())
		}
	}
}

// What is there in the other way is still to be changed, and met by no answer.
func TestOtherWay(t *testing.T) {
	for _, c := range []struct {
		want    routers.Want
		o       routers.Observation
		pending bool
	}{
		{routers.Announced, routers.Observation{Stage: routers.Selected}, false},
		{routers.Announced, routers.Observation{Stage: routers.Selected, Degraded: true}, true},
		{routers.Degraded, routers.Observation{Stage: routers.Selected}, true},
		{routers.Degraded, routers.Observation{Stage: routers.Selected, Degraded: true}, false},
		{routers.Degraded, routers.Observation{Stage: routers.Absent, Degraded: true}, true},
		{routers.Withdrawn, routers.Observation{Stage: routers.Selected, Degraded: true}, true},
		{routers.Withdrawn, routers.Observation{Stage: routers.Absent}, false},
	} {
		change := routers.Change{Prefix: p4, Want: c.want}
		if got := len(pending([]routers.Change{change}, []routers.Observation{c.o})) > 0; got != c.pending || met(c.want, c.o) == c.pending {
			t.Errorf("%s, %+v: pending %v, met %v", c.want, c.o, got, met(c.want, c.o))
		}
	}
}
