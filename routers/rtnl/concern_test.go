package rtnl

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/rtnltest"
)

func TestConcernOf(t *testing.T) {
	rt := func(kind uint16, bits byte) []byte {
		b := rtmsg(unix.RTN_UNICAST, 254, 0)
		b[1] = bits
		return message(kind, 0, 0, b)
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  Concern
	}{
		{"default", rt(unix.RTM_DELROUTE, 0), OnDefaults},
		{"half", rt(unix.RTM_NEWROUTE, 1), OnDefaults},
		{"quarter", rt(unix.RTM_NEWROUTE, 2), OnNetworks},
		{"host", rt(unix.RTM_DELROUTE, 32), OnNetworks},
		{"route cut short", message(unix.RTM_NEWROUTE, 0, 0, []byte{2, 32}), OnDefaults},
		{"link", message(unix.RTM_DELLINK, 0, 0), OnLinks},
		{"object", message(unix.RTM_DELNEXTHOP, 0, 0), OnLinks},
		{"address", message(unix.RTM_NEWADDR, 0, 0), OnAddresses},
		{"rule", message(unix.RTM_DELRULE, 0, 0), OnRules},
		{"several", slices.Concat(rt(unix.RTM_NEWROUTE, 24), message(unix.RTM_NEWADDR, 0, 0)), OnNetworks | OnAddresses},
		{"of the future", message(999, 0, 0), OnEverything},
		{"nothing", nil, OnEverything},
		{"cut short", rt(unix.RTM_NEWROUTE, 24)[:20], OnEverything},
	} {
		if got := concernOf(c.bytes); got != c.want {
			t.Errorf("%s: %b, want %b", c.name, got, c.want)
		}
	}
}

func watchFor(tb testing.TB, ns *rtnltest.Namespace, concern Concern) *watcher {
	tb.Helper()
	return watch(tb, ns, func(ctx context.Context, wake func()) error { return WatchFor(ctx, concern, wake) })
}

// TestWatchForWakesOnlyThose has real changes of each sort, and behind each a marker that wakes the other.
func TestWatchForWakesOnlyThose(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link set lo up", "addr add 10.0.1.2/30 dev lo")
	ws := map[Concern]*watcher{}
	all := []Concern{OnLinks, OnAddresses, OnDefaults, OnNetworks, OnRules}
	for _, c := range all {
		ws[c] = watchFor(t, ns, c)
	}
	for _, c := range []struct {
		line  string
		wakes Concern
	}{
		{"addr add 10.53.53.53/32 dev lo", OnAddresses | OnNetworks}, // and its local route
		{"route add blackhole default", OnDefaults}, {"route del blackhole default", OnDefaults},
		{"route add blackhole 128.0.0.0/1", OnDefaults}, {"route add blackhole ::/0", OnDefaults},
		{"route add blackhole 192.0.2.0/24", OnNetworks}, {"route add blackhole 2001:db8::/32 table 77", OnNetworks},
		{"rule add to 192.0.2.0/24 table 77", OnRules},
		{"nexthop add id 7 blackhole", OnLinks}, {"link set lo mtu 1400", OnLinks},
	} {
		before := map[Concern]int64{}
		for concern, w := range ws {
			w.ns.Wait("the hints have settled", w.settled())
			before[concern] = w.hints.Load()
		}
		ip(t, c.line)
		for _, concern := range all {
			if c.wakes&concern != 0 {
				ns.Wait(fmt.Sprintf("%b wakes after %s", concern, c.line), func() bool { return ws[concern].hints.Load() > before[concern] })
			}
		}
		for _, concern := range all {
			if c.wakes&concern == 0 && ws[concern].hints.Load() > before[concern] {
				t.Errorf("%s woke %b", c.line, concern)
			}
		}
	}
}

// TestFullTableWakesNobody has 200,000 routes come and go in one namespace with one who waits for addresses.
func TestFullTableWakesNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: long")
	}
	ns := twoPairs(t)
	w := watchFor(t, ns, OnAddresses)
	w.ns.Wait("the hints have settled", w.settled())
	before := w.hints.Load()
	storm(t, 100000)
	ip(t, "route flush table 77")
	w.wakes("the storm, for a single change", func() { ip(t, "addr add 10.53.53.53/32 dev lo") })
	if got := w.hints.Load() - before; got > 100 { // each loss of messages, if there was one, is a hint
		t.Errorf("%d hints", got)
	}
}

