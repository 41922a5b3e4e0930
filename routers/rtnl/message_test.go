package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// message builds a struct nlmsghdr and what follows it.
func message(kind, flags uint16, seq uint32, data ...[]byte) []byte {
	body := slices.Concat(data...)
	b := native.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = native.AppendUint16(b, kind)
	b = native.AppendUint16(b, flags)
	b = native.AppendUint32(b, seq)
	return pad(append(native.AppendUint32(b, 0), body...))
}

func attribute(kind uint16, value []byte) []byte {
	b := native.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	return pad(append(native.AppendUint16(b, kind), value...))
}

func pad(b []byte) []byte { return append(b, make([]byte, align(len(b))-len(b))...) }

func word(n int) []byte { return native.AppendUint32(nil, uint32(n)) }

func TestReadReplies(t *testing.T) {
	const multi, done, failed = unix.NLM_F_MULTI, unix.NLMSG_DONE, unix.NLMSG_ERROR
	item := func(flags uint16) []byte { return message(unix.RTM_NEWROUTE, multi|flags, 7, []byte("data")) }
	acked := uint16(unix.NLM_F_ACK_TLVS)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  reply
		err   string
		items int
	}{
		{"nothing", nil, reply{}, "", 0},
		{"more to come", slices.Concat(item(0), item(0)), reply{}, "", 2},
		{"end", slices.Concat(item(0), message(done, multi, 7, word(0)), item(0)), reply{done: true}, "", 1},
		{"end without a word", message(done, multi, 7), reply{done: true}, "", 0},
		{"interrupted", slices.Concat(item(0), item(unix.NLM_F_DUMP_INTR), item(0)), reply{interrupted: true}, "", 3},
		{"interrupted at the end", message(done, multi|unix.NLM_F_DUMP_INTR, 7, word(0)), reply{done: true, interrupted: true}, "", 0},
		{"interrupted of another", message(unix.RTM_NEWROUTE, multi|unix.NLM_F_DUMP_INTR, 8), reply{}, "", 0},
		{"single", slices.Concat(message(unix.RTM_NEWLINK, 0, 7), item(0)), reply{done: true}, "", 1},
		{"acknowledged", message(failed, 0, 7, word(0)), reply{done: true}, "", 0},
		{"refused", message(failed, 0, 7, word(-1), make([]byte, 16)), reply{done: true}, "operation not permitted", 0},
		{"refused, with words", message(failed, acked, 7, word(-22), make([]byte, 16), attribute(unix.NLMSGERR_ATTR_MSG, []byte("bad luck\x00"))),
			reply{done: true}, "invalid argument (bad luck)", 0},
		{"failed at the end", message(done, multi|acked, 7, word(-2), attribute(unix.NLMSGERR_ATTR_MSG, []byte("no table\x00"))),
			reply{done: true}, "no such file or directory (no table)", 0},
		{"another's error", message(failed, 0, 8, word(-1)), reply{}, "", 0},
		{"error cut short", message(failed, 0, 7), reply{done: true}, errMalformed.Error(), 0},
		{"header cut short", item(0)[:10], reply{}, errMalformed.Error(), 0},
		{"message cut short", item(0)[:18], reply{}, errMalformed.Error(), 0},
		{"length too small", make([]byte, 16), reply{}, errMalformed.Error(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := 0
			got, err := readReplies(c.bytes, 7, func(uint16, []byte) bool { items++; return true })
			if got != c.want || items != c.items || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %+v, %d items, %v; want %+v, %d items, %s", got, items, err, c.want, c.items, c.err)
			}
		})
	}
}

func TestReadRepliesStops(t *testing.T) {
	item := message(unix.RTM_NEWROUTE, unix.NLM_F_MULTI, 7)
	items := 0
	got, err := readReplies(slices.Concat(item, item, item), 7, func(uint16, []byte) bool { items++; return items < 2 })
	if err != nil || !got.done || items != 2 {
		t.Errorf("got %+v, %v after %d items, want it done after 2", got, err, items)
	}
}

