package agent

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/agent/internal/config"
)

func TestNewRouter(t *testing.T) {
	for _, c := range []struct {
		router config.Router
		want   string
	}{
		{config.Router{Daemon: "auto"}, "auto (no daemon chosen)"},
		{config.Router{Daemon: "frr", Method: "static", Protocol: "bgp"}, "frr (static, bgp)"},
		{config.Router{Daemon: "bird", Method: "address"}, "bird (address on lo)"},
		{config.Router{Daemon: "kernel", Interface: "lo"}, "kernel (address on lo)"},
		{config.Router{Daemon: "program", Up: config.Command{"/sbin/up"}}, "program (/sbin/up, not read back)"},
	} {
		r, err := NewRouter(c.router)
		if err != nil {
			t.Fatal(err)
		}
		if r.String() != c.want {
			t.Errorf("daemon %q gives %s, want %s", c.router.Daemon, r, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if r, err := NewRouter(config.Router{Daemon: "openbgpd"}); err == nil || !strings.Contains(err.Error(), `"openbgpd"`) {
		t.Errorf("%v, %v", r, err)
	}
}

func TestMethodLimitsTheChoice(t *testing.T) {
	for method, want := range map[string][]string{"address": nil, "": nil, "network": {"frr"}, "static": {"frr"}, "protocol": {"bird"}, "include": {"bird"}} {
		if got := detectOptions(config.Router{Method: method}).Only; !slices.Equal(got, want) {
			t.Errorf("method %q: only %v, want %v", method, got, want)
		}
	}
}

// Whatever can be written in [router] reaches a driver, but for what the reconciler goes by.
func TestEveryKeyReachesADriver(t *testing.T) {
	own := []string{"Daemon", "Deadline", "VerifyInterval", "RetryMin", "RetryMax"}
	given := func(c config.Router) []any { return []any{detectOptions(c), programOptions(c), vyosOptions(c)} }
	none := given(config.Router{})
	walk(reflect.TypeFor[config.Router](), nil, func(path []int, name string) {
		var c config.Router
		set(t, reflect.ValueOf(&c).Elem().FieldByIndex(path))
		if reaches := !reflect.DeepEqual(none, given(c)); reaches == slices.Contains(own, name) {
			t.Errorf("%s reaches a driver: %t", name, reaches)
		}
	})
}

// walk calls f for every field of a struct, and for those of the structs in it.
func walk(s reflect.Type, at []int, f func(path []int, name string)) {
	for i := range s.NumField() {
		path := append(slices.Clone(at), i)
		if s.Field(i).Type.Kind() == reflect.Struct {
			walk(s.Field(i).Type, path, f)
		} else {
			f(path, s.Field(i).Name)
		}
	}
}

// set gives a field some value that is not its zero.
func set(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case string:
		v.SetString("x")
	case bool:
		v.SetBool(true)
	case int, time.Duration:
		v.SetInt(7)
	case uint32:
		v.SetUint(7)
	case []string, config.Command, []uint32:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}
