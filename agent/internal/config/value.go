package config

import (
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/agent/internal/health"
)

// A fault is what is wrong with one value, without its place.
type fault struct{ what, wayOut string }

// setValue stores a TOML value in a field. It is stricter than the library, which would take a
// number for a duration and tell of a wrong type in the words of Go.
func setValue(md *toml.MetaData, prim toml.Primitive, to reflect.Value) *fault {
	var raw any
	if err := md.PrimitiveDecode(prim, &raw); err != nil {
		return faultOf(err)
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		return setValue(md, prim, to.Elem())
	}
	switch v := to.Addr().Interface().(type) {
	case *time.Duration:
		return setWith(v, raw, parseDuration)
	case *health.Require:
		return setWith(v, raw, parseRequire)
	case *netip.Addr:
		return setWith(v, raw, parseAddr)
	case *Command:
		return setWith(v, raw, parseCommand)
	case encoding.TextUnmarshaler, toml.Unmarshaler:
		return faultOf(md.PrimitiveDecode(prim, v))
	}
	return setPlain(md, prim, raw, to)
}

// setPlain stores a value in a field of one of Go's own types.
func setPlain(md *toml.MetaData, prim toml.Primitive, raw any, to reflect.Value) *fault {
	switch to.Kind() {
	case reflect.String:
		v, ok := raw.(string)
		if !ok {
			return &fault{"must be a string in double quotes", quoteIt(raw)}
		}
		to.SetString(v)
	case reflect.Bool:
		v, ok := raw.(bool)
		if !ok {
			return &fault{"must be true or false, without quotes", unquoteIt(raw, strconv.ParseBool)}
		}
		to.SetBool(v)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v, ok := raw.(int64)
		if !ok || to.OverflowInt(v) {
			return notWhole(raw, -1<<(to.Type().Bits()-1), 1<<(to.Type().Bits()-1)-1)
		}
		to.SetInt(v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v, ok := raw.(int64)
		if !ok || v < 0 || to.OverflowUint(uint64(v)) {
			return notWhole(raw, 0, 1<<to.Type().Bits()-1)
		}
		to.SetUint(uint64(v))
	case reflect.Float32, reflect.Float64:
		if err := md.PrimitiveDecode(prim, to.Addr().Interface()); err != nil {
			return &fault{what: "must be a number, without quotes"}
		}
	case reflect.Map, reflect.Struct: // the library takes any value for a map, and ignores it
		if _, ok := raw.(map[string]any); !ok {
			return &fault{what: "must be a table", wayOut: `write { name = "value" }`}
		}
		return faultOf(md.PrimitiveDecode(prim, to.Addr().Interface()))
	default:
		return faultOf(md.PrimitiveDecode(prim, to.Addr().Interface()))
	}
	return nil
}

// notWhole is the fault of what is no whole number, or one that is out of range.
func notWhole(raw any, least int64, most uint64) *fault {
	if _, isInt := raw.(int64); !isInt {
		return &fault{"must be a whole number, without quotes", unquoteIt(raw, strconv.Atoi)}
	}
	return &fault{what: fmt.Sprintf("must be a whole number from %d to %d", least, most)}
}

// quoteIt shows a number or a boolean as a string, or gives "".
func quoteIt(raw any) string {
	switch raw.(type) {
	case int64, float64, bool:
		return fmt.Sprintf(`write "%v"`, raw)
	}
	return ""
}

// unquoteIt shows a string without its quotes, or gives "" where it would not be read then.
func unquoteIt[T any](raw any, read func(string) (T, error)) string {
	s, _ := raw.(string)
	v, err := read(s)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("write %v", v)
}

func setWith[T any](to *T, raw any, parse func(any) (T, *fault)) *fault {
	v, f := parse(raw)
	if f == nil {
		*to = v
	}
	return f
}

// faultOf takes the text of an error of the library without the position in it.
func faultOf(err error) *fault {
	var pe toml.ParseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pe):
		return &fault{what: pe.Message}
	}
	text := err.Error()
	if i := strings.LastIndex(text, "): "); i >= 0 {
		text = text[i+len("): "):]
	}
	return &fault{what: strings.TrimPrefix(text, "toml: ")}
}

func parseRequire(raw any) (health.Require, *fault) {
	wayOut := `leave it out for "all"`
	switch v := raw.(type) {
	case int64:
		if r, err := health.ParseRequire(strconv.FormatInt(v, 10)); err == nil {
			return r, nil
		}
	case float64:
		if share := int(v * 100); share >= 1 && share < 100 {
			wayOut = fmt.Sprintf(`write "%d%%"`, share)
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			wayOut = numberHint(n)
		} else if r, err := health.ParseRequire(v); err == nil {
			return r, nil
		} else if r, err := health.ParseRequire(strings.ToLower(strings.Join(strings.Fields(v), ""))); err == nil {
			wayOut = fmt.Sprintf("write %q", r)
		}
	}
	return health.Require{}, &fault{`must be "all", "any", a number of at least 1, or a share from "1%" to "100%"`, wayOut}
}

// numberHint shows a number that stands in quotes as what it may have been meant to be.
func numberHint(n int) string {
	if !couldBeShare(n) {
		return fmt.Sprintf("write %d", n)
	}
	return fmt.Sprintf(`write "%d%%" or %d`, n, n)
}

// couldBeShare says whether a number may have been meant in percent. Nobody asks for a few of those.
func couldBeShare(n int) bool { return n >= 10 && n <= 100 }

func parseAddr(raw any) (netip.Addr, *fault) {
	s, ok := raw.(string)
	if !ok {
		return netip.Addr{}, &fault{what: "must be an IP address in double quotes"}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, &fault{what: "must be an IP address"}
	}
	return a, nil
}
