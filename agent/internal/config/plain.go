package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/agent/internal/health"
)

// plain turns a field into what TOML and JSON know: a string, bool, int64, uint64, float64, []any or
// map[string]any.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return plain(v.Elem())
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case health.Require:
		return plainRequire(x)
	}
	if p, ok := marshalled(v.Interface()); ok {
		return p
	}
	if v.CanAddr() {
		if p, ok := marshalled(v.Addr().Interface()); ok {
			return p
		}
	}
	return plainKind(v)
}

// marshalled gives what a type says of itself.
func marshalled(v any) (any, bool) {
	switch x := v.(type) {
	case toml.Marshaler:
		var back struct{ V any }
		text, err := x.MarshalTOML()
		if err == nil {
			_, err = toml.Decode("V = "+string(text), &back)
		}
		return back.V, err == nil
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		return string(text), err == nil
	}
	return nil, false
}

func plainRequire(r health.Require) any {
	if r.Count > 1 {
		return int64(r.Count)
	}
	return r.String()
}

func plainKind(v reflect.Value) any {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint()
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for _, k := range v.MapKeys() {
			m[fmt.Sprint(k.Interface())] = plain(v.MapIndex(k))
		}
		return m
	case reflect.Struct:
		m := map[string]any{}
		for _, f := range tagged(v) {
			if !f.value.IsZero() {
				m[f.key] = plain(f.value)
			}
		}
		return m
	}
	return fmt.Sprint(v.Interface())
}

// writeTOML writes a plain value on one line.
func writeTOML(b *strings.Builder, v any) {
	switch x := v.(type) {
	case string:
		writeString(b, x)
	case float64:
		s := strconv.FormatFloat(x, 'f', -1, 64)
		if !strings.ContainsAny(s, ".in") {
			s += ".0"
		}
		b.WriteString(strings.ToLower(s))
	case []any:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteString(", ")
			}
			writeTOML(b, e)
		}
		b.WriteByte(']')
	case map[string]any:
		writeInline(b, x)
	default:
		fmt.Fprint(b, x)
	}
}

func writeInline(b *strings.Builder, m map[string]any) {
	b.WriteByte('{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + toml.Key{k}.String() + " = ")
		writeTOML(b, m[k])
	}
	b.WriteString(" }")
}

// writeString writes a basic string (TOML 1.0, String).
func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// sortedKeys gives the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
