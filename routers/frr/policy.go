package frr

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A verdict is what a filter does to a prefix of this node's own.
type verdict uint8

// The verdicts. It cannot be told where a filter goes by what is known of the path only once it is there, or
// by a condition that is not read here.
const (
	untold verdict = iota
	permit
	deny
)

// A filters is what bgpd's running configuration has of the filters that it can put before a neighbour. A
// list of a kind goes by its family and name.
type filters struct {
	prefixLists map[string][]rule
	accessLists map[string][]rule
	asPaths     map[string][]rule
	routeMaps   map[string][]clause
	origin      *origin // of the route, where it is one that zebra hands out; nil: it is a path
}

// An origin is what a route-map may ask of a route that is redistributed.
type origin struct {
	source string // whose it is, such as "static"
	tag    uint32
}

// A rule is one line of a list.
type rule struct {
	verdict verdict
	matches func(p netip.Prefix) (yes, known bool)
}

// A clause is one entry of a route-map.
type clause struct {
	verdict verdict
	matches [][]string // the words behind match
	call    string
	onward  bool // on-match: the entries behind have their say too
}

// parseFilters reads the running configuration of bgpd, ospfd or ospf6d (8.4.4, 10.3). It has the entries in their order.
func parseFilters(text string) filters {
	f := filters{prefixLists: map[string][]rule{}, accessLists: map[string][]rule{}, asPaths: map[string][]rule{}, routeMaps: map[string][]clause{}}
	name := "" // of the route-map that the lines are of
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if line[0] == ' ' {
			if name != "" {
				f.routeMaps[name][len(f.routeMaps[name])-1].add(words)
			}
			continue
		}
		name = ""
		switch head := strings.Join(words[:min(3, len(words))], " "); {
		case words[0] == "route-map" && len(words) >= 4:
			name = words[1]
			f.routeMaps[name] = append(f.routeMaps[name], clause{verdict: parseVerdict(words[2])})
		case strings.HasPrefix(head, "ip prefix-list "), strings.HasPrefix(head, "ipv6 prefix-list "):
			addRule(f.prefixLists, words[0]+" "+words[2], words[3:], lengthRule)
		case strings.HasPrefix(head, "ipv6 access-list "):
			addRule(f.accessLists, "ipv6 "+words[2], words[3:], accessRule)
		case words[0] == "access-list" && len(words) >= 2:
			addRule(f.accessLists, "ip "+words[1], words[2:], accessRule)
		case head == "bgp as-path access-list" && len(words) >= 4:
			addRule(f.asPaths, words[3], words[4:], pathRule)
		}
	}
	return f
}

func parseVerdict(word string) verdict {
	switch word {
	case "permit":
		return permit
	case "deny":
		return deny
	}
	return untold
}

// addRule adds one line of a list, whose words are [seq N] permit|deny … A line of another kind, such as its
// description, says only that there is the list.
func addRule(lists map[string][]rule, name string, words []string, parse func(words []string) func(netip.Prefix) (bool, bool)) {
	if len(words) >= 2 && words[0] == "seq" {
		words = words[2:]
	}
	if lists[name] == nil {
		lists[name] = []rule{}
	}
	if len(words) >= 2 && parseVerdict(words[0]) != untold {
		lists[name] = append(lists[name], rule{parseVerdict(words[0]), parse(words[1:])})
	}
}

// lengthRule reads "any", or a prefix with ge and le.
func lengthRule(words []string) func(netip.Prefix) (bool, bool) {
	if words[0] == "any" {
		return func(netip.Prefix) (bool, bool) { return true, true }
	}
	within, err := netip.ParsePrefix(words[0])
	least, most := within.Bits(), within.Bits()
	for pair := range slices.Chunk(words[1:], 2) {
		n, aerr := strconv.Atoi(pair[len(pair)-1])
		switch {
		case aerr != nil || len(pair) < 2:
			err = strconv.ErrSyntax
		case pair[0] == "ge":
			least, most = n, max(most, within.Addr().BitLen())
		case pair[0] == "le":
			most = n
		}
	}
	return func(p netip.Prefix) (bool, bool) {
		return err == nil && within.Contains(p.Addr()) && p.Bits() >= least && p.Bits() <= most, err == nil
	}
}

// accessRule reads "any", a prefix with exact-match behind it or not, or an address with a mask whose set bits
// do not count.
func accessRule(words []string) func(netip.Prefix) (bool, bool) {
	if words[0] == "any" {
		return func(netip.Prefix) (bool, bool) { return true, true }
	}
	if within, err := netip.ParsePrefix(words[0]); err == nil {
		exact := slices.Contains(words, "exact-match")
		return func(p netip.Prefix) (bool, bool) {
			return within.Contains(p.Addr()) && p.Bits() >= within.Bits() && (!exact || p.Bits() == within.Bits()), true
		}
	}
	if words[0] == "host" {
		words = append(words[1:], "0.0.0.0")
	}
	if len(words) >= 2 {
		a, err := netip.ParseAddr(words[0])
		wild, werr := netip.ParseAddr(words[1])
		if err == nil && werr == nil && a.Is4() && wild.Is4() {
			return func(p netip.Prefix) (bool, bool) { return p.Addr().Is4() && alike(p.Addr(), a, wild), true }
		}
	}
	return func(netip.Prefix) (bool, bool) { return false, false }
}

// alike compares the bits that a wildcard mask leaves.
func alike(a, b, wild netip.Addr) bool {
	x, y, w := a.As4(), b.As4(), wild.As4()
	for i := range x {
		if x[i]&^w[i] != y[i]&^w[i] {
			return false
		}
	}
	return true
}

