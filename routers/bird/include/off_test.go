package include

import (
	"net/netip"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// Off is what would have been written with everything withdrawn, in every style and for every BIRD.
func TestOff(t *testing.T) {
	entries := func(a, b, c routers.Want) []Entry {
		return []Entry{
			{Prefix: netip.MustParsePrefix("192.0.2.53/32"), Want: a, Symbol: "A", Worse: "A_WORSE"},
			{Prefix: netip.MustParsePrefix("192.0.2.54/32"), Want: b, Symbol: "B"},
			{Prefix: netip.MustParsePrefix("2001:db8::53/128"), Want: c, Symbol: "C"},
		}
	}
	for _, style := range []string{Switch, Routes, List, Function} {
		for _, v := range []ctl.Version{{Major: 1, Minor: 6, Patch: 8}, {Major: 2, Minor: 0, Patch: 7}, {Major: 2, Minor: 0, Patch: 12}, {Major: 3, Minor: 1, Patch: 8}} {
			f := Format{Style: style, Version: v}
			want := Render(f, entries(routers.Withdrawn, routers.Withdrawn, routers.Withdrawn))
			on := Render(f, entries(routers.Degraded, routers.Announced, routers.Announced))
			if string(on) == string(want) {
				t.Fatalf("%s %s: nothing is on", style, v)
			}
			for _, text := range [][]byte{on, want} {
				if got, err := Off(text); err != nil || string(got) != string(want) {
					t.Errorf("%s %s: %v: got\n%s\nwant\n%s", style, v, err, got, want)
				}
			}
		}
	}
	if _, err := Off([]byte("define A_OFF = 0;\n")); err == nil {
		t.Error("a file of somebody else's was put off")
	}
}
