package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// examineInclude judges the include file of one BIRD, and what BIRD has in force of it.
func examineInclude(ctx context.Context, part part, v ctl.Version, rd reading, b byInclude, c checked) (off map[netip.Prefix]bool, found []routers.Finding) {
	path, err := b.path(v, part.prefixes[0].Addr().Is4())
	if err != nil {
		return nil, []routers.Finding{{Severity: routers.Failing, Subject: "bird " + v.String(), Text: err.Error(), WayOut: "write include6 in [router]"}}
	}
	f := lookAt(path)
	found = slices.Concat(f.examine(), f.examineTaken(c.refusal, "bird "+v.String()), b.memo.examine(path))
	g := grip{options: b.options, names: b.names, file: f}
	if c.path != "" {
		g.conf = readConf(c.path, path, f.real)
	}
	if b.options.Style == StyleRoutes {
		return nil, slices.Concat(found, examineRoutes(rd, f, g.conf, b.names.uses(part.prefixes)), g.examine(rd, part.prefixes), rd.examineWorse())
	}
	s, err := b.state(ctx, part, rd)
	if err != nil {
		return nil, append(found, unasked(v, err)...)
	}
	if !f.lost(c.refusal) {
		found = append(found, s.examineSymbols(f, g.conf, part.prefixes)...)
	}
	for _, p := range part.prefixes {
		found = append(found, s.examineRoute(p)...)
	}
	g.values = s.values
	return s.off(), slices.Concat(found, g.examine(rd, part.prefixes), b.examineTies(ctx, part, f, g.conf))
}

// examineRoutes looks whether the protocols that the file holds are there.
func examineRoutes(rd reading, f file, c conf, uses []use) []routers.Finding {
	var all []routers.Finding
	for _, u := range uses {
		i := slices.IndexFunc(rd.protocols, func(p protocol) bool { return p.name == u.name })
		switch {
		case i < 0 && !f.has(u): // it comes with the first change
		case i < 0:
			all = append(all, notIncluded(u, f))
		case rd.protocols[i].kind != kindStatic:
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: "protocol " + u.name, Text: "is the operator's own, of kind " + rd.protocols[i].kind,
				WayOut: "set symbol in [router] to a name that bird.conf does not have"})
		default:
			all = append(all, inForceBy(f, c, "protocol "+u.name, u))
		}
	}
	return all
}

// inForceBy says that BIRD knows what the file holds, and whether by the file.
func inForceBy(f file, c conf, subject string, u use) routers.Finding {
	if c.whole && !c.ours {
		return routers.Finding{Severity: routers.Failing, Subject: subject,
			Text:   fmt.Sprintf("is known to bird, but %s does not include %s: nothing that vouch writes there comes into force for %s", c.path, f.path, few(u.texts())),
			WayOut: fmt.Sprintf("write `include %q;` in the place of what has it now, and `birdc configure`; or set include in [router] to the file that is included", f.path)}
	}
	return routers.Finding{Subject: subject, Text: "is in force, for " + few(u.texts())}
}

// notIncluded says that BIRD does not know what the file holds.
func notIncluded(u use, f file) routers.Finding {
	return routers.Finding{Severity: routers.Failing, Subject: u.name,
		Text:   fmt.Sprintf("is in %s for %s, and bird does not know it: bird.conf does not include the file, or was not read since", f.path, few(u.texts())),
		WayOut: fmt.Sprintf("write `include %q;` in bird.conf where it is not there, and `birdc configure`", f.path)}
}

// inForce is what BIRD knows of the file's symbols.
type inForce struct {
	b      byInclude
	values map[netip.Prefix]value
	known  map[string]bool // by definition, also those of what is degraded
	holders
}

