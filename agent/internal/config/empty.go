package config

import (
	"reflect"
	"strings"
)

// An empty is a key that is written, and whose value is nothing: "", 0, "0s", [] or {}.
type empty struct {
	table *table
	key   string
	value reflect.Value // of the field: its default, if that is set later
}

// isNothing says whether a value is one that a key which is not written has, too. A type that reads its value
// by itself refuses what it cannot use.
func isNothing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0 && !readWhole(v)
	case reflect.Map:
		return v.Len() == 0
	case reflect.Bool, reflect.Struct, reflect.Pointer:
		return false
	}
	return v.IsZero()
}

// refuseEmpty refuses those of which nothing else is said: a template's variable that is not set must not leave
// a check that wants nothing, or asks from elsewhere than is meant.
func (d *document) refuseEmpty() {
	for _, e := range d.empties {
		if e.table.has(e.key) && e.table.good(e.key) {
			e.table.refuse(e.key, "has no effect when it is "+e.word(), e.wayOut())
		}
	}
}

func (e empty) word() string {
	switch e.value.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return "empty"
	}
	return "0"
}

func (e empty) wayOut() string {
	if !isNothing(e.value) {
		var b strings.Builder
		writeTOML(&b, plain(e.value))
		return "leave it out for " + b.String()
	}
	if h := e.table.hinter; h != nil && h.Hint(e.key) != "" {
		return h.Hint(e.key) + ", or leave it out"
	}
	return "write what is meant, or leave it out"
}
