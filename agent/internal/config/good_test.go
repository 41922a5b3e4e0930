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
	if err != nil || len(files) < 4 {
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

func TestFRRDefaults(t *testing.T) {
	const frr = "[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.up]\ntype = \"plain\"\n[router]\ndaemon = \"frr\"\n"
	base := Router{
		Daemon: "frr", Via: "auto", SocketDir: "/run/frr", Vtysh: "vtysh",
		Timeout: time.Second, Deadline: 3 * time.Second, VerifyInterval: 5 * time.Second,
		RetryMin: 200 * time.Millisecond, RetryMax: 10 * time.Second,
	}
	tests := []struct {
		written string
		change  func(*Router)
	}{
		{"", func(r *Router) { r.Method, r.Protocol, r.Interface = "address", "ospf", "lo" }},
		{`method = "network"`, func(r *Router) { r.Method, r.Protocol, r.MinPeers = "network", "bgp", 1 }},
		{`method = "static"`, func(r *Router) { r.Method, r.Protocol, r.MinPeers = "static", "bgp", 1 }},
		{`protocol = "bgp"`, func(r *Router) { r.Method, r.Protocol, r.Interface, r.MinPeers = "address", "bgp", "lo", 1 }},
		{`via = "socket"`, func(r *Router) {
			r.Method, r.Protocol, r.Interface, r.Via, r.Vtysh = "address", "ospf", "lo", "socket", ""
		}},
		{`timeout = "5s"`, func(r *Router) {
			r.Method, r.Protocol, r.Interface, r.Timeout, r.Deadline = "address", "ospf", "lo", 5*time.Second, 5*time.Second
		}},
		{`retry_max = "100ms"`, func(r *Router) {
			r.Method, r.Protocol, r.Interface = "address", "ospf", "lo"
			r.RetryMin, r.RetryMax = 100*time.Millisecond, 100*time.Millisecond
		}},
	}
	for _, tt := range tests {
		want := base
		tt.change(&want)
		if diff := cmp.Diff(want, parseDouble(t, "vouch.toml", frr+tt.written).Router); diff != "" {
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
