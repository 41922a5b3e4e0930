package cli

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/control"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
	"vouch/routers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name.golden.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
	if i := bytes.IndexFunc(got, func(r rune) bool { return r < ' ' && r != '\n' && r != '\x1b' || r == 0x7f }); i >= 0 {
		t.Errorf("%s holds the control character %q", name, got[i])
	}
}

func TestStatusText(t *testing.T) {
	for _, name := range situations() {
		t.Run(name, func(t *testing.T) {
			var plainText, coloured bytes.Buffer
			statusText(&plainText, snapshots[name](noon), noon, false)
			golden(t, "status-"+name, plainText.Bytes())
			if bytes.ContainsRune(plainText.Bytes(), '\x1b') {
				t.Error("colours, though none were asked for")
			}
			statusText(&coloured, snapshots[name](noon), noon, true)
			if diff := cmp.Diff(plainText.String(), withoutColours(coloured.String())); diff != "" {
				t.Errorf("colours change more than colours:\n%s", diff)
			}
		})
	}
	var b bytes.Buffer
	statusText(&b, diverged(noon), noon, true)
	golden(t, "status-diverged-colour", b.Bytes())
}

func withoutColours(s string) string {
	for _, p := range []paint{good, bad, warned, faint, strong, "0"} {
		s = strings.ReplaceAll(s, "\x1b["+string(p)+"m", "")
	}
	return s
}

func TestExplainText(t *testing.T) {
	for _, name := range situations() {
		s := snapshots[name](noon)
		if len(s.Services) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			explainText(&b, &s.Services[0], &s.Router, noon, false)
			golden(t, "explain-"+name, b.Bytes())
		})
	}
}

func TestCheckText(t *testing.T) {
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			checkText(&b, report(), false)
			golden(t, "check-"+name, b.Bytes())
			if strings.Count(b.String(), "|") != 1 {
				t.Error("a second bar would begin performance data")
			}
		})
	}
}

// A watched terminal says that the agent is away, and goes on.
func TestDrawWithoutAnAgent(t *testing.T) {
	var b bytes.Buffer
	v := view{client: control.NewClient(filepath.Join(t.TempDir(), "none.sock")), out: &b, screen: screen{terminal: true}}
	if err := v.draw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasPrefix(got, "\x1b[H\x1b[2J") || !strings.Contains(got, "vouch is not running") {
		t.Errorf("drawn: %q", got)
	}
	v.screen.terminal = false
	b.Reset()
	if err := v.draw(t.Context()); err != nil || b.Len() > 0 {
		t.Errorf("no terminal: %v, drawn: %q", err, b.String())
	}
	if err := v.watch(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("a watch without terminal and agent: %v", err)
	}
}

func TestEventText(t *testing.T) {
	var b bytes.Buffer
	for _, e := range events(noon) {
		b.WriteString(eventText(e, time.UTC, false) + "\n")
	}
	golden(t, "events", b.Bytes())
}

func TestSettled(t *testing.T) {
	for _, name := range situations() {
		want := name == "up" || name == "empty" || name == "flapping" || name == "degrading" || name == "peers" || name == "unread"
		if got := settled(snapshots[name](noon)); got != want {
			t.Errorf("%s: settled is %t, want %t", name, got, want)
		}
	}
	s := situation(noon)
	s.Stopping = true
	if settled(s) {
		t.Error("an agent that stops is settled")
	}
	s = situation(noon)
	s.Services[0].Removed = true
	if settled(s) {
		t.Error("a service that goes is settled")
	}
}

// A refused reload among the problems is told once, where all of its text is.
func TestRefusedReloadIsToldOnce(t *testing.T) {
	s := diverged(noon)
	first, _, _ := strings.Cut(s.Config.Error, "\n")
	s.Problems = append(s.Problems, "the last reload was refused: "+first+" (and more: vouch validate)")
	var b bytes.Buffer
	statusText(&b, s, noon, false)
	golden(t, "status-diverged", b.Bytes())
	s.Config.Error = ""
	b.Reset()
	statusText(&b, s, noon, false)
	if !strings.Contains(b.String(), "problem  the last reload was refused") {
		t.Errorf("a problem is not told:\n%s", b.String())
	}
}

