package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/hub"
)

// A Concern is a set of the sorts of changes that a reader has to hear of.
type Concern uint8

// The sorts of changes.
const (
	OnLinks     Concern = 1 << iota // interfaces, and nexthop objects: either takes routes away without a message of the route
	OnAddresses                     // addresses of interfaces
	OnDefaults                      // routes to everything, or to a half of it
	OnNetworks                      // all other routes, of which a router may tell of thousands a second
	OnRules                         // which table is asked for what

	OnEverything = OnLinks | OnAddresses | OnDefaults | OnNetworks | OnRules
)

// watched are the groups of messages that can mean a change of an address or of a route. The
// kernel removes routes without a route message: when a link goes down (only LINK tells), and when
// a nexthop object is deleted (only NEXTHOP tells).
var watched = []int{
	unix.RTNLGRP_LINK,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	unix.RTNLGRP_NEXTHOP,
}

// burst is how long messages are left to gather after a hint, so that a storm of them gives at
// most 200 hints a second. The first message after a quiet time is never held back.
const burst = 5 * time.Millisecond

// drainMost is how many datagrams are passed over before a hint is given in any case: a storm may
// never leave the queue empty.
const drainMost = 4096

// Watch calls wake once after subscribing to the changes of links, addresses, routes, rules and nexthop
// objects in the network namespace of the calling thread, and then for every burst of changes,
// until ctx ends; then it returns nil. What changed is not told, and messages may be lost (ENOBUFS):
// a hint says only "read again", and it comes also for losses. An error means that no further hints
// will come.
//
// Watch blocks; wake is called from the same goroutine and should not block. All who watch in one
// namespace share one socket.
func Watch(ctx context.Context, wake func()) error { return WatchFor(ctx, OnEverything, wake) }

// WatchFor is Watch for some sorts of changes only. Losses give a hint in any case.
func WatchFor(ctx context.Context, concern Concern, wake func()) error {
	return watches.Watch(ctx, concern, wake)
}

// SubscribeFor is WatchFor that does not block, and costs no goroutine. It calls wake from any goroutine, one
// call at a time, and over once, after the last wake, with what WatchFor returns. Both may be called before
// SubscribeFor returns. Neither may block, and wake may not subscribe.
func SubscribeFor(ctx context.Context, concern Concern, wake func(), over func(error)) {
	watches.Subscribe(ctx, concern, wake, over)
}

var watches = hub.Hub[Concern]{Open: func() (hub.Source[Concern], error) {
	c, err := listen(watched)
	if err != nil {
		return nil, err
	}
	c.enlarge()
	return &subscription{conn: c, wants: map[Concern]int{}}, nil
}}

// A subscription is a socket that hears of all changes, and tells of the wanted ones.
type subscription struct {
	conn   *conn
	wants  map[Concern]int // how many have it
	wanted atomic.Uint32   // all Concerns of them
}

// Follow gives no hint for its own beginning: each who watches begins with one.
func (s *subscription) Follow(ctx context.Context, hint func(func(Concern) bool)) error {
	return s.conn.follow(ctx, func() Concern { return Concern(s.wanted.Load()) }, func(changed Concern) {
		hint(func(wanted Concern) bool { return wanted&changed != 0 })
	})
}

// Add does not fail.
func (s *subscription) Add(want Concern) error {
	s.wants[want]++
	s.narrow()
	return nil
}

func (s *subscription) Remove(want Concern) {
	if s.wants[want]--; s.wants[want] == 0 {
		delete(s.wants, want)
	}
	s.narrow()
}

func (s *subscription) narrow() {
	var all Concern
	for w := range s.wants {
		all |= w
	}
	s.wanted.Store(uint32(all))
}

func (s *subscription) Close() { s.conn.close() }

// listen opens a socket that hears of changes.
func listen(groups []int) (*conn, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	c.buf = make([]byte, bufferSize)
	if err := c.join(groups); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// join subscribes to the groups. A kernel before 5.3 has no nexthop objects, nor their group.
func (c *conn) join(groups []int) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		for _, g := range groups {
			err := unix.SetsockoptInt(int(fd), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g)
			if err != nil && !(g == unix.RTNLGRP_NEXTHOP && err == unix.EINVAL) {
				failed = errors.Join(failed, fmt.Errorf("subscribe to rtnetlink group %d: %w", g, err))
			}
		}
	})
	return errors.Join(err, failed)
}

// enlarge makes room for as many messages as come of some thousand routes, for a loss has everybody read
// again. Without CAP_NET_ADMIN it gets what net.core.rmem_max allows. The kernel takes memory only for what
// is queued.
func (c *conn) enlarge() {
	const room = 8 << 20
	_ = c.raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, room)
		}
	})
}

// follow turns messages that anybody wants into hints until ctx ends.
func (c *conn) follow(ctx context.Context, wanted func() Concern, hint func(changed Concern)) error {
	stop := context.AfterFunc(ctx, func() { _ = c.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		changed, err := c.changed()
		switch {
		case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("rtnetlink subscription lost: %w", err)
		}
		if changed&wanted() != 0 {
			hint(changed)
		}
		pause.Reset(burst)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
	return nil
}

// changed waits for a message, takes what is queued, and says what all of it was about. Lost messages may
// have been about anything: the socket stays subscribed, and reading it is what ends the congestion. Until it
// is read empty the kernel drops more without another word.
func (c *conn) changed() (Concern, error) {
	var all Concern
	n, _, err := c.receiveAny()
	switch {
	case errors.Is(err, unix.ENOBUFS):
		c.congested = true
	case err != nil:
		return 0, err
	default:
		all = concernOf(c.buf[:min(n, len(c.buf))])
	}
	empty, err := c.drain(func(b []byte) { all |= concernOf(b) })
	if c.congested {
		all = OnEverything
	}
	c.congested = c.congested && !empty
	return all, err
}

// drain gives each what is queued, without waiting; empty says that it came to the end.
func (c *conn) drain(each func(b []byte)) (empty bool, err error) {
	var failed error
	err = c.raw.Control(func(fd uintptr) {
		for range drainMost {
			var n int
			n, _, failed = unix.Recvfrom(int(fd), c.buf, unix.MSG_DONTWAIT)
			switch failed {
			case nil:
				each(c.buf[:n])
			case unix.ENOBUFS:
				c.congested = true
			case unix.EINTR:
			default:
				return
			}
		}
	})
	switch failed {
	case unix.EAGAIN:
		return true, err
	case nil, unix.ENOBUFS, unix.EINTR:
		return false, err
	}
	return false, errors.Join(err, failed)
}

// concernOf says what a datagram is about. One that cannot be understood may be about anything.
func concernOf(b []byte) Concern {
	if len(b) < unix.SizeofNlMsghdr {
		return OnEverything
	}
	var all Concern
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(native.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return OnEverything
		}
		all |= concernOfMessage(native.Uint16(b[4:]), b[unix.SizeofNlMsghdr:n])
		b = b[min(align(n), len(b)):]
	}
	return all
}

func concernOfMessage(kind uint16, data []byte) Concern {
	switch kind {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return OnAddresses
	case unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_SETLINK, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return OnLinks
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return OnRules
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(data) >= unix.SizeofRtMsg && data[1] > 1 {
			return OnNetworks
		}
		return OnDefaults
	}
	return OnEverything
}
