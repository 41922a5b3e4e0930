package config

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/health"
	"vouch/routers"
)

// exported compares Configs by everything that is in them.
var exported = cmp.Exporter(func(reflect.Type) bool { return true })

func parseDouble(t *testing.T, file, text string) *Config {
	t.Helper()
	cfg, err := double.parse(file, []byte(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return cfg
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestShowIsTheSame: what is shown parses to the same Config.
func TestShowIsTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.toml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg := parseDouble(t, file, read(t, file))
			var shown bytes.Buffer
			if err := showTOML(&shown, sections(cfg, doubleSpec)); err != nil {
				t.Fatal(err)
			}
			again := parseDouble(t, file, shown.String())
			if diff := cmp.Diff(cfg, again, exported); diff != "" {
				t.Errorf("-read +shown and read again:\n%s\n%s", diff, &shown)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	cfg := parseDouble(t, "vouch.toml", read(t, "testdata/good/kernel.toml"))
	want := &Config{
		File:    "vouch.toml",
		Agent:   Agent{Node: "apu01", StateFile: "/run/vouch/state.json", LogLevel: "info"},
		Control: Control{Socket: "/run/vouch/control.sock"},
		Router: Router{
			Daemon: "kernel", Method: "address", Interface: "anyc0.1",
			Timeout: time.Second, Deadline: 3 * time.Second, VerifyInterval: 5 * time.Second,
			RetryMin: 200 * time.Millisecond, RetryMax: 10 * time.Second,
		},
		Services: []Service{{
			Name:     "a",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.53/32")},
			Health:   health.Settings{Rise: 2, Fall: 3, Interval: time.Second, Longest: time.Second, Fast: 200 * time.Millisecond},
			OnStop:   "keep",
			Checks: []Check{{
				Name: "up", Type: "plain", Interval: time.Second, Timeout: time.Second, OnFail: "withdraw",
				Spec: &plainSpec{called: "a/up"},
			}},
		}},
	}
	if diff := cmp.Diff(want, cfg, exported); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRouterDefaults: what follows from each choice, and that what has no effect is empty.
func TestRouterDefaults(t *testing.T) {
	const rest = "[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.up]\ntype = \"plain\"\n[router]\n"
	const birdFile = "daemon = \"bird\"\nmethod = \"include\"\ninclude = \"/var/lib/vouch/vouch.conf\"\nstyle = \""
	times := Router{
		Timeout: time.Second, Deadline: 3 * time.Second, VerifyInterval: 5 * time.Second,
		RetryMin: 200 * time.Millisecond, RetryMax: 10 * time.Second,
	}
	frr := func(r *Router) {
		r.Daemon, r.Via, r.SocketDir, r.Vtysh = "frr", "auto", "/run/frr", "vtysh"
		r.Method, r.Protocol, r.Interface, r.Owner = "address", "ospf", "lo", "kernel"
	}
	bird := func(r *Router) {
		r.Daemon, r.Method, r.Interface, r.Via, r.Birdc, r.Birdc6, r.MinPeers = "bird", "address", "lo", "auto", "birdc", "birdc6", 1
	}
	auto := func(r *Router) {
		frr(r)
		bird(r)
		r.Daemon, r.Protocol = "auto", ""
	}
	include := func(style, symbol, symbol6 string) func(r *Router) {
		return func(r *Router) {
			r.Method, r.Interface, r.Style, r.Include = "include", "", style, "/var/lib/vouch/vouch.conf"
			r.Symbol, r.Symbol6 = symbol, symbol6
		}
	}
	protocol := func(r *Router) {
		r.Method, r.Interface, r.Symbol, r.Symbol6 = "protocol", "", "{service}", "{service}6"
	}
	bgp := func(method string) func(r *Router) {
		return func(r *Router) {
			r.Method, r.Protocol, r.Interface, r.Owner, r.MinPeers = method, "bgp", "", "", 1
		}
	}
	tests := []struct {
		written string
		changes []func(*Router)
	}{
		{"", []func(*Router){auto}},
		{`daemon = "auto"`, []func(*Router){auto}},
		{`protocol = "ospf"`, []func(*Router){auto, func(r *Router) { r.Protocol = "ospf" }}},
		{`via = "socket"`, []func(*Router){auto, func(r *Router) { r.Via, r.Vtysh, r.Birdc, r.Birdc6 = "socket", "", "", "" }}},
		{`method = "network"`, []func(*Router){frr, bgp("network"), func(r *Router) { r.Daemon = "auto" }}},
		{`method = "static"`, []func(*Router){frr, bgp("static"), func(r *Router) { r.Daemon, r.Protocol = "auto", "" }}},
		{`method = "protocol"`, []func(*Router){bird, protocol, func(r *Router) { r.Daemon = "auto" }}},
		{"method = \"include\"\ninclude = \"/var/lib/vouch/vouch.conf\"", []func(*Router){bird, include("switch", "{SERVICE}_OFF", "{SERVICE}_OFF"), func(r *Router) { r.Daemon = "auto" }}},

		{`daemon = "frr"`, []func(*Router){frr}},
		{"daemon = \"frr\"\nmethod = \"network\"", []func(*Router){frr, bgp("network")}},
		{"daemon = \"frr\"\nmethod = \"static\"", []func(*Router){frr, bgp("static")}},
		{"daemon = \"frr\"\nprotocol = \"bgp\"", []func(*Router){frr, func(r *Router) { r.Protocol, r.MinPeers = "bgp", 1 }}},
		{"daemon = \"frr\"\nvia = \"socket\"", []func(*Router){frr, func(r *Router) { r.Via, r.Vtysh = "socket", "" }}},
		{"daemon = \"frr\"\ntimeout = \"5s\"", []func(*Router){frr, func(r *Router) { r.Timeout, r.Deadline = 5*time.Second, 5*time.Second }}},
		{"daemon = \"frr\"\nretry_max = \"100ms\"", []func(*Router){frr, func(r *Router) { r.RetryMin, r.RetryMax = 100*time.Millisecond, 100*time.Millisecond }}},

		{`daemon = "bird"`, []func(*Router){bird}},
		{"daemon = \"bird\"\nmethod = \"protocol\"", []func(*Router){bird, protocol}},
		{birdFile + "list\"", []func(*Router){bird, include("list", "ANYCAST_PREFIXES", "ANYCAST_PREFIXES6")}},
		{birdFile + "list\"\nsymbol = \"X\"", []func(*Router){bird, include("list", "X", "X6")}},
		{birdFile + "list\"\nsymbol6 = \"Y\"", []func(*Router){bird, include("list", "ANYCAST_PREFIXES", "Y")}},
		{birdFile + "function\"", []func(*Router){bird, include("function", "match_route", "match_route")}},
		{birdFile + "function\"\nsymbol = \"f\"", []func(*Router){bird, include("function", "f", "f")}},
		{birdFile + "routes\"", []func(*Router){bird, include("routes", "vouch4", "vouch6")}},
		{birdFile + "routes\"\nsymbol = \"x\"", []func(*Router){bird, include("routes", "x", "x6")}},
		{birdFile + "list\"\n[router.degraded]\nsymbol = \"X\"", []func(*Router){bird, include("list", "ANYCAST_PREFIXES", "ANYCAST_PREFIXES6"),
			func(r *Router) { r.Degraded = Degraded{Symbol: "X", Symbol6: "X6"} }}},
		{birdFile + "switch\"\n[router.degraded]\nsymbol = \"X_{service}\"", []func(*Router){bird, include("switch", "{SERVICE}_OFF", "{SERVICE}_OFF"),
			func(r *Router) { r.Degraded = Degraded{Symbol: "X_{service}", Symbol6: "X_{service}"} }}},

		{`daemon = "kernel"`, []func(*Router){func(r *Router) { r.Daemon, r.Method, r.Interface = "kernel", "address", "lo" }}},
		{"daemon = \"program\"\nup = [\"true\"]\ndown = [\"/bin/false\", \"\"]", []func(*Router){func(r *Router) {
			r.Daemon, r.Up, r.Down = "program", Command{"true"}, Command{"/bin/false", ""}
			r.Timeout, r.Deadline = 10*time.Second, 10*time.Second
		}}},
	}
	for _, tt := range tests {
		want := times
		for _, change := range tt.changes {
			change(&want)
		}
		if diff := cmp.Diff(want, parseDouble(t, "vouch.toml", rest+tt.written).Router); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.written, diff)
		}
	}
}

func TestHoldDownDefaults(t *testing.T) {
	cfg := parseDouble(t, "vouch.toml", `
[router]
daemon = "frr"
[service.a]
prefixes = ["192.0.2.53/32"]
hold_down = "20s"
interval = "100ms"
[service.a.check.up]
type = "plain"`)
	want := health.Settings{
		Rise: 2, Fall: 3, Interval: 100 * time.Millisecond, Longest: 100 * time.Millisecond, Fast: 100 * time.Millisecond,
		HoldDown: 20 * time.Second, HoldDownMax: 200 * time.Second, HoldDownCalm: 10 * time.Minute,
	}
	if diff := cmp.Diff(want, cfg.Services[0].Health); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := cfg.Services[0].Checks[0].Timeout; got != 100*time.Millisecond {
		t.Errorf("timeout %s, want the interval", got)
	}
}

func TestFullIsReadAsWritten(t *testing.T) {
	cfg := parseDouble(t, "full.toml", read(t, "testdata/good/full.toml"))
	if got := cfg.Services[0].Name + " " + cfg.Services[1].Name; got != "held web" {
		t.Fatalf("services %s, want them by name", got)
	}
	web := cfg.Services[1]
	want := health.Settings{
		Rise: 5, Fall: 4, Interval: 10 * time.Second, Longest: 5 * time.Second, Fast: 500 * time.Millisecond,
		HoldDown: 30 * time.Second, HoldDownMax: 2 * time.Minute, HoldDownCalm: 5 * time.Minute,
		UnknownAfter: time.Minute, OnUnknown: health.Withdraw,
	}
	if diff := cmp.Diff(want, web.Health); diff != "" {
		t.Errorf("health: -want +got:\n%s", diff)
	}
	if web.Require != (health.Require{Count: 2}) || web.Groups["tls"] != (health.Require{Percent: 50}) {
		t.Errorf("require %v, group %v", web.Require, web.Groups["tls"])
	}
	var prefixes []string
	for _, p := range web.Prefixes {
		prefixes = append(prefixes, p.String())
	}
	if diff := cmp.Diff([]string{"192.0.2.80/32", "198.51.100.0/24", "2001:db8::80/128"}, prefixes); diff != "" {
		t.Errorf("prefixes: -want +got:\n%s", diff)
	}
	no := false
	spec := &probeSpec{
		shared: shared{netip.MustParseAddr("10.0.1.2")}, Target: "127.0.0.1:443", Tries: 3, Port: 8443, Load: 0.5, Tidy: &no,
		Names: []string{"a", "b\tc\"d\"\\é"}, Accept: acceptList{"x", "y"}, Level: 1,
		Env: map[string]string{"HOME": "/", "with space": "1"}, Limits: &limits{Most: 4}, valid: true,
	}
	if diff := cmp.Diff(spec, web.Checks[0].Spec, exported); diff != "" {
		t.Errorf("spec: -want +got:\n%s", diff)
	}
}

// TestShowJSON: the JSON has the shape and the values of the TOML.
func TestShowJSON(t *testing.T) {
	cfg := parseDouble(t, "full.toml", read(t, "testdata/good/full.toml"))
	var b bytes.Buffer
	if err := ShowJSON(&b, cfg); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Router  struct{ Timeout string }
		Service map[string]struct {
			Prefixes []string
			Require  any
			Group    map[string]struct{ Require string }
			Check    map[string]struct {
				Timeout string
				Env     map[string]string
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in:\n%s", err, &b)
	}
	web := got.Service["web"]
	seen := []any{got.Router.Timeout, len(web.Prefixes), web.Require, web.Group["tls"].Require, web.Check["slow"].Timeout, web.Check["first"].Env["HOME"]}
	if diff := cmp.Diff([]any{"500ms", 3, 2.0, "50%", "5s", "/"}, seen); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, &b)
	}
}

func TestShow(t *testing.T) {
	cfg := parseDouble(t, "vouch.toml", read(t, "testdata/good/kernel.toml"))
	var b strings.Builder
	if err := Show(&b, cfg); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, "testdata/kernel.shown"), b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestShowTellsWhatTheDriverSettles: above [router] stands which keys are empty without being idle.
func TestShowTellsWhatTheDriverSettles(t *testing.T) {
	const rest = "[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.up]\ntype = \"plain\"\n[router]\n"
	const note = "# Not set, so that the driver settles it: "
	for written, want := range map[string]string{
		"":                   note + "protocol, socket, socket6, peers.\n[router]",
		`peers = ["core1"]`:  note + "protocol, socket, socket6.\n[router]",
		`method = "static"`:  note + "protocol.\n[router]",
		`daemon = "frr"`:     "\n\n[router]",
		`daemon = "kernel"`:  "\n\n[router]",
		`method = "network"`: "\n\n[router]",
		"method = \"protocol\"\nsymbol = \"x\"\nsocket6 = \"/run/b6\"\npeers = [\"core1\"]": note + "socket.\n[router]",
	} {
		var b strings.Builder
		if err := showTOML(&b, sections(parseDouble(t, "vouch.toml", rest+written), doubleSpec)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", written, want, &b)
		}
	}
}

func TestLabels(t *testing.T) {
	cfg := parseDouble(t, "bird-protocol.toml", read(t, "testdata/good/bird-protocol.toml"))
	want := map[netip.Prefix]routers.Label{
		netip.MustParsePrefix("192.0.2.53/32"):    {Service: "dns", Symbol: "resolver"},
		netip.MustParsePrefix("192.0.2.54/32"):    {Service: "dns", Symbol: "resolver"},
		netip.MustParsePrefix("2001:db8::53/128"): {Service: "dns"},
		netip.MustParsePrefix("192.0.2.80/32"):    {Service: "web"},
		netip.MustParsePrefix("2001:db8::80/128"): {Service: "web", Symbol: "web_v6"},
	}
	if diff := cmp.Diff(want, cfg.Labels(), exported); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDegradedIsReadAsWritten: a check can degrade its service where there is a way to.
func TestDegradedIsReadAsWritten(t *testing.T) {
	for file, want := range map[string]Degraded{
		"frr-degraded.toml":  {Cost: 200},
		"frr-network.toml":   {RouteMap: "WORSE"},
		"frr-static.toml":    {Tag: 4294967295},
		"bird-protocol.toml": {Symbol: "{service}_worse", Symbol6: "{service}_worse6"},
		"bird-switch.toml":   {Symbol: "{SERVICE}_WORSE", Symbol6: "{SERVICE}_WORSE6"},
		"bird-routes.toml":   {Community: []string{"65001:666", "4200000000:0:4294967295"}, MED: 4294967295, Prepend: []uint32{4294967295, 1}, Metric2: 16777214},
		"bird-list.toml":     {Symbol: "WORSE_PREFIXES", Symbol6: "WORSE_PREFIXES6"},
		"program.toml":       {},
	} {
		cfg := parseDouble(t, file, read(t, "testdata/good/"+file))
		if diff := cmp.Diff(want, cfg.Router.Degraded); diff != "" {
			t.Errorf("%s: -want +got:\n%s", file, diff)
		}
		var soft int
		for _, s := range cfg.Services {
			for _, c := range s.Checks {
				if c.Counts() && c.Degrades() {
					t.Errorf("%s: %s of %s both withdraws and degrades", file, c.Name, s.Name)
				}
				if c.Degrades() {
					soft++
				}
			}
		}
		if soft == 0 {
			t.Errorf("%s: no check degrades", file)
		}
	}
}
