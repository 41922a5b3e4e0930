package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/health"
)

func TestTiming(t *testing.T) {
	const ms = time.Millisecond
	rules := health.Settings{Rise: 3, Fall: 4, Interval: time.Second, Fast: 200 * ms}
	check := func(interval, timeout time.Duration, onFail string) Check {
		return Check{Interval: interval, Timeout: timeout, OnFail: onFail}
	}
	tests := []struct {
		name   string
		rules  health.Settings
		checks []Check
		want   Timing
	}{
		{"one check", rules, []Check{check(time.Second, time.Second, "withdraw")}, Timing{1600 * ms, 5 * time.Second, 1400 * ms}},
		{"timeout below fast", rules, []Check{check(time.Second, 100*ms, "withdraw")}, Timing{1600 * ms, 1700 * ms, 1400 * ms}},
		{"timeout above interval", rules, []Check{check(time.Second, 3*time.Second, "withdraw")}, Timing{1600 * ms, 13 * time.Second, 3400 * ms}},
		{"the slowest counts", rules, []Check{check(time.Second, time.Second, "withdraw"), check(5*time.Second, 10*ms, "withdraw")}, Timing{5600 * ms, 5610 * ms, 5400 * ms}},
		{"warnings do not", rules, []Check{check(time.Second, time.Second, "withdraw"), check(time.Minute, time.Minute, "warn")}, Timing{1600 * ms, 5 * time.Second, 1400 * ms}},
		{"one round", health.Settings{Rise: 1, Fall: 1, Interval: time.Second, Fast: 200 * ms}, []Check{check(time.Second, 500*ms, "withdraw")}, Timing{time.Second, 1500 * ms, time.Second}},
	}
	for _, tt := range tests {
		if got := (Service{Health: tt.rules, Checks: tt.checks}).Timing(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDiff(t *testing.T) {
	const base = `
[router]
daemon = "frr"
[service.gone]
prefixes = ["192.0.2.1/32"]
[service.gone.check.up]
type = "plain"
[service.kept]
prefixes = ["192.0.2.2/32"]
[service.kept.check.up]
type = "probe"
target = "127.0.0.1:53"
[service.moved]
prefixes = ["192.0.2.3/32", "192.0.2.4/32"]
[service.moved.check.up]
type = "plain"
`
	from := parseDouble(t, "vouch.toml", base)
	same := parseDouble(t, "vouch.toml", base)
	for _, c := range Diff(from, same).Services {
		if c.Change != Same {
			t.Errorf("%s: %s, want same", c.Name, c.Change)
		}
	}
	to := parseDouble(t, "vouch.toml", strings.NewReplacer("gone", "new", "192.0.2.3/32", "192.0.2.5/32", "127.0.0.1:53", "127.0.0.1:54",
		`daemon = "frr"`, "daemon = \"frr\"\ntimeout = \"2s\"\n[agent]\nstate_file = \"/run/s\"").Replace(base))
	want := Changes{
		Agent: true, Router: true,
		Services: []ServiceChange{
			{Name: "gone", Change: Removed},
			{Name: "kept", Change: RulesChanged},
			{Name: "moved", Change: PrefixesChanged},
			{Name: "new", Change: Added},
		},
	}
	if diff := cmp.Diff(want, Diff(from, to), exported); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	other := parseDouble(t, "vouch.toml", base+"[control]\ngroup = \"vouch\"\n[agent]\nlog_level = \"debug\"\n")
	if got := Diff(from, other); !got.Control || !got.Agent || got.Router {
		t.Errorf("control and log level: got %+v", got)
	}
}

// TestDiffSymbols: a prefix that stays and goes by another name in BIRD's configuration is told, be it
// because its service is called otherwise.
func TestDiffSymbols(t *testing.T) {
	const base = `
[router]
method = "include"
include = "/var/lib/vouch/vouch.conf"
style = "STYLE"
[service.a]
prefixes = ["192.0.2.1/32", "2001:db8::1/128"]
[service.a.check.up]
type = "plain"
[service.b]
prefixes = ["192.0.2.2/32"]
[service.b.check.up]
type = "plain"
`
	v4, v6 := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::1/128")
	own := strings.NewReplacer("[service.a]\n", "[service.a]\nsymbol = \"x\"\n")
	renamed := strings.NewReplacer("service.a", "service.c")
	moved := strings.NewReplacer("192.0.2.1/32", "192.0.2.3/32", "[service.a]\n", "[service.a]\nsymbol = \"x\"\n")
	for _, tt := range []struct {
		name, style string
		change      *strings.Replacer
		want        []netip.Prefix
	}{
		{"nothing", "switch", strings.NewReplacer(), nil},
		{"a symbol of its own", "switch", own, []netip.Prefix{v4}},
		{"a symbol of its own, in a list", "list", own, []netip.Prefix{v4}},
		{"the service's name", "switch", renamed, []netip.Prefix{v4, v6}},
		{"the service's name, in a list of all", "list", renamed, nil},
		{"a symbol of its own, and the prefix", "switch", moved, nil},
	} {
		text := strings.Replace(base, "STYLE", tt.style, 1)
		from, to := parseDouble(t, "vouch.toml", text), parseDouble(t, "vouch.toml", tt.change.Replace(text))
		got := Diff(from, to)
		if diff := cmp.Diff(tt.want, got.Symbols, exported); diff != "" || got.Router {
			t.Errorf("%s: router %t, -want +got:\n%s", tt.name, got.Router, diff)
		}
	}
	frr := strings.Replace(strings.Replace(base, "include", "network", 1), "include = \"/var/lib/vouch/vouch.conf\"\nstyle = \"STYLE\"\n", "", 1)
	if got := Diff(parseDouble(t, "vouch.toml", frr), parseDouble(t, "vouch.toml", renamed.Replace(frr))); got.Symbols != nil {
		t.Errorf("with FRR: %v", got.Symbols)
	}
}

// TestIncludeIsNotTheConfigurationItself: what BIRD includes would overwrite what vouch reads.
func TestIncludeIsNotTheConfigurationItself(t *testing.T) {
	const text = "[router]\nmethod = \"include\"\ninclude = \"/etc/vouch/a.toml\"\n[service.a]\nprefixes = [\"192.0.2.1/32\"]\n[service.a.check.up]\ntype = \"plain\"\n"
	const want = `/etc/vouch/a.toml:3:1: router.include: is another file of vouch's as well (got "/etc/vouch/a.toml"), name a file of its own, such as "/var/lib/vouch/vouch.conf"`
	if _, err := double.parse("/etc/vouch/a.toml", []byte(text)); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	parseDouble(t, "/etc/vouch/b.toml", text)
}

func TestClosest(t *testing.T) {
	words := []string{"fall", "fast", "interval", "rise", "prefixes", "hold_down", "hold_down_max"}
	for got, want := range map[string]string{
		"fal": "fall", "fsat": "fast", "intervall": "interval", "holddown": "hold_down", "hold-down-max": "hold_down_max",
		"prefix": "prefixes", "raise": "rise", "timeout": "", "x": "", "": "",
	} {
		if w := closest(got, words); w != want {
			t.Errorf("closest to %q is %q, want %q", got, w, want)
		}
	}
}

func TestAlternatives(t *testing.T) {
	for want, words := range map[string][]string{"": nil, `"a"`: {"a"}, `"a" or "b"`: {"a", "b"}, `"a", "b" or "c"`: {"a", "b", "c"}} {
		if got := alternatives(words); got != want {
			t.Errorf("%v: %s, want %s", words, got, want)
		}
	}
}

// TestLocal: groups that are not there are found, with their place as far as the file can be read.
func TestLocal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "vouch.toml")
	if err := os.WriteFile(file, []byte("[control]\ngroup = \"no-such-group\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const wayOut = `: there is no such group (got "no-such-group"), create it (groupadd --system no-such-group) or name another`
	for want, c := range map[string]Config{
		"":                                    {File: file},
		file + ":2:1: control.group" + wayOut: {File: file, Control: Control{Group: "no-such-group", AdminGroup: "root"}},
		"gone: control.admin_group" + wayOut:  {File: "gone", Control: Control{Group: "root", AdminGroup: "no-such-group"}},
	} {
		if got := c.Local().Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	large, pipe := filepath.Join(dir, "large.toml"), filepath.Join(dir, "pipe.toml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# far too long\n", 1<<17)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent.toml")
	for path, want := range map[string]string{
		absent: absent + ": cannot be read: no such file or directory, name another file, or write this one: vouch config example prints a commented one",
		dir:    dir + ": cannot be read: is a directory, name the file in it",
		large:  large + ": cannot be read: is larger than 1024 KiB, name the configuration file",
	} {
		_, err := Load(path)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		var ps Problems
		if !errors.As(err, &ps) || len(ps) != 1 {
			t.Errorf("%s: %T is not one problem", path, err)
		}
	}
	if _, err := Load(pipe); err == nil { // it comes back, and with an error
		t.Error("a named pipe without a writer was read")
	}
	if got := unreadable("x", syscall.EACCES).WayOut; !strings.Contains(got, "agent's user") {
		t.Errorf("permission denied: way out %q", got)
	}
}

func TestHostNameThatDoesNotServe(t *testing.T) {
	const text = "[router]\ndaemon = \"kernel\"\n[service.a]\nprefixes = [\"192.0.2.1/32\"]\n[service.a.check.up]\ntype = \"plain\"\n"
	for want, host := range map[string]func() (string, error){
		`vouch.toml:1:1: agent.node: is not set, and the host's name "(none)" must be up to 253 letters, digits, ".", "_" and "-", write node = "NAME" in [agent]`: func() (string, error) { return "(none)", nil },
		`vouch.toml:1:1: agent.node: is not set, and the host's name cannot be read: no, write node = "NAME" in [agent]`:                                           func() (string, error) { return "", errors.New("no") },
	} {
		p := double
		p.hostname = host
		if _, err := p.parse("vouch.toml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if _, err := p.parse("vouch.toml", []byte(text+"[agent]\nnode = \"apu01\"\n")); err != nil {
			t.Errorf("with agent.node: %v", err)
		}
	}
}

// FuzzParse: no text makes it panic; each is a Config or has problems with a place in it.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := double.parse("f", data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("both or none of %v and %v", cfg, err)
		}
		var ps Problems
		if err != nil && (!errors.As(err, &ps) || len(ps) == 0) {
			t.Fatalf("%T is no Problems", err)
		}
		for _, p := range ps {
			if p.Line < 1 || p.Col < 1 || p.What == "" || p.Key == "" || strings.Contains(p.Error(), "\n") {
				t.Errorf("problem %#v", p)
			}
		}
	})
}

// TestLocalChecks: what a check misses on this machine is told with its place, and is news in a reload only
// when the configuration before did not have it.
func TestLocalChecks(t *testing.T) {
	write := func(source string) *Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "vouch.toml")
		text := "[router]\ndaemon = \"kernel\"\n[service.a]\nprefixes = [\"192.0.2.53/32\"]\n[service.a.check.dns]\ntype = \"dns\"\nserver = \"127.0.0.1\"\nsource = \"" + source + "\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	well, ill, other := write("127.0.0.1"), write("198.51.100.7"), write("198.51.100.8")
	if ps := well.Local(); len(ps) > 0 {
		t.Errorf("well: %v", ps)
	}
	want := ill.File + `:8:1: service.a.check.dns.source: the address is not on this node, or not usable yet (got "198.51.100.7")`
	if got := ill.Local().Error(); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		old, now *Config
		news     int
	}{{well, well, 0}, {well, ill, 1}, {ill, ill, 0}, {other, ill, 1}, {ill, well, 0}} {
		if ps := c.now.LocalNews(c.old); len(ps) != c.news {
			t.Errorf("news %v, want %d", ps, c.news)
		}
	}
}
