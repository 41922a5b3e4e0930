package bird

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// deaf is a BIRD that is away, or of a version.
type deaf struct {
	talker
	v     ctl.Version
	asked *int
}

func (d deaf) version(context.Context) (ctl.Version, error) {
	if d.asked != nil {
		*d.asked++
	}
	if d.v.Major == 0 {
		return d.v, routers.Errorf(routers.ErrUnavailable, "away")
	}
	return d.v, nil
}

func labelled(o Options, labels map[netip.Prefix]routers.Label) *names {
	n := newNames(o.withDefaults())
	n.set(labels)
	return n
}

func TestNames(t *testing.T) {
	own := routers.Label{Service: "dns", Symbol: "mine"}
	for name, test := range map[string]struct {
		o             Options
		label         routers.Label
		p             netip.Prefix
		symbol, worse string
	}{
		"protocol":        {Options{Method: MethodProtocol}, routers.Label{Service: "web-1.x"}, four, "web_1_x", ""},
		"protocol, IPv6":  {Options{Method: MethodProtocol, Degraded: Degraded{Symbol: "{service}_worse"}}, routers.Label{Service: "dns"}, six, "dns6", "dns_worse6"},
		"switch, IPv6":    {Options{Method: MethodInclude, Degraded: Degraded{Symbol: "{SERVICE}_WORSE"}}, routers.Label{Service: "dns"}, six, "DNS_OFF", "DNS_WORSE"},
		"routes, IPv6":    {Options{Method: MethodInclude, Style: StyleRoutes}, routers.Label{Service: "dns"}, six, "vouch6", ""},
		"list, IPv6":      {Options{Method: MethodInclude, Style: StyleList}, routers.Label{Service: "dns"}, six, "ANYCAST_PREFIXES6", ""},
		"function, IPv6":  {Options{Method: MethodInclude, Style: StyleFunction}, routers.Label{Service: "dns"}, six, "match_route", ""},
		"a symbol of own": {Options{Method: MethodInclude}, own, four, "mine", ""},
		"six of own":      {Options{Method: MethodProtocol, Symbol: "a", Symbol6: "b"}, routers.Label{Service: "dns"}, six, "b", ""},
	} {
		n := labelled(test.o, map[netip.Prefix]routers.Label{test.p: test.label})
		if symbol, worse := n.of(test.p); symbol != test.symbol || worse != test.worse {
			t.Errorf("%s: %q, %q", name, symbol, worse)
		}
	}
}

// Services that only symbols cannot tell apart are not announced; withdrawn they can be.
func TestRivals(t *testing.T) {
	r := newRouter(Options{Method: MethodProtocol}.withDefaults(), daemons{deaf{}, deaf{}})
	r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "a-b"}, six: {Service: "a_b"}})
	err := r.Apply(t.Context(), []routers.Change{{Prefix: four, Want: routers.Announced}})
	if !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), `"a-b" and "a_b"`) {
		t.Errorf("announcing: %v", err)
	}
	if err := r.valid(routers.Change{Prefix: four, Want: routers.Withdrawn}); err != nil {
		t.Errorf("withdrawing: %v", err)
	}
	for name, labels := range map[string]map[netip.Prefix]routers.Label{
		"renamed":         {four: {Service: "a-b"}},
		"own symbol":      {four: {Service: "a-b"}, six: {Service: "a_b", Symbol: "c"}},
		"another service": {four: {Service: "a-b"}, six: {Service: "a_c"}},
		"the same one":    {four: {Service: "a-b"}, six: {Service: "a-b"}},
	} {
		r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "a-b"}, six: {Service: "a_b"}})
		r.SetLabels(labels)
		if rival := r.names.rival(four); rival != "" {
			t.Errorf("%s: %q", name, rival)
		}
	}
}

// Withdraws come first, and what takes over is enabled before what it takes over from is disabled.
func TestProtocolCommands(t *testing.T) {
	var third = netip.MustParsePrefix("10.53.53.54/32")
	o := Options{Method: MethodProtocol, Symbol6: "{service}", Degraded: Degraded{Symbol: "{service}_w", Symbol6: "{service}_w"}}
	b := byProtocol{names: labelled(o, map[netip.Prefix]routers.Label{four: {Service: "a"}, six: {Service: "b"}, third: {Service: "a"}})}
	for _, test := range []struct {
		cs   []routers.Change
		want string
	}{
		{[]routers.Change{{Prefix: four, Want: routers.Announced}, {Prefix: six, Want: routers.Withdrawn}}, "disable 'b', disable 'b_w', enable 'a', disable 'a_w'"},
		{[]routers.Change{{Prefix: four, Want: routers.Degraded}}, "enable 'a_w', disable 'a'"},
		{[]routers.Change{{Prefix: four, Want: routers.Announced}, {Prefix: third, Want: routers.Withdrawn}}, "disable 'a', disable 'a_w'"},
	} {
		if got := strings.Join(b.commands(test.cs), ", "); got != test.want {
			t.Errorf("%v: %s, want %s", test.cs, got, test.want)
		}
	}
}