func TestExitCodeOfACheck(t *testing.T) {
	for name, want := range map[string]int{"healthy": 0, "unhealthy": 1, "undecided": 1, "router-error": 3, "several": 1, "degraded": 1, "soft-undecided": 1,
		"only": 1, "only-well": 0, "traced": 0} {
		if got := reports[name]().ExitCode(); got != want {
			t.Errorf("%s: exit %d, want %d", name, got, want)
		}
	}
	r := reports["unhealthy"]()
	r.Router.OK = false
	if got := r.ExitCode(); got != 1 {
		t.Errorf("unhealthy and the router away: exit %d, want 1", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0.0s", 0: "0.0s", 40 * time.Millisecond: "0.0s", 9949 * time.Millisecond: "9.9s", 9950 * time.Millisecond: "10s",
		59499 * time.Millisecond: "59s", 59500 * time.Millisecond: "1m", 61 * time.Second: "1m1s", time.Hour - time.Second: "59m59s",
		time.Hour - time.Millisecond: "60m", time.Hour: "1h", 25*time.Hour + time.Minute: "25h1m", 48 * time.Hour: "2d", 100*24*time.Hour + 3*time.Hour: "100d3h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	for at, want := range map[time.Time]string{
		noon.Add(-time.Second): "11:59:59", noon.Add(-13 * time.Hour): "2026-02-28 23:00:00", noon.In(time.FixedZone("", 3600)): "12:00:00",
	} {
		if got := clock(at, noon); got != want {
			t.Errorf("clock(%s) = %s, want %s", at, got, want)
		}
	}
	if got := age(time.Time{}, noon); got != "-" {
		t.Errorf("the age of never is %q", got)
	}
}

func TestRecent(t *testing.T) {
	es := events(noon)
	for _, c := range []struct {
		back time.Duration
		last int
		want int
	}{{0, 9, 4}, {10 * time.Minute, 9, 3}, {0, 2, 2}, {10 * time.Minute, 1, 1}, {time.Millisecond, 5, 0}, {time.Hour, 9, 4}, {0, 0, 0}} {
		got := recent(es, c.back, c.last, noon)
		if len(got) != c.want || len(got) > 0 && got[len(got)-1].Text != es[3].Text {
			t.Errorf("since %s, last %d: %d events, want the last %d", c.back, c.last, len(got), c.want)
		}
	}
}

func TestNextSaysWhatIsMissing(t *testing.T) {
	s := down(noon).Services[0]
	for _, c := range []struct {
		good, bad int
		held      time.Duration
		want      string
	}{
		{0, 5, 0, "After 3 good rounds in a row it is announced."},
		{2, 0, 0, "After 1 more good round in a row it is announced."},
		{2, 0, time.Minute, "After 1 more good round in a row, and not before 12:01:00 (in 1m), it is announced."},
		{9, 0, time.Minute, "It is good again, and not before 12:01:00 (in 1m), it is announced."},
	} {
		s.Good, s.Bad, s.HoldUntil = c.good, c.bad, noon.Add(c.held)
		if got := nextOf(&s, noon); got != c.want {
			t.Errorf("good %d, held %s: %q, want %q", c.good, c.held, got, c.want)
		}
	}
}

func TestNextSaysWhatIsMissingToBeAsUsual(t *testing.T) {
	s := degraded(noon).Services[0]
	for _, c := range []struct {
		good int
		held time.Duration
		want string
	}{
		{0, 0, "It stays degraded. After 3 good rounds in a row of the checks that degrade it, it is announced as usual. After 3 bad rounds in a row it is withdrawn."},
		{2, time.Minute, "It stays degraded. After 1 more good round in a row of the checks that degrade it, and not before 12:01:00 (in 1m), it is announced as usual. " +
			"After 3 bad rounds in a row it is withdrawn."},
		{9, time.Minute, "It stays degraded. Its checks are good again, and not before 12:01:00 (in 1m), it is announced as usual. After 3 bad rounds in a row it is withdrawn."},
	} {
		s.Soft.Good, s.Soft.Bad, s.Soft.HoldUntil = c.good, 0, noon.Add(c.held)
		if got := nextOf(&s, noon); got != c.want {
			t.Errorf("good %d, held %s: %q, want %q", c.good, c.held, got, c.want)
		}
	}
	s.Drain = &decide.Drain{By: "alice"}
	if got := nextOf(&s, noon); !strings.HasSuffix(got, "it is degraded, so it is announced in the worse way then.") {
		t.Errorf("drained: %q", got)
	}
}

// Only a prefix that is there, and ought to be, lacks a peer.
func TestLacking(t *testing.T) {
	peers := []routers.Peer{{Name: "core1", Stage: routers.Advertised}, {Name: "core2", Stage: routers.Absent}}
	for _, c := range []struct {
		want  routers.Want
		stage routers.Stage
		lacks int
	}{
		{routers.Announced, routers.Advertised, 1}, {routers.Degraded, routers.Configured, 1}, {routers.Keep, routers.Selected, 1},
		{routers.Announced, routers.Absent, 0}, {routers.Announced, routers.Unknown, 0}, {routers.Withdrawn, routers.Advertised, 0},
	} {
		if got := lacking(&state.Prefix{Want: c.want, Stage: c.stage, Peers: peers}); len(got) != c.lacks || c.lacks > 0 && got[0].Name != "core2" {
			t.Errorf("to be %s, and %s: lacks %v", c.want, c.stage, got)
		}
	}
}
