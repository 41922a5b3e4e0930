package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/checks"
)

func TestDefaults(t *testing.T) {
	s := Spec{}
	if ps := s.Validate(); ps != nil || s.Family != "ipv4" || s.Table != 254 {
		t.Errorf("defaults: %+v, %+v", s, ps)
	}
	s = Spec{Destinations: []string{"192.0.2.1"}}
	if ps := s.Validate(); ps != nil || s.Family != "" {
		t.Errorf("with destinations: %+v, %+v", s, ps)
	}
}

func TestValidate(t *testing.T) {
	const some = `write such as ["192.0.2.1", "198.51.100.0/24"]`
	noEffect := func(key string) checks.Problem {
		return checks.Problem{Key: key, What: "has no effect without an address in destinations, which is looked up from it",
			WayOut: `write such as destinations = ["192.0.2.1"], or remove it`}
	}
	to := func(ds ...string) Spec { return Spec{Destinations: ds} }
	for _, c := range []struct {
		name string
		spec Spec
		want []checks.Problem
	}{
		{"good", Spec{Destinations: []string{"192.0.2.1", "2001:db8::/32", "0.0.0.0/0", "::/0"}, Table: 7, Interfaces: []string{"eth0", "dummy0"}}, nil},
		{"good origin", Spec{Origin: checks.Origin{Source: "10.0.0.1", Mark: 7, Device: "vrf-x"}, Destinations: []string{"192.0.2.1"}}, nil},
		{"origin beside a prefix too", Spec{Origin: checks.Origin{Mark: 7}, Destinations: []string{"192.0.2.1", "10.0.0.0/8"}}, nil},
		{"values", Spec{Family: "ipx", Table: 1 << 32}, []checks.Problem{
			{Key: "family", What: "must be ipv4, ipv6 or both", Got: `"ipx"`, WayOut: `write "ipv4", or leave it out`},
			{Key: "table", What: "must be the number of a routing table, from 1 to 4294967295", Got: "4294967296", WayOut: "write 254 for the main table, or leave it out"},
		}},
		{"negative", Spec{Table: -1}, []checks.Problem{
			{Key: "table", What: "must be the number of a routing table, from 1 to 4294967295", Got: "-1", WayOut: "write 254 for the main table, or leave it out"},
		}},
		{"destinations", to("resolver", "10.0.0.1/8", "fe80::1%eth0", "::ffff:10.0.0.1", "0.0.0.0", "224.0.0.1", "ff00::/8", "10.0.0.0/33"), []checks.Problem{
			{Key: "destinations", What: "must be addresses or prefixes", Got: "resolver", WayOut: some},
			{Key: "destinations", What: "has bits behind its length", Got: "10.0.0.1/8", WayOut: `write "10.0.0.0/8", or the address alone`},
			{Key: "destinations", What: "must be without a zone, and IPv4 in its own form", Got: "fe80::1%eth0", WayOut: some},
			{Key: "destinations", What: "must be without a zone, and IPv4 in its own form", Got: "::ffff:10.0.0.1", WayOut: some},
			{Key: "destinations", What: "must be of hosts", Got: "0.0.0.0", WayOut: some},
			{Key: "destinations", What: "must be of hosts", Got: "224.0.0.1", WayOut: some},
			{Key: "destinations", What: "must be of hosts, and IPv4 in its own form", Got: "ff00::/8", WayOut: some},
			{Key: "destinations", What: "must be addresses or prefixes", Got: "10.0.0.0/33", WayOut: some},
		}},
		{"loopback", to("127.0.0.1", "127.9.0.0/16", "::1", "::1/128", "126.0.0.0/7"), []checks.Problem{
			{Key: "destinations", What: itself, Got: "127.0.0.1", WayOut: some},
			{Key: "destinations", What: itself, Got: "127.9.0.0/16", WayOut: some},
			{Key: "destinations", What: itself, Got: "::1", WayOut: some},
			{Key: "destinations", What: itself, Got: "::1/128", WayOut: some},
		}},
		{"family and halves beside destinations", Spec{Destinations: []string{"192.0.2.1"}, Family: "ipv4", Halves: true}, []checks.Problem{
			{Key: "family", What: "has no effect with destinations, each of which has a family", WayOut: "remove it"},
			{Key: "halves", What: "has no effect with destinations: it is about the default route", WayOut: "remove it"},
		}},
		{"table for addresses", Spec{Destinations: []string{"192.0.2.1"}, Table: 7}, []checks.Problem{
			{Key: "table", What: "has no effect on addresses, which the kernel looks up in the tables that its rules name", WayOut: `write a prefix, such as "192.0.2.1/32", or remove it`},
		}},
		{"origin of the default route", Spec{Origin: checks.Origin{Source: "10.0.0.1", Mark: 7, Device: "eth0"}},
			[]checks.Problem{noEffect("source"), noEffect("mark"), noEffect("device")}},
		{"origin of a prefix", Spec{Origin: checks.Origin{Mark: 7}, Destinations: []string{"10.0.0.0/8"}}, []checks.Problem{noEffect("mark")}},
		{"source of another family", Spec{Origin: checks.Origin{Source: "10.0.0.1"}, Destinations: []string{"192.0.2.1", "2001:db8::1"}}, []checks.Problem{
			{Key: "source", What: "must be of the same family as the address that is probed, 2001:db8::1", Got: "10.0.0.1",
				WayOut: `write one of this node's own addresses, such as "192.0.2.1"`},
		}},
		{"interfaces", Spec{Interfaces: []string{"eth0", "lo", "", "a name that is too long"}}, []checks.Problem{
			{Key: "interfaces", What: "leads back to this host, so that no route over it is usable", Got: "lo", WayOut: `write such as ["eth0"], or leave it out for any`},
			{Key: "interfaces", What: "must be the names of interfaces, of at most 15 bytes without slash and space", Got: "", WayOut: `write such as ["eth0"], or leave it out for any`},
			{Key: "interfaces", What: "must be the names of interfaces, of at most 15 bytes without slash and space", Got: "a name that is too long", WayOut: `write such as ["eth0"], or leave it out for any`},
		}},
	} {
		if diff := cmp.Diff(c.want, c.spec.Validate()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestLocal(t *testing.T) {
	node(t)
	for key, s := range map[string]Spec{
		"":           {Destinations: []string{"192.0.2.1"}, Origin: checks.Origin{Source: "10.0.1.2", Device: "eth0"}, Interfaces: []string{"eth0"}},
		"source":     {Destinations: []string{"192.0.2.1"}, Origin: checks.Origin{Source: "10.9.9.9"}},
		"device":     {Destinations: []string{"192.0.2.1"}, Origin: checks.Origin{Device: "nosuch0"}},
		"interfaces": {Interfaces: []string{"eth0", "nosuch0"}},
	} {
		ps := s.Local()
		if (key == "") != (ps == nil) || len(ps) > 1 || ps != nil && ps[0].Key != key {
			t.Errorf("%+v: %+v, want one of %q", s, ps, key)
		}
	}
}

func TestString(t *testing.T) {
	for want, s := range map[string]Spec{
		"default route ipv4 table 254":                       {},
		"default route ipv6 table 7":                         {Family: "ipv6", Table: 7},
		"default route ipv4 and ipv6 table 254":              {Family: "both"},
		"default route ipv4 table 254 over eth0 or eth1":     {Interfaces: []string{"eth0", "eth1"}},
		"route to 192.0.2.1, 2001:db8::/32 table 254":        {Destinations: []string{"192.0.2.1", "2001:db8::/32"}},
		"route to 192.0.2.1 from 10.0.0.1 mark 7 through vx": {Destinations: []string{"192.0.2.1"}, Origin: checks.Origin{Source: "10.0.0.1", Mark: 7, Device: "vx"}},
	} {
		if got := checker(t, s).String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