// pathRule reads a regular expression, and whether it matches the path of what this node itself announces: at
// that point it is still empty.
func pathRule(words []string) func(netip.Prefix) (bool, bool) {
	re, err := regexp.Compile(strings.ReplaceAll(strings.Join(words, " "), "_", `(^|[,{}() ]|$)`))
	return func(netip.Prefix) (bool, bool) { return err == nil && re.MatchString(""), err == nil }
}

// judge is what the first line that matches does; without one, and without the list, the prefix is denied.
func judge(rules []rule, p netip.Prefix) verdict {
	for _, r := range rules {
		switch yes, known := r.matches(p); {
		case !known:
			return untold
		case yes:
			return r.verdict
		}
	}
	return deny
}

// add takes up one line of a route-map's entry.
func (c *clause) add(words []string) {
	switch {
	case words[0] == "match":
		c.matches = append(c.matches, words[1:])
	case words[0] == "call" && len(words) >= 2:
		c.call = words[1]
	case words[0] == "on-match":
		c.onward = true
	}
}

// depth bounds how far route-maps call each other; FRR itself stops soon after.
const depth = 4

// routeMap is what a route-map does to a prefix.
func (f filters) routeMap(name string, p netip.Prefix, left int) verdict {
	clauses, there := f.routeMaps[name]
	if !there {
		return deny
	}
	if left == 0 {
		return untold
	}
	v := deny
	for _, c := range slices.Backward(clauses) {
		switch f.matched(c, p) {
		case permit:
			v = f.own(c, p, left, v)
		case untold:
			if f.own(c, p, left, v) != v {
				v = untold
			}
		}
	}
	return v
}

// own is what an entry does to a prefix that it matches, when the entries behind it would do rest. Where it
// sends on to these, and they do not permit, what counts is not known here.
func (f filters) own(c clause, p netip.Prefix, left int, rest verdict) verdict {
	if c.verdict != permit {
		return c.verdict
	}
	if c.call != "" && f.routeMaps[c.call] != nil { // one that is not there is passed over (8.4.4)
		if v := f.routeMap(c.call, p, left-1); v != permit {
			return v
		}
	}
	if c.onward && rest != permit {
		return untold
	}
	return permit
}

// matched tells whether all conditions of an entry are met: permit is yes, deny no.
func (f filters) matched(c clause, p netip.Prefix) verdict {
	all := permit
	for _, words := range c.matches {
		switch f.condition(words, p) {
		case deny:
			return deny
		case untold:
			all = untold
		}
	}
	return all
}

// condition judges one match line. What is of the other family does not match.
func (f filters) condition(words []string, p netip.Prefix) verdict {
	if len(words) < 2 {
		return untold
	}
	name, of := words[len(words)-1], family(p)
	switch {
	case words[0] == "as-path" && len(words) == 2:
		return judge(f.asPaths[name], p)
	case f.origin != nil && words[0] == "source-protocol":
		return asVerdict(words[1] == f.origin.source)
	case f.origin != nil && words[0] == "tag":
		n, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			return untold
		}
		return asVerdict(uint32(n) == f.origin.tag)
	case words[1] != "address" || len(words) == 4 && words[2] != "prefix-list" || len(words) < 3 || len(words) > 4:
		return untold
	case words[0] != of:
		return deny
	case len(words) == 3:
		return judge(f.accessLists[of+" "+name], p)
	}
	return judge(f.prefixLists[of+" "+name], p)
}

func asVerdict(yes bool) verdict {
	if yes {
		return permit
	}
	return deny
}

// lacks names a list that a route-map asks of the family of a prefix and that does not exist, so that what it asks is
// never so; mostly none.
func (f filters) lacks(routeMap string, p netip.Prefix) string {
	of := family(p)
	for _, c := range f.routeMaps[routeMap] {
		for _, words := range c.matches {
			if len(words) < 3 || words[0] != of || words[1] != "address" {
				continue
			}
			switch name := words[len(words)-1]; {
			case len(words) == 4 && f.prefixLists[of+" "+name] == nil:
				return "prefix-list " + name
			case len(words) == 3 && f.accessLists[of+" "+name] == nil:
				return "access-list " + name
			}
		}
	}
	return ""
}

// outbound is what the filters before a neighbour do to a prefix, in bgpd's order, and the words for that: of
// the first one that denies it, or whose verdict cannot be told.
func (f filters) outbound(n bgpFamily, p netip.Prefix) (v verdict, why string) {
	of := family(p) + " "
	lists, access, paths, maps := f.prefixLists[of+n.PrefixList], f.accessLists[of+n.AccessList], f.asPaths[n.ASPathList], f.routeMaps[n.RouteMap]
	v = permit
	for _, part := range []struct {
		kind, name string
		there      bool
		verdict    verdict
	}{
		{"prefix-list", n.PrefixList, lists != nil, judge(lists, p)},
		{"distribute-list", n.AccessList, access != nil, judge(access, p)},
		{"filter-list", n.ASPathList, paths != nil, judge(paths, p)},
		{"route-map", n.RouteMap, maps != nil, f.routeMap(n.RouteMap, p, depth)},
	} {
		switch full := part.kind + " " + part.name; {
		case part.name == "", part.verdict == permit, part.kind == "prefix-list" && part.there && len(lists) == 0: // an empty one lets all through
		case !part.there:
			return deny, "there is no " + full
		case part.verdict == deny:
			return deny, full + " denies it"
		default:
			v, why = untold, "whether "+full+" lets it through cannot be told from here"
		}
	}
	return v, why
}