// state asks BIRD for what is in force.
func (b byInclude) state(ctx context.Context, part part, rd reading) (inForce, error) {
	s := inForce{b: b, values: map[netip.Prefix]value{}, known: map[string]bool{}}
	if err := b.values(ctx, part, s.values); err != nil {
		return s, err
	}
	var qs []question
	for _, p := range part.prefixes {
		symbol, worse := b.definitions(p)
		for _, name := range []string{symbol, worse} {
			if _, asked := s.known[name]; name != "" && !asked {
				s.known[name] = false
				qs = append(qs, question{"eval " + name, func(r ctl.Reply) { s.known[name] = r.Has(ctl.Evaluated) }})
			}
		}
	}
	if err := put(ctx, part.talker, qs); err != nil {
		return s, err
	}
	var err error
	s.holders, err = rd.holders(ctx, part, nil)
	return s, err
}

// off gives the prefixes that are not to be announced.
func (s inForce) off() map[netip.Prefix]bool {
	off := map[netip.Prefix]bool{}
	for p, v := range s.values {
		off[p] = v.want() == routers.Withdrawn
	}
	return off
}

// examineSymbols says which symbols BIRD does not know, and why. Without a file of ours it cannot know any.
func (s inForce) examineSymbols(f file, c conf, ps []netip.Prefix) []routers.Finding {
	if !f.usable() {
		return nil
	}
	var all []routers.Finding
	for _, u := range s.b.names.uses(ps) {
		definition, _ := s.b.definitions(u.prefixes[0])
		if u.worse {
			_, definition = s.b.definitions(u.prefixes[0])
		}
		e, in := f.entries[u.prefixes[0]]
		known, defined := s.known[definition], f.has(u)
		found := routers.Finding{Subject: u.name}
		switch {
		case known && defined:
			found = inForceBy(f, c, u.name, u)
		case defined:
			found = notIncluded(u, f)
		case known:
			found.Severity = routers.Warning
			found.Text = fmt.Sprintf("is known to bird, and is not in %s: the file was changed, or the definition is elsewhere, and then bird will refuse the file", f.path)
			found.WayOut = "take the definition out of bird.conf, or set symbol to another name"
		case in && (!u.worse || e.Worse != ""):
			found.Severity = routers.Failing
			found.Text = fmt.Sprintf("is not known to bird, and is what %s ought to go by: %s has %s", few(u.texts()), f.path, nameIn(e, u))
			found.WayOut = fmt.Sprintf("start vouch, which writes both into the file, then write %s in bird.conf in place of %s", u.name, nameIn(e, u))
		default:
			continue // it comes with the first change
		}
		all = append(all, found)
	}
	return all
}

// nameIn is what a file's entry has for a use.
func nameIn(e include.Entry, u use) string {
	if u.worse {
		return e.Worse
	}
	return e.Symbol
}

// examineRoute says that no protocol has a prefix, or that the one that has it is down.
func (s inForce) examineRoute(p netip.Prefix) []routers.Finding {
	v, own := s.values[p], s.sights[p].own
	if s.sights[p].unread() != "" || v.failed {
		return nil
	}
	var down []string // that have it
	for name, held := range s.static {
		if held[p] {
			down = append(down, name)
		}
	}
	slices.Sort(down)
	found := routers.Finding{Severity: routers.Warning, Subject: p.String()}
	switch {
	case len(own) == 0 && len(down) == 0 && !s.anyDown(kindDirect):
		found.Text = "no static protocol has a route to it, so that bird has nothing to announce"
		found.WayOut = fmt.Sprintf("write `route %s blackhole;` in a static protocol", p)
		if s.b.options.Style == StyleSwitch {
			found.WayOut += " which says `disabled " + v.name + ";`"
		}
	case s.b.options.Style != StyleSwitch && len(own) == 0 && len(down) > 0:
		found.Text = fmt.Sprintf("its route is in protocol %s, which is down, so that bird has nothing to announce", down[0])
		found.WayOut = "enable it: with style " + s.b.options.Style + " the filter withdraws, and the route stays"
	default:
		return nil
	}
	return []routers.Finding{found}
}

// anyDown tells whether a protocol of a kind is down, whose routes cannot be known then.
func (h holders) anyDown(kind string) bool {
	for name, k := range h.kinds {
		if k == kind && h.states[name] == "down" {
			return true
		}
	}
	return false
}
