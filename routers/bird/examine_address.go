package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
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

// takers names the protocols that take a prefix from the address of an interface: direct ones, whose interfaces
// BIRD does not tell, and those of OSPF that run there.
func (rd reading) takers(iface string, p netip.Prefix) (direct, ospf []string) {
	for _, q := range rd.protocols {
		if _, ok := q.carrying(p); !ok || q.state != "up" {
			continue
		}
		switch {
		case q.kind == kindDirect:
			direct = append(direct, q.name)
		case q.kind == kindOSPF && slices.Contains(rd.interfaces[q.name], iface):
			ospf = append(ospf, q.name)
		}
	}
	return direct, ospf
}

// examineAddress says that nothing would take the prefixes from the interface, or that nothing has.
func (rd reading) examineAddress(ctx context.Context, v ctl.Version, o Options, ps []netip.Prefix,
	kernel func(context.Context, string, []netip.Prefix) ([]routers.Observation, error)) []routers.Finding {
	var all []routers.Finding
	for _, v4 := range []bool{true, false} {
		i := slices.IndexFunc(ps, func(p netip.Prefix) bool { return p.Addr().Is4() == v4 })
		if i < 0 {
			continue
		}
		if direct, ospf := rd.takers(o.Interface, ps[i]); len(direct)+len(ospf) == 0 {
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: "bird " + v.String(),
				Text:   fmt.Sprintf("nothing in it takes %s addresses of %s: there is no direct protocol that is up, and no OSPF protocol runs on that interface", family(ps[i]), o.Interface),
				WayOut: wayToTake(o.Interface, ps[i], v)})
		}
	}
	os, err := kernel(ctx, o.Interface, ps)
	if err != nil || len(all) > 0 {
		return all
	}
	for _, k := range os {
		if s := rd.sight(k.Prefix); k.Stage == routers.Selected && len(s.own)+len(s.lsas) == 0 && s.unread() == "" {
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: k.Prefix.String(),
				Text: "is on " + o.Interface + ", and bird has no route of it", WayOut: wayToTake(o.Interface, k.Prefix, v)})
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
