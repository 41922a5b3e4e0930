package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// address is the method of host prefixes on an interface.
type address struct {
	iface  string
	talk   talker
	table  view
	absent func(netip.Prefix) string // says that the daemon which would announce the prefix has no socket; else empty
	kernel func(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error)
	change func(ctx context.Context, iface string, cs []routers.Change) error
	here   func(ctx context.Context) ([]rtnl.Address, error)
	pace   *pacer // nil where the protocol carries any number of changes at once
	worse  *worse // nil: there is no worse way
}

// observe reads the kernel, and then the protocol's table and zebra side by side. Zebra is asked always:
// it is zebra that tells the others of an address which comes or goes, so that without it no change
// takes effect. The kernel is read first: an address that goes away meanwhile leaves a hint to read
// again, while one that went before is told from what the table still holds.
func (a address) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	kernel, kerr := a.kernel(ctx, a.iface, ps)
	var zebra map[netip.Prefix][]route
	var sights map[netip.Prefix]sight
	var zerr, err error
	abreast(
		func() { zebra, zerr = routes(ctx, a.talk, ps) },
		func() { sights, err = a.table(ctx, ps) },
	)
	a.explain(ctx, kernel, sights)
	os := make([]routers.Observation, len(kernel))
	for i, k := range kernel {
		os[i] = a.judge(k, sights[k.Prefix], zebra[k.Prefix], zerr)
		if zerr != nil {
			os[i].Detail = join(os[i].Detail, "zebra cannot be asked, so that a change may not take effect: "+zerr.Error())
		}
	}
	return os, routers.Join(err, zerr, kerr)
}

// explain finds out why an address is announced that is not on the interface: with another length it is
// there, and OSPF announces an address of a loopback as a host, whatever its length (8.4.4, 10.3).
func (a address) explain(ctx context.Context, kernel []routers.Observation, sights map[netip.Prefix]sight) {
	astray := func(k routers.Observation) bool {
		return k.Stage == routers.Absent && sights[k.Prefix].stage >= routers.Selected
	}
	if !slices.ContainsFunc(kernel, astray) {
		return
	}
	here, _ := a.here(ctx) // what is not known is not explained
	for n, k := range kernel {
		i := slices.IndexFunc(here, func(h rtnl.Address) bool {
			return h.Interface == a.iface && h.Prefix.Addr() == k.Prefix.Addr() && h.Prefix != k.Prefix
		})
		if s := sights[k.Prefix]; i >= 0 && astray(k) {
			kernel[n].Detail = fmt.Sprintf("it is not on %[1]s: %[1]s has %[2]s, which somebody else put there, and OSPF announces an address of a loopback "+
				"whatever its length; vouch leaves it, so take it away (`ip address del %[2]s dev %[1]s`)", a.iface, here[i].Prefix)
			s.stale = ""
			sights[k.Prefix] = s
		}
	}
}

// judge joins what the kernel, the protocol's table and zebra say of one prefix. What the protocol
// announces is announced, also without the address, but then it stands on nothing. The address alone
// is no more than configured.
func (a address) judge(kernel routers.Observation, s sight, rs []route, zerr error) routers.Observation {
	o := routers.Observation{Prefix: kernel.Prefix, Stage: s.stage, Peers: s.peers, Detail: s.detail}
	o.Degraded = a.worse != nil && s.stage >= routers.Selected && s.cost == a.worse.cost
	switch {
	case kernel.Stage == routers.Unknown:
		if s.stage < routers.Selected {
			o.Stage = routers.Unknown
		}
		o.Detail = join(s.detail, "the addresses cannot be read: "+kernel.Detail)
	case s.stage == routers.Unknown:
		o.Stage, o.Detail = a.unread(kernel, s)
	case s.stage >= routers.Selected && kernel.Stage == routers.Absent:
		o.Broken, o.Detail = true, join(join(s.detail, "announced although "+kernel.Detail), s.wayOut(selected(rs)))
	case s.stage >= routers.Selected && kernel.Stage < routers.Selected:
		o.Broken, o.Detail = true, join(s.detail, "announced although the address cannot be used: "+kernel.Detail)
	case s.stage >= routers.Selected:
		o.Detail = join(s.detail, kernel.Detail)
	case kernel.Stage == routers.Absent: // an operator's network statement may be left, waiting for the address
		if o.Stage, o.Detail = routers.Absent, kernel.Detail; s.stage != routers.Configured {
			o.Detail = join(kernel.Detail, s.detail)
		}
	case zerr != nil:
		o.Stage, o.Detail = routers.Unknown, a.place(kernel)
	default:
		o.Stage, o.Detail = a.stuck(kernel, s, rs)
	}
	return o
}

// unread judges an address whose protocol's table cannot be read. Where there is no daemon nothing is
// announced of an address that is not there either.
func (a address) unread(kernel routers.Observation, s sight) (routers.Stage, string) {
	if why := a.absent(kernel.Prefix); why != "" && kernel.Stage == routers.Absent {
		return routers.Absent, join(kernel.Detail, why)
	}
	return routers.Unknown, join(s.detail, a.place(kernel))
}

