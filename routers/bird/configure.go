package bird

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// check has BIRD read its configuration without putting it in force.
func check(ctx context.Context, t talker) error {
	const command = "configure check"
	replies, err := t.change(ctx, command)
	if err != nil {
		return err
	}
	return replies[0].Refused(command)
}

// configure has BIRD put its configuration in force. Where it takes a while, as when protocols restart or
// another configuration is on its way, that is waited for. BIRD 3 is not asked while another one is on its
// way: 3.1.8 ends by an assertion (conf.c:211) when a configuration with changed protocols comes upon one
// that is in progress. Directly before it is asked, ready may say that it is not to be.
//
// It also confirms a `configure timeout` that an operator has not confirmed yet: no BIRD up to 3.1.8 tells
// of one, so it cannot be waited for.
func configure(ctx context.Context, t talker, v ctl.Version, ready func() error) error {
	const command = "configure"
	if v.AtLeast(3, 0, 0) {
		if err := settled(ctx, t); err != nil {
			return err
		}
	}
	if err := ready(); err != nil {
		return err
	}
	replies, err := t.change(ctx, command)
	if err != nil {
		return err
	}
	if err := replies[0].Refused(command); err != nil || replies[0].Has(ctl.Reconfigured) {
		return err
	}
	return settled(ctx, t)
}

// settled waits until no configuration is on its way.
func settled(ctx context.Context, t talker) error {
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for waited := false; ; waited = true {
		replies, err := t.read(ctx, "show status")
		switch {
		case err == nil && !reconfiguring(replies[0]):
			return nil
		case waited && ctx.Err() != nil: // also where it did not come to answer
			return routers.Errorf(routers.ErrBusy, "a reconfiguration is in progress, and ours waits for it: %w", ctx.Err())
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// reload has the peers told anew of withdraws that are in force already: after somebody's `configure soft`
// a filter is not asked again for the routes that have passed it. That it fails is seen by reading, but
// before 2.0.8, which does not tell what was sent: there every peer is told anew.
func (b byInclude) reload(ctx context.Context, part part, v ctl.Version, cs []routers.Change) {
	told := map[netip.Prefix]value{}
	if err := b.values(ctx, part.of(prefixesOf(withdrawsOf(cs))), told); err != nil {
		return
	}
	var ps []netip.Prefix
	for p, v := range told {
		if v.want() == routers.Withdrawn {
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return
	}
	os, err := b.observe(ctx, ps)
	if err != nil {
		return
	}
	var commands []string
	for _, o := range os {
		for _, peer := range o.Peers {
			command := reloading(v) + quoted(peer.Name)
			if (!tellsSent(v) || peer.Stage == routers.Advertised) && !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) > 0 {
		_, _ = part.change(ctx, commands...)
	}
}

// insist has every peer told anew of what the filters let pass, where BIRD may not have seen that they have
// changed: before 2.0.8 every other change of a function is taken for none (seen with 2.0.7), and what was
// sent cannot be read either. 1.6 sees them.
func (b byInclude) insist(ctx context.Context, part part, v ctl.Version) error {
	filtered := b.options.Style == StyleList || b.options.Style == StyleFunction
	if !filtered || v.Major < 2 || tellsSent(v) {
		return nil
	}
	protocols, err := readProtocols(ctx, part)
	if err != nil {
		return err
	}
	var commands []string
	for _, peer := range pickPeers(protocols, b.options.Peers) {
		if peer.state == "up" {
			commands = append(commands, reloading(v)+quoted(peer.name))
		}
	}
	_, err = part.change(ctx, commands...)
	return err
}

// reloading is the command that has a peer's export filter asked again: 3.1.8 refuses that of 2.17.6, and
// the other way.
func reloading(v ctl.Version) string {
	if v.AtLeast(3, 0, 0) {
		return "reload filters out "
	}
	return "reload out "
}
