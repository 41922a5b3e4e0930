package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

// A document is one parsed file, and the problems found in it so far.
type document struct {
	file     string
	md       toml.MetaData
	places   places
	inner    map[string]bool // the keys whose values hold keys in turn, which the library decoded
	misspelt []string        // the keys that are not written, but in another spelling
	empties  []empty         // the keys that are written, and hold nothing
	problems Problems
}

// noteInner notes that the library decodes what is inside a key, if its field is of such a type.
func (d *document) noteInner(path toml.Key, of reflect.Type) {
	if holdsKeys(of) {
		d.inner[path.String()] = true
	}
}

// refuseInner refuses the keys inside such values that their fields have no place for.
func (d *document) refuseInner() {
	if len(d.inner) == 0 {
		return
	}
	for _, k := range d.md.Undecoded() {
		for i := 1; i < len(k); i++ {
			if d.inner[k[:i].String()] {
				d.refuse(k, k.String(), fault{"unknown key", "remove it"})
				break
			}
		}
	}
}

// refuse notes a problem with the value of a key. Where the key is not written, it stands at its
// table. The name is the place to point at: the key's own, or that of an element.
func (d *document) refuse(path toml.Key, name string, f fault) {
	p := Problem{File: d.file, Line: 1, Col: 1, Key: path.String(), What: f.what, WayOut: f.wayOut}
	if at, ok := d.places[name]; ok {
		p.Line, p.Col, p.Got = at.line, at.col, shorten(at.raw)
	} else if at, ok := d.above(path); ok {
		p.Line, p.Col = at.line, at.col
	}
	d.problems = append(d.problems, p)
}

// above finds the nearest table that holds the path.
func (d *document) above(path toml.Key) (place, bool) {
	for i := len(path); i > 0; i-- {
		if at, ok := d.places[path[:i].String()]; ok {
			return at, true
		}
	}
	return place{}, false
}

// A table is one table of the document. Its keys are taken one by one, so that a mistake in one
// hides none in another.
type table struct {
	doc   *document
	path  toml.Key
	prims map[string]toml.Primitive
	known []string        // the keys that may stand here, as filled so far
	bad   map[string]bool // the keys that have a problem

	hinter checks.Hinter // knows ways out that the type of a field does not tell, or nil
}

// root gives the table of the whole document.
func (d *document) root(prims map[string]toml.Primitive) *table {
	return &table{doc: d, prims: prims, bad: map[string]bool{}}
}

// has says whether the key is written.
func (t *table) has(key string) bool {
	_, ok := t.prims[key]
	return ok
}

// good says whether none of the keys has a problem so far.
func (t *table) good(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return t.bad[k] })
}

// refuse notes a problem with a key of this table.
func (t *table) refuse(key, what, wayOut string) {
	path := join(t.path, key)
	t.bad[key] = true
	t.doc.refuse(path, path.String(), fault{what, wayOut})
}

// refuseTable notes a problem with the table as a whole.
func (t *table) refuseTable(what, wayOut string) {
	t.doc.refuse(t.path, t.path.String(), fault{what, wayOut})
}

// refuseElement notes a problem with one element of a list.
func (t *table) refuseElement(key string, i int, f fault) {
	path := join(t.path, key)
	t.bad[key] = true
	t.bad[elementName(toml.Key{key}, i)] = true
	t.doc.refuse(path, elementName(path, i), f)
}

// elementOf finds the element of a list that is written as the given text, in quotes or without.
func (d *document) elementOf(path toml.Key, text string) (int, bool) {
	for i := 0; ; i++ {
		at, ok := d.places[elementName(path, i)]
		if !ok {
			return 0, false
		}
		if strings.EqualFold(strings.Trim(at.raw, `"'`), strings.Trim(text, `"`)) {
			return i, true
		}
	}
}

func elementName(path toml.Key, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// tables gives the tables below a key in the order of the file; the known keys of t include it.
// What stands there without being a table is refused, and makes the key bad; form shows how it is
// written.
func (t *table) tables(key, form string) []*table {
	t.known = append(t.known, key)
	parent, ok := t.sub(key, form)
	if !ok {
		return nil
	}
	var subs []*table
	for _, name := range parent.names() {
		if sub, ok := parent.sub(name, form); ok {
			parent.checkName(name)
			subs = append(subs, sub)
		}
	}
	if len(parent.bad) > 0 {
		t.bad[key] = true
	}
	return subs
}

// sub gives the table of a key, if it is there and one.
func (t *table) sub(key, form string) (*table, bool) {
	prim, ok := t.prims[key]
	if !ok {
		return nil, false
	}
	var raw any
	if err := t.doc.md.PrimitiveDecode(prim, &raw); err != nil {
		t.refuse(key, faultOf(err).what, "")
		return nil, false
	}
	sub := &table{doc: t.doc, path: join(t.path, key), bad: map[string]bool{}}
	if _, isTable := raw.(map[string]any); !isTable {
		t.refuse(key, "must be a table", "write "+form)
		return nil, false
	}
	if err := t.doc.md.PrimitiveDecode(prim, &sub.prims); err != nil {
		t.refuse(key, faultOf(err).what, "")
		return nil, false
	}
	return sub, true
}

// section gives a table that may stand at most once, empty when it is not there.
func (t *table) section(key string) *table {
	t.known = append(t.known, key)
	if sub, ok := t.sub(key, "["+key+"]"); ok {
		return sub
	}
	return &table{doc: t.doc, path: join(t.path, key), bad: map[string]bool{}}
}

// below gives a table below this one, nil when it is not there.
func (t *table) below(key string) *table {
	t.known = append(t.known, key)
	sub, _ := t.sub(key, "["+join(t.path, key).String()+"]")
	return sub
}

// names gives the keys in the order of the file.
func (t *table) names() []string {
	return slices.SortedFunc(maps.Keys(t.prims), func(a, b string) int {
		pa, pb := t.doc.places[join(t.path, a).String()], t.doc.places[join(t.path, b).String()]
		return cmp.Or(cmp.Compare(pa.line, pb.line), cmp.Compare(pa.col, pb.col), cmp.Compare(a, b))
	})
}

// nameForm is what services, checks and groups may be called.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func (t *table) checkName(name string) {
	if !nameForm.MatchString(name) {
		t.refuse(name, `a name is made of up to 63 of a-z, 0-9, "_" and "-", and begins with a letter or digit`, "call it otherwise")
	}
}

