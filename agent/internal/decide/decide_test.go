package decide

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/health"
	"vouch/routers"
)

var (
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules2 = health.Settings{Rise: 2, Fall: 3, Interval: time.Second, HoldDown: time.Minute}
)

func up(good, bad int) health.State {
	return health.State{Verdict: health.Up, Since: now.Add(-time.Hour), Good: good, Bad: bad}
}

func down(good, bad int, held time.Duration) health.State {
	st := health.State{Verdict: health.Down, Since: now.Add(-time.Minute), Good: good, Bad: bad}
	if held != 0 {
		st.HoldUntil = now.Add(held)
	}
	return st
}

func drain(end time.Duration, reason string) *Drain {
	d := &Drain{Since: now.Add(-time.Minute), By: "root", Reason: reason}
	if end != 0 {
		d.Until = now.Add(end)
	}
	return d
}

func TestDecide(t *testing.T) {
	timeout := []string{"dns failed: timeout"}
	for _, tc := range []struct {
		name string
		in   Input
		want routers.Want
		rule string
		text string
	}{
		{"serving", Input{Hard: Side{State: up(57, 0)}}, routers.Announced, RuleServing, "57 good rounds in a row (rise 2)"},
		{"serving, first bad round", Input{Hard: Side{State: up(0, 1), Failing: timeout}}, routers.Announced, RuleServing,
			"dns failed: timeout; 1 of 3 bad rounds (fall 3)"},
		{"serving, unknown", Input{Hard: Side{State: health.State{Verdict: health.Up, Good: 5, UnknownSince: now.Add(-12 * time.Second)},
			Unknown: []string{"route unknown: dump interrupted"}}}, routers.Announced, RuleServing,
			"route unknown: dump interrupted; 5 good rounds in a row (rise 2); undecided for 12s, which changes nothing"},
		{"down", Input{Hard: Side{State: down(0, 3, 0), Failing: timeout}}, routers.Withdrawn, RuleChecks,
			"dns failed: timeout; 3 bad rounds in a row (fall 3)"},
		{"down and held", Input{Hard: Side{State: down(4, 0, 40*time.Second)}}, routers.Withdrawn, RuleChecks,
			"4 good rounds in a row (rise 2); held down until 12:00:40 (40s more)"},
		{"down and rising", Input{Hard: Side{State: down(1, 0, -time.Second)}}, routers.Withdrawn, RuleChecks, "1 of 2 good rounds (rise 2)"},
		{"drained", Input{Hard: Side{State: up(5, 0)}, Drain: drain(0, "")}, routers.Withdrawn, RuleDrain, "drained by root until resumed"},
		{"drained for a time", Input{Hard: Side{State: up(5, 0)}, Drain: drain(14*time.Hour, "kernel upgrade")}, routers.Withdrawn, RuleDrain,
			"drained by root until 2026-03-02 02:00:00 (14h0m0s more): kernel upgrade"},
		{"drain at its end", Input{Hard: Side{State: up(5, 0)}, Drain: &Drain{Until: now, By: "root"}}, routers.Announced, RuleServing,
			"5 good rounds in a row (rise 2)"},
		{"drained and down", Input{Hard: Side{State: down(0, 3, 0)}, Drain: drain(time.Minute, "")}, routers.Withdrawn, RuleDrain,
			"drained by root until 12:01:00 (1m0s more)"},
		{"removed, drained and up", Input{Hard: Side{State: up(5, 0)}, Drain: drain(0, ""), Removed: true}, routers.Withdrawn, RuleRemoved,
			"no longer configured"},
		{"booted", Input{Unrisen: true}, routers.Withdrawn, RuleStart,
			"nothing is announced after a boot before rise: no round counted yet (rise 2, fall 3)"},
		{"booted, rising", Input{Unrisen: true, Hard: Side{State: health.State{Good: 1}}}, routers.Withdrawn, RuleStart,
			"nothing is announced after a boot before rise: 1 of 2 good rounds (rise 2)"},
		{"new in this boot", Input{Hard: Side{State: health.State{Bad: 2}, Failing: timeout}}, routers.Keep, RuleStart,
			"what is stays until there is a verdict: dns failed: timeout; 2 of 3 bad rounds (fall 3)"},
		{"degraded", Input{Hard: Side{State: up(9, 0)}, Soft: Side{State: down(0, 3, 0), Failing: timeout}}, routers.Degraded, RuleDegraded,
			"dns failed: timeout; 3 bad rounds in a row (fall 3)"},
		{"degraded, not confirmed", Input{Hard: Side{State: up(9, 0)}, Soft: Side{State: down(1, 0, 0)}, Unconfirmed: true}, routers.Degraded, RuleDegraded,
			"up when vouch was started or the service resumed; nothing is announced anew until that is confirmed by 2 good rounds in a row; 1 of 2 good rounds (rise 2)"},
		{"not yet degraded", Input{Hard: Side{State: up(9, 0)}, Soft: Side{State: up(0, 2), Failing: timeout}}, routers.Announced, RuleServing,
			"9 good rounds in a row (rise 2)"},
		{"degraded without a verdict", Input{Soft: Side{State: down(0, 3, 0)}}, routers.Keep, RuleStart,
			"what is stays until there is a verdict: no round counted yet (rise 2, fall 3)"},
		{"degraded and drained", Input{Hard: Side{State: up(9, 0)}, Soft: Side{State: down(0, 3, 0)}, Drain: drain(0, "")}, routers.Withdrawn, RuleDrain,
			"drained by root until resumed"},
		{"booted and up", Input{Hard: Side{State: up(2, 0)}, Unrisen: true}, routers.Announced, RuleServing, "2 good rounds in a row (rise 2)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Rules = rules2
			d := Decide(tc.in, now)
			i := slices.IndexFunc(d.Reasons, func(r Reason) bool { return r.Decides })
			if i < 0 {
				t.Fatalf("no reason decides: %+v", d)
			}
			r := d.Reasons[i]
			if d.Want != tc.want || r.Rule != tc.rule || r.Text != tc.text {
				t.Errorf("%s, because of %s: %q;\nwant %s, because of %s: %q", d.Want, r.Rule, r.Text, tc.want, tc.rule, tc.text)
			}
		})
	}
}

