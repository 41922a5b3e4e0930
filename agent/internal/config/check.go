package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/checks"
)

// A probe is a check together with where it is written.
type probe struct {
	table *table
	kind  string
	spec  checks.Spec // nil: nothing can be asked of it, because of a problem

	degrades bool
}

// checksOf reads the checks of a service.
func (p parser) checksOf(t *table, s *Service) []probe {
	var probes []probe
	for _, ct := range t.tables("check", fmt.Sprintf("[%s.check.NAME]", t.path)) {
		c, pr := p.check(t, ct, s)
		s.Checks, probes = append(s.Checks, c), append(probes, pr)
	}
	slices.SortFunc(s.Checks, func(a, b Check) int { return cmp.Compare(a.Name, b.Name) })
	return probes
}

func (p parser) check(t, ct *table, s *Service) (Check, probe) {
	raw := checkTable{Interval: s.Health.Interval, OnFail: onFailWithdraw}
	ct.fill(&raw)
	if t.good("interval") {
		within(ct, "interval", raw.Interval, span{s.Health.Interval, 24 * time.Hour, `"` + show(s.Health.Interval) + `"`})
	}
	timeout := min(time.Second, raw.Interval)
	setDefault(ct, "timeout", &raw.Timeout, timeout)
	within(ct, "timeout", raw.Timeout, span{time.Millisecond, time.Minute, `"` + show(timeout) + `"`})
	if ct.oneOf("on_fail", raw.OnFail, onFailWithdraw, onFailDegrade, "warn"); !ct.good("on_fail") {
		raw.OnFail = onFailWithdraw // which says nothing more about it
	}
	c := Check{
		Name: ct.path[len(ct.path)-1], Type: raw.Type, Interval: raw.Interval, Timeout: raw.Timeout,
		OnFail: raw.OnFail, Group: raw.Group,
	}
	checkGroup(ct, c, s)
	if c.Spec = p.spec(ct, s.Name, c); c.Spec == nil {
		return c, probe{table: ct, degrades: c.Degrades()}
	}
	pr := probe{ct, c.Type, valid(ct, c), c.Degrades()}
	pr.refuseSelf()
	return c, pr
}

// checkGroup refuses a group that is not there, or that the check has no say in.
func checkGroup(ct *table, c Check, s *Service) {
	if !ct.has("group") || !ct.good("group", "on_fail") {
		return
	}
	if _, ok := s.Groups[c.Group]; !ok {
		wayOut := fmt.Sprintf("write [service.%s.group.%s]", s.Name, c.Group)
		if w := closest(c.Group, slices.Collect(maps.Keys(s.Groups))); w != "" {
			wayOut = fmt.Sprintf("did you mean %q?", w)
		} else if !nameForm.MatchString(c.Group) {
			wayOut = "name a group of this service"
		}
		ct.refuse("group", "there is no such group", wayOut)
		return
	}
	if !c.Counts() && !c.Degrades() {
		ct.without(`with on_fail = "warn"`, "group")
	}
}

// refuseSelf refuses to ping the loopback address: the kernel answers for itself, whatever has died.
func (pr probe) refuseSelf() {
	s, ok := pr.spec.(checks.Targeter)
	if !ok || pr.kind != "icmp" && (pr.kind != "mtu" || pr.value("probe") == "quic") {
		return
	}
	for _, a := range s.Targets() {
		if a.IsLoopback() {
			pr.refuse(a, "is this node itself, whose kernel answers whatever has died", "name another host, or use a check of what is served here")
		}
	}
}

const otherKinds = `use "tcp" to connect and talk, or "exec" to run a program that asks`

// spec gives an empty Spec of the check's type; nil when that is not known.
func (p parser) spec(ct *table, service string, c Check) checks.Spec {
	if !ct.has("type") {
		ct.refuse("type", "is required", "write type = "+alternatives(p.kinds))
		ct.misspelt("type")
	}
	if !ct.good("type") {
		return nil
	}
	spec, ok := p.newSpec(c.Type)
	if !ok {
		ct.oneOfElse("type", c.Type, otherKinds, p.kinds...)
		return nil
	}
	if n, ok := spec.(checks.Named); ok {
		n.SetName(service, c.Name)
	}
	return spec
}

// valid reads the kind's own keys of a check. It gives the Spec when all is well with it, else nil.
func valid(ct *table, c Check) checks.Spec {
	before := len(ct.bad)
	ct.hinter, _ = c.Spec.(checks.Hinter)
	ct.fill(c.Spec)
	unread := maps.Clone(ct.bad)
	problems := c.Spec.Validate()
	for _, pr := range problems {
		if key, _, _ := strings.Cut(pr.Key, "."); !unread[key] {
			ct.adopt(pr)
		}
	}
	ct.unknown(fmt.Sprintf(" of a check of type %s", c.Type))
	if len(unread) > before || len(problems) > 0 {
		return nil
	}
	return c.Spec
}

