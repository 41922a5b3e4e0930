package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/checks/kinds"
)

// plainTables are the tables that are no check, each with what it is filled into.
var plainTables = map[string]any{
	"agent": &Agent{}, "control": &Control{}, "router": &Router{}, "router.degraded": &Degraded{},
	"service.a": &serviceTable{}, "service.a.group.g": &groupTable{}, "service.a.check.up": &checkTable{},
}

// routerTables are what [router] and [router.degraded] hold that each of their keys has an effect beside.
var routerTables = []string{
	"", `daemon = "frr"`, "daemon = \"frr\"\nmethod = \"network\"", "daemon = \"frr\"\nmethod = \"static\"",
	`daemon = "bird"`, "daemon = \"bird\"\nmethod = \"protocol\"",
	"method = \"include\"\ninclude = \"/var/lib/vouch/v.conf\"", "method = \"include\"\ninclude = \"/var/lib/vouch/v.conf\"\nstyle = \"routes\"",
	"daemon = \"vyos\"\nprotocol = \"bgp\"", "daemon = \"vyos\"\nmethod = \"static\"",
	`daemon = "kernel"`, "daemon = \"program\"\nup = [\"true\"]\ndown = [\"true\"]",
}

// least are the keys that a check of each kind needs, and those that others of it have an effect beside.
var least = map[string]string{
	"address": `address = "127.0.0.1"`,
	"dns":     "server = \"127.0.0.1\"\nproto = \"https\"\nserver_name = \"dns.example.net\"",
	"exec":    `command = ["true"]`,
	"file":    `path = "/run/flag"`,
	"http":    "url = \"https://127.0.0.1/\"\nredirects = 1",
	"icmp":    `address = "198.51.100.1"`,
	"mtu":     `destinations = ["198.51.100.1"]`,
	"ntp":     `server = "127.0.0.1"`,
	"route":   `destinations = ["198.51.100.1", "198.51.100.0/24"]`,
	"systemd": `unit = "unbound"`,
	"tcp":     "address = \"127.0.0.1:80\"\ntls = true\nserver_name = \"www.example.net\"",
	"tls":     "address = \"127.0.0.1:443\"\nserver_name = \"www.example.net\"",
	"udp":     "address = \"127.0.0.1:123\"\nsend = \"?\"",
}

// meant are the keys for which nothing is a value like any other, and what it says.
var meant = map[string]string{
	"service.a.hold_down = \"0s\"":     "off, by which hold_down of a template is taken back",
	"service.a.unknown_after = \"0s\"": "a round that is unknown holds for ever",

	"dns.mark = 0": "none", "http.mark = 0": "none", "icmp.mark = 0": "none", "mtu.mark = 0": "none", "ntp.mark = 0": "none",
	"route.mark = 0": "none", "tcp.mark = 0": "none", "tls.mark = 0": "none", "udp.mark = 0": "none",
	"dns.min_cert_days = 0": "valid now is enough", "http.min_cert_days = 0": "valid now is enough",
	"tcp.min_cert_days = 0": "valid now is enough", "tls.min_cert_days = 0": "valid now is enough",

	"dns.min_answers = 0":               "an empty NOERROR will do",
	"dns.serial_lag = 0":                "the serial must be as new",
	"exec.env = {}":                     "nothing is added",
	"exec.unknown = []":                 "every status but 0 is failed",
	"http.headers = {}":                 "nothing is added",
	"http.redirects = 0":                "none is followed",
	"http.redirect_hosts = []":          "they stay on the URL's host",
	"icmp.max_loss = 0":                 "none may be lost",
	"systemd.activating_grace = \"0s\"": "activating is failed",
	"systemd.max_restarts = 0":          "each restart is one too many",
}

// nothings are the ways to write nothing for a field of that type.
func nothings(of reflect.Type) []string {
	switch {
	case of == reflect.TypeFor[time.Duration]():
		return []string{`"0s"`}
	case of.Kind() == reflect.Pointer:
		return nothings(of.Elem())
	}
	switch of.Kind() {
	case reflect.Bool:
		return nil // false is as good as true
	case reflect.String:
		return []string{`""`}
	case reflect.Slice:
		return []string{"[]"}
	case reflect.Map:
		return []string{"{}"}
	case reflect.Struct: // which reads its value by itself
		return []string{`""`, "[]"}
	}
	return []string{"0"}
}

