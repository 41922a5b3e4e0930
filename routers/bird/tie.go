package bird

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// A tie is what has a prefix announced that is not managed any more: a number by which it goes, and one that is
// managed does too. The file has such a prefix for as long as BIRD has its route, as nothing else knows of it once
// vouch's own state is lost.
type tie struct {
	symbol    string
	with      netip.Prefix // the managed one
	protocols []string     // static ones, up or down, that have its route
	given     []string     // the peers that have it
}

// ties gives such prefixes among the entries.
func (b byInclude) ties(ctx context.Context, part part, es entries) (map[netip.Prefix]tie, error) {
	if b.options.Style != StyleSwitch {
		return nil, nil
	}
	ties := es.shared()
	var ps []netip.Prefix
	for p := range ties {
		ps = append(ps, p)
	}
	if len(ps) == 0 {
		return nil, nil
	}
	rd, err := look(ctx, part.talker, b.options, ps)
	if err != nil {
		return nil, err
	}
	var qs []question
	for _, p := range rd.protocols {
		if p.kind == kindStatic {
			qs = append(qs, question{"show static " + quoted(p.name), func(r ctl.Reply) {
				for q := range parseStatic(r) {
					if t, ok := ties[q]; ok {
						t.protocols = append(t.protocols, p.name)
						ties[q] = t
					}
				}
			}})
		}
	}
	if err := put(ctx, part.talker, qs); err != nil {
		return nil, err
	}
	for p, t := range ties {
		if t.given = rd.sight(p).given(); len(t.given)+len(t.protocols) == 0 {
			delete(ties, p)
			continue
		}
		ties[p] = t
	}
	return ties, nil
}

// shared gives the entries of prefixes that are not managed any more, and go or went by a symbol of one that is.
func (es entries) shared() map[netip.Prefix]tie {
	managed := map[string]netip.Prefix{}
	for p, e := range es {
		for _, s := range []string{e.Symbol, e.Worse} {
			if q, ok := managed[s]; s != "" && e.Standing == include.Managed && (!ok || p.Compare(q) < 0) {
				managed[s] = p
			}
		}
	}
	ties := map[netip.Prefix]tie{}
	for p, e := range es {
		for _, s := range e.symbols() {
			if q, ok := managed[s]; ok && e.Standing == include.Left {
				ties[p] = tie{symbol: s, with: q}
				break
			}
		}
	}
	return ties
}

// symbols are all that an entry goes or went by.
func (e entry) symbols() []string {
	all := []string{e.Symbol, e.Worse}
	for _, f := range e.former {
		all = append(all, f.Symbol, f.Worse)
	}
	return all
}

// examineTies tells of such prefixes in the file. Where BIRD's configuration certainly does not bind its route to the
// symbol any more, the operator has taken it over.
func (b byInclude) examineTies(ctx context.Context, part part, f file, c conf) []routers.Finding {
	es, _, err := parseEntries(f.path, f.text)
	if err != nil {
		return nil
	}
	es.stand(b.names)
	ties, err := b.ties(ctx, part, es)
	if err != nil {
		return nil // what keeps BIRD from being read is told elsewhere
	}
	var all []routers.Finding
	for _, p := range slices.SortedFunc(maps.Keys(ties), netip.Prefix.Compare) {
		t := ties[p]
		t.protocols = slices.DeleteFunc(t.protocols, func(name string) bool { return c.heedless(name, es[p].symbols()...) })
		if len(t.protocols) == 0 || slices.Contains(part.prefixes, p) { // what is read says so itself
			continue
		}
		found := routers.Finding{Severity: routers.Warning, Subject: p.String(),
			Text:   "is not in vouch's configuration any more, and goes by " + t.symbol + " as " + t.with.String() + " does: it is announced when that is",
			WayOut: "take its route out of " + few(t.protocols) + " in bird.conf, and `birdc configure`"}
		if len(t.given) > 0 {
			found.Severity = routers.Failing
			found.Text += ", and now given to " + few(t.given)
		}
		all = append(all, found)
	}
	return all
}
