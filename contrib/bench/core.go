package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// many is the number of prefixes that one node announces together.
const many = 8

// core measures how long after a decision the core's kernel table shows it, for one prefix and for
// several of one node: with an agent that is drained and resumed, and with addresses changed by ip.
func (b *bench) core(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, many)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, prefixes := range []int{1, many} {
		progress("core: %d prefixes", prefixes)
		runs := b.runs
		if prefixes > 1 {
			runs = b.few()
		}
		drained, err := b.drains(ctx, n, prefixes, runs)
		if err != nil {
			return fmt.Errorf("%d prefixes, drained: %w", prefixes, err)
		}
		naive, err := n.moves(ctx, prefixes, runs)
		if err != nil {
			return fmt.Errorf("%d prefixes, by ip: %w", prefixes, err)
		}
		for _, there := range []bool{false, true} {
			what := map[bool]string{false: "withdrawn", true: "announced"}[there]
			if prefixes > 1 {
				what = fmt.Sprintf("%d together: all %s", prefixes, what)
			}
			r.instead(r.add(what+": decision to core", "ms", drained[there].core), "ip -batch to core", naive[there])
			r.add(what+": decision to verified on the node", "ms", drained[there].verified)
		}
	}
	return nil
}

// A spread is how long after decisions the core showed them, and the agent had verified them.
type spread struct{ core, verified sample }

// drains drains and resumes a service again and again.
func (b *bench) drains(ctx context.Context, n *network, prefixes, runs int) (map[bool]*spread, error) {
	began := time.Now()
	s, err := b.vouches(ctx, n, service{name: "resolver", prefixes: n.Prefixes[:prefixes], timing: "rise = 1", checks: check("resolver", "route")})
	if err != nil {
		return nil, err
	}
	if _, err := n.atCore(ctx, began, prefixes, true); err != nil {
		return nil, errors.Join(err, s.leave(ctx))
	}
	all := map[bool]*spread{false: {}, true: {}}
	shown.begin("core, drained and resumed", 2*runs)
	for i := range 2 * runs {
		there := i%2 == 1
		if err := n.drain(ctx, s, prefixes, there, all[there]); err != nil {
			return nil, errors.Join(err, s.leave(ctx))
		}
		shown.step()
	}
	return all, s.leave(ctx)
}

// drain drains or resumes the service once.
func (n *network) drain(ctx context.Context, s *sidecar, prefixes int, there bool, to *spread) error {
	if err := n.quiet(ctx); err != nil {
		return err
	}
	order := map[bool]string{false: "drain", true: "resume"}[there]
	asked := time.Now()
	if err := s.tell(ctx, order, "resolver"); err != nil {
		return err
	}
	seen, err := n.atCore(ctx, asked, prefixes, there)
	if err != nil {
		return err
	}
	decided, err := s.decided(ctx, asked)
	if err != nil {
		return err
	}
	verified, err := s.verified(ctx, decided, prefixes, there)
	if err != nil {
		return err
	}
	to.core.ms(seen.Sub(decided))
	to.verified.ms(verified.Sub(decided))
	return nil
}

// moves adds and deletes the addresses by one ip each time.
func (n *network) moves(ctx context.Context, prefixes, runs int) (map[bool]sample, error) {
	all := map[bool]sample{}
	shown.begin("core, by ip", 2*runs)
	for i := range 2 * runs {
		there, action := i%2 == 0, "add"
		if !there {
			action = "del"
		}
		if err := n.quiet(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := n.byHand(ctx, n.node.Node, action, n.Prefixes[:prefixes]); err != nil {
			return nil, err
		}
		seen, err := n.atCore(ctx, began, prefixes, there)
		if err != nil {
			return nil, err
		}
		s := all[there]
		s.ms(seen.Sub(began))
		all[there] = s
		shown.step()
	}
	return all, nil
}
