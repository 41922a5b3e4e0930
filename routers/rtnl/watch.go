package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watched are the groups of messages that can mean a change of an address or of a route. The
// kernel removes routes without a route message: when a link goes down (only LINK tells), and when
// a nexthop object is deleted (only NEXTHOP tells).
var watched = []int{
	unix.RTNLGRP_LINK,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_NEXTHOP,
}

// burst is how long messages are left to gather after a hint, so that a storm of them gives at
// most 200 hints a second. The first message after a quiet time is never held back.
const burst = 5 * time.Millisecond

// drainMost is how many datagrams are passed over before a hint is given in any case: a storm may
// never leave the queue empty.
const drainMost = 4096

// Watch calls wake once after subscribing to the changes of links, addresses, routes and nexthop
// objects in the network namespace of the calling thread, and then for every burst of changes,
// until ctx ends; then it returns nil. What changed is not told, and messages may be lost (ENOBUFS):
// a hint says only "read again", and it comes also for losses. An error means that no further hints
// will come.
//
// Watch blocks; wake is called from the same goroutine and should not block.
func Watch(ctx context.Context, wake func()) error {
	c, err := listen(watched)
	if err != nil {
		return err
	}
	defer c.close()
	return c.follow(ctx, wake)
}

// listen opens a socket that hears of changes.
func listen(groups []int) (*conn, error) {
	c, err := dial()
	if err != nil {
		return nil, err
	}
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

// follow turns messages into hints until ctx ends.
func (c *conn) follow(ctx context.Context, wake func()) error {
	stop := context.AfterFunc(ctx, func() { _ = c.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	pause := time.NewTimer(burst)
	defer pause.Stop()
	for ctx.Err() == nil {
		wake()
		pause.Reset(burst)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		if err := c.hint(); err != nil {
			if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("rtnetlink subscription lost: %w", err)
		}
	}
	return nil
}

// hint waits for a message and empties the queue. Lost messages are as good a hint as any: the
// socket stays subscribed, and reading it is what ends the congestion.
func (c *conn) hint() error {
	_, _, err := c.receiveAny()
	if err != nil && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return c.drain()
}

// drain passes over what is queued, without waiting.
func (c *conn) drain() error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		for range drainMost {
			_, _, failed = unix.Recvfrom(int(fd), c.buf, unix.MSG_DONTWAIT)
			if failed != nil && failed != unix.ENOBUFS && failed != unix.EINTR {
				return
			}
		}
	})
	if failed == unix.EAGAIN || failed == unix.ENOBUFS || failed == unix.EINTR {
		failed = nil
	}
	return errors.Join(err, failed)
}
