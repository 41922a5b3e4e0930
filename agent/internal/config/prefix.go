package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/BurntSushi/toml"
)

// forbidden are the ranges that cannot be announced to other nodes (RFC 6890, RFC 5771, RFC 4291).
var forbidden = []struct {
	name string
	net  netip.Prefix
}{
	{"loopback addresses", netip.MustParsePrefix("127.0.0.0/8")},
	{"the loopback address", netip.MustParsePrefix("::1/128")},
	{"unspecified addresses", netip.MustParsePrefix("0.0.0.0/8")},
	{"the unspecified address", netip.MustParsePrefix("::/128")},
	{"multicast addresses", netip.MustParsePrefix("224.0.0.0/4")},
	{"multicast addresses", netip.MustParsePrefix("ff00::/8")},
	{"link-local addresses", netip.MustParsePrefix("169.254.0.0/16")},
	{"link-local addresses", netip.MustParsePrefix("fe80::/10")},
	{"the broadcast address", netip.MustParsePrefix("255.255.255.255/32")},
}

// parsePrefix reads a prefix in its one canonical meaning: no host bits, no address without a
// length, no second way to write an IPv4 prefix.
func parsePrefix(s string) (netip.Prefix, *fault) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.Prefix{}, &fault{"is an address without a prefix length", "write " + host(a.Unmap())}
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, &fault{"is not a prefix", `such as "192.0.2.53/32" or "2001:db8::53/128"`}
	case p.Addr().Is4In6():
		return netip.Prefix{}, &fault{"is an IPv4 address written as IPv6", unmapped(p)}
	case p.Bits() == 0:
		return netip.Prefix{}, &fault{"is the default route", "name the prefixes of the service"}
	case p != p.Masked():
		wayOut := fmt.Sprintf("write %s or %s", host(p.Addr()), p.Masked())
		return netip.Prefix{}, &fault{p.String() + " has host bits set", wayOut}
	}
	for _, f := range forbidden {
		if f.net.Overlaps(p) {
			return netip.Prefix{}, &fault{fmt.Sprintf("covers %s (%s), which cannot be announced", f.name, f.net), "use addresses of your own network"}
		}
	}
	return p, nil
}

// host gives the prefix of one address, as text.
func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

func unmapped(p netip.Prefix) string {
	const mappedBits = 96
	if p.Bits() < mappedBits {
		return "write it as IPv4"
	}
	return "write " + netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits).String()
}

// An owner is the service that a prefix belongs to.
type owner struct {
	service string
	line    int
}

// prefixes reads the prefixes of a service. owners holds those of the services before it, and takes
// up these.
func prefixes(t *table, service string, written []string, r Router, owners map[netip.Prefix]owner) []netip.Prefix {
	if !t.has("prefixes") || t.good("prefixes") && len(written) == 0 {
		t.refuse("prefixes", "a service needs at least one prefix", `write prefixes = ["192.0.2.53/32"]`)
	}
	var ps []netip.Prefix
	for i, s := range written {
		if !t.good(elementName(toml.Key{"prefixes"}, i)) { // not a string
			continue
		}
		p, f := parsePrefix(s)
		if f == nil {
			f = ownPrefix(t, service, i, p, r, owners)
		}
		if f != nil {
			t.refuseElement("prefixes", i, *f)
			continue
		}
		ps = append(ps, p)
	}
	return ps
}

// ownPrefix enters a prefix into owners, unless another has it or the method cannot announce it.
func ownPrefix(t *table, service string, i int, p netip.Prefix, r Router, owners map[netip.Prefix]owner) *fault {
	if r.Method == methodAddress && !p.IsSingleIP() {
		wayOut := fmt.Sprintf("write %s, or use method = %s", host(p.Addr()), alternatives(otherMethods(r)))
		return &fault{"is no single address, as method address needs", wayOut}
	}
	if o, taken := owners[p]; taken {
		where := "of service " + o.service
		if o.service == service {
			where = "here"
		}
		return &fault{fmt.Sprintf("%s is already a prefix %s (%s:%d)", p, where, t.doc.file, o.line), "keep it in one place"}
	}
	at := t.doc.places[elementName(join(t.path, "prefixes"), i)]
	owners[p] = owner{service, at.line}
	return nil
}

// managed gives the longest prefix that holds the address, if there is one.
func managed(owners map[netip.Prefix]owner, a netip.Addr) (longest netip.Prefix, ok bool) {
	a = a.Unmap().WithZone("")
	return covering(owners, netip.PrefixFrom(a, a.BitLen()))
}

// covering gives the most specific managed prefix that all of another is in.
func covering(owners map[netip.Prefix]owner, all netip.Prefix) (longest netip.Prefix, ok bool) {
	for p := range owners {
		if p.Bits() <= all.Bits() && p.Contains(all.Addr()) && (!ok || p.Bits() > longest.Bits()) {
			longest, ok = p, true
		}
	}
	return longest, ok
}

// addressOf finds the address in a value such as "10.53.53.53:53", "10.53.53.53" or "https://10.53.53.53/x".
func addressOf(value string) (netip.Addr, bool) {
	value = strings.TrimSpace(value)
	if _, rest, ok := strings.Cut(value, "://"); ok {
		value, _, _ = strings.Cut(rest, "/")
		if a, err := netip.ParseAddr(strings.Trim(value, "[]")); err == nil {
			return a, true
		}
	}
	if ap, err := netip.ParseAddrPort(value); err == nil {
		return ap.Addr(), true
	}
	a, err := netip.ParseAddr(value)
	return a, err == nil
}
