package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"vouch/checks"
	"vouch/checks/kinds"
)

// commentedOut finds the keys, and the one table, that the example shows commented out.
var commentedOut = regexp.MustCompile(`(?m)^#(\[router\.degraded\]|[a-z][a-z0-9_]* = )`)

// uncommented gives the example with them in force.
func uncommented() string { return commentedOut.ReplaceAllString(string(Example()), "$1") }

func TestExamplesAreValid(t *testing.T) {
	for name, text := range map[string][]byte{"example.toml": Example(), "minimal.toml": Minimal()} {
		cfg, err := Parse(name, text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var shown bytes.Buffer
		if err := Show(&shown, cfg); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(name, shown.Bytes())
		if err != nil {
			t.Fatalf("shown and read again: %v\n%s", err, &shown)
		}
		if diff := cmp.Diff(cfg, again, exported); diff != "" {
			t.Errorf("%s: -read +shown and read again:\n%s\n%s", name, diff, &shown)
		}
	}
}

// TestExampleUncommentedIsValid: for each daemon, method and style all of what the example shows is right,
// but for what has no effect there. There is nothing that has none anywhere.
func TestExampleUncommentedIsValid(t *testing.T) {
	idle := map[string]int{}
	variants := [][]string{
		{`daemon = "auto"`}, {`method = "network"`, `protocol = "bgp"`}, {`method = "static"`}, {`method = "protocol"`}, {`method = "include"`},
		{`daemon = "kernel"`}, {`daemon = "program"`},
		{`daemon = "vyos"`, `method = "kernel"`, `protocol = "bgp"`}, {`daemon = "vyos"`, `method = "static"`, `via = "config"`},
		{`method = "include"`, `style = "routes"`}, {`method = "include"`, `style = "list"`}, {`method = "include"`, `style = "function"`},
	}
	for _, v := range variants {
		text := uncommented()
		for _, with := range v {
			text = replaceKey(t, text, with)
		}
		text = withoutIdle(t, text, idle)
		cfg, err := Parse("example.toml", []byte(text))
		if err != nil {
			t.Errorf("%s:\n%v\n%s", v, err, text)
			continue
		}
		var shown bytes.Buffer
		if err := Show(&shown, cfg); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("example.toml", shown.Bytes())
		if err != nil {
			t.Fatalf("%s, shown and read again: %v\n%s", v, err, &shown)
		}
		if diff := cmp.Diff(cfg, again, exported); diff != "" {
			t.Errorf("%s: -read +shown and read again:\n%s\n%s", v, diff, &shown)
		}
	}
	for key, n := range idle {
		if n == len(variants) {
			t.Errorf("%s has no effect in any", key)
		}
	}
	if len(idle) < 25 {
		t.Errorf("only %d keys depend on others: %v", len(idle), idle)
	}
}

// replaceKey puts a key of the example's [router] with another value in place of that which is there.
func replaceKey(t *testing.T, text, with string) string {
	t.Helper()
	key, _, _ := strings.Cut(with, " ")
	line := regexp.MustCompile(`(?m)^` + key + ` = .*$`)
	at := line.FindStringIndex(text)
	if at == nil {
		t.Fatalf("the example has no key %s", key)
	}
	return text[:at[0]] + with + text[at[1]:]
}

// withoutIdle takes out the lines of keys that have no effect, and counts them. A table goes with all of
// its lines.
func withoutIdle(t *testing.T, text string, idle map[string]int) string {
	t.Helper()
	_, err := Parse("example.toml", []byte(text))
	var ps Problems
	errors.As(err, &ps)
	lines := strings.Split(text, "\n")
	for _, p := range ps {
		if !strings.HasPrefix(p.What, "has no effect ") {
			t.Errorf("%v", p)
			continue
		}
		idle[p.Key]++
		at := p.Line - 1
		if whole := strings.HasPrefix(lines[at], "["); !whole {
			lines[at] = ""
			continue
		}
		for lines[at] != "" {
			if key, _, isKey := strings.Cut(lines[at], " = "); isKey {
				idle[p.Key+"."+key]++
			}
			lines[at] = ""
			at++
		}
	}
	return strings.Join(lines, "\n")
}

// TestExampleShowsDefaults: what is commented out is the default, but for the keys that have none.
func TestExampleShowsDefaults(t *testing.T) {
	others := regexp.MustCompile(`(?m)^#(node|group|admin_group|unknown_after|on_unknown|hold_down_max|source|device|interface|interfaces|greeting|send|expect|env|unknown` +
		`|match|max_ttl|flags|nsid|serial_max_age|ca|cert|key|server_name|alpn|max_offset|max_age|contains` +
		`|headers|body|expect_body|expect_headers|redirect_hosts` +
		`|protocol|socket6?|peers|style|include6?|symbol6?|up|down|degrade|read|\[router\.degraded\]|cost|route_map|tag|metric|distance|save|community|med|prepend|metric2)( = |$).*$`)
	controlSocket := regexp.MustCompile(`(?m)^#(socket = "/run/vouch/)`)
	loopback := regexp.MustCompile(`(?m)^#interface = "lo" +# method address.*$`)
	text := controlSocket.ReplaceAllString(loopback.ReplaceAllString(string(Example()), `interface = "lo"`), "$1")
	text = others.ReplaceAllString(text, "")
	text = commentedOut.ReplaceAllString(text, "$1")
	want, err := Parse("example.toml", Example())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("example.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Errorf("-defaults +as the example shows them:\n%s", diff)
	}
}

// TestExampleCoversEveryKey: every key of the schema and of each kind is in the example.
func TestExampleCoversEveryKey(t *testing.T) {
	var written struct {
		Agent, Control, Router map[string]any
		Service                map[string]map[string]any
	}
	if _, err := toml.Decode(uncommented(), &written); err != nil {
		t.Fatal(err)
	}
	covers(t, "agent", written.Agent, Agent{})
	covers(t, "control", written.Control, Control{})
	covers(t, "router", written.Router, Router{})
	covers(t, "router.degraded", written.Router["degraded"].(map[string]any), Degraded{})
	missing := map[string][]string{} // by type: what none of its checks has
	for _, s := range written.Service {
		covers(t, "service", s, serviceTable{})
		for _, g := range s["group"].(map[string]any) {
			covers(t, "group", g.(map[string]any), groupTable{})
		}
		common := map[string]any{}
		for _, c := range s["check"].(map[string]any) {
			check := c.(map[string]any)
			for key, v := range check {
				common[key] = v
			}
			kind := check["type"].(string)
			spec, ok := kinds.New(kind)
			if !ok {
				t.Fatalf("there is no type %q", kind)
			}
			lacks := missingKeys(check, reflect.ValueOf(spec).Elem().Interface())
			if kind != "dns" { // which shows those that all have
				origin := missingKeys(nil, checks.Origin{})
				lacks = slices.DeleteFunc(lacks, func(key string) bool { return slices.Contains(origin, key) })
			}
			if before, ok := missing[kind]; ok {
				lacks = slices.DeleteFunc(lacks, func(key string) bool { return !slices.Contains(before, key) })
			}
			missing[kind] = lacks
		}
		covers(t, "check", common, checkTable{})
	}
	for _, kind := range kinds.Names() {
		if lacks, ok := missing[kind]; !ok || len(lacks) > 0 {
			t.Errorf("checks of type %s: %q is not in the example", kind, lacks)
		}
	}
}

func missingKeys(in map[string]any, of any) (keys []string) {
	for _, f := range tagged(reflect.ValueOf(of)) {
		if _, ok := in[f.key]; !ok {
			keys = append(keys, f.key)
		}
	}
	return keys
}

func covers(t *testing.T, table string, in map[string]any, of any) {
	t.Helper()
	if len(tagged(reflect.ValueOf(of))) == 0 {
		t.Fatalf("%s: %T has no keys", table, of)
	}
	for _, key := range missingKeys(in, of) {
		t.Errorf("%s.%s is not in the example", table, key)
	}
}

// TestExampleLines: an editor of 110 columns shows all of it.
func TestExampleLines(t *testing.T) {
	for _, text := range [][]byte{Example(), Minimal()} {
		for i, line := range strings.Split(string(text), "\n") {
			if len(line) > 110 || strings.TrimRight(line, " \t") != line {
				t.Errorf("line %d is %d long, or ends in a blank: %q", i+1, len(line), line)
			}
		}
	}
}

// TestRouteToManagedPrefix: the way to a managed prefix, or to a part of one, leads to this node itself, whichever way it is
// announced. A larger network than a managed one is another thing.
func TestRouteToManagedPrefix(t *testing.T) {
	for _, router := range []string{"daemon = \"frr\"\nmethod = \"network\"", "daemon = \"kernel\""} {
		text := "[router]\n" + router + `
[service.a]
prefixes = ["192.0.2.0/32", "2001:db8::53/128"]
[service.a.check.way]
type = "route"
destinations = ["192.0.2.0/24", "192.0.2.0", "198.51.100.1", "2001:db8::53/128"]
`
		_, err := Parse("vouch.toml", []byte(text))
		var ps Problems
		if !errors.As(err, &ps) || len(ps) != 2 || ps[0].Got != `"192.0.2.0"` || ps[1].Got != `"2001:db8::53/128"` || !strings.HasPrefix(ps[0].What,
			"looks for a route to the managed prefix 192.0.2.0/32, which leads to this node itself while it is announced") {
			t.Errorf("%s: %v", router, err)
		}
	}
}

// TestRealKinds: the problems of the real kinds, and those of asking a managed prefix, come with the
// place of the key.
func TestRealKinds(t *testing.T) {
	const text = `[router]
daemon = "frr"
[service.a]
prefixes = ["192.0.2.53/32", "2001:db8::53/128"]
[service.a.check.dns]
type = "dns"
server = "192.0.2.53"
qname = "example.com"
[service.a.check.tcp]
type = "tcp"
address = "[2001:db8::53]:443"
source = "2001:db8::53"
[service.a.check.wrong]
type = "dns"
server = "127.0.0.1"
accept = ["NOERROR", "NOPE"]
[service.a.check.exec]
type = "exec"
env = { A = "1", ANYCAST_CHECK = "2" }
`
	_, err := Parse("vouch.toml", []byte(text))
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatalf("got %v, want Problems", err)
	}
	var got []string
	for _, p := range ps {
		got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Col, p.Key))
	}
	want := []string{
		"7:1 service.a.check.dns.server",
		"8:1 service.a.check.dns.qname",
		"11:1 service.a.check.tcp.address",
		"12:1 service.a.check.tcp.source",
		"16:22 service.a.check.wrong.accept",
		"17:1 service.a.check.exec.command",
		"19:18 service.a.check.exec.env.ANYCAST_CHECK",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places: -want +got:\n%s\n%v", diff, err)
	}
}