func TestAddressJudge(t *testing.T) {
	given := sight{own: []route{{protocol: "lo", best: true}}, peers: []routers.Peer{{Name: "core", Stage: routers.Advertised}}}
	unread := sight{err: errors.New("hangs")}
	for name, test := range map[string]struct {
		kernel routers.Stage
		s      sight
		stage  routers.Stage
		broken bool
	}{
		"all there":                {routers.Selected, given, routers.Advertised, false},
		"gone, still given":        {routers.Absent, given, routers.Advertised, true},
		"tentative, given":         {routers.Configured, given, routers.Advertised, true},
		"no direct protocol":       {routers.Selected, sight{}, routers.Configured, false},
		"nothing":                  {routers.Absent, sight{}, routers.Absent, false},
		"kernel unread":            {routers.Unknown, sight{}, routers.Unknown, false},
		"kernel unread, but given": {routers.Unknown, given, routers.Advertised, false},
		"bird unread":              {routers.Absent, unread, routers.Unknown, false},
	} {
		o := byAddress{options: Options{MinPeers: 1}}.judge(routers.Observation{Prefix: four, Stage: test.kernel}, test.s)
		if o.Stage != test.stage || o.Broken != test.broken {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// Each BIRD is asked once, and one that is away keeps no withdraw.
func TestAddressApply(t *testing.T) {
	asked := 0
	var done []routers.Change
	a := byAddress{daemons: daemons{deaf{v: ctl.Version{Major: 1}, asked: &asked}, deaf{}},
		change: func(_ context.Context, _ string, cs []routers.Change) error { done = cs; return nil }}
	cs := []routers.Change{{Prefix: four, Want: routers.Announced}, {Prefix: netip.MustParsePrefix("10.53.53.54/32"), Want: routers.Announced},
		{Prefix: six, Want: routers.Announced}, {Prefix: netip.MustParsePrefix("2001:db8:53::54/128"), Want: routers.Withdrawn}}
	if err := a.apply(t.Context(), cs); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(done, slices.Delete(slices.Clone(cs), 2, 3)) {
		t.Errorf("done: %v", done)
	}
	if asked > 2 {
		t.Errorf("asked %d times", asked)
	}
}

// What a switch says beside what peers are given. The route of an address counts for what it is once a peer has it.
func TestSwitched(t *testing.T) {
	b := newInclude(Options{Method: MethodInclude, MinPeers: 1}.withDefaults(), daemons{}, newNames(Options{}), &memo{})
	static := route{protocol: "a", best: true}
	address := route{protocol: "lo4", best: true, attributes: map[string]string{"source": "device"}}
	seen := func(r route, peer routers.Stage) sight {
		return sight{own: []route{r}, peers: []routers.Peer{{Name: "core", Stage: peer}}, givers: map[string]string{"core": r.protocol}}
	}
	on, worse, off := value{known: true, normal: true}, value{known: true, worse: true}, value{known: true}
	for name, test := range map[string]struct {
		s        sight
		v        value
		stage    routers.Stage
		degraded bool
	}{
		"announced":                  {seen(static, routers.Advertised), on, routers.Advertised, false},
		"degraded":                   {seen(static, routers.Advertised), worse, routers.Advertised, true},
		"degraded, and nothing left": {sight{}, worse, routers.Absent, false},
		"on, and no route":           {sight{}, on, routers.Configured, false},
		"given, and not told":        {seen(static, routers.Advertised), value{failed: true}, routers.Advertised, false},
		"not given, and not told":    {seen(static, routers.Selected), value{failed: true}, routers.Unknown, false},
		"an address":                 {seen(address, routers.Selected), off, routers.Absent, false},
		"an address that is given":   {seen(address, routers.Advertised), off, routers.Advertised, false},
	} {
		o := b.judge(four, test.s, test.v)
		if o.Stage != test.stage || o.Degraded != test.degraded || o.Broken {
			t.Errorf("%s: %+v", name, o)
		}
		if told := strings.Contains(o.Detail, "the route of protocol lo4"); told != (name == "an address that is given") {
			t.Errorf("%s: %s", name, o.Detail)
		}
	}
}

// A route is of the worse way when it has all that this is made of.
func TestOn(t *testing.T) {
	r := route{attributes: map[string]string{"bgp_med": "50", "bgp_path": "65001 65001", "bgp_community": "(65001,666)", "ospf_metric2": "70"}}
	for _, d := range []Degraded{{MED: 50}, {Prepend: []uint32{65001, 65001}}, {Community: []string{"65001:666"}}, {Metric2: 70}} {
		if !d.on(r) || d.on(route{}) {
			t.Errorf("%+v: %v, and %v without", d, d.on(r), d.on(route{}))
		}
	}
	for _, d := range []Degraded{{}, {MED: 51}, {MED: 50, Prepend: []uint32{1, 1, 1}}, {MED: 50, Community: []string{"65001:667"}}, {MED: 50, Metric2: 71}} {
		if d.on(r) {
			t.Errorf("%+v is taken for it", d)
		}
	}
}

func TestListed(t *testing.T) {
	one := route{protocol: "a", best: true}
	given := sight{own: []route{one}, peers: []routers.Peer{{Name: "core", Stage: routers.Advertised}}}
	kept := sight{own: []route{one}, peers: []routers.Peer{{Name: "core", Stage: routers.Selected}}}
	for name, test := range map[string]struct {
		s        sight
		v        value
		stage    routers.Stage
		degraded bool
	}{
		"announced":             {given, value{known: true, normal: true}, routers.Advertised, false},
		"degraded":              {given, value{known: true, worse: true}, routers.Advertised, true},
		"not in, still given":   {given, value{known: true}, routers.Advertised, false},
		"not in, route stays":   {kept, value{known: true}, routers.Absent, false},
		"in, filter keeps it":   {kept, value{known: true, normal: true}, routers.Selected, false},
		"in, no route":          {sight{}, value{known: true, normal: true}, routers.Configured, false},
		"unread, nothing given": {sight{err: errors.New("hangs")}, value{known: true}, routers.Unknown, false},
		"value unread":          {kept, value{failed: true}, routers.Selected, false},
	} {
		if o := test.s.listed(four, 1, test.v); o.Stage != test.stage || o.Degraded != test.degraded {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
