package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Lookup asks the kernel by which route it would send a packet, by its rules and over all tables.
type Lookup struct {
	To   netip.Addr
	From netip.Addr // invalid: the kernel chooses. IPv4: must be an address of this node
	Mark uint32     // 0: none
	Over string     // the interface or VRF that the socket is bound to; empty: none
}

// String is such as "192.0.2.1 from 10.0.0.1 mark 7 through eth0".
func (l Lookup) String() string {
	s := l.To.String()
	if l.From.IsValid() {
		s += " from " + l.From.String()
	}
	if l.Mark != 0 {
		s += fmt.Sprintf(" mark %d", l.Mark)
	}
	if l.Over != "" {
		s += " through " + l.Over
	}
	return s
}

// Look asks the kernel, and judges the route that it names. It returns within the deadline of ctx, or a
// second. Over names the interfaces that the route may lead over; none: any. A kernel before 4.13 names
// one leg of a route with several.
func Look(ctx context.Context, l Lookup, over ...string) (Way, error) {
	var refused refusal
	p, err := read(ctx, question{lookup: l}, func(ctx context.Context) (picture, error) { return choice(ctx, l) })
	switch {
	case errors.As(err, &refused):
		return Way{Found: refused != "", Text: string(refused)}, nil
	case err != nil:
		return Way{}, fmt.Errorf("look up the route to %s: %w", l, err)
	}
	return p.judge(familyOf(l.To), over), nil
}

// A refusal is the kernel's answer when it would send nothing: what sort of route says so, or empty when
// there is none.
type refusal string

func (r refusal) Error() string {
	if r == "" {
		return "there is no route"
	}
	return "there is a route that sends nothing: " + string(r)
}

// refusals are what the kernel answers in place of a route. That of a throw route, and of a rule, is the
// answer of the next rule.
var refusals = map[error]refusal{
	unix.ENETUNREACH: "", unix.EHOSTUNREACH: "unreachable", unix.EACCES: "prohibit", unix.EINVAL: "blackhole",
}

// choice is the route that the kernel names; the error is a refusal when it names none.
func choice(ctx context.Context, l Lookup) (picture, error) {
	c, err := dial()
	if err != nil {
		return picture{}, err
	}
	defer c.close()
	req, err := c.lookupRequest(ctx, l)
	if err != nil {
		return picture{}, err
	}
	var routes []route
	err = c.get(ctx, req, func(data []byte) {
		if r, ok := parseAny(data); ok {
			routes = append(routes, r)
		}
	})
	for code, r := range refusals {
		if errors.Is(err, code) {
			return picture{}, r
		}
	}
	switch {
	case err != nil:
		return picture{}, err
	case len(routes) == 0:
		return picture{}, errMalformed
	}
	return complete(ctx, routes)
}

func (c *conn) lookupRequest(ctx context.Context, l Lookup) (*nl.NetlinkRequest, error) {
	bits := uint8(l.To.BitLen())
	msg := unix.RtMsg{Family: uint8(familyOf(l.To)), Dst_len: bits, Flags: fibMatch}
	if l.To.Is4() { // which would name the main table always, while IPv6 names its own and refuses the flag
		msg.Flags |= unix.RTM_F_LOOKUP_TABLE
	}
	attributes := []*nl.RtAttr{nl.NewRtAttr(unix.RTA_DST, l.To.AsSlice())}
	if l.From.IsValid() {
		msg.Src_len = bits
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_SRC, l.From.AsSlice()))
	}
	if l.Mark != 0 {
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_MARK, nl.Uint32Attr(l.Mark)))
	}
	if l.Over != "" {
		over, err := c.linkByName(ctx, l.Over)
		if errors.Is(err, unix.ENODEV) {
			return nil, refusal("")
		}
		if err != nil {
			return nil, err
		}
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(over.index))))
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	req.AddData(&nl.RtMsg{RtMsg: msg})
	for _, a := range attributes {
		req.AddData(a)
	}
	return req, nil
}
