package rtnl

import (
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// nexthopID is RTA_NH_ID: the nexthop object that a route leads to.
const nexthopID = 30

// A route is one route as the kernel tells of it.
type route struct {
	dst     netip.Prefix // the zero Prefix: everything
	table   uint32
	kind    uint8         // RTN_*
	metric  uint32        // RTA_PRIORITY: the lowest is asked first
	legs    []leg         // none where only the nexthop object is told (net.ipv4.nexthop_compat_mode=0)
	nexthop uint32        // the id of the nexthop object, or 0
	left    time.Duration // until its lifetime ends, such as a router advertised; negative: it has ended; 0: it never does
	partial bool          // for one source or type of service only, or the kernel's memory of a lookup (RTM_F_CLONED)
}

// length is that of the prefix.
func (r route) length() int { return max(0, r.dst.Bits()) }

// name is such as "default" or "10.0.0.0/8".
func (r route) name() string {
	if r.dst.IsValid() {
		return r.dst.String()
	}
	return "default"
}

// text is such as "blackhole default metric 20", as iproute2 has it.
func (r route) text(kind string) string {
	s := kind + " " + r.name()
	if r.metric != 0 {
		s += " metric " + strconv.FormatUint(uint64(r.metric), 10)
	}
	return s
}

// A leg is one next hop of a route.
type leg struct {
	gateway netip.Addr // the zero Addr: directly on the link
	index   int        // of the interface
	flags   uint32     // RTNH_F_*
}

func (l leg) has(flag uint32) bool { return l.flags&flag != 0 }

// A nexthop is one nexthop object: a blackhole, a group of others, or a leg.
type nexthop struct {
	blackhole bool
	group     []uint32
	leg       leg
}

// toAll says that a struct rtmsg is of a default route of some sort.
func toAll(b []byte) bool { return len(b) >= unix.SizeofRtMsg && b[1] == 0 }

// parseDefault reads a struct rtmsg and its attributes if it is a default route of the table.
// Everything else is left as early as can be: a table may have a million other routes.
func parseDefault(b []byte, table uint32) (route, bool) {
	if !toAll(b) {
		return route{}, false
	}
	return parseRoute(b, table)
}

// parseRoute reads a struct rtmsg and its attributes if it is a route of the table. Routes for one type
// of service (IPv4) or one source (IPv6) only do not count, nor does what the kernel keeps of past lookups.
func parseRoute(b []byte, table uint32) (route, bool) {
	r, ok := parseAny(b)
	return r, ok && r.table == table && !r.partial
}

// parseAny reads a struct rtmsg and its attributes.
func parseAny(b []byte) (route, bool) {
	if len(b) < unix.SizeofRtMsg {
		return route{}, false
	}
	flags := native.Uint32(b[8:])
	r := route{kind: b[7], table: uint32(b[4]), partial: b[2] != 0 || b[3] != 0 || flags&unix.RTM_F_CLONED != 0}
	only := leg{flags: flags}
	for kind, value := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_TABLE:
			r.table = number(value)
		case unix.RTA_DST:
			r.dst = network(value, int(b[1]))
		case unix.RTA_PRIORITY:
			r.metric = number(value)
		case nexthopID:
			r.nexthop = number(value)
		case unix.RTA_CACHEINFO:
			r.left = lifetime(value)
		case unix.RTA_MULTIPATH:
			r.legs = parseLegs(value)
		default:
			only.set(kind, value)
		}
	}
	if only.index != 0 && r.legs == nil {
		r.legs = []leg{only}
	}
	return r, b[1] == 0 || r.dst.IsValid()
}

// tick is the unit of times in what the kernel tells users, 1/USER_HZ: 100 on every architecture that Go knows.
const tick = 10 * time.Millisecond

// lifetime reads rta_expires, the third member of a struct rta_cacheinfo.
func lifetime(value []byte) time.Duration {
	if len(value) < 12 {
		return 0
	}
	return time.Duration(int32(native.Uint32(value[8:]))) * tick
}

// network gives the destination of a route; it is the zero Prefix for everything.
func network(value []byte, bits int) netip.Prefix {
	a, ok := netip.AddrFromSlice(value)
	if !ok || bits == 0 || bits > a.BitLen() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits)
}

// set takes over an attribute that tells of a next hop.
func (l *leg) set(kind uint16, value []byte) {
	switch kind {
	case unix.RTA_OIF:
		l.index = int(number(value))
	case unix.RTA_GATEWAY:
		l.gateway, _ = netip.AddrFromSlice(value)
	case unix.RTA_VIA: // a gateway of the other family, behind its address family of 16 bits
		if len(value) > 2 {
			l.gateway, _ = netip.AddrFromSlice(value[2:])
		}
	}
}

// parseLegs reads RTA_MULTIPATH: a run of struct rtnexthop, each with attributes of its own.
func parseLegs(b []byte) []leg {
	legs := []leg{}
	for len(b) >= unix.SizeofRtNexthop {
		n := int(native.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			break
		}
		l := leg{flags: uint32(b[2]), index: int(int32(native.Uint32(b[4:])))}
		for kind, value := range attributes(b[unix.SizeofRtNexthop:n]) {
			l.set(kind, value)
		}
		legs = append(legs, l)
		b = b[min(align(n), len(b)):]
	}
	return legs
}

// parseNexthop reads a struct nhmsg and its attributes.
func parseNexthop(b []byte) (n nexthop, ok bool) {
	if len(b) < unix.SizeofNhmsg {
		return n, false
	}
	n.leg.flags = native.Uint32(b[4:])
	for kind, value := range attributes(b[unix.SizeofNhmsg:]) {
		switch kind {
		case unix.NHA_BLACKHOLE:
			n.blackhole = true
		case unix.NHA_GROUP: // a run of struct nexthop_grp, 8 bytes that begin with the id
			for ; len(value) >= 8; value = value[8:] {
				n.group = append(n.group, native.Uint32(value))
			}
		case unix.NHA_OIF:
			n.leg.index = int(number(value))
		case unix.NHA_GATEWAY:
			n.leg.gateway, _ = netip.AddrFromSlice(value)
		}
	}
	return n, true
}
