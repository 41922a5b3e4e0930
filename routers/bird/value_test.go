package bird

import (
	"net/netip"
	"slices"
	"testing"
)

// What BIRDs were seen to print of the same set.
func TestMembers(t *testing.T) {
	prefixes := func(texts ...string) (ps []netip.Prefix) {
		for _, text := range texts {
			ps = append(ps, netip.MustParsePrefix(text))
		}
		return ps
	}
	v4, v6 := prefixes("10.53.53.0/24", "10.53.53.53/32"), prefixes("2001:db8:53::53/128", "2001:db8:53::54/128")
	for _, c := range []struct {
		text string
		want []netip.Prefix
	}{
		{"[10.53.53.0/24{0.0.1.0}, 10.53.53.53/32{0.0.0.1}]", v4}, // 1.6.8, 2.0.8, 2.0.12, 2.17.6, 3.1.8
		{"[10.53.53.0/120{::100}, 10.53.53.53/128{::1}]", v4},     // 2.0.7
		{"[2001:db8:53::53/128{::1}, 2001:db8:53::54/128{::1}]", v6},
		{"[0.0.0.0/128{::1}]", prefixes("0.0.0.0/32")},
		{"[]", nil},
		{"1.2.3/4", nil},
	} {
		if got := members(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.text, got, c.want)
		}
	}
}
