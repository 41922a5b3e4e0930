package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"vouch/agent/internal/health"
	"vouch/checks/kinds"
)

// A section is one table as it is shown.
type section struct {
	path    toml.Key
	note    string // a comment above it, or empty
	entries []entry
}

type entry struct {
	key   string
	value any // a string, bool, int64, uint64, float64, []any or map[string]any
}

// Show prints the configuration in force, with all defaults, as TOML that Parse turns into the same
// Config. Above each service stands its Timing, as a comment, and above the router which keys are left
// to the driver. It does not print what has no effect.
func Show(w io.Writer, c *Config) error { return showTOML(w, sections(c, kinds.New)) }

func showTOML(w io.Writer, ss []section) error {
	var b strings.Builder
	for i, s := range ss {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.note != "" {
			b.WriteString("# " + s.note + "\n")
		}
		b.WriteString("[" + s.path.String() + "]\n")
		for _, e := range s.entries {
			b.WriteString(toml.Key{e.key}.String() + " = ")
			writeTOML(&b, e.value)
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ShowJSON prints what Show prints, as a JSON object of the same shape: {"router": {"daemon": …}, …}.
func ShowJSON(w io.Writer, c *Config) error {
	root := map[string]any{}
	for _, s := range sections(c, kinds.New) {
		at := root
		for _, name := range s.path {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		for _, e := range s.entries {
			at[e.key] = e.value
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(root)
}

// sections gives the tables of a configuration; newSpec tells what a kind's defaults are.
func sections(c *Config, newSpec specOf) []section {
	out := []section{
		{path: toml.Key{"agent"}, entries: entries(reflect.ValueOf(c.Agent), nil)},
		{path: toml.Key{"control"}, entries: entries(reflect.ValueOf(c.Control), nil)},
		{path: toml.Key{"router"}, note: leftToDriver(c.Router), entries: entries(reflect.ValueOf(c.Router), nil)},
	}
	if d := entries(reflect.ValueOf(c.Router.Degraded), nil); len(d) > 0 {
		out = append(out, section{path: toml.Key{"router", "degraded"}, entries: d})
	}
	for _, s := range c.Services {
		out = append(out, serviceSections(s, newSpec)...)
	}
	return out
}

// leftToDriver tells which keys are empty because the driver knows better.
func leftToDriver(r Router) string {
	var keys []string
	for _, f := range tagged(reflect.ValueOf(r)) {
		settled := slices.Contains([]string{"protocol", "socket", "socket6", "peers"}, f.key)
		if settled && f.value.IsZero() && uses.effective(r, f.key) {
			keys = append(keys, f.key)
		}
	}
	if keys == nil {
		return ""
	}
	return "Not set, so that the driver settles it: " + strings.Join(keys, ", ") + "."
}

func serviceSections(s Service, newSpec specOf) []section {
	path, t := toml.Key{"service", s.Name}, s.Timing()
	out := []section{{
		path: path,
		note: fmt.Sprintf("At worst: a death that answers at once is noticed within %s, a silent one within %s, the return within %s.",
			show(t.Refused), show(t.Silent), show(t.Return)),
		entries: entries(reflect.ValueOf(written(s)), []string{"hold_down", "unknown_after", "require"}),
	}}
	for _, name := range sortedKeys(s.Groups) {
		out = append(out, section{
			path:    join(path, "group", name),
			entries: entries(reflect.ValueOf(groupTable{s.Groups[name]}), []string{"require"}),
		})
	}
	for _, c := range s.Checks {
		raw := checkTable{Type: c.Type, Interval: c.Interval, Timeout: c.Timeout, OnFail: c.OnFail, Group: c.Group}
		out = append(out, section{
			path:    join(path, "check", c.Name),
			entries: append(entries(reflect.ValueOf(raw), nil), specEntries(c, newSpec)...),
		})
	}
	return out
}

// written gives a service as it would be written, its prefixes in order and what has no effect zero.
func written(s Service) serviceTable {
	h := s.Health
	raw := serviceTable{
		Interval: h.Interval, Fast: h.Fast, Rise: h.Rise, Fall: h.Fall, Require: s.Require, OnStop: s.OnStop,
		Symbol: s.Symbol, Symbol6: s.Symbol6,
		HoldDown: h.HoldDown, HoldDownMax: h.HoldDownMax, HoldDownCalm: h.HoldDownCalm, UnknownAfter: h.UnknownAfter,
	}
	for _, p := range s.Prefixes {
		raw.Prefixes = append(raw.Prefixes, p.String())
	}
	switch {
	case h.UnknownAfter == 0:
	case h.OnUnknown == health.Withdraw:
		raw.OnUnknown = "withdraw"
	default:
		raw.OnUnknown = "hold"
	}
	return raw
}

// specEntries gives a kind's own keys. Those that are zero, and are so in a new Spec, were not set.
func specEntries(c Check, newSpec specOf) []entry {
	var shown []string
	if fresh, ok := newSpec(c.Type); ok {
		for _, f := range tagged(reflect.ValueOf(fresh).Elem()) {
			if !f.value.IsZero() {
				shown = append(shown, f.key)
			}
		}
	}
	return entries(reflect.ValueOf(c.Spec).Elem(), shown)
}

// entries gives the tagged fields of a struct that are not zero, or whose key is in also. The zero
// value of a type with a form of its own, such as "any", is shown where it has one.
func entries(of reflect.Value, also []string) []entry {
	var out []entry
	for _, f := range tagged(of) {
		v := plain(f.value)
		_, own := f.value.Interface().(toml.Marshaler)
		if !f.value.IsZero() || slices.Contains(also, f.key) || own && v != "" {
			out = append(out, entry{f.key, v})
		}
	}
	return out
}
