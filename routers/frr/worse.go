package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
)

// worse has OSPF announce degraded addresses with a cost of their own. Of IPv4 that is the address's
// (`ip ospf cost N ADDRESS`), which comes before the interface's and leaves that alone; it can be set
// before the address is there (8.4.4, 10.3). OSPFv3 has one cost for the interface: it is set only where
// the operator has set none.
type worse struct {
	talk  talker
	iface string
	cost  int
}

// known is what was read of the costs, by family; a family that could not be read has an error.
type known struct {
	costs
	err4, err6 error
}

func (k known) err(p netip.Prefix) error {
	if isIPv4(p) {
		return k.err4
	}
	return k.err6
}

// now is the cost that is set so that it could be ours; 0 is none.
func (k known) now(p netip.Prefix) int {
	if isIPv4(p) {
		return k.own[p.Addr()]
	}
	return k.v6
}

// read asks the daemons of the families that there are changes of.
func (w *worse) read(ctx context.Context, cs []routers.Change) known {
	k := known{}
	var text4, text6 string
	ps := prefixes(cs)
	var all []func()
	if slices.ContainsFunc(ps, isIPv4) {
		all = append(all, func() { text4, k.err4 = running(ctx, w.talk, "ospfd") })
	}
	if slices.ContainsFunc(ps, isIPv6) {
		all = append(all, func() { text6, k.err6 = running(ctx, w.talk, "ospf6d") })
	}
	abreast(all...)
	k.costs = parseCosts(text4, w.iface)
	k.v6 = parseCosts(text6, w.iface).v6
	return k
}

// able leaves out what cannot be degraded: nothing is announced better than was asked for. The cost that
// IPv6 prefixes share is not raised while one of them is to be announced.
func (w *worse) able(cs []routers.Change, k known) ([]routers.Change, error) {
	better := slices.IndexFunc(cs, func(c routers.Change) bool { return c.Want == routers.Announced && isIPv6(c.Prefix) })
	var able []routers.Change
	var refused []error
	for _, c := range cs {
		now, err := k.now(c.Prefix), k.err(c.Prefix)
		switch {
		case c.Want != routers.Degraded:
		case err != nil:
			refused = append(refused, routers.Errorf(err, "%s: not degraded, as the costs cannot be read: %w", c.Prefix, err))
			continue
		case now != 0 && now != w.cost:
			refused = append(refused, routers.Errorf(routers.ErrRefused, "%s: not degraded, as there is a cost that is not ours and would be lost (%q on interface %s): remove it, or use another interface",
				c.Prefix, w.command(c.Prefix, now), w.iface))
			continue
		case isIPv6(c.Prefix) && better >= 0:
			refused = append(refused, routers.Errorf(routers.ErrRefused, "%s: not degraded, as it shares the cost of interface %s with %s, which is to be announced: give their services an interface each",
				c.Prefix, w.iface, cs[better].Prefix))
			continue
		}
		able = append(able, c)
	}
	return able, routers.Join(refused...)
}

// command sets a cost.
func (w *worse) command(p netip.Prefix, cost int) string {
	if isIPv4(p) {
		return fmt.Sprintf("ip ospf cost %d %s", cost, p.Addr())
	}
	return fmt.Sprintf("ipv6 ospf6 cost %d", cost)
}

// undo removes the cost.
func (w *worse) undo(p netip.Prefix) string {
	if isIPv4(p) {
		return "no ip ospf cost " + p.Addr().String()
	}
	return "no ipv6 ospf6 cost"
}

// note has it that a cost was set.
func (k *known) note(p netip.Prefix, cost int) {
	if isIPv4(p) {
		k.own[p.Addr()] = cost
	} else {
		k.v6 = cost
	}
}

// set sets the costs of what is to be degraded, and removes ours of what is to be announced. What was set
// is not set again.
func (w *worse) set(ctx context.Context, cs []routers.Change, k *known) error {
	err := w.send(ctx, cs, func(c routers.Change) string {
		ours := k.now(c.Prefix) == w.cost
		switch {
		case c.Want == routers.Degraded && !ours:
			return w.command(c.Prefix, w.cost)
		case c.Want == routers.Announced && ours:
			return w.undo(c.Prefix)
		}
		return ""
	})
	if err != nil {
		return err
	}
	for _, c := range cs {
		switch {
		case c.Want == routers.Degraded:
			k.note(c.Prefix, w.cost)
		case c.Want == routers.Announced && k.now(c.Prefix) == w.cost:
			k.note(c.Prefix, 0)
		}
	}
	return nil
}

// restore removes our costs of what was withdrawn and is not there any more: while it is, that would
// announce it better. The prefixes of one interface are those of one service, so that all of IPv6 go
// together.
func (w *worse) restore(ctx context.Context, gone []routers.Change, k known) error {
	return w.send(ctx, gone, func(c routers.Change) string {
		if k.now(c.Prefix) == w.cost {
			return w.undo(c.Prefix)
		}
		return ""
	})
}

// send gives each daemon the commands of its family, each once.
func (w *worse) send(ctx context.Context, cs []routers.Change, command func(routers.Change) string) error {
	enter := []string{"configure terminal", "interface " + w.iface}
	q4, q6 := session{daemon: "ospfd", enter: enter}, session{daemon: "ospf6d", enter: enter}
	for _, c := range cs {
		q := &q6
		if isIPv4(c.Prefix) {
			q = &q4
		}
		if text := command(c); text != "" && !slices.Contains(q.commands, text) {
			q.commands = append(q.commands, text)
		}
	}
	return routers.Join(tell(ctx, w.talk, q4), tell(ctx, w.talk, q6))
}
