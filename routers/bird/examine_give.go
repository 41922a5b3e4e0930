package bird

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// kindStub is the kind of a giver which is no route, but an interface's address that OSPF takes by itself.
const kindStub = "stub"

// A giver is a protocol by which some peers have a prefix.
type giver struct {
	protocol string // whose route it is; of a stub the OSPF protocol
	kind     string
	peers    []string
	freely   []string // those of them that take whatever is in the table, and it comes there unfiltered
}

// givers gives all of a sight with every route in it. What BIRD does not tell the protocol of is left out.
func (rd reading) givers(s sight) []giver {
	var all []giver
	for _, peer := range s.given() {
		name, kind := s.givers[peer], ""
		if best, ok := s.best(); name == "" && ok { // an LSA does not tell
			name = best.protocol
		}
		if slices.Contains(s.stubs, peer) {
			name, kind = peer, kindStub
		}
		from, ok := rd.protocol(name)
		if !ok {
			continue
		}
		if kind == "" {
			kind = from.kind
		}
		i := slices.IndexFunc(all, func(g giver) bool { return g.protocol == name && g.kind == kind })
		if i < 0 {
			i, all = len(all), append(all, giver{protocol: name, kind: kind})
		}
		all[i].peers = append(all[i].peers, peer)
		if to, _ := rd.protocol(peer); kind != kindStub && to.all(func(c channel) string { return c.export }) && from.all(func(c channel) string { return c.imports }) {
			all[i].freely = append(all[i].freely, peer)
		}
	}
	return all
}

func (rd reading) protocol(name string) (protocol, bool) {
	for _, p := range rd.protocols {
		if p.name == name {
			return p, true
		}
	}
	return protocol{}, false
}

// all says that every channel of a protocol lets everything pass one way.
func (p protocol) all(filter func(channel) string) bool {
	return len(p.channels) > 0 && !slices.ContainsFunc(p.channels, func(c channel) bool { return filter(c) != "ACCEPT" })
}

// A grip is what a driver can withdraw prefixes by.
type grip struct {
	options Options
	names   *names
	values  map[netip.Prefix]value // method include: what BIRD has been told
	file    file                   // method include
	conf    conf                   // BIRD's configuration, as far as it could be read
}

// examine says of prefixes that are given to peers what nothing that vouch does would withdraw.
func (g grip) examine(rd reading, ps []netip.Prefix) []routers.Finding {
	var all []routers.Finding
	for _, p := range ps {
		for _, by := range rd.givers(rd.sight(p)) {
			if text, wayOut := g.loose(p, by); text != "" {
				all = append(all, routers.Finding{Severity: routers.Failing, Subject: p.String(), Text: text, WayOut: wayOut})
			}
		}
	}
	return all
}

// loose says why a giver stays whatever vouch does, and what is to be done; nothing where it goes, or that is not
// known.
func (g grip) loose(p netip.Prefix, by giver) (text, wayOut string) {
	symbol, worse := g.names.of(p)
	given := "is given to " + few(by.peers) + " by " + by.String()
	if g.options.Method == MethodAddress {
		if by.kind == kindStatic {
			return given + ", which taking the address off " + g.options.Interface + " does not withdraw", by.drop(p)
		}
		return "", ""
	}
	switch g.options.kind() {
	case MethodProtocol:
		if by.kind == kindStub { // other routes are told of elsewhere
			return given + ", which disabling protocol " + symbol + " does not withdraw", by.drop(p)
		}
	case StyleRoutes:
		if by.protocol != symbol && by.protocol != worse || by.kind == kindStub {
			return given + ", which is not vouch's: it is announced whatever vouch does", by.drop(p)
		}
	case StyleSwitch:
		return g.switched(p, by, given)
	case StyleList, StyleFunction:
		return g.filtered(p, by, given)
	}
	return "", ""
}

// switched is loose for a giver that a number ought to disable.
func (g grip) switched(p netip.Prefix, by giver, given string) (text, wayOut string) {
	v := g.values[p]
	symbol, worse := g.names.of(p)
	_, written := g.file.entries[p]
	say := fmt.Sprintf("write `disabled %s;` in protocol %s, and `birdc configure`", symbol, by.protocol)
	switch {
	case v.failed:
	case by.kind != kindStatic:
		return given + ", which " + symbol + " does not disable: it is announced whatever vouch does", by.drop(p)
	case !v.known && !written:
		return given + ", and bird does not know " + symbol + ": it is announced whatever vouch does",
			fmt.Sprintf("write `include %q;` at the top of bird.conf once vouch has written that file, %s", g.options.Include, strings.TrimPrefix(say, "write "))
	case v.want() == routers.Withdrawn && g.conf.heeds(by.protocol, symbol):
		return fmt.Sprintf("%s is 1, and yet it %s, which was enabled by hand, or not read since %s has `disabled %[1]s` there", symbol, given, g.conf.path),
			"`birdc configure`, which disables it"
	case v.want() == routers.Withdrawn:
		return fmt.Sprintf("%s is 1, and yet it %s, which is not disabled by that", symbol, given), say
	case g.conf.heedless(by.protocol, symbol, worse):
		return fmt.Sprintf("%s, which %s does not disable: %s does not say so", given, symbol, g.conf.path), say
	}
	return "", ""
}

// filtered is loose for a giver that filters ought to stop.
func (g grip) filtered(p netip.Prefix, by giver, given string) (text, wayOut string) {
	v := g.values[p]
	_, written := g.file.entries[p]
	ask := fmt.Sprintf("have the export filters of %s let it pass only by %s", few(by.peers), v.name)
	switch {
	case v.failed:
	case by.kind == kindStub:
		return given + ", which no filter stops: it is announced whatever vouch does", by.drop(p)
	case !v.known && !written:
		return given + ", and bird does not know " + v.name + ": it is announced whatever vouch does", fmt.Sprintf("write `include %q;` at the top of bird.conf once vouch has written that file, and %s", g.options.Include, ask)
	case v.want() == routers.Withdrawn:
		return fmt.Sprintf("it is not in %s, and yet it %s", v.name, given), ask
	case len(by.freely) > 0:
		return fmt.Sprintf("%s, and %s exports all, whatever %s says", given, few(by.freely), v.name), ask
	}
	return "", ""
}

// String names the giver.
func (g giver) String() string {
	switch g.kind {
	case kindStub:
		return "OSPF protocol " + g.protocol + " as the address of an interface"
	case kindDirect:
		return "direct protocol " + g.protocol
	}
	return "protocol " + g.protocol
}

// drop is the way out of a giver that no word of the configuration binds to vouch.
func (g giver) drop(p netip.Prefix) string {
	switch g.kind {
	case kindStub:
		return "take that interface out of " + g.protocol + ", or set method = \"address\""
	case kindDirect:
		return fmt.Sprintf("keep %s off the prefix (`import where net != %s;`), have the filters take a static route instead, or set method = \"address\"", g.protocol, p)
	}
	return "take the route out of " + g.protocol
}
