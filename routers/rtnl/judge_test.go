package rtnl

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

const up = unix.IFF_UP | unix.IFF_RUNNING

// The links that the table below leads over, by what they are good for.
const (
	eth0 = iota + 1 // up
	eth1            // up
	off             // set down
	dark            // up, no carrier
	lo
)

var testLinks = map[int]link{
	eth0: {index: eth0, name: "eth0", flags: up}, eth1: {index: eth1, name: "eth1", flags: up}, off: {index: off, name: "off"}, dark: {index: dark, name: "dark", flags: unix.IFF_UP},
	lo: {index: lo, name: "lo", flags: up | unix.IFF_LOOPBACK},
}

var gateway = netip.MustParseAddr("10.0.1.1")

func over(index int) leg                { return leg{gateway, index, 0} }
func flagged(index int, f uint32) leg   { return leg{gateway, index, f} }
func unicast(m uint32, ls ...leg) route { return route{kind: unix.RTN_UNICAST, metric: m, legs: ls} }
func of(kind uint8, m uint32) route     { return route{kind: kind, metric: m} }
func by(id uint32) route                { return route{kind: unix.RTN_UNICAST, nexthop: id} }

var testObjects = map[uint32]nexthop{
	1: {leg: over(eth0)}, 2: {leg: over(eth1)}, 3: {leg: over(off)}, 4: {leg: over(dark)}, 5: {blackhole: true}, 6: {leg: over(lo)},
	10: {group: []uint32{1, 2}}, 11: {group: []uint32{3, 2}}, 12: {group: []uint32{3, 4}}, 13: {group: []uint32{5}},
	20: {leg: flagged(eth0, unix.RTNH_F_DEAD)},
}

