package tree

import (
	"maps"
	"slices"
	"strings"
)

// Diff gives the commands that make b of a, as show-commands prints them: first what is deleted, each by
// the highest node that goes, then what is set, each by its last node; both sorted. A leaf that has another
// value is only set.
func Diff(a, b Tree) []string {
	var lines []string
	for _, p := range slices.Sorted(maps.Keys(a)) {
		up, ok := parent(p)
		switch {
		case b[p], ok && a[up] && !b[up]: // it stays, or one above goes
		case ok && Kind(Names(p)) == Value && len(b.Children(up)) > 0:
		default:
			lines = append(lines, "delete "+Quote(Names(p)))
		}
	}
	for _, p := range b.Leaves() {
		if !a[p] {
			lines = append(lines, "set "+Quote(Names(p)))
		}
	}
	return lines
}

// Commands gives the commands that make a tree of nothing.
func (t Tree) Commands() []string { return Diff(Tree{}, t) }

// Quote puts each name in the quotes of a shell.
func Quote(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "'" + strings.ReplaceAll(n, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Braces prints a tree as a configuration file has it.
func (t Tree) Braces() string {
	var b strings.Builder
	t.braces(&b, nil, "")
	return b.String()
}

func (t Tree) braces(b *strings.Builder, names []string, indent string) {
	for _, c := range t.Children(Path(names...)) {
		at := append(slices.Clone(names), c)
		below := t.Children(Path(at...))
		switch Kind(at) {
		case Tag:
			for _, v := range below {
				t.block(b, append(slices.Clone(at), v), c+" "+v, indent)
			}
		case Leaf:
			for _, v := range below {
				b.WriteString(indent + c + " \"" + v + "\"\n")
			}
		default:
			t.block(b, at, c, indent)
		}
	}
}

// block prints one node and what is below it.
func (t Tree) block(b *strings.Builder, at []string, title, indent string) {
	b.WriteString(indent + title + " {\n")
	t.braces(b, at, indent+"    ")
	b.WriteString(indent + "}\n")
}