// adopt enters a problem that a kind found, whose key may be one inside a value: "env.HOME".
func (t *table) adopt(pr checks.Problem) {
	if pr.Key == "" {
		t.bad[""] = true
		t.refuseTable(pr.What, pr.WayOut)
		return
	}
	keys := strings.Split(pr.Key, ".")
	t.bad[keys[0]] = true
	path := join(t.path, keys...)
	if i, ok := t.doc.elementOf(path, pr.Got); ok {
		t.refuseElement(pr.Key, i, fault{pr.What, pr.WayOut})
		return
	}
	t.doc.refuse(path, path.String(), fault{pr.What, pr.WayOut})
}

// keepOffPrefixes refuses a probe of a managed prefix where the withdrawal takes the address off
// this node: the probe would then be answered by another node, and say healthy. A probe from such an
// address would have its answers led to another node; a look at the routes from there sends nothing, and fails
// only where the address goes.
func (pr probe) keepOffPrefixes(r Router, owners map[netip.Prefix]owner) {
	stays := r.Method != methodAddress && r.Daemon != daemonProgram
	if a, ok := pr.address("source"); ok && pr.table.good("source") && !(pr.kind == "route" && stays) {
		if p, ok := managed(owners, a); ok {
			what := "asks from the managed prefix %s, whose answers may reach another node"
			if pr.kind == "route" {
				what = "looks from the managed prefix %s, which is not on this node once it is withdrawn, so that it could never pass again"
			}
			pr.table.refuse("source", fmt.Sprintf(what, p), "use the node's own address")
		}
	}
	if l, ok := pr.spec.(interface{ Leads() []netip.Prefix }); ok {
		pr.keepWayOff(l.Leads(), owners)
	}
	s, ok := pr.spec.(checks.Targeter)
	if id, knows := pr.spec.(checks.Identifier); knows && id.Identifies() {
		return // another node that answers is told from this one
	}
	if !ok || stays {
		return
	}
	is, answers, remove := "is not", "answers", "remove the check: vouch reads by itself whether the address is there"
	if r.Daemon == daemonProgram { // nobody knows what its commands do
		is, answers, remove = "may not be", "may answer", "remove the check, and look for the address in the command read"
	}
	for _, a := range s.Targets() {
		p, ok := managed(owners, a)
		switch {
		case ok && pr.kind == "address":
			pr.refuse(a, fmt.Sprintf("looks for the managed prefix %s, which %s there once it is withdrawn, so that it could never pass again", p, is), remove)
		case ok:
			pr.refuse(a, fmt.Sprintf("asks the managed prefix %s, which another node %s once it is withdrawn here", p, answers),
				"probe the node's own address, such as "+loopback(a))
		}
	}
}

// keepWayOff refuses to look for a route to a managed prefix, whatever announces it.
func (pr probe) keepWayOff(destinations []netip.Prefix, owners map[netip.Prefix]owner) {
	for i, d := range destinations {
		if p, ok := covering(owners, d); ok {
			pr.table.refuseElement("destinations", i, fault{
				fmt.Sprintf("looks for a route to the managed prefix %s, which leads to this node itself while it is announced, so that the check would fail then", p),
				"name what answers must reach, such as an address of a client, or remove it for the default route"})
		}
	}
}

func loopback(a netip.Addr) string {
	if a.Unmap().Is4() {
		return "127.0.0.1"
	}
	return "::1"
}

// refuse notes a problem at the key that holds the address, or else at the check.
func (pr probe) refuse(a netip.Addr, what, wayOut string) {
	for _, key := range pr.table.names() {
		if key == "source" || !pr.table.good(key) {
			continue
		}
		for i, found := range pr.addresses(key) {
			switch {
			case found.Unmap() != a.Unmap():
			case pr.isList(key):
				pr.table.refuseElement(key, i, fault{what, wayOut})
				return
			default:
				pr.table.refuse(key, what, wayOut)
				return
			}
		}
	}
	pr.table.refuseTable(what, wayOut)
}

// address gives the address that is the value of a key, alone or with a port.
func (pr probe) address(key string) (netip.Addr, bool) {
	if as := pr.addresses(key); len(as) == 1 && !pr.isList(key) {
		return as[0], as[0].IsValid()
	}
	return netip.Addr{}, false
}

// addresses gives those of a value or of the elements of a list; what holds none is invalid there.
func (pr probe) addresses(key string) []netip.Addr {
	list, ok := pr.value(key).([]any)
	if !ok {
		list = []any{pr.value(key)}
	}
	as := make([]netip.Addr, len(list))
	for i, e := range list {
		s, _ := e.(string)
		as[i], _ = addressOf(s)
	}
	return as
}

func (pr probe) isList(key string) bool {
	_, ok := pr.value(key).([]any)
	return ok
}

// value gives the value of a key; nil when it has none.
func (pr probe) value(key string) (value any) {
	prim, ok := pr.table.prims[key]
	if !ok || pr.table.doc.md.PrimitiveDecode(prim, &value) != nil {
		return nil
	}
	return value
}
