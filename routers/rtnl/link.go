package rtnl

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// skipStatistics (RTEXT_FILTER_SKIP_STATS) leaves the counters out of what is told of a link.
const skipStatistics = 1 << 3

// A link is what is needed of an interface.
type link struct {
	index int
	name  string
	flags uint32 // IFF_*
	kind  string // such as "dummy" or "vrf"; empty for hardware and lo
}

func (l link) has(flag uint32) bool { return l.flags&flag != 0 }

// linkByIndex reads one interface; the error is ENODEV when there is none.
func (c *conn) linkByIndex(ctx context.Context, index int) (link, error) {
	l, err := c.link(ctx, index, nil)
	if err != nil {
		return link{}, fmt.Errorf("read interface %d: %w", index, err)
	}
	return l, nil
}

// linkByName reads one interface; the error is ENODEV when there is none.
func (c *conn) linkByName(ctx context.Context, name string) (link, error) {
	l, err := c.link(ctx, 0, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	if err != nil {
		return link{}, fmt.Errorf("read interface %q: %w", name, err)
	}
	return l, nil
}

func (c *conn) link(ctx context.Context, index int, name *nl.RtAttr) (link, error) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.AddData(msg)
	if name != nil {
		req.AddData(name)
	}
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	var l link
	if err := c.get(ctx, req, func(data []byte) { l, _ = parseLink(data) }); err != nil {
		return link{}, err
	}
	if l.index == 0 {
		return link{}, errMalformed
	}
	return l, nil
}

// allLinks reads all interfaces, by their index.
func (c *conn) allLinks(ctx context.Context) (map[int]link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	links := map[int]link{}
	err := c.dump(ctx, req, func(data []byte) bool {
		if l, ok := parseLink(data); ok {
			links[l.index] = l
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read interfaces: %w", err)
	}
	return links, nil
}

// parseLink reads a struct ifinfomsg and the name behind it.
func parseLink(b []byte) (link, bool) {
	if len(b) < unix.SizeofIfInfomsg {
		return link{}, false
	}
	l := link{index: int(int32(native.Uint32(b[4:]))), flags: native.Uint32(b[8:])}
	for kind, value := range attributes(b[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = unix.ByteSliceToString(value)
		case unix.IFLA_LINKINFO:
			l.kind = linkKind(value)
		}
	}
	return l, l.index > 0
}

// linkKind reads IFLA_INFO_KIND.
func linkKind(b []byte) string {
	for kind, value := range attributes(b) {
		if kind == unix.IFLA_INFO_KIND {
			return unix.ByteSliceToString(value)
		}
	}
	return ""
}
