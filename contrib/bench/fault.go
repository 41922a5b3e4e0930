package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"vouch/routers/lab"
)

// ownTable holds a default route that zebra does not repair.
const ownTable = 100

// fault measures the time from a fault to the address off lo, to vouch having verified it, and to the
// core having it.
func (b *bench) fault(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, f := range []func(context.Context, *network, *report) error{b.routeLost, b.drift, b.flushed, b.polled} {
		if err := f(ctx, n, r); err != nil {
			return err
		}
	}
	return nil
}

// A reaction is how long vouch took after a program was started that did something: the fork of that
// program is part of every time, as nothing tells when exactly the kernel did it.
type reaction struct{ done, verified, core, program sample }

// add reports; it gives the row of the core.
func (x *reaction) add(r *report, what string) row {
	r.add(what, "ms", x.done)
	r.add("  until verified on the node", "ms", x.verified)
	core := r.add("  until the core had it", "ms", x.core)
	r.add("  of each, the run of the program that did it, at most", "ms", x.program)
	return core
}

// A blow is something done on the node, after which the address is to be on lo, or not to be.
type blow struct {
	strike func() error
	there  bool
	undone bool // it puts the address there, or takes it, itself; vouch is to undo that
}

// react strikes once and waits for what comes of it. OSPF is quiet before and after.
func (n *network) react(ctx context.Context, s *sidecar, x *reaction, w blow) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	asked := time.Now()
	if err := w.strike(); err != nil {
		return err
	}
	program := time.Since(asked)
	since := asked
	if w.undone {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var err error
		if since, err = n.onLo(short, asked, !w.there); err != nil {
			progress("fault: undone before it was seen: %v", err)
			return n.quiet(ctx)
		}
	}
	done, err := n.onLo(ctx, since, w.there)
	if err != nil {
		return err
	}
	verified, err := s.verified(ctx, asked, 1, w.there)
	if err != nil {
		return err
	}
	if err := n.quiet(ctx); err != nil {
		return err
	}
	x.done.ms(done.Sub(asked))
	x.verified.ms(verified.Sub(asked))
	x.core.ms(n.lastAtCore(asked).Sub(asked))
	x.program.ms(program)
	return nil
}

// lastAtCore gives when the core's next hops last changed, or since when that was before it.
func (n *network) lastAtCore(since time.Time) time.Time { return latest(since, n.core[0].Now().Time) }

// sensitive is a service that one bad round brings down, with one check.
func sensitive(kind string, lines ...string) service {
	return service{name: "resolver", prefixes: []netip.Prefix{lab.Service}, timing: "rise = 1\nfall = 1", checks: check("resolver", kind, lines...)}
}

// route sets or deletes the default route of ownTable.
func (n *network) route(ctx context.Context, action string) func() error {
	return func() error {
		_, err := n.node.Run(ctx, "ip", "route", action, "default", "via", "10.0.1.1", "table", fmt.Sprint(ownTable))
		return err
	}
}

// routeLost deletes a default route and sets it again.
func (b *bench) routeLost(ctx context.Context, n *network, r *report) error {
	progress("fault: default route deleted and set")
	var lost, back reaction
	err := b.withOwnTable(ctx, n, func(s *sidecar) error {
		shown.begin("fault", b.runs)
		for range b.runs {
			if err := n.react(ctx, s, &lost, blow{strike: n.route(ctx, "del")}); err != nil {
				return err
			}
			if err := n.react(ctx, s, &back, blow{strike: n.route(ctx, "add"), there: true}); err != nil {
				return err
			}
			shown.step()
		}
		return nil
	})
	lost.add(r, "default route deleted: address off lo")
	back.add(r, "default route set: address on lo")
	return err
}

// withOwnTable runs vouch with a check of the default route in ownTable.
func (b *bench) withOwnTable(ctx context.Context, n *network, do func(*sidecar) error) error {
	if err := n.route(ctx, "replace")(); err != nil {
		return err
	}
	s, err := b.vouches(ctx, n, sensitive("route", fmt.Sprintf("table = %d", ownTable)))
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.leave(ctx))
}

