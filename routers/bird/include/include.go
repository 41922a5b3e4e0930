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
	Prefix   netip.Prefix
	Want     routers.Want
	Symbol   string // what it goes by in BIRD's configuration
	Worse    string // what it goes by when degraded; empty: the same, or there is no such way
	Standing Standing
}

// A Standing says by what right an entry is in the file. Where several entries have one symbol, those of the
// first standing decide what is defined by it.
type Standing uint8

// The standings.
const (
	Managed Standing = iota // it is to be announced or not
	Former                  // its prefix is managed, and went by these symbols before: BIRD's configuration may still say them
	Left                    // its prefix is not managed any more: what has its symbols is off, and defined all the same
)

// former and left stand in the file in the place of the want: the one has that of its prefix, the other is
// withdrawn.
const (
	former = "former"
	left   = "left"
)

// A Format says how a file is worded, and for which BIRD.
type Format struct {
	Style      string
	Version    ctl.Version
	Attributes Attributes
}

// channels: a static protocol has one; BIRD 1.6 has a daemon for each family instead.
func (f Format) channels() bool { return f.Version.AtLeast(2, 0, 0) }

// emptySet: a set may have no member.
func (f Format) emptySet() bool { return f.Version.AtLeast(2, 0, 11) }

// returnType: a function says what it returns.
func (f Format) returnType() bool { return f.Version.AtLeast(2, 14, 0) }

// A File is what a file was written for.
type File struct {
	Version ctl.Version // of the BIRD it was worded for
	Entries []Entry     // at most one of each prefix, Managed or Left
	Former  []Entry     // what the same prefixes went by
}

// All gives all entries, as Render takes them.
func (f File) All() []Entry { return slices.Concat(f.Entries, f.Former) }

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
	es = slices.SortedFunc(slices.Values(es), compare)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s%s%s\n", head, state, bird, f.Version)
	for _, e := range es {
		fmt.Fprintf(&b, "%s%s %s %s %s\n", state, e.Prefix, e.word(), e.Symbol, cmp.Or(e.Worse, "-"))
	}
	b.WriteString(state + end)
	switch f.Style {
	case Routes:
		renderRoutes(&b, f, es)
	case List:
		renderSets(es, func(name string, v4 bool, ps []netip.Prefix) {
			fmt.Fprintf(&b, "define %s = %s;\n", name, set(f, ps, v4))
		})
	case Function:
		renderSets(es, func(name string, v4 bool, ps []netip.Prefix) { renderFunction(&b, f, name, v4, ps) })
	default:
		renderSwitches(&b, es)
	}
	return b.Bytes()
}

// compare sorts by prefix. What a prefix goes by now stands before what it went by.
func compare(a, b Entry) int {
	return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Standing, b.Standing), cmp.Compare(a.Symbol, b.Symbol), cmp.Compare(a.Worse, b.Worse))
}

// word is what stands in the file of what the entry ought to be.
func (e Entry) word() string {
	switch e.Standing {
	case Former:
		return former
	case Left:
		return left
	}
	return e.Want.String()
}

// Decided gives what each prefix is by what the file defines, where symbols are numbers that several prefixes
// have in common: the least of those of the first standing counts for all.
func Decided(style string, es []Entry) map[netip.Prefix]routers.Want {
	var wants map[string]routers.Want
	if style == Switch {
		wants = switches(es)
	}
	decided := make(map[netip.Prefix]routers.Want, len(es))
	for _, e := range es {
		switch w, shared := wants[e.Symbol]; {
		case e.Standing == Former:
		case shared:
			decided[e.Prefix] = w
		default:
			decided[e.Prefix] = e.Want
		}
	}
	return decided
}

// switches gives what each symbol is to let pass.
func switches(es []Entry) map[string]routers.Want {
	wants, standings := map[string]routers.Want{}, map[string]Standing{}
	for _, e := range es {
		w, ok := wants[e.Symbol]
		if s := standings[e.Symbol]; !ok || e.Standing < s || e.Standing == s && e.Want < w {
			wants[e.Symbol], standings[e.Symbol] = e.Want, e.Standing
		}
	}
	return wants
}

// renderSwitches writes numbers that are 1 while a thing is off.
func renderSwitches(b *bytes.Buffer, es []Entry) {
	wants := switches(es)
	off, standings := map[string]int{}, map[string]Standing{}
	define := func(name string, on bool, s Standing) {
		if was, ok := standings[name]; name != "" && (!ok || s < was || s == was && !on) {
			off[name], standings[name] = number(!on), s
		}
	}
	for _, e := range es {
		define(e.Symbol, wants[e.Symbol] == routers.Announced, e.Standing)
		define(e.Worse, wants[e.Symbol] == routers.Degraded, e.Standing)
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

func renderRoutes(b *bytes.Buffer, f Format, es []Entry) {
	routes := map[string][]string{}
	v4 := map[string]bool{}
	for _, e := range es {
		if e.Standing == Former {
			continue // two protocols with one route would be announced by both
		}
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
	e := Entry{Symbol: words[2], Worse: strings.TrimPrefix(words[3], "-"), Want: routers.Withdrawn}
	var err error
	if e.Prefix, err = netip.ParsePrefix(words[0]); err != nil {
		return err
	}
	switch words[1] {
	case former:
		f.addFormer(e)
		return nil
	case left:
		if e.Standing = Left; f.last().Prefix == e.Prefix {
			f.Former = append(f.Former, e)
			return nil
		}
	default:
		if err := e.Want.UnmarshalText([]byte(words[1])); err != nil || e.Want == routers.Keep {
			return fmt.Errorf("%q is none of withdrawn, degraded, announced, former and left", words[1])
		}
	}
	f.Entries = append(f.Entries, e)
	return nil
}

// addFormer takes in what a prefix went by. The entry that the prefix has now stands before it.
func (f *File) addFormer(e Entry) {
	e.Standing = Former
	if now := f.last(); now.Prefix == e.Prefix {
		e.Want = now.Want
	}
	f.Former = append(f.Former, e)
}

func (f *File) last() Entry {
	if len(f.Entries) == 0 {
		return Entry{}
	}
	return f.Entries[len(f.Entries)-1]
}
