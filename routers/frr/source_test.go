package frr

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"vouch/routers"
)

func TestOriginTakes(t *testing.T) {
	hole, hop := []nexthop{{Blackhole: true}}, []nexthop{{Interface: "eth0"}}
	for _, c := range []struct {
		name                    string
		routes                  []route
		there, selected, others bool
		winner                  string
		tags, metrics           []uint32
	}{
		{name: "nothing"},
		{name: "ours", routes: []route{{Protocol: "kernel", Selected: true, Metric: 20, Nexthops: hole}}, there: true, selected: true, winner: "kernel", tags: []uint32{0}, metrics: []uint32{20}},
		{name: "both ways", routes: []route{{Protocol: "kernel", Selected: true, Metric: 20, Nexthops: hole}, {Protocol: "kernel", Metric: 666, Nexthops: hole}},
			there: true, selected: true, winner: "kernel", tags: []uint32{0, 0}, metrics: []uint32{20, 666}},
		{name: "of another protocol", routes: []route{{Protocol: "static", Selected: true, Nexthops: hole}}, winner: "static"},
		{name: "not selected", routes: []route{{Protocol: "bgp", Selected: true, Nexthops: hop}, {Protocol: "kernel", Tag: 666, Nexthops: hole}}, there: true, winner: "bgp", tags: []uint32{666}, metrics: []uint32{0}},
		{name: "no blackhole", routes: []route{{Protocol: "kernel", Selected: true, Nexthops: hop}}, others: true, winner: "kernel"},
	} {
		var o Origin
		o.take(c.routes, SourceKernel)
		if o.There != c.there || o.Selected != c.selected || o.Others != c.others || o.Winner != c.winner || !slices.Equal(o.Tags, c.tags) || !slices.Equal(o.Metrics, c.metrics) {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

func TestOriginSaysWhy(t *testing.T) {
	for want, o := range map[string]Origin{
		"":                              {There: true, Selected: true},
		"zebra does not have the route": {},
		"zebra cannot be read: no":      {Unread: errors.New("no"), There: true},
		"the route is not selected: the bgp route for it wins": {There: true, Winner: "bgp"},
		"the route is not selected":                            {There: true},
	} {
		if got := o.Why(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOriginIsOrphan(t *testing.T) {
	for _, c := range []struct {
		origin Origin
		want   bool
	}{
		{Origin{Stage: routers.Advertised}, true},
		{Origin{Stage: routers.Selected}, true},
		{Origin{Stage: routers.Configured}, false},
		{Origin{Stage: routers.Advertised, There: true}, false},
		{Origin{Stage: routers.Advertised, Unread: errors.New("no")}, false},
	} {
		c.origin.wayOut = "restart it"
		if got := c.origin.Orphan(); (got != "") != c.want {
			t.Errorf("%+v: %q", c.origin, got)
		}
	}
}

// What is made of a route may be made of the one that is there; the entry of an address is not.
func TestWayOut(t *testing.T) {
	for _, c := range []struct {
		sight  sight
		winner string
		want   string
	}{
		{sight{stale: "restart it", routed: true}, "", "restart it"},
		{sight{stale: "restart it", routed: true}, "kernel", ""},
		{sight{stale: "restart it"}, "kernel", "restart it"},
		{sight{}, "", ""},
	} {
		if got := c.sight.wayOut(c.winner); got != c.want {
			t.Errorf("%+v, %q: %q", c.sight, c.winner, got)
		}
	}
}

func TestStaticCommand(t *testing.T) {
	for want, s := range map[string]Static{
		"ip route 192.0.2.53/32 blackhole":                {Prefix: netip.MustParsePrefix("192.0.2.53/32")},
		"ipv6 route 2001:db8::53/128 blackhole tag 666 7": {netip.MustParsePrefix("2001:db8::53/128"), 666, 7},
	} {
		if got := s.command(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A source of kernel routes has no use for staticd, and one of static routes has.
func TestSourceNeeds(t *testing.T) {
	ps := []netip.Prefix{netip.MustParsePrefix("192.0.2.53/32")}
	for source, want := range map[string][]string{SourceKernel: {"zebra", "bgpd"}, SourceStatic: {"zebra", "staticd", "bgpd"}} {
		s := NewSource(Options{Protocol: ProtocolBGP, SocketDir: t.TempDir()}, source)
		if got := s.router.options.needs(ps); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
