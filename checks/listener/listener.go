// Package listener tells when a listening socket of this node is gone: the process closed it, or died. The
// kernel says so to whoever asks (sock_diag(7), NETLINK_SOCK_DIAG, since Linux 4.2), without any rights.
//
// All watches of one network namespace share one socket, which exists only while something is watched:
// while it does, the kernel makes a message of every TCP connection that ends in the namespace, and drops it
// at the filter, which takes about 2 µs of each (Linux 6.18).
package listener

import (
	"context"
	"fmt"
	"net/netip"

	"vouch/checks"
	"vouch/routers/rtnl"
	"vouch/routers/rtnl/hub"
)

// Watch calls wake when it begins, and each time a TCP socket that listened on the target's port, at its
// address or at all, has gone, until ctx ends; then it returns nil. Which process it was, and whether another
// still listens (SO_REUSEPORT), is not told: a hint says "ask again". Connections that end give none.
//
// It is of the network namespace of the calling thread. An error means that no further hints will come; it
// is checks.ErrNoHints where the kernel can give none at all, or the target is not on this node. An address
// that comes to this node later is seen when Watch is called again.
//
// Watch blocks; wake is called from the same goroutine. It may be called concurrently.
func Watch(ctx context.Context, target netip.AddrPort, wake func()) error {
	target, err := own(ctx, target)
	if err != nil {
		return err
	}
	return watches.Watch(ctx, target, wake)
}

// Subscribe is Watch that does not wait: see checks.Subscriber.
func Subscribe(ctx context.Context, target netip.AddrPort, wake func(), over func(error)) {
	target, err := own(ctx, target)
	if err != nil {
		over(err)
		return
	}
	watches.Subscribe(ctx, target, wake, over)
}

var watches = hub.Hub[netip.AddrPort]{Open: open}

// own gives the target in the form of the kernel's messages. It is an error if it is not on this node.
func own(ctx context.Context, target netip.AddrPort) (netip.AddrPort, error) {
	target = netip.AddrPortFrom(target.Addr().Unmap().WithZone(""), target.Port())
	here, err := local(ctx, target.Addr())
	if err == nil && !here {
		err = fmt.Errorf("%s is not on this node: %w", target.Addr(), checks.ErrNoHints)
	}
	return target, err
}

// local says whether this node takes in what is sent to an address.
func local(ctx context.Context, a netip.Addr) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	d, err := rtnl.DeliveryOf(ctx, a)
	return d == rtnl.Local, err
}

// A Watcher is embedded in a check of something that listens at Target over TCP. Of what answers over UDP it
// serves as well where the same process listens over TCP at the same place, as DNS servers do.
type Watcher struct{ Target netip.AddrPort }

// Watch is the function of that name.
func (w Watcher) Watch(ctx context.Context, wake func()) error { return Watch(ctx, w.Target, wake) }

// Subscribe is the function of that name.
func (w Watcher) Subscribe(ctx context.Context, wake func(), over func(error)) {
	Subscribe(ctx, w.Target, wake, over)
}