// TestWatchesShareASocket has it go with the last of them.
func TestWatchesShareASocket(t *testing.T) {
	ns := twoPairs(t)
	before := descriptors(t)
	var ws []*watcher
	for range 100 {
		ws = append(ws, watchFor(t, ns, OnAddresses))
	}
	if got := descriptors(t); got > before+2 { // the socket, and what the runtime waits with
		t.Errorf("%d watches have %d descriptors", len(ws), got-before)
	}
	for _, w := range ws {
		w.wakes("an address", func() { ip(t, "addr replace 10.53.53.53/32 dev lo", "addr del 10.53.53.53/32 dev lo") })
		w.stop()
		if err := w.end(t); err != nil {
			t.Error(err)
		}
	}
	if got := descriptors(t); got > before+1 {
		t.Errorf("%d descriptors are left", got-before)
	}
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(all)
}

// TestZeroComesFirst is why an IPv4 dump need not be read to its end: what begins with 0.0.0.0 comes before
// all else, the default route among it.
func TestZeroComesFirst(t *testing.T) {
	twoPairs(t)
	ip(t, "route add blackhole 1.0.0.0/8", "route add blackhole 0.0.0.0/8", "route add blackhole 128.0.0.0/1",
		"route add blackhole 0.0.0.0/1", "route add blackhole default", "route add blackhole 0.0.0.1/32")
	var order []string
	_, _, err := dumpRoutes(unhurried(t), IPv4, MainTable, func(data []byte) (route, bool, bool) {
		r, ok := parseRoute(data, MainTable)
		if zero := !r.dst.IsValid() || r.dst.Addr().IsUnspecified(); beyondZero(data, MainTable) == zero {
			t.Errorf("%s is beyond zero: %t", r.name(), !zero)
		}
		order = append(order, r.name())
		return r, ok, true
	})
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) int { return slices.Index(order, name) }
	if d := at("default"); d < 0 || d > at("1.0.0.0/8") || d > at("128.0.0.0/1") || d > at("0.0.0.1/32") {
		t.Errorf("the kernel's order: %q", order)
	}
}

func TestDummyLinkIsNoWay(t *testing.T) {
	info := attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, []byte("dummy\x00")))
	ifinfo := slices.Concat(make([]byte, 4), word(7), word(up), word(0))
	l, ok := parseLink(slices.Concat(ifinfo, attribute(unix.IFLA_IFNAME, []byte("dummy0\x00")), info))
	if !ok || l.kind != "dummy" || l.name != "dummy0" {
		t.Fatalf("link %+v, %t", l, ok)
	}
	p := picture{[]route{unicast(0, over(7))}, nil, map[int]link{7: l}}
	if got, want := p.judge(IPv4, nil), bad("default via 10.0.1.1 dev dummy0: a dummy interface sends nothing"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestMoreSpecificRoutes has judge ask the most specific first, as the kernel does.
func TestMoreSpecificRoutes(t *testing.T) {
	toNet := func(s string, r route) route { r.dst = netip.MustParsePrefix(s); return r }
	for _, c := range []struct {
		name   string
		routes []route
		want   Way
	}{
		{"hides", []route{unicast(0, over(eth0)), toNet("10.0.0.0/8", of(unix.RTN_BLACKHOLE, 9))}, bad("blackhole 10.0.0.0/8 metric 9")},
		{"leads", []route{of(unix.RTN_BLACKHOLE, 0), toNet("10.0.0.0/8", unicast(9, over(eth1)))}, Way{Found: true, Usable: true, Text: "10.0.0.0/8 via 10.0.1.1 dev eth1"}},
		{"is dead", []route{unicast(0, over(eth0)), toNet("10.0.0.0/8", unicast(0, flagged(dark, unix.RTNH_F_DEAD)))}, good("via 10.0.1.1 dev eth0")},
	} {
		if got := (picture{c.routes, testObjects, testLinks}).judge(IPv4, nil); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	p := picture{[]route{unicast(0, over(eth0), over(eth1))}, nil, testLinks}
	if got := p.judge(IPv4, []string{"eth1"}); got != good("via 10.0.1.1 dev eth1") {
		t.Errorf("over eth1: %+v", got)
	}
}

// TestLossLastsUntilEmpty has more queued than is taken at once, so that what is dropped behind it is dropped
// without another word: all that is read until then may hide anything.
func TestLossLastsUntilEmpty(t *testing.T) {
	twoPairs(t)
	c, err := listen(watched)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.enlarge()
	storm(t, 60000)
	ip(t, "addr add 10.53.53.53/32 dev lo") // is lost
	reads := 0
	for first := true; first || c.congested; first = false {
		reads++
		if changed, err := c.changed(); err != nil || changed != OnEverything {
			t.Fatalf("reading %d: %b, %v", reads, changed, err)
		}
	}
	if reads < 2 {
		t.Errorf("%d reading emptied the queue, which proves nothing", reads)
	}
}
