package include

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// renderSets gives each symbol the prefixes that are announced by it, none too, and the family of all that it
// is for; of a symbol for both that of its first prefix.
func renderSets(es []Entry, write func(name string, v4 bool, ps []netip.Prefix)) {
	sets := map[string][]netip.Prefix{}
	families := map[string]bool{}
	for _, e := range es {
		for _, name := range []string{e.Symbol, e.Worse} {
			if _, ok := families[name]; !ok && name != "" {
				sets[name], families[name] = nil, e.Prefix.Addr().Is4()
			}
		}
		switch {
		case e.Want == routers.Announced:
			sets[e.Symbol] = append(sets[e.Symbol], e.Prefix)
		case e.Want == routers.Degraded && e.Worse != "":
			sets[e.Worse] = append(sets[e.Worse], e.Prefix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		write(name, families[name], slices.Compact(sets[name])) // a prefix may go by a name, and have gone by it in the other way
	}
}

// set is a set of prefixes of one family. BIRD before 2.0.11 takes no empty one: there it holds an address
// that no host has.
func set(f Format, ps []netip.Prefix, v4 bool) string {
	if !f.emptySet() && len(ps) == 0 {
		nobody := netip.IPv6Unspecified()
		if v4 {
			nobody = netip.IPv4Unspecified()
		}
		ps = []netip.Prefix{netip.PrefixFrom(nobody, nobody.BitLen())}
	}
	words := make([]string, len(ps))
	for i, p := range ps {
		words[i] = p.String()
	}
	return "[ " + strings.Join(words, ", ") + " ]"
}

// SetOf names the set that a function of style Function rests on, one for each family: a set can be asked
// for with eval, a function's text cannot. BIRD has no set of both families.
func SetOf(symbol string, v4 bool) string {
	if v4 {
		return symbol + "_set4"
	}
	return symbol + "_set6"
}

func renderFunction(b *bytes.Buffer, f Format, name string, only4 bool, ps []netip.Prefix) {
	var v4, v6 []netip.Prefix
	for _, p := range ps {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	var in []string
	for _, s := range []struct {
		name string
		v4   bool
		ps   []netip.Prefix
	}{{SetOf(name, true), true, v4}, {SetOf(name, false), false, v6}} {
		if !f.channels() && s.v4 != only4 {
			continue // BIRD 1.6 knows one family
		}
		fmt.Fprintf(b, "define %s = %s;\n", s.name, set(f, s.ps, s.v4))
		if len(s.ps) > 0 {
			in = append(in, "net ~ "+s.name)
		}
	}
	if in == nil {
		in = []string{"false"}
	}
	result := ""
	if f.returnType() {
		result = " -> bool"
	}
	fmt.Fprintf(b, "function %s()%s\n{\n\treturn %s;\n}\n", name, result, strings.Join(in, " || "))
}
