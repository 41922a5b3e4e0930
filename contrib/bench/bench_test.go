package main

import (
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
	"vouch/routers/lab"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   sample
		want float64
	}{
		{nil, 0},
		{sample{3}, 3},
		{sample{9, 1, 2}, 2},
		{sample{9, 1, 2, 4}, 3},
	} {
		before := append(sample(nil), c.of...)
		if got := c.of.median(); got != c.want {
			t.Errorf("median of %v: got %v, want %v", before, got, c.want)
		}
		if d := cmp.Diff(before, c.of); d != "" {
			t.Errorf("median changed the sample: %s", d)
		}
	}
}

func TestTimed(t *testing.T) {
	n := 0
	c, err := timed(3, -1, func() error { n++; return nil }) // -1: no such clock
	if err != nil || n != 3 || len(c.Wall) != 3 || c.CPU != 0 {
		t.Errorf("%d calls, %+v, %v", n, c, err)
	}
	c, err = timed(3, -1, func() error { return os.ErrNotExist })
	if err != os.ErrNotExist || len(c.Wall) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCostOfEach(t *testing.T) {
	if got := (cost{Wall: sample{1, 1, 1, 1}, CPU: 10 * time.Millisecond}).each(); len(got) != 1 || got[0] != 2.5 {
		t.Errorf("got %v, want 2.5", got)
	}
	if got := (cost{CPU: time.Second}).each(); got != nil {
		t.Errorf("of no run: got %v", got)
	}
}

func TestReport(t *testing.T) {
	r := report{part: "query"}
	own := r.add("socket", "ms", sample{2, 1, 3})
	r.instead(own, "vtysh", sample{50, 70})
	r.instead(row{Unit: "ms"}, "nothing to compare with", nil)
	want := []row{
		{"query", "socket", "ms", 3, 2, 1, 3, 0, ""},
		{"query", "  instead: vtysh", "ms", 2, 60, 50, 70, 30, ""},
		{"query", "  instead: nothing to compare with", "ms", 0, 0, 0, 0, 0, ""},
	}
	if d := cmp.Diff(want, r.rows); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 0.0621: "0.062", 1.234: "1.23", 56.78: "56.8", 1234.5: "1234", math.Pi: "3.14"} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

func TestPrintTable(t *testing.T) {
	var b strings.Builder
	rows := []row{
		{"a: first", "socket", "ms", 3, 2, 1, 3, 0, ""},
		{"a: first", "  instead: vtysh", "ms", 2, 60, 50, 70.5, 30.04, ""},
		{"b: second", "lost", "queries", 1, 0, 0, 0, 0, ""},
		{"b: second", "away", "ms", 0, 0, 0, 0, 0, "1 of 2 runs failed: it hung\n1 of 2 runs were not made"},
	}
	if err := printAll(&b, machine{CPUs: 2, FRR: "8.4.4", Go: "go1.26"}, rows, false); err != nil {
		t.Fatal(err)
	}
	want := `
a: first             runs    median       min       max  unit        ratio
  socket                3         2         1         3  ms
    instead: vtysh      2        60        50      70.5  ms         30.0 x

b: second            runs    median       min       max  unit        ratio
  lost                  1         0         0         0  queries
  away                  0         -         -         -  ms
    ! 1 of 2 runs failed: it hung
      1 of 2 runs were not made

2 CPUs, load unknown, FRR 8.4.4, go1.26
ratio: the median of what would be used instead, as a multiple of vouch's above it
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

func TestPrintJSON(t *testing.T) {
	var b strings.Builder
	rows := []row{{"a", "socket", "ms", 3, 2, 1, 3, 0, ""}, {"a", "away", "ms", 0, 0, 0, 0, 0, "it hung"}}
	if err := printAll(&b, machine{CPUs: 2}, rows, true); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine machine
		Rows    []row
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rows, got.Rows); d != "" || got.Machine.CPUs != 2 {
		t.Errorf("got %+v: %s", got, d)
	}
}

func TestUsageOf(t *testing.T) {
	const stat = "42 (a ) (name) S 1 42 42 0 -1 4194560 1500 0 0 0 17 25 0 0 20 0 9 0 3600 1268219904 4000 18446744073709551615\n"
	const text = "Name:\ta\nVmRSS:\t   16000 kB\nRssAnon:\t    5000 kB\n"
	got, err := usageOf(stat, text)
	want := usage{cpu: 420 * time.Millisecond, resident: 16.384, private: 5.12}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, c := range map[string][2]string{
		"cut short": {"42 (a) S 1", text}, "no number": {strings.Replace(stat, " 17 ", " x ", 1), text}, "a dead process": {stat, "Name:\ta\n"},
	} {
		if _, err := usageOf(c[0], c[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestUsedOfThisProcess(t *testing.T) {
	u, err := used(os.Getpid())
	if err != nil || u.resident < 1 || u.private > u.resident {
		t.Errorf("got %+v, %v", u, err)
	}
}

const told = `{"seq":1,"time":"2026-03-01T12:00:00Z","level":"info","kind":"decision","service":"resolver","reason":"serving","text":"announced"}
{"seq":2,"time":"2026-03-01T12:00:01Z","kind":"decision","text":"withdrawn"}
{"seq":3,"time":"2026-03-01T12:00:02Z","kind":"stage","prefix":"10.0.0.1/32","stage":"absent"}
{"seq":4,"time":"2026-03-01T12:00:03Z","kind":"stage","prefix":"10.0.0.1/32","stage":"absent"}
{"seq":5,"time":"2026-03-01T12:00:04Z","kind":"stage","prefix":"10.0.0.2/32","stage":"configured"}
{"seq":6,"time":"2026-03-01T12:00:05Z","kind":"stage","prefix":"10.0.0.2/32","stage":"absent"}
`

func TestEvents(t *testing.T) {
	es, err := readEvents(told)
	if err != nil || len(es) != 6 {
		t.Fatalf("%d events, %v", len(es), err)
	}
	at := func(second int) time.Time { return time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC) }
	for _, c := range []struct {
		what      string
		got, want time.Time
	}{
		{"a decision at or after", decision(es, at(1)), at(1)},
		{"no later decision", decision(es, at(2)), time.Time{}},
		{"the first of one prefix", staged(es, at(0), 1, routers.Absent), at(2)},
		{"the last of two prefixes", staged(es, at(0), 2, routers.Absent), at(5)},
		{"after a time", staged(es, at(3), 1, routers.Absent), at(3)},
		{"not three prefixes", staged(es, at(0), 3, routers.Absent), time.Time{}},
	} {
		if !c.got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	if _, err := readEvents(told + "{"); err == nil {
		t.Error("half an object is no error")
	}
}

func TestConfiguration(t *testing.T) {
	got := configuration("/d", "/s", service{name: "resolver", prefixes: []netip.Prefix{lab.Service, lab.Service6}, timing: "rise = 1",
		checks: check("resolver", "route", "table = 100")})
	want := `[agent]
state_file = "/d/state.json"

[control]
socket = "/d/control.sock"

[router]
daemon = "frr"
method = "address"
socket_dir = "/s"

[service.resolver]
prefixes = ["10.53.53.53/32", "2001:db8:53::53/128"]
rise = 1

[service.resolver.check.route]
type = "route"
table = 100

`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
}

func TestReached(t *testing.T) {
	for _, c := range []struct {
		stage routers.Stage
		want  routers.Want
		ok    bool
	}{
		{routers.Advertised, routers.Announced, true}, {routers.Selected, routers.Announced, false}, {routers.Unknown, routers.Announced, false},
		{routers.Absent, routers.Withdrawn, true}, {routers.Configured, routers.Withdrawn, false}, {routers.Unknown, routers.Withdrawn, false},
	} {
		if got := reached(c.stage, c.want, routers.Advertised); got != c.ok {
			t.Errorf("%s wanted %s: got %t", c.stage, c.want, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "vouch")
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{vouch: missing, runs: 0}, "-runs 0: must be at least 1"},
		{options{vouch: missing, runs: 1, only: "quer"}, "-only quer: no such part: name one of query, change, frr, bird, drivers, core, fault, round, checks, fleet, idle, loss"},
		{options{vouch: missing, runs: 1}, "build it with `make build`, or name it with -vouch"},
	} {
		if _, err := newBench(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	if got := choose(""); len(got) != len(parts) {
		t.Errorf("all: %d of %d", len(got), len(parts))
	}
	if got := choose("frr"); len(got) != 1 || got[0].name != "frr" {
		t.Errorf("frr: got %v", got)
	}
}

func TestFew(t *testing.T) {
	for runs, want := range map[int]int{1: 1, 3: 3, 6: 3, 30: 10} {
		if got := (&bench{runs: runs}).few(); got != want {
			t.Errorf("%d runs: got %d, want %d", runs, got, want)
		}
	}
}

// The four probes ask what a node of the lab has; their specs at least must be right.
func TestFourProbes(t *testing.T) {
	greeter, stop, err := greet()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ps, err := fourProbes(greeter)
	if err != nil || len(ps) != 4 {
		t.Fatalf("%d probes, %v", len(ps), err)
	}
	if err := ps[3].Checker.Check(t.Context()); err != nil {
		t.Errorf("the greeting: %v", err)
	}
}
