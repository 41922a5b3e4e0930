package vyos

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// A scope is what the ops of a session may show as in the difference to the running configuration.
type scope map[string]bool

// makeScope gives all lines that the ops can come to. VyOS prints a set by its last node, and a delete by the
// highest node that goes with it: that of all routes when they are all ours, and so on upwards. Static and protocols
// are the children of these nodes; empty where they are not known.
func makeScope(ops []op, routes map[string][]string, static, protocols []string) scope {
	s := scope{}
	gone := map[string][]string{}
	for _, o := range ops {
		line := o.line()
		if !slices.ContainsFunc(ops, func(other op) bool { return strings.HasPrefix(other.line(), line+" ") }) {
			s[line] = true
		}
		if o.whole() {
			gone[o.path[2]] = append(gone[o.path[2]], o.path[3])
		}
	}
	var empty []string // families that are left with nothing
	for family, names := range routes {
		if len(names) > 0 && within(names, gone[family]) {
			empty = append(empty, family)
			s["delete protocols static "+family] = true
		}
	}
	if len(static) == 0 || !within(static, empty) {
		return s
	}
	s["delete protocols static"] = true
	if len(protocols) > 0 && within(protocols, []string{"static"}) {
		s["delete protocols"] = true
	}
	return s
}

// allowed reads what the ops may show as, by what the running configuration has now: others may have committed since
// they were decided on, and a node that is deleted whole hides from the session what has come into it.
func (t *transaction) allowed(ctx context.Context) (scope, error) {
	ps := make([]netip.Prefix, len(t.ops))
	for i, o := range t.ops {
		ps[i] = o.prefix
	}
	a, err := t.system.readActive(ctx, ps, t.options.leaves())
	if err == nil {
		err = still(t.ops, a, t.system.unsettled())
	}
	if err != nil {
		return nil, err
	}
	first := makeScope(t.ops, a.routes, nil, nil)
	if !first["delete protocols static route"] && !first["delete protocols static route6"] {
		return first, nil
	}
	protocols, err := t.system.children(ctx, "protocols")
	if err != nil {
		return nil, err
	}
	return makeScope(t.ops, a.routes, a.static, protocols), nil
}

// still says why the ops are not to be committed any more: of what has come since they were decided on, the next
// decision is to be made.
func still(ops []op, a active, unsettled string) error {
	for _, o := range ops {
		if o.fresh() && unsettled != "" {
			return routers.Errorf(routers.ErrBusy, "nothing was committed: %s", unsettled)
		}
		n := a.nodes[o.prefix]
		for _, one := range n.each(o.prefix) {
			foreign := one.strange || len(one.others) > 0 && !o.partial()
			if foreign && (!o.remove || one.name == o.path[3]) {
				return routers.Errorf(routers.ErrBusy, "nothing was committed, as `protocols static %s %s` has got children meanwhile that are not ours: %s",
					routeNode(o.prefix), one.name, strings.Join(one.others, ", "))
			}
		}
	}
	return nil
}

// check wants a difference to be that of the ops.
func (t *transaction) check(ctx context.Context, diff string) error {
	s, err := t.allowed(ctx)
	if err != nil {
		return err
	}
	return s.check(diff)
}

// has tells whether a line is of the ops. A leaf that is deleted may be named with its value.
func (s scope) has(words []string) bool {
	if n := len(words); n > 2 && words[0] == "delete" && words[n-2] == "tag" {
		return s[strings.Join(words[:n-1], " ")]
	}
	return s[strings.Join(words, " ")]
}

// within tells whether all of some are in all.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(all, name) })
}

// check reads the difference that a session would commit, and gives an error when there is anything in it that is
// not of the ops. Without that guard a session without its mount commits the removal of all there is.
func (s scope) check(diff string) error {
	var foreign []string
	lines := 0
	for line := range strings.Lines(diff) {
		words, err := unquote(line)
		if err == nil && len(words) == 0 {
			continue
		}
		lines++
		if err != nil || !s.has(words) {
			foreign = append(foreign, strings.TrimSpace(line))
		}
	}
	switch {
	case len(foreign) > 0:
		return routers.Errorf(routers.ErrUnavailable, "nothing was committed, as changes of the session are not ours (%d, the first: %.200s): others may have committed meanwhile", len(foreign), foreign[0])
	case lines == 0:
		return routers.Errorf(routers.ErrUnavailable, "nothing was committed, as VyOS does not say what the session would change")
	}
	return nil
}