// fill stores the table's values in the fields of a struct that carry a toml tag. Fields of keys
// that are not written keep what they hold.
func (t *table) fill(to any) {
	for _, f := range tagged(reflect.ValueOf(to).Elem()) {
		t.known = append(t.known, f.key)
		if prim, ok := t.prims[f.key]; ok {
			t.set(f.key, prim, f.value)
			if !f.mayBeEmpty && isNothing(f.value) {
				t.doc.empties = append(t.doc.empties, empty{t, f.key, f.value})
			}
		}
	}
}

func (t *table) set(key string, prim toml.Primitive, to reflect.Value) {
	if to.Kind() == reflect.Slice && !readWhole(to) {
		t.setList(key, prim, to)
		return
	}
	if f := setValue(&t.doc.md, prim, to); f != nil {
		if f.wayOut == "" && t.hinter != nil {
			f.wayOut = t.hinter.Hint(key)
		}
		t.refuse(key, f.what, f.wayOut)
		return
	}
	t.doc.noteInner(join(t.path, key), to.Type())
}

// readWhole says whether a list is read as a whole, not element by element.
func readWhole(list reflect.Value) bool {
	switch list.Addr().Interface().(type) {
	case toml.Unmarshaler, *Command:
		return true
	}
	return false
}

func (t *table) setList(key string, prim toml.Primitive, to reflect.Value) {
	var elements []toml.Primitive
	if err := t.doc.md.PrimitiveDecode(prim, &elements); err != nil {
		raw := t.doc.places[join(t.path, key).String()].raw
		t.refuse(key, "must be a list", "write ["+shorten(raw)+"]")
		return
	}
	list := reflect.MakeSlice(to.Type(), len(elements), len(elements))
	for i, e := range elements {
		if f := setValue(&t.doc.md, e, list.Index(i)); f != nil {
			t.refuseElement(key, i, *f)
		}
	}
	to.Set(list)
	t.doc.noteInner(join(t.path, key), to.Type())
}

// holdsKeys says whether a field of this type is written as a table, or as tables.
func holdsKeys(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	switch reflect.New(of).Interface().(type) {
	case encoding.TextUnmarshaler, toml.Unmarshaler:
		return false
	}
	return of.Kind() == reflect.Struct || of.Kind() == reflect.Map
}

// strange gives the keys that nothing has asked for.
func (t *table) strange() []string {
	return slices.DeleteFunc(t.names(), func(key string) bool { return slices.Contains(t.known, key) || t.bad[key] })
}

// unknown refuses the keys that nothing has asked for; of says whose keys they would be.
func (t *table) unknown(of string) {
	for _, key := range t.strange() {
		t.refuseUnknown(key, of)
	}
}

// misspelt refuses those keys only that were probably meant to be the given one, where it cannot be
// told yet which others there may be.
func (t *table) misspelt(meant string) {
	for _, key := range t.strange() {
		if closest(strings.ToLower(key), t.known) == meant {
			t.refuseUnknown(key, "")
		}
	}
}

// refuseUnknown guesses what was meant by an unknown key. Where that is not written, nothing more
// is said of its being missing.
func (t *table) refuseUnknown(key, of string) {
	w := closest(strings.ToLower(key), t.known)
	if w == "" {
		t.refuse(key, "unknown key"+of, "remove it; the keys here are "+strings.Join(slices.Sorted(slices.Values(t.known)), ", "))
		return
	}
	t.refuse(key, "unknown key"+of, "did you mean "+w+"?")
	if !t.has(w) {
		t.bad[w] = true
		t.doc.misspelt = append(t.doc.misspelt, join(t.path, w).String())
	}
}

// dropCaused takes out what was refused only because of a misspelling: that the key, or one below
// it, is missing.
func (d *document) dropCaused() {
	d.problems = slices.DeleteFunc(d.problems, func(p Problem) bool {
		return slices.ContainsFunc(d.misspelt, func(m string) bool { return p.Key == m || strings.HasPrefix(p.Key, m+".") })
	})
}

// A field is one field of a struct that stands for a key.
type field struct {
	key        string
	value      reflect.Value
	mayBeEmpty bool // what is empty, or 0, is a value like any other: it has the tag empty:"ok"
}

// tagged gives the fields of a struct that carry a toml tag, also those of embedded structs.
func tagged(v reflect.Value) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		if key != "" && key != "-" && f.IsExported() {
			fields = append(fields, field{key, v.FieldByIndex(f.Index), f.Tag.Get("empty") == "ok"})
		}
	}
	return fields
}
