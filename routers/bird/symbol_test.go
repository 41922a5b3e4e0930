package bird

import "testing"

func TestExpand(t *testing.T) {
	for _, tt := range []struct{ template, service, want string }{
		{"{service}", "dns", "dns"},
		{"{SERVICE}_OFF", "a-b_c9", "A_B_C9_OFF"},
		{"x_{service}_{SERVICE}", "a", "x_a_A"},
		{"anycast", "dns", "anycast"},
		{"{service}", "x;y\n{SERVICE}é", "x_y__SERVICE__"},
	} {
		if got := Expand(tt.template, tt.service); got != tt.want {
			t.Errorf("%s of %q: %q, want %q", tt.template, tt.service, got, tt.want)
		}
	}
}

// What prefixes go by where the templates are not written, or only one of them is.
func TestSymbols(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want [2]string
	}{
		{Options{Method: MethodProtocol}, [2]string{"{service}", "{service}6"}},
		{Options{Method: MethodProtocol, Symbol: "x"}, [2]string{"x", "x6"}},
		{Options{Method: MethodInclude, Style: StyleSwitch}, [2]string{"{SERVICE}_OFF", "{SERVICE}_OFF"}},
		{Options{Method: MethodInclude, Style: StyleRoutes}, [2]string{"vouch4", "vouch6"}},
		{Options{Method: MethodInclude, Style: StyleRoutes, Symbol: "x"}, [2]string{"x", "x6"}},
		{Options{Method: MethodInclude, Style: StyleRoutes, Symbol6: "y"}, [2]string{"vouch4", "y"}},
		{Options{Method: MethodInclude, Style: StyleList}, [2]string{"ANYCAST_PREFIXES", "ANYCAST_PREFIXES6"}},
		{Options{Method: MethodInclude, Style: StyleFunction}, [2]string{"match_route", "match_route"}},
		{Options{Method: MethodAddress}, [2]string{}},
	} {
		if a, b := tt.o.Symbols(); [2]string{a, b} != tt.want {
			t.Errorf("%+v: %q and %q, want %q", tt.o, a, b, tt.want)
		}
	}
}
