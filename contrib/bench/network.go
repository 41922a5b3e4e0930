package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vouch/routers/lab"
)

// A network is the lab with what watches it. What is measured is on its first node; the second
// announces all prefixes for good.
type network struct {
	*lab.AnycastLab
	node *lab.AnycastNode
	core []*lab.Follower // the core's next hops to each prefix
	lo   *lab.Follower   // the addresses on the first node's lo
	stop context.CancelFunc
}

// open makes a network with a number of prefixes; it waits until all lead to the second node.
func open(ctx context.Context, prefixes int) (*network, error) {
	setup, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l, err := lab.Anycast(setup, lab.AnycastOptions{Prefixes: prefixes})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	n := &network{AnycastLab: l, node: l.Nodes[0], stop: stop}
	if err := n.watch(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	began := time.Now()
	err = n.byHand(setup, l.Nodes[1].Node, "add", l.Prefixes)
	for _, f := range n.core {
		if err == nil {
			_, err = f.Await(setup, began, func(via []netip.Addr) bool { return slices.Contains(via, l.Nodes[1].Via) })
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// watch starts all that watches.
func (n *network) watch(ctx context.Context) (err error) {
	for _, p := range n.Prefixes {
		f, err := n.Core.FollowNextHops(ctx, p)
		if err != nil {
			return err
		}
		n.core = append(n.core, f)
	}
	n.lo, err = n.node.FollowAddresses(ctx, "lo")
	return err
}

// Close ends what watches and removes the network.
func (n *network) Close() error {
	n.stop()
	for _, f := range n.core {
		f.Stop()
	}
	if n.lo != nil {
		n.lo.Stop()
	}
	return n.AnycastLab.Close()
}

// byHand adds or deletes ("add", "del") addresses on a node's lo as a script does it: by one ip.
func (n *network) byHand(ctx context.Context, nd *lab.Node, action string, ps []netip.Prefix) error {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "addr %s %s dev lo\n", action, p)
	}
	file := filepath.Join(nd.Dir(), "batch")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	_, err := nd.Run(ctx, "ip", "-batch", file)
	return err
}

// atCore waits until the first node is, or is not, a next hop of the core to the first of the
// prefixes, as many as given; and says when the last of them became so.
func (n *network) atCore(ctx context.Context, since time.Time, prefixes int, there bool) (time.Time, error) {
	var last time.Time
	for _, f := range n.core[:prefixes] {
		seen, err := f.Await(ctx, since, func(via []netip.Addr) bool { return slices.Contains(via, n.node.Via) == there })
		if err != nil {
			return last, err
		}
		last = latest(last, seen.Time)
	}
	return last, nil
}

// onLo waits until the service's address is, or is not, on the first node's lo.
func (n *network) onLo(ctx context.Context, since time.Time, there bool) (time.Time, error) {
	seen, err := n.lo.Await(ctx, since, func(on []netip.Addr) bool { return slices.Contains(on, lab.Service.Addr()) == there })
	return seen.Time, err
}

// quiet waits until the core would take a change of the first node at once.
func (n *network) quiet(ctx context.Context) error { return n.Quiet(ctx, n.node) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
