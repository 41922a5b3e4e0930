package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
)

// address is the method of host prefixes on an interface.
type address struct {
	iface  string
	talk   talker
	table  view
	parts  []func(netip.Prefix) bool // of the prefixes, each with a daemon of its own to read from
	kernel func(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error)
	change func(ctx context.Context, iface string, cs []routers.Change) error
	pace   *pacer // nil where the protocol carries any number of changes at once
}

// observe reads the kernel and the protocol's table, and asks zebra about what is on the interface and
// yet not announced. The parts go side by side all the way, since zebra has to be asked last: a hung
// ospfd leaves no time for that, but then there is nothing to ask about IPv4.
func (a address) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	kernel, kerr := a.kernel(ctx, a.iface, ps)
	os := slices.Clone(kernel)
	errs := make([]error, len(a.parts))
	var all []func()
	for i, mine := range a.parts {
		if slices.ContainsFunc(ps, mine) {
			all = append(all, func() { errs[i] = a.follow(ctx, mine, kernel, os) })
		}
	}
	abreast(all...)
	return os, routers.Join(append(errs, kerr)...)
}

// follow goes on from what the kernel says of one part of the prefixes, and puts into os what all say
// together; it leaves the other parts' places alone.
func (a address) follow(ctx context.Context, mine func(netip.Prefix) bool, kernel, os []routers.Observation) error {
	var ps, stuck []netip.Prefix
	for _, k := range kernel {
		if mine(k.Prefix) {
			ps = append(ps, k.Prefix)
		}
	}
	sights, err := a.table(ctx, ps)
	for _, k := range kernel {
		if s := sights[k.Prefix].stage; s != routers.Unknown && s < routers.Selected && k.Stage >= routers.Configured {
			stuck = append(stuck, k.Prefix)
		}
	}
	zebra, zerr := routes(ctx, a.talk, stuck)
	for i, k := range kernel {
		if mine(k.Prefix) {
			os[i] = a.judge(k, sights[k.Prefix], zebra[k.Prefix], zerr)
		}
	}
	return routers.Join(err, zerr)
}

// judge joins what the kernel, the protocol's table and zebra say of one prefix. What the protocol
// announces is announced, also without the address. The address alone is no more than configured.
func (a address) judge(kernel routers.Observation, s sight, rs []route, zerr error) routers.Observation {
	o := routers.Observation{Prefix: kernel.Prefix, Stage: s.stage, Peers: s.peers, Detail: s.detail}
	switch {
	case kernel.Stage == routers.Unknown:
		if s.stage < routers.Selected {
			o.Stage = routers.Unknown
		}
		o.Detail = join(s.detail, "the addresses cannot be read: "+kernel.Detail)
	case s.stage == routers.Unknown:
		o.Detail = join(s.detail, a.place(kernel))
	case kernel.Stage == routers.Absent && s.stage >= routers.Selected:
		o.Detail = join(join(s.detail, "announced although "+kernel.Detail), s.stale)
	case kernel.Stage == routers.Absent: // an operator's network statement may be left, waiting for the address
		o.Stage, o.Detail = routers.Absent, join(kernel.Detail, s.detail)
	case s.stage >= routers.Selected:
	case zerr != nil:
		o.Stage, o.Detail = routers.Unknown, join(a.place(kernel), "zebra cannot be asked: "+zerr.Error())
	default:
		o.Stage, o.Detail = a.stuck(kernel, s, rs)
	}
	return o
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
	now, later, burst := plan(pending(cs, have), func(c routers.Change) bool {
		return len(a.pace.young(ctx, []routers.Change{c})) > 0
	})
	failed := a.change(ctx, a.iface, now)
	if len(later) == 0 {
		return failed
	}
	if err := a.pace.wait(ctx, later, burst); err != nil {
		return routers.Join(failed, err)
	}
	return routers.Join(failed, a.change(ctx, a.iface, later))
}
