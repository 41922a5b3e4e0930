// Package include writes and reads the file that vouch keeps for BIRD's configuration to include: what
// each prefix ought to be, worded as the operator's configuration wants it. Render and Parse are pure.
package include

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// The styles.
const (
	Switch   = "switch"
	Routes   = "routes"
	List     = "list"
	Function = "function"
)

// An Entry is one prefix and what it ought to be: Withdrawn, Degraded or Announced.
type Entry struct {
	Prefix netip.Prefix
	Want   routers.Want
	Symbol string // what it goes by in BIRD's configuration
	Worse  string // what it goes by when degraded; empty: the same, or there is no such way
}

// A Format says how a file is worded, and for which BIRD.
type Format struct {
	Style      string
	Version    ctl.Version
	Attributes Attributes
}

// channels: a static protocol has one; BIRD 1.6 has a daemon for each family instead.
func (f Format) channels() bool { return f.Version.AtLeast(2, 0) }

// returnType: a function says what it returns.
func (f Format) returnType() bool { return f.Version.AtLeast(2, 14) }

// A File is what a file was written for.
type File struct {
	Version ctl.Version // of the BIRD it was worded for
	Entries []Entry
}

// Attributes are what a degraded route gets with style Routes.
type Attributes struct {
	Community []string
	MED       uint32
	Prepend   []uint32
	Metric2   uint32
}

const (
	head  = "# Written by vouch, and written anew when a service changes. Do not edit it.\n"
	state = "#vouch " // and a prefix, what it ought to be, and its symbols
	bird  = "bird "   // instead, at first: and the version
	end   = "end\n"   // instead, at last: there are no more
)

// Render gives the file for the entries. It is the same for the same entries, in whatever order.
func Render(f Format, es []Entry) []byte {
	es = slices.Clone(es)
	slices.SortFunc(es, func(a, b Entry) int { return a.Prefix.Compare(b.Prefix) })
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s%s%s\n", head, state, bird, f.Version)
	for _, e := range es {
		fmt.Fprintf(&b, "%s%s %s %s %s\n", state, e.Prefix, e.Want, e.Symbol, cmp.Or(e.Worse, "-"))
	}
	b.WriteString(state + end)
	switch f.Style {
	case Routes:
		renderRoutes(&b, f, es)
	case List:
		renderSets(es, func(name string, ps []netip.Prefix) {
			fmt.Fprintf(&b, "define %s = %s;\n", name, set(f, ps, es[0].Prefix))
		})
	case Function:
		renderSets(es, func(name string, ps []netip.Prefix) { renderFunction(&b, f, name, ps, es) })
	default:
		renderSwitches(&b, es)
	}
	return b.Bytes()
}