// withKey writes a key into a table, in the place of its value there if it has one.
func withKey(body, key, value string) string {
	lines := slices.DeleteFunc(strings.Split(body, "\n"), func(l string) bool { return strings.HasPrefix(l, key+" = ") })
	return strings.Join(append(lines, key+" = "+value), "\n") + "\n"
}

// refused gives what is said of a key, or else whether the text has no problem at all.
func refused(t *testing.T, text, key string) (p Problem, valid bool) {
	t.Helper()
	_, err := Parse("f", []byte(text))
	var ps Problems
	if errors.As(err, &ps); err != nil && len(ps) == 0 {
		t.Fatalf("%v is no Problems", err)
	}
	i := slices.IndexFunc(ps, func(p Problem) bool { return p.Key == key })
	if i < 0 {
		return Problem{}, len(ps) == 0
	}
	return ps[i], false
}

// TestEmpty: a key of any table that holds nothing is refused, with its place and a way out, unless nothing is
// something there.
func TestEmpty(t *testing.T) {
	seen := map[string]bool{}
	test := func(name, path, before, body, after string, into any) {
		for _, f := range tagged(reflect.ValueOf(into).Elem()) {
			for _, nothing := range nothings(f.value.Type()) {
				id := name + "." + f.key + " = " + nothing
				p, valid := refused(t, before+withKey(body, f.key, nothing)+after, path+"."+f.key)
				_, may := meant[id]
				leads := p.WayOut != "" || strings.HasPrefix(p.What, `must be "`) // one of some words
				seen[id] = true
				switch {
				case may && !valid:
					t.Errorf("%s is refused: %v", id, p)
				case !may && (p.What == "" || p.Line < 2 || p.Got != nothing || !leads):
					t.Errorf("%s beside %q: %v", id, body, p)
				}
			}
		}
	}
	const service = "[service.a]\nprefixes = [\"192.0.2.1/32\"]\n"
	const check = "[service.a.check.up]\ntype = \"route\"\n"
	for name, into := range plainTables {
		switch header := "[" + name + "]\n"; name {
		case "agent", "control":
			test(name, name, service+check+header, "", "", into)
		case "router", "router.degraded":
			for _, r := range routerTables {
				body, before := "", "[router]\n"+r+"\n"+header
				if name == "router" {
					body, before = r, header
				}
				test(name, name, "# line 1\n"+before, body, service+check, into)
			}
		case "service.a":
			test(name, name, "# line 1\n[service.a]\n", `prefixes = ["192.0.2.1/32"]`, check, into)
		case "service.a.group.g":
			test(name, name, service+check+"group = \"g\"\n"+header, "", "", into)
		case "service.a.check.up":
			test(name, name, service+header, `type = "route"`, "", into)
		}
	}
	for _, kind := range kinds.Names() {
		spec, _ := kinds.New(kind)
		test(kind, "service.a.check.up", service+"[service.a.check.up]\ntype = \""+kind+"\"\n", least[kind], "", spec)
	}
	for id := range meant {
		if !seen[id] {
			t.Errorf("%s is no key with nothing", id)
		}
	}
}

// TestEmptyWayOut: the way out is the default where there is one.
func TestEmptyWayOut(t *testing.T) {
	const head = "[service.a]\nprefixes = [\"192.0.2.1/32\"]\n[service.a.check.up]\n"
	for text, want := range map[string]string{
		"type = \"icmp\"\naddress = \"198.51.100.1\"\ncount = 0":            "f:6:1: service.a.check.up.count: has no effect when it is 0 (got 0), leave it out for 1",
		"type = \"ntp\"\nserver = \"127.0.0.1\"\nmax_root_distance = \"0\"": `f:6:1: service.a.check.up.max_root_distance: has no effect when it is 0 (got "0"), leave it out for "1.5s"`,
		"type = \"route\"\ntable = 0":                                       "f:5:1: service.a.check.up.table: has no effect when it is 0 (got 0), leave it out for 254",
		"type = \"file\"\npath = \"/a\"\nmax_age = \"0s\"":                  `f:6:1: service.a.check.up.max_age: has no effect when it is 0 (got "0s"), write a time such as "5m", or leave it out`,
		"type = \"file\"\npath = \"/a\"\ncontains = ''''''":                 `f:6:1: service.a.check.up.contains: has no effect when it is empty (got ''''''), write what is meant, or leave it out`,
	} {
		if _, err := Parse("f", []byte(head+text)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
