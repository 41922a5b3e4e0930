package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// examineMethod says what is wrong between one BIRD's configuration and the method, which has part's
// prefixes. In off are those that BIRD has been told not to announce.
func examineMethod(ctx context.Context, part part, v ctl.Version, rd reading, e exam, c checked) (off map[netip.Prefix]bool, found []routers.Finding) {
	o, n := e.options, e.names
	switch o.Method {
	case MethodProtocol:
		h, err := rd.holders(ctx, part, n.uses(part.prefixes))
		if err != nil {
			return nil, unasked(v, err)
		}
		found = h.examineProtocols(n.uses(part.prefixes))
	case MethodInclude:
		return examineInclude(ctx, part, v, rd, newInclude(o, daemons{}, n, e.memo), c)
	default:
		found = rd.examineAddress(ctx, v, o, part.prefixes)
	}
	found = append(found, grip{options: o, names: n}.examine(rd, part.prefixes)...)
	return nil, append(found, c.examine("bird "+v.String())...)
}

func unasked(v ctl.Version, err error) []routers.Finding {
	return []routers.Finding{{Severity: routers.Failing, Subject: "bird " + v.String(), Text: err.Error()}}
}

// A use is a name in BIRD's configuration, and the prefixes that go by it.
type use struct {
	name     string
	worse    bool // it is for what is degraded
	prefixes []netip.Prefix
}

// uses gives every name that prefixes go by, in the order of the prefixes.
func (n *names) uses(ps []netip.Prefix) []use {
	var all []use
	at := map[string]int{}
	add := func(name string, worse bool, p netip.Prefix) {
		if name == "" {
			return
		}
		i, ok := at[name]
		if !ok {
			i, at[name] = len(all), len(all)
			all = append(all, use{name: name, worse: worse})
		}
		all[i].prefixes = append(all[i].prefixes, p)
	}
	for _, p := range ps {
		symbol, worse := n.of(p)
		add(symbol, false, p)
		add(worse, true, p)
	}
	return all
}

// texts names the prefixes.
func (u use) texts() []string {
	texts := make([]string, len(u.prefixes))
	for i, p := range u.prefixes {
		texts[i] = p.String()
	}
	return texts
}

// The holders of a BIRD are its protocols, and what static ones hold.
type holders struct {
	kinds  map[string]string                // by protocol
	states map[string]string                // by protocol
	static map[string]map[netip.Prefix]bool // by static protocol, of those that were asked, also when down
	sights map[netip.Prefix]sight
}

// holders asks static protocols that are down for the routes they would have, and beside them those named.
// What the others have is in the table.
func (rd reading) holders(ctx context.Context, part part, named []use) (holders, error) {
	h := holders{kinds: map[string]string{}, states: map[string]string{}, static: map[string]map[netip.Prefix]bool{}, sights: map[netip.Prefix]sight{}}
	for _, p := range part.prefixes {
		h.sights[p] = rd.sight(p)
	}
	var qs []question
	for _, p := range rd.protocols {
		h.kinds[p.name], h.states[p.name] = p.kind, p.state
		isNamed := slices.ContainsFunc(named, func(u use) bool { return u.name == p.name })
		if p.kind == kindStatic && (isNamed || p.state == "down") {
			qs = append(qs, question{"show static " + quoted(p.name), func(r ctl.Reply) { h.static[p.name] = parseStatic(r) }})
		}
	}
	return h, put(ctx, part.talker, qs)
}

// parseStatic reads the prefixes of `show static`. The next hops of a route are on lines of their own.
func parseStatic(r ctl.Reply) map[netip.Prefix]bool {
	held := map[netip.Prefix]bool{}
	for _, text := range r.Texts(ctl.StaticRow) {
		if words := strings.Fields(text); len(words) > 0 {
			if p, err := netip.ParsePrefix(words[0]); err == nil {
				held[p] = true
			}
		}
	}
	return held
}

// examineProtocols judges the protocols of method protocol, and looks for others that have the prefixes too.
func (h holders) examineProtocols(uses []use) []routers.Finding {
	var all []routers.Finding
	ours, looked := map[string]bool{}, map[netip.Prefix]bool{}
	for _, u := range uses {
		ours[u.name] = true
		all = append(all, h.examineProtocol(u)...)
	}
	for _, u := range uses {
		for _, p := range u.prefixes {
			if !looked[p] {
				looked[p] = true
				all = append(all, h.examineOthers(p, ours)...)
			}
		}
	}
	return all
}

// examineOthers tells of routes to a prefix that are not those of protocols which are ours to disable.
func (h holders) examineOthers(p netip.Prefix, ours map[string]bool) []routers.Finding {
	var all []routers.Finding
	given := h.sights[p].given()
	for _, r := range h.sights[p].own {
		if ours[r.protocol] {
			continue
		}
		found := routers.Finding{Severity: routers.Warning, Subject: p.String(),
			Text:   fmt.Sprintf("has a route of protocol %s as well, which vouch does not disable", r.protocol),
			WayOut: fmt.Sprintf("take it out of %s, or let no export filter pass it; if vouch is to disable %[1]s, name it with symbol", r.protocol)}
		if r.best && len(given) > 0 {
			found.Severity = routers.Failing
			found.Text = fmt.Sprintf("is given to %s by protocol %s, which vouch does not disable: it is announced whatever vouch does", few(given), r.protocol)
		}
		all = append(all, found)
	}
	return all
}

// examineProtocol judges one protocol that is to be enabled and disabled.
func (h holders) examineProtocol(u use) []routers.Finding {
	say := func(s routers.Severity, text, wayOut string) []routers.Finding {
		return []routers.Finding{{Severity: s, Subject: "protocol " + u.name, Text: text, WayOut: wayOut}}
	}
	kind, there := h.kinds[u.name]
	switch {
	case !there:
		return say(routers.Failing, "is to be enabled and disabled for "+few(u.texts())+", and bird has no such protocol",
			"name the protocol that has them: symbol in the service or in [router]"+map[bool]string{true: ".degraded"}[u.worse])
	case kind == kindDirect:
		return say(routers.Warning, "is a direct protocol: disabling it withdraws every address that it has, not only "+few(u.texts()),
			"use a static protocol, or method address")
	case kind != kindStatic:
		return say(routers.Failing, "is not a static protocol, but one of kind "+kind+": disabling it would not withdraw "+few(u.texts())+" alone",
			"name a static protocol that has the routes")
	}
	return h.examineStatic(u, say)
}

// examineStatic looks whether a static protocol has the prefixes, and nothing else.
func (h holders) examineStatic(u use, say func(routers.Severity, string, string) []routers.Finding) []routers.Finding {
	held := h.static[u.name]
	var lacks, others []string
	for _, p := range u.prefixes {
		if !held[p] {
			lacks = append(lacks, p.String())
		}
	}
	for p := range held {
		if !slices.Contains(u.prefixes, p) {
			others = append(others, p.String())
		}
	}
	slices.Sort(others)
	var all []routers.Finding
	if len(lacks) > 0 {
		all = say(routers.Failing, "has no route to "+few(lacks), "write `route "+lacks[0]+" blackhole;` in it")
	}
	if len(others) > 0 {
		all = append(all, say(routers.Warning, "has routes beside "+few(u.texts())+", which go and come with them: "+few(others), "give them a static protocol of their own")...)
	}
	if len(all) == 0 {
		all = say(routers.Fine, "has "+few(u.texts()), "")
	}
	return all
}
