package tree

import (
	"slices"
	"strings"
	"testing"
)

const at = "protocols static route 192.0.2.0/24"

func TestPath(t *testing.T) {
	names := []string{"policy", "a b", "%", "ä/'"}
	if got := Names(Path(names...)); !slices.Equal(got, names) {
		t.Errorf("%q", got)
	}
	if got := Quote(names); got != `'policy' 'a b' '%' 'ä/'\'''` {
		t.Error(got)
	}
	if Names("") != nil {
		t.Error("the root has a name")
	}
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		empty bool
		left  string
	}{
		"a prefix":               {path: at, left: "protocols static\n"},
		"a prefix, all empty":    {path: at, empty: true, left: ""},
		"a child":                {path: at + " blackhole", left: at + "\n"},
		"a child, all empty":     {path: at + " blackhole", empty: true, left: at + "\n"},
		"a value":                {path: at + " blackhole tag 7", left: at + " blackhole\n"},
		"a leaf":                 {path: at + " blackhole tag", left: at + " blackhole\n"},
		"a node of another name": {path: "protocols stat", left: at + " blackhole tag 7\n"},
		"nothing there":          {path: "protocols bgp", empty: true, left: at + " blackhole tag 7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Parse(at + " blackhole tag 7\n")
			tree.Remove(c.path, c.empty)
			if got := tree.String(); got != c.left {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	a := Parse("system host-name r1\n" + at + " blackhole tag 7\nprotocols static route 198.51.100.0/24 blackhole\n")
	b := Parse("system host-name r1\n" + at + " blackhole tag 8\nprotocols static route6 2001:db8::/32 blackhole distance 5\n")
	want := []string{
		"delete 'protocols' 'static' 'route' '198.51.100.0/24'",
		"set 'protocols' 'static' 'route' '192.0.2.0/24' 'blackhole' 'tag' '8'",
		"set 'protocols' 'static' 'route6' '2001:db8::/32' 'blackhole' 'distance' '5'",
	}
	if got := Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Diff(a, a); got != nil {
		t.Errorf("%q", got)
	}
	if got := Diff(a, Tree{}); !slices.Equal(got, []string{"delete 'protocols'", "delete 'system'"}) {
		t.Errorf("%q", got)
	}
	if got := Diff(a.Below("protocols static"), Tree{}); !slices.Equal(got, []string{"delete 'protocols' 'static'"}) {
		t.Errorf("%q", got)
	}
}

func TestAddTakesTheOtherValuesPlace(t *testing.T) {
	tree := Parse(at + " blackhole tag 7\n" + at + " blackhole tag 8\n" + at + " next-hop 192.0.2.1\n" + at + " next-hop 192.0.2.2\n")
	want := at + " blackhole tag 8\n" + at + " next-hop 192.0.2.1\n" + at + " next-hop 192.0.2.2\n"
	if got := tree.String(); got != want {
		t.Error(got)
	}
}

func TestCheck(t *testing.T) {
	const prefix, prefix6 = " is not a valid IPv4 prefix", " is not a valid IPv6 prefix"
	for path, want := range map[string]*Fault{
		at + " blackhole":                               nil,
		at + " blackhole distance 255":                  nil,
		at + " blackhole distance 256":                  {Value: "256 is not in the range 1 to 255"},
		at + " blackhole distance 0":                    {Value: "0 is not in the range 1 to 255"},
		at + " blackhole distance":                      {Incomplete: true},
		at + " blackhole tag 4294967295":                nil,
		at + " blackhole tag 4294967296":                {Value: "4294967296 is not in the range 1 to 4294967295"},
		at + " blackhole metric 5":                      {Invalid: true},
		at + " blackhole tag 5 6":                       {Invalid: true},
		at:                                              nil,
		"protocols static route":                        {Incomplete: true},
		"protocols static route 192.0.2.1/24":           {Value: "192.0.2.1/24" + prefix},
		"protocols static route 192.0.2.1":              {Value: "192.0.2.1" + prefix},
		"protocols static route 2001:db8::/32":          {Value: "2001:db8::/32" + prefix},
		"protocols static route 192.0.2.1/24 blackhole": {Value: "192.0.2.1/24" + prefix},
		"protocols static route 192.0.2.1/24 black":     {Invalid: true},
		"protocols static route6 2001:db8::1/32":        {Value: "2001:db8::1/32" + prefix6},
		at + " next-hop 2001:db8::1":                    {Value: "2001:db8::1 is not a valid IPv4 address"},
		"protocols stat":                                {Invalid: true},
		"":                                              {Invalid: true},
		"system host-name r1":                           nil,
	} {
		got := Check(Names(path))
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	if !Known(Names(at+" blackhole tag")) || Known(Names(at+" blackhole metric")) {
		t.Error("what may be deleted")
	}
}

func TestExpand(t *testing.T) {
	for short, want := range map[string]string{
		"prot stat route 192.0.2.0/24 bl dist 5": at + " blackhole distance 5",
		"protocols static route6 a":              "protocols static route6 a",
		"sys host r":                             "system host r",
	} {
		if got, bad, _ := Expand(strings.Fields(short)); strings.Join(got, " ") != want || bad >= 0 {
			t.Errorf("%s: %v, %d", short, got, bad)
		}
	}
	for short, want := range map[string]string{"p": "0 policy protocols", "protocols static r": "2 route route6", "protocols static x": "2"} {
		_, bad, might := Expand(strings.Fields(short))
		if got := strings.Join(append([]string{string(rune('0' + bad))}, might...), " "); got != want {
			t.Errorf("%s: %s", short, got)
		}
	}
}

func TestBraces(t *testing.T) {
	const want = `protocols {
    static {
        route 192.0.2.0/24 {
            blackhole {
                tag "7"
            }
        }
    }
}
`
	if got := Parse(at + " blackhole tag 7").Braces(); got != want {
		t.Error(got)
	}
}

func TestGone(t *testing.T) {
	const static = "protocols static"
	one, two := static+" route 192.0.2.1/32", static+" route 192.0.2.2/32"
	for _, c := range []struct {
		config, path string
		empty        bool
		want         string
	}{
		{one + " blackhole\n" + two + " blackhole", one, false, one},
		{one + " blackhole", one, false, static + " route"},
		{one + " blackhole\nprotocols bgp system-as 65001", one, true, static},
		{one + " blackhole\nsystem host-name r1", one, true, "protocols"},
		{one + " blackhole tag 666", one + " blackhole tag", false, one + " blackhole tag"},
	} {
		config := Parse(c.config)
		if got := Gone(config, c.path, c.empty); got != c.want {
			t.Errorf("%s of %q: %q", c.path, c.config, got)
		}
		if config.String() != Parse(c.config).String() {
			t.Errorf("%q was changed", c.config)
		}
	}
}
