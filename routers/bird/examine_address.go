package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/rtnl"
)

// askInterfaces asks on which interfaces each OSPF protocol runs.
func (rd *reading) askInterfaces(ctx context.Context, t talker) error {
	rd.interfaces = map[string][]string{}
	var qs []question
	for _, p := range rd.protocols {
		if p.kind == kindOSPF && p.state == "up" {
			qs = append(qs, question{"show ospf interface " + quoted(p.name), func(r ctl.Reply) { rd.interfaces[p.name] = interfacesOf(r) }})
		}
	}
	return put(ctx, t, qs)
}

// takes says whether a direct protocol, whose interfaces BIRD does not tell, or an OSPF protocol is there for the
// family of a prefix, and whether one of OSPF runs on the interface. While that has no address of the family, or
// with OSPFv3 no link-local one, none does (seen with 1.6.8, 2.0.7, 2.0.12, 2.17.6 and 3.1.8).
func (rd reading) takes(iface string, p netip.Prefix) (direct, ospf, runs bool) {
	for _, q := range rd.protocols {
		if _, ok := q.carrying(p); ok && q.state == "up" {
			direct = direct || q.kind == kindDirect
			ospf = ospf || q.kind == kindOSPF
			runs = runs || q.kind == kindOSPF && slices.Contains(rd.interfaces[q.name], iface)
		}
	}
	return direct, ospf, runs
}

// examineAddress says that nothing would take the prefixes from the interface, or that nothing has.
func (rd reading) examineAddress(ctx context.Context, v ctl.Version, o Options, ps []netip.Prefix) []routers.Finding {
	addresses, err := rtnl.Addresses(ctx)
	if err != nil {
		return nil
	}
	on := func(is func(netip.Prefix) bool) bool {
		return slices.ContainsFunc(addresses, func(a rtnl.Address) bool { return a.Interface == o.Interface && is(a.Prefix) })
	}
	var all []routers.Finding
	for _, v4 := range []bool{true, false} {
		i := slices.IndexFunc(ps, func(p netip.Prefix) bool { return p.Addr().Is4() == v4 })
		if i < 0 {
			continue
		}
		direct, ospf, runs := rd.takes(o.Interface, ps[i])
		linked := v4 || on(func(p netip.Prefix) bool { return p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() })
		if !direct && !runs && (!ospf || !linked) {
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: "bird " + v.String(),
				Text:   fmt.Sprintf("nothing in it takes %s addresses of %s: there is no direct protocol that is up, and no OSPF protocol that could run on that interface", family(ps[i]), o.Interface),
				WayOut: wayToTake(o.Interface, ps[i], v)})
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, p := range ps {
		if s := rd.sight(p); on(func(a netip.Prefix) bool { return a == p }) && len(s.own)+len(s.lsas) == 0 && s.unread() == "" {
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: p.String(),
				Text: "is on " + o.Interface + ", and bird has no route of it", WayOut: wayToTake(o.Interface, p, v)})
		}
	}
	return all
}

// family names that of a prefix.
func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// wayToTake is what has BIRD take a prefix from an interface. What BIRD needs for OSPFv3 was seen with 2.0.12.
func wayToTake(iface string, p netip.Prefix, v ctl.Version) string {
	channel := ""
	switch {
	case v.Major == 1:
	case p.Addr().Is4():
		channel = "ipv4; "
	default:
		channel = "ipv6; "
	}
	way := fmt.Sprintf("write `protocol direct { %sinterface %q; }` in bird.conf and export it, or `interface %[2]q { stub; };` in an area of an OSPF protocol", channel, iface)
	return way + onStub(iface, p)
}

// onStub is what else a stub interface needs.
func onStub(iface string, p netip.Prefix) string {
	if p.Addr().Is4() {
		return ""
	}
	return fmt.Sprintf("; OSPFv3 passes over an interface that has no link-local address: `ip -6 addr add fe80::1/64 dev %s`, and in the network's configuration", iface)
}