// renderSwitches writes numbers that are 1 while a thing is off. Where the prefixes of one service differ,
// as when some of them are being withdrawn, the least of them counts for all.
func renderSwitches(b *bytes.Buffer, es []Entry) {
	off := map[string]int{}
	least := map[string]routers.Want{}
	for _, e := range es {
		if w, ok := least[e.Symbol]; !ok || e.Want < w {
			least[e.Symbol] = e.Want
		}
	}
	for _, e := range es {
		want := least[e.Symbol]
		off[e.Symbol] = number(want != routers.Announced)
		if e.Worse != "" {
			off[e.Worse] = number(want != routers.Degraded)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(off)) {
		fmt.Fprintf(b, "define %s = %d;\n", name, off[name])
	}
}

func number(on bool) int {
	if on {
		return 1
	}
	return 0
}

// renderSets gives each symbol the prefixes that are announced by it, none too.
func renderSets(es []Entry, write func(name string, ps []netip.Prefix)) {
	sets := map[string][]netip.Prefix{}
	for _, e := range es {
		sets[e.Symbol] = append(sets[e.Symbol], nil...)
		if e.Worse != "" {
			sets[e.Worse] = append(sets[e.Worse], nil...)
		}
		switch {
		case e.Want == routers.Announced:
			sets[e.Symbol] = append(sets[e.Symbol], e.Prefix)
		case e.Want == routers.Degraded && e.Worse != "":
			sets[e.Worse] = append(sets[e.Worse], e.Prefix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		write(name, sets[name])
	}
}

// set is a set of prefixes. BIRD 1.6 takes no empty one: there it holds an address that no host has, of the
// family that like has.
func set(f Format, ps []netip.Prefix, like netip.Prefix) string {
	if !f.channels() && len(ps) == 0 {
		ps = []netip.Prefix{netip.PrefixFrom(like.Addr(), 0).Masked()}
		ps[0] = netip.PrefixFrom(ps[0].Addr(), like.Addr().BitLen())
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

func renderFunction(b *bytes.Buffer, f Format, name string, ps []netip.Prefix, es []Entry) {
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
		if !f.channels() && s.v4 != es[0].Prefix.Addr().Is4() {
			continue // BIRD 1.6 knows one family
		}
		fmt.Fprintf(b, "define %s = %s;\n", s.name, set(f, s.ps, es[0].Prefix))
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

func renderRoutes(b *bytes.Buffer, f Format, es []Entry) {
	routes := map[string][]string{}
	v4 := map[string]bool{}
	for _, e := range es {
		v4[e.Symbol] = e.Prefix.Addr().Is4()
		line := "route " + e.Prefix.String() + " blackhole"
		switch e.Want {
		case routers.Announced:
			routes[e.Symbol] = append(routes[e.Symbol], line+";")
		case routers.Degraded:
			routes[e.Symbol] = append(routes[e.Symbol], line+" { "+f.Attributes.text(f.channels())+" };")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v4)) {
		fmt.Fprintf(b, "protocol static %s {\n", name)
		switch {
		case f.channels() && v4[name]:
			b.WriteString("\tipv4;\n")
		case f.channels():
			b.WriteString("\tipv6;\n")
		}
		for _, r := range routes[name] {
			b.WriteString("\t" + r + "\n")
		}
		b.WriteString("}\n")
	}
}

// text is what stands in the braces of a route. In BIRD 1.6 a static route has no path to add to yet.
func (a Attributes) text(path bool) string {
	var all []string
	for _, c := range a.Community {
		kind := "bgp_community"
		if strings.Count(c, ":") == 2 {
			kind = "bgp_large_community"
		}
		all = append(all, fmt.Sprintf("%s.add((%s));", kind, strings.ReplaceAll(c, ":", ",")))
	}
	if a.MED != 0 {
		all = append(all, fmt.Sprintf("bgp_med = %d;", a.MED))
	}
	if !path && len(a.Prepend) > 0 {
		all = append(all, "bgp_path = +empty+;")
	}
	for _, as := range a.Prepend {
		all = append(all, fmt.Sprintf("bgp_path.prepend(%d);", as))
	}
	if a.Metric2 != 0 {
		all = append(all, fmt.Sprintf("ospf_metric2 = %d;", a.Metric2))
	}
	return strings.Join(all, " ")
}

// Ours says whether a file was written by vouch.
func Ours(text []byte) bool { return bytes.HasPrefix(text, []byte(head)) }

// Parse reads what a file was written for. Its error names the line, and what stood before it is given
// beside it.
func Parse(text []byte) (File, error) {
	if !Ours(text) {
		return File{}, fmt.Errorf("it does not begin with %q", strings.TrimSpace(head))
	}
	var f File
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		rest, ok := strings.CutPrefix(line, state)
		if rest == end {
			return f, nil
		}
		if !ok {
			continue
		}
		if err := f.add(rest); err != nil {
			return f, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return f, fmt.Errorf("line %d: it ends before %q", n, strings.TrimSpace(state+end))
}

// add takes in what one line says.
func (f *File) add(line string) error {
	if version, ok := strings.CutPrefix(line, bird); ok {
		v := &f.Version
		if _, err := fmt.Sscanf(version, "%d.%d.%d\n", &v.Major, &v.Minor, &v.Patch); err != nil {
			return fmt.Errorf("%q is no version of bird", strings.TrimSpace(version))
		}
		return nil
	}
	words := strings.Fields(line)
	if len(words) != 4 || !strings.HasSuffix(line, "\n") {
		return fmt.Errorf("%q is cut short", strings.TrimSpace(line))
	}
	e := Entry{Symbol: words[2], Worse: strings.TrimPrefix(words[3], "-")}
	var err error
	if e.Prefix, err = netip.ParsePrefix(words[0]); err != nil {
		return err
	}
	if err := e.Want.UnmarshalText([]byte(words[1])); err != nil || e.Want == routers.Keep {
		return fmt.Errorf("%q is none of withdrawn, degraded and announced", words[1])
	}
	f.Entries = append(f.Entries, e)
	return nil
}
