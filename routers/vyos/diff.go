package vyos

import (
	"slices"
	"strings"

	"vouch/routers"
)

// A scope is what the ops of a session may show as in the difference to the running configuration.
type scope map[string]bool

// makeScope gives all lines that the ops can come to. VyOS prints a set by its last node, and a delete by the
// highest node that goes with it: that of all routes when they are all ours, and so on upwards. Above gives the
// children of protocols static, and of protocols; empty where they are not known.
func makeScope(ops []op, routes map[string][]string, static, protocols []string) scope {
	s := scope{}
	gone := map[string][]string{}
	for _, o := range ops {
		s[o.line()] = true
		if o.remove && len(o.path) == 4 {
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
		return routers.Errorf(routers.ErrUnavailable, "nothing was committed, as the session would change %d things that are not ours, such as: %.200s", len(foreign), foreign[0])
	case lines == 0:
		return routers.Errorf(routers.ErrUnavailable, "nothing was committed, as VyOS does not say what the session would change")
	}
	return nil
}
