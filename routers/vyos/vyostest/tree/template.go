package tree

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// What a node is in the templates.
const (
	Unknown  = iota
	Node     // has named children
	Tag      // its children are values, each with children of its own
	TagValue // one of those
	Leaf     // its one child is a value
	Value    // that
)

// A template says what may stand below a node.
type template struct {
	kind     int
	children map[string]*template
	any      bool                      // whatever stands below is taken, and is none of this package's business
	check    func(string) (why string) // of a value; "" is good
}

func node(children map[string]*template) *template { return &template{kind: Node, children: children} }

func leaf(check func(string) string) *template { return &template{kind: Leaf, check: check} }

func tag(check func(string) string, children map[string]*template) *template {
	return &template{kind: Tag, check: check, children: children}
}

// root is as much of the templates of VyOS 1.4 as a driver of static routes meets.
var root = node(map[string]*template{
	"protocols": node(map[string]*template{
		"bgp":    {kind: Node, any: true},
		"ospf":   {kind: Node, any: true},
		"static": node(map[string]*template{"route": route(4), "route6": route(6)}),
	}),
	"system":     {kind: Node, any: true},
	"interfaces": {kind: Node, any: true},
	"policy":     {kind: Node, any: true},
	"service":    {kind: Node, any: true},
})

func route(version int) *template {
	distance := leaf(number(1, 255))
	return tag(prefix(version), map[string]*template{
		"blackhole":   node(map[string]*template{"distance": distance, "tag": leaf(number(1, 4294967295))}),
		"next-hop":    tag(address(version), map[string]*template{"distance": distance}),
		"description": leaf(func(string) string { return "" }),
	})
}

func prefix(version int) func(string) string {
	return func(v string) string {
		p, err := netip.ParsePrefix(v)
		if err != nil || p != p.Masked() || p.Addr().Is4() != (version == 4) {
			return fmt.Sprintf("%s is not a valid IPv%d prefix", v, version)
		}
		return ""
	}
}

func address(version int) func(string) string {
	return func(v string) string {
		if a, err := netip.ParseAddr(v); err != nil || a.Is4() != (version == 4) {
			return fmt.Sprintf("%s is not a valid IPv%d address", v, version)
		}
		return ""
	}
}

func number(low, high uint64) func(string) string {
	return func(v string) string {
		if n, err := strconv.ParseUint(v, 10, 64); err != nil || n < low || n > high {
			return fmt.Sprintf("%s is not in the range %d to %d", v, low, high)
		}
		return ""
	}
}

// A Fault is why a path is refused.
type Fault struct {
	Invalid    bool   // there is no such path
	Incomplete bool   // it ends where a value has to stand
	Value      string // why a value in it is none
}

// Kind says what the last node of a path is.
func Kind(names []string) int {
	kind, _ := walk(names)
	return kind
}

// Check says what is wrong with a path that is to be set, or nil. Names are taken as they are, never
// completed.
func Check(names []string) *Fault {
	kind, fault := walk(names)
	if fault == nil && (kind == Tag || kind == Leaf) {
		return &Fault{Incomplete: true}
	}
	return fault
}

// Known says whether there is such a path, complete or not; its values are not looked at.
func Known(names []string) bool {
	_, fault := walk(names)
	return fault == nil || !fault.Invalid
}

// walk follows a path through the templates. A bad value ends nothing: what comes after it is looked at too.
func walk(names []string) (kind int, fault *Fault) {
	t, kind := root, Node
	if len(names) == 0 {
		return kind, &Fault{Invalid: true}
	}
	for _, n := range names {
		switch kind {
		case Tag, Leaf:
			if why := t.check(n); why != "" && fault == nil {
				fault = &Fault{Value: why}
			}
			kind++ // TagValue follows Tag, and Value follows Leaf
		case Value:
			return Unknown, &Fault{Invalid: true}
		default:
			if t.any {
				return Node, fault
			}
			if t = t.children[n]; t == nil {
				return Unknown, &Fault{Invalid: true}
			}
			kind = t.kind
		}
	}
	return kind, fault
}

// Quoted gives names as messages have them.
func Quoted(names []string) string { return "[" + strings.Join(names, " ") + "]" }

// Expand completes the names of a path that are the beginning of one name only, as vbash does. Bad is the
// place of the first that cannot be, or -1; what it might be is given beside it.
func Expand(names []string) (full []string, bad int, might []string) {
	for i, n := range names {
		t := down(full)
		if t == nil || t.kind != Node || t.any {
			full = append(full, n)
			continue
		}
		might = nil
		for c := range t.children {
			if c == n {
				might = []string{c}
				break
			}
			if strings.HasPrefix(c, n) {
				might = append(might, c)
			}
		}
		if len(might) != 1 {
			slices.Sort(might)
			return full, i, might
		}
		full = append(full, might[0])
	}
	return full, -1, nil
}

// down finds what stands below a path of whole names; nil is nothing.
func down(names []string) *template {
	t := root
	for i := 0; i < len(names) && t != nil && !t.any; i++ {
		switch t.kind {
		case Tag:
			t = &template{kind: Node, children: t.children}
		case Leaf:
			t = nil
		default:
			t = t.children[names[i]]
		}
	}
	return t
}
