package rtnl

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// nexthopID is RTA_NH_ID: the nexthop object that a route leads to.
const nexthopID = 30

// A route is one default route as the kernel tells of it.
type route struct {
	kind    uint8  // RTN_*
	metric  uint32 // RTA_PRIORITY: the lowest is asked first
	legs    []leg  // none where only the nexthop object is told (net.ipv4.nexthop_compat_mode=0)
	nexthop uint32 // the id of the nexthop object, or 0
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
// Everything else is left as early as can be: a table may have a million other routes. Routes for
// one type of service (IPv4) or one source (IPv6) only do not count, nor does what the kernel keeps
// of past lookups (RTM_F_CLONED).
func parseDefault(b []byte, table uint32) (route, bool) {
	if !toAll(b) || b[2] != 0 || b[3] != 0 {
		return route{}, false
	}
	flags := native.Uint32(b[8:])
	if flags&unix.RTM_F_CLONED != 0 {
		return route{}, false
	}
	r := route{kind: b[7]}
	in := uint32(b[4])
	only := leg{flags: flags}
	for kind, value := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_TABLE:
			in = number(value)
		case unix.RTA_PRIORITY:
			r.metric = number(value)
		case nexthopID:
			r.nexthop = number(value)
		case unix.RTA_MULTIPATH:
			r.legs = parseLegs(value)
		default:
			only.set(kind, value)
		}
	}
	if only.index != 0 && r.legs == nil {
		r.legs = []leg{only}
	}
	return r, in == table
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