// stuck judges an address which is on the interface and yet not announced.
func (a address) stuck(kernel routers.Observation, s sight, rs []route) (routers.Stage, string) {
	switch {
	case kernel.Stage == routers.Configured:
		return routers.Configured, join(kernel.Detail, s.detail)
	case connectedOn(rs, a.iface):
		return routers.Selected, join(fmt.Sprintf("zebra has the route, but it is not announced: does the protocol cover %s on %s?", kernel.Prefix, a.iface), s.detail)
	case len(rs) == 0:
		return routers.Configured, join("zebra does not have the address (yet)", s.detail)
	}
	return routers.Configured, join(fmt.Sprintf("zebra selected the %s route for it, not that of the address", selected(rs)), s.detail)
}

// place tells what the kernel says.
func (a address) place(kernel routers.Observation) string {
	if kernel.Stage == routers.Absent {
		return kernel.Detail
	}
	return join("the address is on "+a.iface, kernel.Detail)
}

// apply makes the changes that are still to be made, parted as OSPF needs it. One that fails stops
// none that follow.
func (a address) apply(ctx context.Context, cs []routers.Change) error {
	cs, unable := a.able(cs)
	if a.worse == nil {
		return routers.Join(unable, a.paced(ctx, cs, nil))
	}
	k := a.worse.read(ctx, cs)
	cs, refused := a.worse.able(cs, k)
	failed := a.paced(ctx, cs, &k)
	return routers.Join(unable, refused, failed, a.restore(ctx, cs, k))
}

// able leaves out the announces whose daemon has no socket: nothing is announced into a table that
// cannot be read.
func (a address) able(cs []routers.Change) ([]routers.Change, error) {
	var able []routers.Change
	var refused []error
	for _, c := range cs {
		if c.Want != routers.Withdrawn {
			if why := a.absent(c.Prefix); why != "" {
				refused = append(refused, routers.Errorf(routers.ErrUnavailable, "nothing is announced into a table that cannot be read: %s", why))
				continue
			}
		}
		able = append(able, c)
	}
	return able, routers.Join(refused...)
}

// paced makes the changes, with the costs that were read, if there are any. The cost of what is not there
// yet comes before it, so that it is never announced otherwise.
func (a address) paced(ctx context.Context, cs []routers.Change, k *known) error {
	do := func(cs []routers.Change) error { return a.make(ctx, cs, k) }
	if a.pace == nil {
		return do(cs)
	}
	have, err := a.kernel(ctx, a.iface, prefixes(cs))
	if err != nil {
		return do(cs)
	}
	if k != nil {
		for i := range have {
			have[i].Degraded = k.now(cs[i].Prefix) == a.worse.cost
		}
		_ = a.worse.set(ctx, coming(cs, have), k) // what failed is tried again by make, which tells
	}
	now, later := plan(pending(cs, have), a.pace.holds, func(c routers.Change) bool {
		return len(a.pace.young(ctx, []routers.Change{c})) > 0
	})
	failed := do(now)
	if err := ctx.Err(); err != nil && len(later) > 0 { // what was kept back before may not be made yet, and stays so
		return routers.Join(failed, err)
	}
	a.pace.hold(now, later)
	return routers.Join(failed, a.pace.release(ctx, do))
}

// coming gives the changes that announce what is not there.
func coming(cs []routers.Change, have []routers.Observation) []routers.Change {
	var out []routers.Change
	for i, c := range cs {
		if c.Want != routers.Withdrawn && have[i].Stage < routers.Selected {
			out = append(out, c)
		}
	}
	return out
}

// make sets the costs and then changes the addresses. An address whose cost could not be set stays as it is.
func (a address) make(ctx context.Context, cs []routers.Change, k *known) error {
	var failed error
	if k != nil {
		if failed = a.worse.set(ctx, cs, k); failed != nil {
			cs = slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return c.Want == routers.Degraded })
		}
	}
	plain := slices.Clone(cs)
	for i := range plain {
		if plain[i].Want == routers.Degraded {
			plain[i].Want = routers.Announced
		}
	}
	return routers.Join(failed, a.change(ctx, a.iface, plain))
}

// restore removes the costs of what was withdrawn.
func (a address) restore(ctx context.Context, cs []routers.Change, k known) error {
	withdrawn := slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool {
		return c.Want != routers.Withdrawn || k.now(c.Prefix) != a.worse.cost
	})
	if len(withdrawn) == 0 || ctx.Err() != nil {
		return nil
	}
	have, err := a.kernel(ctx, a.iface, prefixes(withdrawn))
	if err != nil {
		return err
	}
	for i, o := range have {
		if o.Stage != routers.Absent {
			withdrawn[i].Want = routers.Keep
		}
	}
	return a.worse.restore(ctx, slices.DeleteFunc(withdrawn, func(c routers.Change) bool { return c.Want == routers.Keep }), k)
}
