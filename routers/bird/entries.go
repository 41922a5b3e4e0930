package bird

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// entries are what a file holds, or has to.
type entries map[netip.Prefix]entry

// An entry is what a prefix ought to be, and what else it went by.
type entry struct {
	include.Entry
	former []include.Entry
}

// parseEntries gives what the file at path holds. What is damaged in a file of ours is left out.
func parseEntries(path string, text []byte) (entries, ctl.Version, error) {
	es := entries{}
	if len(bytes.TrimSpace(text)) == 0 {
		return es, ctl.Version{}, nil
	}
	f, err := include.Parse(text)
	if err != nil && !include.Ours(text) {
		return nil, ctl.Version{}, routers.Errorf(routers.ErrRefused,
			"%s is not vouch's, and is left alone (%w): move it away, or set include to another file", path, err)
	}
	for _, e := range f.Entries {
		es[e.Prefix] = entry{Entry: e}
	}
	for _, former := range f.Former {
		if e, ok := es[former.Prefix]; ok {
			e.former = append(e.former, former)
			es[former.Prefix] = e
		}
	}
	return es, f.Version, nil
}

// name puts in the managed prefixes with what they go by now, and gives those that were not in. What they went
// by stays beside it, and what is not managed any more stays as well: BIRD's configuration may still say it. With
// onlyLike valid, prefixes of the other family are left out.
func (es entries) name(n *names, onlyLike netip.Prefix) (unknown []netip.Prefix) {
	lost := len(es) == 0
	for p := range n.known() {
		e, in := es[p]
		switch {
		case onlyLike.IsValid() && p.Addr().Is4() != onlyLike.Addr().Is4(), !in && !lost && n.left(p):
			continue
		case !in && !n.left(p):
			unknown = append(unknown, p)
		}
		e.rename(n.of(p))
		e.Prefix, e.Want = p, max(e.Want, routers.Withdrawn)
		es[p] = e
	}
	es.stand(n)
	slices.SortFunc(unknown, netip.Prefix.Compare)
	return unknown
}

// stand gives each the standing that it has now.
func (es entries) stand(n *names) {
	for p, e := range es {
		if e.Standing = include.Managed; n.left(p) {
			e.Standing, e.Want = include.Left, routers.Withdrawn
		}
		es[p] = e
	}
}

// rename gives an entry other symbols.
func (e *entry) rename(symbol, worse string) {
	if e.Symbol == symbol && e.Worse == worse {
		return
	}
	if e.Symbol != "" {
		e.former = append(slices.Clone(e.former), e.Entry)
	}
	e.Symbol, e.Worse = symbol, worse
	e.former = slices.DeleteFunc(e.former, func(f include.Entry) bool { return f.Symbol == symbol && f.Worse == worse })
}

// add puts in one prefix, withdrawn, that nothing is known of.
func (es entries) add(n *names, p netip.Prefix) {
	if _, in := es[p]; !in {
		e := entry{Entry: include.Entry{Prefix: p, Want: routers.Withdrawn}}
		e.rename(n.of(p))
		es[p] = e
	}
}

// want says what a prefix ought to be.
func (es entries) want(p netip.Prefix, w routers.Want) {
	e := es[p]
	if e.Prefix, e.Want = p, w; w != routers.Withdrawn {
		e.Standing = include.Managed
	}
	es[p] = e
}

// change puts the changes in. What is asked of one prefix is asked of all that are managed and go by the same
// number: it is one for all of them.
func (es entries) change(style string, cs []routers.Change) {
	least := map[string]routers.Want{}
	for _, c := range cs {
		es.want(c.Prefix, c.Want)
		if w, ok := least[es[c.Prefix].Symbol]; es[c.Prefix].Standing == include.Managed && (!ok || c.Want < w) {
			least[es[c.Prefix].Symbol] = c.Want
		}
	}
	if style != StyleSwitch {
		return
	}
	for p, e := range es {
		if w, ok := least[e.Symbol]; ok && e.Standing == include.Managed {
			e.Want = w
			es[p] = e
		}
	}
}

// apart gives the changes by which nothing else is changed, of prefixes that the entries have.
func (es entries) apart(style string, wants map[netip.Prefix]routers.Want) []routers.Change {
	beside := map[string]bool{} // by symbol: others go by it
	for p, e := range es {
		if _, asked := wants[p]; !asked && style == StyleSwitch && e.Standing == include.Managed {
			beside[e.Symbol] = true
		}
	}
	var cs []routers.Change
	for p, w := range wants {
		if e, in := es[p]; in && !beside[e.Symbol] {
			cs = append(cs, routers.Change{Prefix: p, Want: w})
		}
	}
	return cs
}

// lowered gives the entries with those of the changes by which less is announced.
func (es entries) lowered(style string, cs []routers.Change) entries {
	low := maps.Clone(es)
	low.change(style, slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return c.Want >= es[c.Prefix].Want }))
	return low
}

// lean gives the entries without what only stays for the sake of BIRD's configuration, but for those which are tied.
func (es entries) lean(ties map[netip.Prefix]tie) entries {
	lean := entries{}
	for p, e := range es {
		if _, tied := ties[p]; tied {
			lean[p] = e
		} else if e.Standing == include.Managed {
			lean[p] = entry{Entry: e.Entry}
		}
	}
	return lean
}

// list gives the entries as the file has them.
func (es entries) list() []include.Entry {
	list := make([]include.Entry, 0, len(es))
	for _, e := range es {
		list = append(list, e.Entry)
		for _, f := range e.former {
			if f.Want, f.Standing = e.Want, include.Former; e.Standing == include.Left {
				f.Standing = include.Left
			}
			list = append(list, f)
		}
	}
	return list
}

func (es entries) render(f include.Format) []byte { return include.Render(f, es.list()) }