// drift takes the address from a healthy node, and puts it on one that is not. Instead of vouch, ip
// does and undoes the same at once, with which OSPF is slow.
func (b *bench) drift(ctx context.Context, n *network, r *report) error {
	progress("fault: address taken and put back by hand")
	var taken, put, ignored reaction
	err := b.withOwnTable(ctx, n, func(s *sidecar) error {
		shown.begin("fault", 2*b.runs)
		for range b.runs {
			if err := n.react(ctx, s, &taken, blow{strike: n.hand(ctx, "del"), there: true, undone: true}); err != nil {
				return err
			}
			shown.step()
		}
		if err := n.react(ctx, s, &ignored, blow{strike: n.route(ctx, "del")}); err != nil {
			return err
		}
		for range b.runs {
			if err := n.react(ctx, s, &put, blow{strike: n.hand(ctx, "add"), undone: true}); err != nil {
				return err
			}
			shown.step()
		}
		return nil
	})
	if err != nil {
		return err
	}
	unput, err := n.undo(ctx, b.few(), "add", "del")
	if err != nil {
		return err
	}
	if err := errors.Join(n.hand(ctx, "add")(), n.quiet(ctx)); err != nil {
		return err
	}
	untaken, err := n.undo(ctx, b.few(), "del", "add")
	r.instead(taken.add(r, "address taken from a healthy node: back on lo"), "put back at once by ip", untaken)
	r.instead(put.add(r, "address put on an unhealthy node: off lo"), "taken at once by ip", unput)
	return errors.Join(err, n.hand(ctx, "del")())
}

// hand changes the address by hand.
func (n *network) hand(ctx context.Context, action string) func() error {
	return func() error { return n.node.Address(ctx, action, lab.Service.String(), "lo") }
}

// undo does something by hand, and the opposite at once, and waits until the core has it.
func (n *network) undo(ctx context.Context, runs int, action, opposite string) (s sample, err error) {
	for range runs {
		began := time.Now()
		for _, a := range []string{action, opposite} {
			if err := n.hand(ctx, a)(); err != nil {
				return s, err
			}
		}
		if err := n.quiet(ctx); err != nil {
			return s, err
		}
		s.ms(n.lastAtCore(began).Sub(began))
	}
	return s, nil
}

// flushed deletes the kernel's nexthop objects under FRR, which does not notice.
func (b *bench) flushed(ctx context.Context, n *network, r *report) error {
	progress("fault: nexthop objects deleted")
	s, err := b.vouches(ctx, n, sensitive("route"))
	if err != nil {
		return err
	}
	var x reaction
	for range b.few() {
		if err = n.react(ctx, s, &x, blow{strike: func() error {
			_, err := n.node.Run(ctx, "ip", "nexthop", "flush")
			return err
		}}); err != nil {
			break
		}
		began := time.Now()
		if err = n.node.FRR.RestartDaemon(ctx, "ospfd"); err != nil { // which heals it
			break
		}
		if _, err = n.atCore(ctx, began, 1, true); err != nil {
			break
		}
		if err = n.quiet(ctx); err != nil {
			break
		}
	}
	x.add(r, "nexthop objects deleted: address off lo")
	return errors.Join(err, s.leave(ctx))
}

// polled kills unbound, which only the next rounds of checks can show.
func (b *bench) polled(ctx context.Context, n *network, r *report) error {
	progress("fault: unbound killed")
	s, err := b.vouches(ctx, n, watched())
	if err != nil {
		return err
	}
	var off, back sample
	shown.begin("fault", b.runs)
	for range b.runs {
		var c cycle
		if c, err = n.die(ctx); err != nil {
			break
		}
		off.ms(c.off.Sub(c.died))
		back.ms(c.on.Sub(c.born))
		shown.step()
	}
	r.add("unbound killed, interval 1 s, fast 200 ms, fall 3: address off lo", "ms", off)
	r.add("unbound answers again, rise 2: address on lo", "ms", back)
	return errors.Join(err, s.leave(ctx))
}

// watched is a service as one would have it.
func watched() service {
	return service{name: "resolver", prefixes: []netip.Prefix{lab.Service},
		timing: "interval = \"1s\"\nfast = \"200ms\"\nrise = 2\nfall = 3", checks: dnsCheck("resolver") + check("resolver", "route")}
}

// A cycle is a death of unbound and its return, with the times at which the address left and came
// back: on lo, and as the core's next hop.
type cycle struct{ died, off, gone, born, on, back time.Time }

// moment waits until OSPF is quiet, and on to some moment between two rounds of checks.
func (n *network) moment(ctx context.Context) error {
	if err := n.quiet(ctx); err != nil {
		return err
	}
	return pause(ctx, rand.N(time.Second))
}

// die kills unbound, and starts it when the core has taken the node out.
func (n *network) die(ctx context.Context) (c cycle, err error) {
	if err := n.moment(ctx); err != nil {
		return c, err
	}
	c.died = time.Now()
	if err := n.node.Resolver().Kill(); err != nil {
		return c, err
	}
	if c.off, err = n.onLo(ctx, c.died, false); err != nil {
		return c, err
	}
	if c.gone, err = n.atCore(ctx, c.died, 1, false); err != nil {
		return c, err
	}
	if err := n.moment(ctx); err != nil {
		return c, err
	}
	if err := n.node.StartUnbound(ctx); err != nil {
		return c, err
	}
	c.born = time.Now()
	if c.on, err = n.onLo(ctx, c.gone, true); err != nil {
		return c, err
	}
	c.back, err = n.atCore(ctx, c.gone, 1, true)
	return c, err
}
