package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"vouch/checks/kinds"
)

// uncommented gives the example with the keys in force that it shows commented out.
func uncommented() string {
	return regexp.MustCompile(`(?m)^#([a-z_]+ = )`).ReplaceAllString(string(Example()), "$1")
}

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

// TestExampleUncommentedIsValid: what the example shows is right, all of it together. Only min_peers
// has no effect beside the protocol that is shown.
func TestExampleUncommentedIsValid(t *testing.T) {
	_, err := Parse("example.toml", []byte(uncommented()))
	want := regexp.MustCompile(`^example\.toml:\d+:1: router\.min_peers: has no effect with protocol ospf \(got 1\), remove it$`)
	if err == nil || !want.MatchString(err.Error()) {
		t.Fatalf("want only the problem of min_peers, got:\n%v", err)
	}
	text := strings.Replace(uncommented(), "min_peers = 1\n", "", 1)
	cfg, err := Parse("example.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := Show(&shown, cfg); err != nil {
		t.Fatal(err)
	}
	again, err := Parse("example.toml", shown.Bytes())
	if err != nil {
		t.Fatalf("shown and read again: %v\n%s", err, &shown)
	}
	if diff := cmp.Diff(cfg, again, exported); diff != "" {
		t.Errorf("-read +shown and read again:\n%s\n%s", diff, &shown)
	}
}

// TestExampleShowsDefaults: what is commented out is the default, but for the keys that have none.
func TestExampleShowsDefaults(t *testing.T) {
	others := regexp.MustCompile(`(?m)^#(node|group|admin_group|min_peers|unknown_after|on_unknown|hold_down_max|source|interface|send|expect|env|unknown) = .*$`)
	loopback := regexp.MustCompile(`(?m)^#interface = "lo" +# method address.*$`)
	text := loopback.ReplaceAllString(string(Example()), `interface = "lo"`)
	text = others.ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?m)^#([a-z_]+ = )`).ReplaceAllString(text, "$1")
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
	types := map[string]bool{}
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
			missing := missingKeys(check, reflect.ValueOf(spec).Elem().Interface())
			types[kind] = types[kind] || len(missing) == 0
		}
		covers(t, "check", common, checkTable{})
	}
	for _, kind := range kinds.Names() {
		if !types[kind] {
			t.Errorf("no check of type %s has all its keys", kind)
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
