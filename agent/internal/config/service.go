package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/agent/internal/health"
)

// services reads all tables below [service].
func (p parser) services(root, rt *table, r Router) []Service {
	tables := root.tables("service", "[service.NAME]")
	if len(tables) == 0 && root.good("service") {
		root.refuse("service", "there is no service to vouch for", "write [service.NAME], as vouch config example shows")
	}
	owners, symbols := map[netip.Prefix]owner{}, symbolTable{}
	var services []Service
	var probes []probe
	var soft []degradable
	for _, t := range tables {
		s, more := p.service(t, r, owners)
		services, probes = append(services, s), append(probes, more...)
		if i := slices.IndexFunc(more, func(pr probe) bool { return pr.degrades }); i >= 0 {
			soft = append(soft, degradable{s, more[i].table})
		}
		if rt.good("daemon", "method") {
			ownSymbols(t, r, s)
			symbols.enter(rt, t, r, s)
		}
	}
	for _, pr := range probes {
		pr.keepOffPrefixes(r, owners)
	}
	needsWay(rt, r, services, soft)
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}

func (p parser) service(t *table, r Router, owners map[netip.Prefix]owner) (Service, []probe) {
	raw := serviceTable{Interval: time.Second, Rise: 2, Fall: 3, OnUnknown: "hold", OnStop: "keep"}
	t.fill(&raw)
	s := Service{Name: t.path[len(t.path)-1], Require: raw.Require, OnStop: raw.OnStop, Symbol: raw.Symbol, Symbol6: raw.Symbol6}
	s.Prefixes = prefixes(t, s.Name, raw.Prefixes, r, owners)
	slices.SortFunc(s.Prefixes, netip.Prefix.Compare)
	t.oneOf("on_stop", s.OnStop, "keep", "withdraw")
	s.Health = rules(t, raw)

	groups := groupsOf(t, &s)
	probes := p.checksOf(t, &s)
	for _, c := range s.Checks {
		s.Health.Longest = max(s.Health.Longest, c.Timeout)
	}
	t.unknown("")
	members(t, &s, groups)
	return s, probes
}

// rules reads how rounds become a verdict.
func rules(t *table, raw serviceTable) health.Settings {
	const ms, day = time.Millisecond, 24 * time.Hour
	within(t, "interval", raw.Interval, span{50 * ms, time.Hour, `"1s"`})
	fast := min(200*ms, raw.Interval)
	setDefault(t, "fast", &raw.Fast, fast)
	within(t, "fast", raw.Fast, span{50 * ms, time.Hour, `"` + show(fast) + `"`})
	if t.good("fast", "interval") && raw.Fast > raw.Interval {
		t.refuse("fast", "must be at most interval, which is "+show(raw.Interval), `use "`+show(fast)+`" or leave it out`)
	}
	within(t, "rise", raw.Rise, bound[int]{1, 1000, "2"})
	within(t, "fall", raw.Fall, bound[int]{1, 1000, "3"})
	within(t, "hold_down", raw.HoldDown, span{0, day, `"30s"`})
	s := health.Settings{Rise: raw.Rise, Fall: raw.Fall, Interval: raw.Interval, Fast: raw.Fast}
	holdDown(t, raw, &s)
	unknown(t, raw, &s)
	return s
}

func holdDown(t *table, raw serviceTable, s *health.Settings) {
	if !t.good("hold_down") {
		return
	}
	if s.HoldDown = raw.HoldDown; s.HoldDown == 0 {
		t.without("without hold_down", "hold_down_max", "hold_down_calm")
		return
	}
	most := 10 * s.HoldDown
	setDefault(t, "hold_down_max", &raw.HoldDownMax, most)
	setDefault(t, "hold_down_calm", &raw.HoldDownCalm, 10*time.Minute)
	s.HoldDownMax, s.HoldDownCalm = raw.HoldDownMax, raw.HoldDownCalm
	within(t, "hold_down_max", s.HoldDownMax, span{0, 240 * time.Hour, `"` + show(most) + `"`})
	within(t, "hold_down_calm", s.HoldDownCalm, span{time.Second, 240 * time.Hour, `"10m"`})
	notBelow(t, "hold_down_max", s.HoldDownMax, "hold_down", s.HoldDown)
}

func unknown(t *table, raw serviceTable, s *health.Settings) {
	within(t, "unknown_after", raw.UnknownAfter, span{0, 24 * time.Hour, `"1m"`})
	t.oneOf("on_unknown", raw.OnUnknown, "hold", "withdraw")
	if !t.good("unknown_after", "on_unknown") {
		return
	}
	if s.UnknownAfter = raw.UnknownAfter; s.UnknownAfter == 0 {
		t.without("without unknown_after", "on_unknown")
		return
	}
	if !t.has("on_unknown") {
		t.refuse("unknown_after", "has no effect without on_unknown", `write on_unknown = "withdraw" as well`)
	}
	if raw.OnUnknown == "withdraw" {
		s.OnUnknown = health.Withdraw
	}
}

// groupsOf reads the groups of a service, and gives their tables by name.
func groupsOf(t *table, s *Service) map[string]*table {
	tables := map[string]*table{}
	for _, g := range t.tables("group", fmt.Sprintf("[%s.group.NAME]", t.path)) {
		var raw groupTable
		g.fill(&raw)
		g.unknown("")
		if s.Groups == nil {
			s.Groups = map[string]health.Require{}
		}
		name := g.path[len(g.path)-1]
		s.Groups[name], tables[name] = raw.Require, g
	}
	return tables
}

// members counts what each require is asked of, and refuses what can never be met or never fail. A
// service's own require is for the checks and groups that can withdraw it: one that degrades it does so
// alone, or with its group.
func members(t *table, s *Service, groups map[string]*table) {
	alone, byGroup, soft := 0, map[string]int{}, map[string]int{}
	for _, c := range s.Checks {
		switch {
		case c.Degrades():
			soft[c.Group]++
		case !c.Counts():
		case c.Group == "":
			alone++
		default:
			byGroup[c.Group]++
		}
	}
	for name, g := range groups {
		switch {
		case !t.good("check"):
		case byGroup[name]+soft[name] == 0:
			g.refuseTable("the group has no check", fmt.Sprintf("write group = %q in one, or remove it", name))
		case byGroup[name] > 0 && soft[name] > 0:
			g.refuseTable(`the group has checks that withdraw and checks that degrade, which are not counted together`, "make two groups of it")
		}
		enough(g, s.Groups[name], byGroup[name]+soft[name], "checks")
	}
	hard := alone + len(byGroup)
	switch {
	case !t.good("check"):
		return
	case len(s.Checks) == 0:
		t.refuseTable("a service needs at least one check", fmt.Sprintf("write [%s.check.NAME]", t.path))
		return
	case hard == 0:
		t.refuseTable(`no check could ever withdraw it: none has on_fail = "withdraw"`, `give one on_fail = "withdraw"`)
		return
	}
	enough(t, s.Require, hard, "checks and groups")
}

// enough refuses a require that asks for more than there is.
func enough(t *table, r health.Require, have int, of string) {
	if t.good("require") && have > 0 && r.Count > have {
		wayOut := fmt.Sprintf(`use "all" or a number up to %d`, have)
		if couldBeShare(r.Count) {
			wayOut += fmt.Sprintf(`, or "%d%%" for a share`, r.Count)
		}
		t.refuse("require", fmt.Sprintf("asks for %d, but only %d of its %s count", r.Count, have, of), wayOut)
	}
}
