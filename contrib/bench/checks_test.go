package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/checks/kinds"
)

func TestContestRows(t *testing.T) {
	var r report
	c := contest{Name: "dns, tcp", Rival: []string{"dig", "+tcp"}}
	r.contest(c, effort{Own: cost{Wall: sample{2, 2}, CPU: 2 * time.Millisecond}, Rival: cost{Wall: sample{20}, CPU: 10 * time.Millisecond}, Objects: 59, Bytes: 6500})
	r.contest(c, effort{Own: cost{Wall: sample{2, 2}}, Missing: "dig is not installed"})
	c.Lacks = "there is no server"
	r.contest(c, effort{})
	want := []row{
		{"", "dns, tcp", "ms", 2, 2, 2, 2, 0, ""},
		{"", "  instead: dig", "ms", 1, 20, 20, 20, 10, ""},
		{"", "  processor time", "ms CPU", 1, 1, 1, 1, 0, ""},
		{"", "  instead: dig", "ms CPU", 1, 10, 10, 10, 10, ""},
		{"", "  allocated", "kB", 1, 6.5, 6.5, 6.5, 0, ""},
		{"", "  in so many pieces", "objects", 1, 59, 59, 59, 0, ""},
	}
	if d := cmp.Diff(want, r.rows[:len(want)]); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if got := r.rows[len(want)+1]; got.Lacks != "dig is not installed" || got.Runs != 0 {
		t.Errorf("without the program: %+v", got)
	}
	if got := r.rows[len(r.rows)-1]; got.Lacks != "there is no server" || got.Runs != 0 || got.What != "dns, tcp" {
		t.Errorf("without the server: %+v", got)
	}
}

// Each kind is measured, by a table that is right.
func TestContestsHaveEachKind(t *testing.T) {
	l := loneGround(t)
	missing := map[string]bool{}
	for _, kind := range kinds.Names() {
		missing[kind] = true
	}
	for _, c := range l.contests() {
		delete(missing, c.Kind)
		if _, err := parse(c.Kind, c.TOML); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if c.called() == "" {
			t.Errorf("%s: against what?", c.Name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not measured: %v", missing)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{"nosuch": "no kind", "tcp:address": "toml", "tcp:nosuch = 1": "unknown keys [nosuch]", "tcp:": "address is missing"} {
		kind, table, _ := strings.Cut(text, ":")
		if _, err := parse(kind, table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A worker measures a check and a program; a check that fails, or a program, is no measurement.
func TestContend(t *testing.T) {
	for name, c := range map[string]struct {
		contest
		err, missing string
	}{
		"both":            {contest: contest{Kind: "exec", TOML: `command = ["true"]`, Rival: []string{"true"}}},
		"no such program": {contest: contest{Kind: "exec", TOML: `command = ["true"]`, Rival: []string{"vouch-no-such-program"}}, missing: "vouch-no-such-program is not installed"},
		"program fails":   {contest: contest{Kind: "exec", TOML: `command = ["true"]`, Rival: []string{"false"}}, err: `["false"]: exit status 1`},
		"check fails":     {contest: contest{Kind: "exec", TOML: `command = ["false"]`, Rival: []string{"true"}}, err: "exec false: status: exit status 1"},
	} {
		plan := filepath.Join(t.TempDir(), "plan")
		text, err := json.Marshal(c.contest)
		if err == nil {
			err = os.WriteFile(plan, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = contend(t.Context(), &out, plan, 1)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", name, err, c.err)
			}
			continue
		}
		var e effort
		if err = errors.Join(err, json.Unmarshal([]byte(out.String()), &e)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(e.Own.Wall) != 50 || e.Own.CPU <= 0 || e.Objects < 1 || e.Bytes < 1 || e.Missing != c.missing || (len(e.Rival.Wall) == 5) != (c.missing == "") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// loneGround has papers and no servers.
func loneGround(t *testing.T) *ground {
	t.Helper()
	p, err := newPapers(t.TempDir(), serverName)
	if err != nil {
		t.Fatal(err)
	}
	return &ground{dir: t.TempDir(), paper: p, lacks: map[string]string{}, greeter: "127.0.0.1:7"}
}

func TestPapers(t *testing.T) {
	g := loneGround(t)
	if _, err := tls.LoadX509KeyPair(g.paper.cert, g.paper.key); err != nil {
		t.Error(err)
	}
}

func TestReadServed(t *testing.T) {
	n, err := readServed("Active connections: 1 \nserver accepts handled requests\n 7 7 31 \nReading: 0 Writing: 1 Waiting: 0 \n")
	if err != nil || n != 31 {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := readServed("404 Not Found"); err == nil {
		t.Error("no error of something else")
	}
}

func TestShareOf(t *testing.T) {
	if got := shareOf("Rss:  9000 kB\nPss:   1000 kB\nPss_Anon: 1 kB\n"); got != 1.024 {
		t.Errorf("got %v", got)
	}
	if got := shareOf(""); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
	if family(os.Getpid()) < 1 {
		t.Error("this process has no memory")
	}
}

func TestTell(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ok := []struct {
		Status string `json:"status"`
	}{{"ok"}, {"ok"}, {"ok"}}
	bad := append(ok[:2:2], struct {
		Status string `json:"status"`
	}{"failed"})
	before := map[string]state{"a": {Rounds: 5, Last: at, Checks: ok}}
	for name, c := range map[string]struct {
		after state
		want  cadence
	}{
		"all made":         {state{Rounds: 15, Last: at.Add(10*time.Second + 20*time.Millisecond), Checks: ok}, cadence{100, 100}},
		"two missed":       {state{Rounds: 13, Last: at.Add(10 * time.Second), Checks: ok}, cadence{80, 100}},
		"one more, no gap": {state{Rounds: 16, Last: at.Add(11 * time.Second), Checks: ok}, cadence{100, 100}},
		"stuck":            {state{Rounds: 5, Last: at, Checks: ok}, cadence{0, 100}},
		"failed":           {state{Rounds: 15, Last: at.Add(10 * time.Second), Checks: bad}, cadence{100, 100 * 2.0 / 3}},
	} {
		if got := tell(before, map[string]state{"a": c.after}, 10*time.Second); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := tell(nil, nil, time.Second); got != (cadence{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestSwarm(t *testing.T) {
	s := swarm{Services: 2, Due: 60, OK: 30, CPU: 300 * time.Millisecond}
	if got := s.each(); len(got) != 1 || got[0] != 10 || s.onTime() != 50 {
		t.Errorf("%v ms each, %v %% on time", got, s.onTime())
	}
	if got := (swarm{Due: 60}).each(); got != nil {
		t.Errorf("of none that was ok: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var ok atomic.Int64
	if once(ctx, &ok); ok.Load() != 0 {
		t.Errorf("%d ended well after the end", ok.Load())
	}
}

func TestFleetConfiguration(t *testing.T) {
	text := fleetConfiguration("/d")
	if n := strings.Count(text, "\n[service.s"); n != thousand*(1+trio) {
		t.Errorf("%d tables", n)
	}
	if n := strings.Count(text, "10.60.3.231/32"); n != 1 {
		t.Errorf("the last prefix is there %d times", n)
	}
}
