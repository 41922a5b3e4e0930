package bird

import (
	"context"
	"fmt"
	"net/netip"

	"vouch/routers"
)

// byAddress is the method of host prefixes on an interface, which BIRD's direct protocol or a stub
// interface of OSPF takes from there.
type byAddress struct {
	options Options
	daemons daemons
	kernel  func(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error)
	change  func(ctx context.Context, iface string, cs []routers.Change) error
}

// observe reads the kernel first: an address that goes away meanwhile leaves a hint to read again, while
// one that went before is told from what BIRD still has.
func (a byAddress) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	kernel, kerr := a.kernel(ctx, a.options.Interface, ps)
	sights, err := a.daemons.observe(ctx, a.options, ps)
	os := make([]routers.Observation, len(kernel))
	for i, k := range kernel {
		s := sights[k.Prefix]
		os[i] = a.judge(k, s)
		os[i].Hindered = a.hinders(os[i], s)
	}
	return os, routers.Join(err, kerr)
}

// judge joins what the kernel and BIRD say. What a peer has been given is announced, also without the
// address, but then it stands on nothing. The address alone is no more than configured.
func (a byAddress) judge(kernel routers.Observation, s sight) routers.Observation {
	o := s.observation(kernel.Prefix, a.options.MinPeers)
	switch {
	case kernel.Stage == routers.Unknown:
		if o.Stage < routers.Advertised {
			o.Stage = routers.Unknown
		}
		o.Detail = join(o.Detail, "the addresses cannot be read: "+kernel.Detail)
	case o.Stage == routers.Unknown:
	case o.Stage >= routers.Selected && kernel.Stage == routers.Absent:
		o.Broken, o.Detail = true, join(o.Detail, "announced although "+kernel.Detail)
		if by, peers := s.whose(); by != "" {
			o.Detail += fmt.Sprintf(": the route of protocol %s is given to %s", by, peers)
		}
	case o.Stage >= routers.Selected && kernel.Stage < routers.Selected:
		o.Broken, o.Detail = true, join(o.Detail, "announced although the address cannot be used: "+kernel.Detail)
	case o.Stage == routers.Absent && kernel.Stage > routers.Absent:
		o.Stage = routers.Configured
		o.Detail = join(kernel.Detail, "bird has no route of the address: is there a direct protocol, or a stub interface of OSPF, for "+a.options.Interface+"?"+onStub(a.options.Interface, kernel.Prefix))
	}
	return o
}

// hinders says that BIRD certainly takes the prefix from no interface.
func (a byAddress) hinders(o routers.Observation, s sight) string {
	direct, ospf, _ := reading{protocols: s.protocols}.takes(a.options.Interface, o.Prefix)
	if direct || ospf || s.err != nil || o.Stage >= routers.Selected {
		return ""
	}
	return fmt.Sprintf("nothing in bird takes %s addresses of %s: no direct protocol is up, and no OSPF protocol; vouch doctor says what to write", family(o.Prefix), a.options.Interface)
}

// apply announces nothing where BIRD cannot be asked: it would be into a table that cannot be read.
func (a byAddress) apply(ctx context.Context, cs []routers.Change) error {
	var able []routers.Change
	var refused []error
	for _, part := range a.daemons.split(ctx, prefixesOf(cs)) {
		mine := part.pick(cs)
		if withdraws := withdrawsOf(mine); len(withdraws) < len(mine) {
			if _, err := part.version(ctx); err != nil {
				refused, mine = append(refused, err), withdraws
			}
		}
		able = append(able, mine...)
	}
	return routers.Join(routers.Join(refused...), a.change(ctx, a.options.Interface, able))
}