func TestAgain(t *testing.T) {
	for interruptions, want := range []error{nil, nil, nil, nil, errInterrupted, errInterrupted} {
		calls := 0
		err := again(t.Context(), func() error {
			if calls++; calls <= interruptions {
				return fmt.Errorf("dump: %w", errInterrupted)
			}
			return nil
		})
		if !errors.Is(err, want) || calls != min(interruptions+1, readAttempts) {
			t.Errorf("%d interruptions: %v after %d calls", interruptions, err, calls)
		}
	}
	other := errors.New("other")
	calls := 0
	if err := again(t.Context(), func() error { calls++; return other }); err != other || calls != 1 {
		t.Errorf("another error: %v after %d calls, want it at once", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := again(ctx, func() error { cancel(); return errInterrupted }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted when ctx ends: %v", err)
	}
}

// rtmsg builds a struct rtmsg of an IPv4 route to everything.
func rtmsg(kind, table byte, flags uint32) []byte {
	return native.AppendUint32([]byte{unix.AF_INET, 0, 0, 0, table, unix.RTPROT_BOOT, 0, kind}, flags)
}

func TestParseDefault(t *testing.T) {
	gw := attribute(unix.RTA_GATEWAY, gateway.AsSlice())
	oif := attribute(unix.RTA_OIF, word(3))
	leg3 := slices.Concat([]byte{16, 0, unix.RTNH_F_LINKDOWN, 0}, word(3), gw)
	leg4 := slices.Concat([]byte{8, 0, 0, 0}, word(4))
	via := attribute(unix.RTA_VIA, append(native.AppendUint16(nil, unix.AF_INET6), netip.MustParseAddr("fe80::1").AsSlice()...))
	plainRoute := route{kind: unix.RTN_UNICAST, table: 254, legs: []leg{{gateway, 3, 0}}}
	main := func(attributes ...[]byte) []byte {
		return slices.Concat(rtmsg(unix.RTN_UNICAST, 254, 0), slices.Concat(attributes...))
	}
	with := func(at int, value byte) []byte { b := main(gw, oif); b[at] = value; return b }
	for _, c := range []struct {
		name  string
		bytes []byte
		want  *route
	}{
		{"destination absent", main(gw, oif), &plainRoute},
		{"destination of zeros", main(attribute(unix.RTA_DST, make([]byte, 4)), gw, oif), &plainRoute},
		{"metric", main(gw, oif, attribute(unix.RTA_PRIORITY, word(20))), &route{kind: unix.RTN_UNICAST, table: 254, metric: 20, legs: plainRoute.legs}},
		{"table in attribute", slices.Concat(rtmsg(unix.RTN_UNICAST, 252, 0), attribute(unix.RTA_TABLE, word(254)), gw, oif), &plainRoute},
		{"other table", slices.Concat(rtmsg(unix.RTN_UNICAST, 254, 0), attribute(unix.RTA_TABLE, word(1000)), gw, oif), nil},
		{"flags", slices.Concat(rtmsg(unix.RTN_UNICAST, 254, unix.RTNH_F_DEAD), oif), &route{kind: unix.RTN_UNICAST, table: 254, legs: []leg{{index: 3, flags: unix.RTNH_F_DEAD}}}},
		{"via", main(via, oif), &route{kind: unix.RTN_UNICAST, table: 254, legs: []leg{{netip.MustParseAddr("fe80::1"), 3, 0}}}},
		{"multipath", main(attribute(unix.RTA_MULTIPATH, slices.Concat(leg3, leg4))),
			&route{kind: unix.RTN_UNICAST, table: 254, legs: []leg{{gateway, 3, unix.RTNH_F_LINKDOWN}, {index: 4}}}},
		{"object", main(attribute(nexthopID, word(12))), &route{kind: unix.RTN_UNICAST, table: 254, nexthop: 12}},
		{"blackhole", rtmsg(unix.RTN_BLACKHOLE, 254, 0), &route{kind: unix.RTN_BLACKHOLE, table: 254}},
		{"half", with(1, 1), nil},
		{"host", with(1, 32), nil},
		{"from a source", with(2, 64), nil},
		{"type of service", with(3, 16), nil},
		{"cloned", slices.Concat(rtmsg(unix.RTN_UNICAST, 254, unix.RTM_F_CLONED), gw, oif), nil},
		{"cut short", main()[:11], nil},
	} {
		got, ok := parseDefault(c.bytes, 254)
		if ok != (c.want != nil) {
			t.Errorf("%s: taken %t", c.name, ok)
		} else if ok {
			if diff := cmp.Diff(*c.want, got, cmp.AllowUnexported(route{}, leg{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

// FuzzParse has nothing that bytes could break.
func FuzzParse(f *testing.F) {
	f.Add(slices.Concat(rtmsg(unix.RTN_UNICAST, 254, 0), attribute(unix.RTA_MULTIPATH, []byte{16, 0, 0, 0, 3, 0, 0, 0, 8, 0, 5, 0, 10, 0, 1, 1})))
	f.Add(slices.Concat(make([]byte, 8), attribute(unix.NHA_GROUP, make([]byte, 17))))
	f.Add(message(unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, 0, word(-1)))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseDefault(b, 254)
		_, _ = parseNexthop(b)
		_, _ = parseLink(b)
		_, _, _ = parseAddress(b)
		_, _ = readReplies(b, 0, func(_ uint16, data []byte) bool { _, _ = parseDefault(data, 254); return true })
	})
}
