package frr

import (
	"context"
	"fmt"
	"net/netip"

	"vouch/routers"
)

// address is the method of host prefixes on an interface.
type address struct {
	iface  string
	talk   talker
	table  view
	absent func(netip.Prefix) string // says that the daemon which would announce the prefix has no socket; else empty
	kernel func(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error)
	change func(ctx context.Context, iface string, cs []routers.Change) error
	pace   *pacer // nil where the protocol carries any number of changes at once
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
	os := make([]routers.Observation, len(kernel))
	for i, k := range kernel {
		os[i] = a.judge(k, sights[k.Prefix], zebra[k.Prefix], zerr)
		if zerr != nil {
			os[i].Detail = join(os[i].Detail, "zebra cannot be asked, so that a change may not take effect: "+zerr.Error())
		}
	}
	return os, routers.Join(err, zerr, kerr)
}

// judge joins what the kernel, the protocol's table and zebra say of one prefix. What the protocol
// announces is announced, also without the address, but then it stands on nothing. The address alone
// is no more than configured.
func (a address) judge(kernel routers.Observation, s sight, rs []route, zerr error) routers.Observation {
	o := routers.Observation{Prefix: kernel.Prefix, Stage: s.stage, Peers: s.peers, Detail: s.detail}
	switch {
	case kernel.Stage == routers.Unknown:
		if s.stage < routers.Selected {
			o.Stage = routers.Unknown
		}
		o.Detail = join(s.detail, "the addresses cannot be read: "+kernel.Detail)
	case s.stage == routers.Unknown:
		o.Stage, o.Detail = a.unread(kernel, s)
	case s.stage >= routers.Selected && kernel.Stage == routers.Absent:
		o.Broken, o.Detail = true, join(join(s.detail, "announced although "+kernel.Detail), s.stale)
	case s.stage >= routers.Selected && kernel.Stage < routers.Selected:
		o.Broken, o.Detail = true, join(s.detail, "announced although the address cannot be used: "+kernel.Detail)
	case s.stage >= routers.Selected:
	case kernel.Stage == routers.Absent: // an operator's network statement may be left, waiting for the address
		o.Stage, o.Detail = routers.Absent, join(kernel.Detail, s.detail)
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
	cs, refused := a.able(cs)
	return routers.Join(refused, a.paced(ctx, cs))
}

// able leaves out the announces whose daemon has no socket: nothing is announced into a table that
// cannot be read.
func (a address) able(cs []routers.Change) ([]routers.Change, error) {
	var able []routers.Change
	var refused []error
	for _, c := range cs {
		if c.Want == routers.Announced {
			if why := a.absent(c.Prefix); why != "" {
				refused = append(refused, routers.Errorf(routers.ErrUnavailable, "nothing is announced into a table that cannot be read: %s", why))
				continue
			}
		}
		able = append(able, c)
	}
	return able, routers.Join(refused...)
}

func (a address) paced(ctx context.Context, cs []routers.Change) error {
	if a.pace == nil {
		return a.change(ctx, a.iface, cs)
	}
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	have, err := a.kernel(ctx, a.iface, ps)
	if err != nil {
		return a.change(ctx, a.iface, cs)
	}
	now, later := plan(pending(cs, have), a.pace.holds, func(c routers.Change) bool {
		return len(a.pace.young(ctx, []routers.Change{c})) > 0
	})
	failed := a.change(ctx, a.iface, now)
	if err := ctx.Err(); err != nil && len(later) > 0 { // what was kept back before may not be made yet, and stays so
		return routers.Join(failed, err)
	}
	a.pace.hold(now, later)
	return routers.Join(failed, a.pace.release(ctx, func(cs []routers.Change) error { return a.change(ctx, a.iface, cs) }))
}
