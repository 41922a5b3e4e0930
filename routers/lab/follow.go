package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Seen is what a Follower saw from a moment on.
type Seen struct {
	Time  time.Time    // when it was read to be so
	Addrs []netip.Addr // sorted; empty: there is none
}

// A Follower follows a set of addresses in a node's kernel: the next hops to a prefix, or the
// addresses of an interface. Its methods may be called concurrently.
type Follower struct {
	what string
	read reader
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	history []Seen
	changed chan struct{} // closed at the next change
	err     error
}

// FollowNextHops records every change of what NextHops gives until ctx ends or Stop is called. It
// reads at every message of the kernel about links, addresses, routes and next hops, and every
// 20 ms beside that, as some changes come without a message.
func (nd *Node) FollowNextHops(ctx context.Context, prefix netip.Prefix) (*Follower, error) {
	return nd.follow(ctx, "next hops to "+prefix.String(), func(h *netlink.Handle) ([]netip.Addr, error) { return nextHops(h, prefix) })
}

// FollowAddresses records every change of what Addresses gives, as FollowNextHops does.
func (nd *Node) FollowAddresses(ctx context.Context, iface string) (*Follower, error) {
	return nd.follow(ctx, "addresses on "+iface, func(h *netlink.Handle) ([]netip.Addr, error) { return addresses(h, iface) })
}

func (nd *Node) follow(ctx context.Context, what string, read reader) (*Follower, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &Follower{what: nd.name + ": " + what, read: read, stop: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	s, h, err := nd.sockets()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := f.look(h); err != nil {
		cancel()
		h.Close()
		s.Close()
		return nil, err
	}
	go func() {
		defer close(f.done)
		defer h.Close()
		defer s.Close()
		f.run(ctx, s, h)
	}()
	return f, nil
}

// sockets opens one that hears of changes, and says so at least every 20 ms, and one to read with.
func (nd *Node) sockets() (s *nl.NetlinkSocket, h *netlink.Handle, err error) {
	err = nd.Do(func() (err error) {
		if s, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR,
			unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEXTHOP); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		wait := unix.NsecToTimeval(int64(20 * time.Millisecond))
		if err := s.SetReceiveTimeout(&wait); err != nil {
			s.Close()
			return fmt.Errorf("lab: %w", err)
		}
		if h, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			s.Close()
			return fmt.Errorf("lab: %w", err)
		}
		return nil
	})
	return s, h, err
}

func (f *Follower) run(ctx context.Context, s *nl.NetlinkSocket, h *netlink.Handle) {
	for ctx.Err() == nil {
		_, _, err := s.Receive()
		if err == nil || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, syscall.EINTR) {
			err = f.look(h)
		}
		if err != nil {
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			return
		}
	}
}

// look appends what is so now to the history if it is something else than before.
func (f *Follower) look(h *netlink.Handle) error {
	got, err := f.read(h)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.history); n > 0 && slices.Equal(f.history[n-1].Addrs, got) {
		return nil
	}
	f.history = append(f.history, Seen{Time: time.Now(), Addrs: got})
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

// Stop ends the following and waits for it. The history stays.
func (f *Follower) Stop() {
	f.stop()
	<-f.done
}

// History gives all changes so far, the state at the start first.
func (f *Follower) History() []Seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history)
}

// Since gives the state that stood at t, with its own time, and the changes after t.
func (f *Follower) Since(t time.Time) []Seen {
	all := f.History()
	i := 0
	for i+1 < len(all) && !all[i+1].Time.After(t) {
		i++
	}
	return all[i:]
}

// Now gives the last state read.
func (f *Follower) Now() Seen {
	all := f.History()
	return all[len(all)-1]
}

// Await waits until the addresses are as ok wants, and gives the first such state that stood at
// since or came later.
func (f *Follower) Await(ctx context.Context, since time.Time, ok func(addrs []netip.Addr) bool) (Seen, error) {
	for {
		f.mu.Lock()
		changed, err := f.changed, f.err
		f.mu.Unlock()
		for _, h := range f.Since(since) {
			if ok(h.Addrs) {
				return h, nil
			}
		}
		if err != nil {
			return Seen{}, err
		}
		select {
		case <-changed:
		case <-f.done:
			return Seen{}, fmt.Errorf("lab: %s: no longer followed", f.what)
		case <-ctx.Done():
			return Seen{}, fmt.Errorf("lab: %s: %w: they are %v", f.what, ctx.Err(), f.Now().Addrs)
		}
	}
}