func TestAllReasonsAreTold(t *testing.T) {
	in := Input{Rules: rules2, Hard: Side{State: down(0, 3, 40*time.Second), Failing: []string{"dns failed: timeout"}}, Drain: drain(time.Minute, "disk"),
		Soft: Side{State: down(0, 4, 10*time.Second), Failing: []string{"upstream failed: timeout"}}}
	want := Decision{Want: routers.Withdrawn, Reasons: []Reason{
		{Rule: RuleRemoved, Text: "configured"},
		{Rule: RuleDrain, Applies: true, Decides: true, Text: "drained by root until 12:01:00 (1m0s more): disk", Since: in.Drain.Since, Until: in.Drain.Until},
		{Rule: RuleChecks, Applies: true, Since: in.Hard.State.Since, Until: in.Hard.State.HoldUntil,
			Text: "dns failed: timeout; 3 bad rounds in a row (fall 3); held down until 12:00:40 (40s more)"},
		{Rule: RuleStart, Text: "a verdict has been reached"},
		{Rule: RuleDegraded, Applies: true, Since: in.Soft.State.Since, Until: in.Soft.State.HoldUntil,
			Text: "upstream failed: timeout; 4 bad rounds in a row (fall 3); held degraded until 12:00:10 (10s more)"},
		{Rule: RuleServing, Text: "not up"},
	}}
	if diff := cmp.Diff(want, Decide(in, now)); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	in.Drain = drain(-time.Minute, "disk")
	if r := Decide(in, now).Reasons[1]; r.Applies || r.Text != "the drain by root ended at 11:59:00" {
		t.Errorf("past drain: %+v", r)
	}
	in.Hard, in.Soft = Side{State: up(3, 0)}, Side{}
	for i, want := range map[int]string{2: "no check withdraws it", 4: "no check degrades it"} {
		if r := Decide(in, now).Reasons[i]; r.Text != want {
			t.Errorf("healthy: %+v", r)
		}
	}
}

func TestUndecidedText(t *testing.T) {
	s := rules2
	s.OnUnknown, s.UnknownAfter = health.Withdraw, time.Minute
	in := Input{Rules: s}
	for _, side := range []*Side{&in.Hard, &in.Soft} {
		side.State = health.State{Verdict: health.Up, UnknownSince: now.Add(-1500 * time.Millisecond)}
		side.Unknown = []string{"dns unknown: cut short"}
	}
	for i, want := range map[int]string{5: "; undecided for 2s, down after 1m0s", 4: "; undecided for 2s, degraded after 1m0s"} {
		if got := Decide(in, now).Reasons[i].Text; !strings.HasSuffix(got, want) {
			t.Errorf("up: %q, want at its end %q", got, want)
		}
	}
	in.Hard.State.Verdict, in.Soft.State.Verdict = health.Down, health.Down
	for _, i := range []int{2, 4} {
		if got := Decide(in, now).Reasons[i].Text; !strings.HasSuffix(got, "; undecided for 2s") {
			t.Errorf("down: %q", got)
		}
	}
}

// TestProperties: whatever the input, the first reason that applies decides and the want follows
// from what must never be: announced without an up verdict, drained or removed; or announced as usual
// while the checks that degrade are down.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	state := func() health.State {
		return health.State{Verdict: health.Verdict(r.IntN(3)), Good: r.IntN(4), Bad: r.IntN(4), HoldUntil: now.Add(time.Duration(r.IntN(100)-50) * time.Second)}
	}
	for range 20000 {
		in := Input{Hard: Side{State: state()}, Soft: Side{State: state()}, Removed: r.IntN(4) == 0, Unrisen: r.IntN(2) == 0,
			Unconfirmed: r.IntN(2) == 0, Rules: rules2}
		if r.IntN(2) == 0 {
			in.Drain = drain(time.Duration(r.IntN(5)-2)*time.Minute, "")
		}
		drained := in.Drain != nil && (in.Drain.Until.IsZero() || in.Drain.Until.After(now))
		want := routers.Withdrawn
		switch v := in.Hard.State.Verdict.With(in.Soft.State.Verdict); {
		case in.Removed || drained || v == health.Down:
		case v == health.Degraded:
			want = routers.Degraded
		case v == health.Up:
			want = routers.Announced
		case !in.Unrisen:
			want = routers.Keep
		}
		d := Decide(in, now)
		if d.Want != want {
			t.Fatalf("%+v: %s, want %s", in, d.Want, want)
		}
		first := slices.IndexFunc(d.Reasons, func(r Reason) bool { return r.Applies })
		for i, r := range d.Reasons {
			if r.Decides != (i == first) || r.Text == "" {
				t.Fatalf("%+v: reason %d of %d: %+v", in, i, len(d.Reasons), r)
			}
		}
		if again := Decide(in, now); !slices.Equal(again.Reasons, d.Reasons) || again.Want != d.Want {
			t.Fatalf("not deterministic: %+v, then %+v", d, again)
		}
	}
}