// judgements are what default routes are worth over testObjects and testLinks.
var judgements = []struct {
	name   string
	routes []route
	family Family
	want   Way
}{
	{"none", nil, IPv4, Way{}},
	{"single", []route{unicast(0, over(eth0))}, IPv4, good("via 10.0.1.1 dev eth0")},
	{"on link", []route{unicast(0, leg{index: eth0})}, IPv4, good("dev eth0")},
	{"onlink flag", []route{unicast(0, flagged(eth0, unix.RTNH_F_ONLINK))}, IPv4, good("via 10.0.1.1 dev eth0")},
	{"via IPv6", []route{unicast(0, leg{netip.MustParseAddr("fe80::1"), eth0, 0})}, IPv4, good("via fe80::1 dev eth0")},
	{"link down", []route{unicast(0, over(off))}, IPv4, bad("default via 10.0.1.1 dev off: link is down")},
	{"no carrier", []route{unicast(0, over(dark))}, IPv4, bad("default via 10.0.1.1 dev dark: link has no carrier")},
	{"flag linkdown", []route{unicast(0, flagged(eth0, unix.RTNH_F_LINKDOWN))}, IPv4, bad("default via 10.0.1.1 dev eth0: link has no carrier")},
	{"flag dead", []route{unicast(0, flagged(eth0, unix.RTNH_F_DEAD))}, IPv4, bad("default via 10.0.1.1 dev eth0: next hop is dead")},
	{"lo", []route{unicast(0, leg{index: lo})}, IPv4, bad("default dev lo: leads back to this host")},
	{"multipath", []route{unicast(0, over(eth0), over(eth1))}, IPv4, good("via 10.0.1.1 dev eth0, via 10.0.1.1 dev eth1")},
	{"one leg alive", []route{unicast(0, over(off), over(eth1))}, IPv4, good("via 10.0.1.1 dev eth1")},
	{"no leg alive", []route{unicast(0, over(dark), over(off))}, IPv4,
		bad("default via 10.0.1.1 dev dark: link has no carrier; via 10.0.1.1 dev off: link is down")},
	{"no legs", []route{unicast(0)}, IPv4, bad("default has no next hop")},
	{"object", []route{by(1)}, IPv4, good("via 10.0.1.1 dev eth0")},
	{"object over down link", []route{by(3)}, IPv4, bad("default via 10.0.1.1 dev off: link is down")},
	{"object lo", []route{by(6)}, IPv4, bad("default via 10.0.1.1 dev lo: leads back to this host")},
	{"object dead", []route{by(20)}, IPv4, bad("default via 10.0.1.1 dev eth0: next hop is dead")},
	{"object blackhole", []route{by(5)}, IPv4, bad("blackhole default")},
	{"group", []route{by(10)}, IPv4, good("via 10.0.1.1 dev eth0, via 10.0.1.1 dev eth1")},
	{"group, one alive", []route{by(11)}, IPv4, good("via 10.0.1.1 dev eth1")},
	{"group, none alive", []route{by(12)}, IPv4, bad("default via 10.0.1.1 dev dark: link has no carrier; via 10.0.1.1 dev off: link is down")},
	{"group of blackhole", []route{by(13)}, IPv4, bad("blackhole default")},
	{"legs told beside object", []route{{kind: unix.RTN_UNICAST, nexthop: 99, legs: []leg{over(eth0)}}}, IPv4, good("via 10.0.1.1 dev eth0")},
	{"blackhole", []route{of(unix.RTN_BLACKHOLE, 0)}, IPv4, bad("blackhole default")},
	{"unreachable", []route{of(unix.RTN_UNREACHABLE, 0)}, IPv6, bad("unreachable default")},
	{"prohibit", []route{of(unix.RTN_PROHIBIT, 0)}, IPv6, bad("prohibit default")},
	{"throw", []route{of(unix.RTN_THROW, 0)}, IPv4, bad("throw default")},
	{"local", []route{of(unix.RTN_LOCAL, 0)}, IPv4, bad("local default")},
	{"type of the future", []route{of(99, 0)}, IPv4, bad("type 99 default")},
	{"hidden by lower metric", []route{unicast(20, over(eth0)), of(unix.RTN_UNREACHABLE, 10)}, IPv4, bad("unreachable default metric 10")},
	{"hides higher metric", []route{of(unix.RTN_UNREACHABLE, 20), unicast(10, over(eth0))}, IPv4, good("via 10.0.1.1 dev eth0")},
	{"metric above two to the 31", []route{unicast(1<<31+1, over(eth0)), of(unix.RTN_UNREACHABLE, 1)}, IPv4, bad("unreachable default metric 1")},
	{"lower metric without carrier", []route{unicast(20, over(eth0)), unicast(10, over(dark))}, IPv4, bad("default via 10.0.1.1 dev dark: link has no carrier")},
	{"lower metric dead", []route{unicast(20, over(eth0)), unicast(10, flagged(dark, unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN))}, IPv4,
		good("via 10.0.1.1 dev eth0")},
	{"both dead", []route{unicast(20, flagged(eth0, unix.RTNH_F_DEAD)), unicast(10, flagged(dark, unix.RTNH_F_DEAD))}, IPv4,
		bad("default via 10.0.1.1 dev dark: link has no carrier")},
	{"dead, then blackhole", []route{of(unix.RTN_BLACKHOLE, 20), unicast(10, flagged(eth0, unix.RTNH_F_DEAD))}, IPv4, bad("blackhole default metric 20")},
	{"one metric, IPv4: the first", []route{unicast(10, over(dark)), unicast(10, over(eth0))}, IPv4, bad("default via 10.0.1.1 dev dark: link has no carrier")},
	{"one metric, IPv6: any", []route{unicast(10, over(dark)), unicast(10, over(eth0))}, IPv6, good("via 10.0.1.1 dev eth0")},
	{"two metrics, IPv6", []route{unicast(20, over(eth0)), unicast(10, over(dark))}, IPv6, bad("default via 10.0.1.1 dev dark: link has no carrier")},
	{"no such link", []route{unicast(0, over(77))}, IPv4, bad("default via 10.0.1.1 dev : link is down")},
}

func TestJudge(t *testing.T) {
	for _, c := range judgements {
		t.Run(c.name, func(t *testing.T) {
			if got := (picture{c.routes, testObjects, testLinks}).judge(c.family, nil); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestTableName(t *testing.T) {
	for table, want := range map[uint32]string{254: "main (254)", 253: "default (253)", 255: "local (255)", 100: "100", 1 << 31: "2147483648"} {
		if got := TableName(table); got != want {
			t.Errorf("TableName(%d) = %q, want %q", table, got, want)
		}
	}
}
