// Package tree is a VyOS configuration as a set of nodes: how it is changed, compared and printed.
package tree

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// A Tree holds every node of a configuration, inner ones too, by its path. A path is a text: the node's
// names from the root on with a space between, each escaped so that it has none.
type Tree map[string]bool

// Path makes the text of a node's names.
func Path(names ...string) string {
	escaped := make([]string, len(names))
	for i, n := range names {
		escaped[i] = strings.ReplaceAll(url.PathEscape(n), "%2F", "/")
	}
	return strings.Join(escaped, " ")
}

// Names gives the names of a path's text.
func Names(path string) []string {
	if path == "" {
		return nil
	}
	names := strings.Split(path, " ")
	for i, n := range names {
		if plain, err := url.PathUnescape(n); err == nil {
			names[i] = plain
		}
	}
	return names
}

// parent gives the path above, and false at the top.
func parent(path string) (string, bool) {
	i := strings.LastIndexByte(path, ' ')
	if i < 0 {
		return "", false
	}
	return path[:i], true
}

// Add puts a node there with all above it. The value of a leaf takes the place of its other value.
func (t Tree) Add(path string) {
	if Kind(Names(path)) == Value {
		if leaf, ok := parent(path); ok {
			for _, c := range t.Children(leaf) {
				delete(t, leaf+" "+Path(c))
			}
		}
	}
	for ok := true; ok; path, ok = parent(path) {
		t[path] = true
	}
}

// Remove takes a node away with all below it. The last value of a leaf or of a tag node, such as a prefix below
// route, takes that with it; other nodes stay when they are left empty, unless empty ones are to go all the way
// up to the value of a tag node.
func (t Tree) Remove(path string, empty bool) {
	for p := range t {
		if below(p, path) {
			delete(t, p)
		}
	}
	kind := Kind(Names(path))
	for up, ok := parent(path); ok && len(t.Children(up)) == 0; up, ok = parent(up) {
		if kind != TagValue && kind != Value && (!empty || Kind(Names(up)) == TagValue) {
			return
		}
		delete(t, up)
		kind = Kind(Names(up))
	}
}

// Gone gives the highest node that goes when one is removed: in a union that is what is hidden from then on, with all
// that comes into it below.
func Gone(t Tree, path string, empty bool) string {
	left := maps.Clone(t)
	left.Remove(path, empty)
	for up, ok := parent(path); ok && !left[up]; up, ok = parent(up) {
		path = up
	}
	return path
}

// below says whether p is path or a node below it.
func below(p, path string) bool { return p == path || strings.HasPrefix(p, path+" ") }

// Children gives the names right below a node, sorted; of the root for "".
func (t Tree) Children(path string) []string {
	var names []string
	for p := range t {
		rest, ok := strings.CutPrefix(p, path+" ")
		if path == "" {
			rest, ok = p, true
		}
		if ok && !strings.Contains(rest, " ") {
			names = append(names, Names(rest)...)
		}
	}
	slices.Sort(names)
	return names
}

// Below gives the part of the tree at a path and below.
func (t Tree) Below(path string) Tree {
	part := Tree{}
	for p := range t {
		if below(p, path) {
			part[p] = true
		}
	}
	return part
}

// Leaves gives the paths of the nodes that have none below, sorted.
func (t Tree) Leaves() []string {
	inner := map[string]bool{}
	for p := range t {
		if up, ok := parent(p); ok {
			inner[up] = true
		}
	}
	var leaves []string
	for _, p := range slices.Sorted(maps.Keys(t)) {
		if !inner[p] {
			leaves = append(leaves, p)
		}
	}
	return leaves
}

// Parse makes a tree of lines, each the path of a node.
func Parse(text string) Tree {
	t := Tree{}
	for line := range strings.Lines(text) {
		if p := strings.TrimSpace(line); p != "" {
			t.Add(p)
		}
	}
	return t
}

// String gives the lines that Parse reads.
func (t Tree) String() string {
	var b strings.Builder
	for _, p := range t.Leaves() {
		b.WriteString(p + "\n")
	}
	return b.String()
}
