package bird

import (
	"context"
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
// another configuration is on its way, that is waited for.
//
// It also confirms a `configure timeout` that an operator has not confirmed yet: no BIRD up to 3.1.8 tells
// of one, so it cannot be waited for.
func configure(ctx context.Context, t talker) error {
	const command = "configure"
	replies, err := t.change(ctx, command)
	if err != nil {
		return err
	}
	if err := replies[0].Refused(command); err != nil || replies[0].Has(ctl.Reconfigured) {
		return err
	}
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		replies, err := t.read(ctx, "show status")
		if err != nil {
			return err
		}
		if !reconfiguring(replies[0]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return routers.Errorf(routers.ErrBusy, "a reconfiguration is in progress, and ours waits for it: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// reload has the peers told anew that still have what was withdrawn before: after somebody's `configure
// soft` a filter is not asked again for the routes that have passed it. That it fails is seen by reading.
func (b byInclude) reload(ctx context.Context, part part, v ctl.Version, cs []routers.Change) {
	withdraws := withdrawsOf(cs)
	os, err := b.observe(ctx, prefixesOf(withdraws))
	if err != nil {
		return
	}
	var commands []string
	for _, o := range os {
		for _, peer := range o.Reached() {
			if command := reloading(v) + quoted(peer); !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) > 0 {
		_, _ = part.change(ctx, commands...)
	}
}

// reloading is the command that has a peer's export filter asked again. BIRD 3.1.8 does not know that of 2,
// nor the other way.
func reloading(v ctl.Version) string {
	if v.AtLeast(3, 1) {
		return "reload filters out "
	}
	return "reload out "
}
