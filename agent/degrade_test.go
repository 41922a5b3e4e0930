package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// withUpstream is resolver with a second check, which can only degrade it.
func withUpstream(prefixes ...netip.Prefix) config.Service {
	sc := resolver(prefixes...)
	sc.Checks = append(sc.Checks, config.Check{Name: "upstream", Type: "dns", OnFail: "degrade"})
	return sc
}

var (
	errUpstream = &checks.Failure{Reason: checks.ReasonTimeout, Detail: "no answer"}
	errUnknown  = &checks.Failure{Reason: checks.ReasonUnknown, Detail: "cut short"}
)

// both lets one round of both checks come in, 200 ms after the last one.
func (b *bench) both(dns, upstream error) time.Duration {
	time.Sleep(200 * time.Millisecond)
	now := time.Now()
	return b.onRound("resolver", b.services["resolver"].generation,
		checks.Round{Start: now, Results: []checks.Result{{Start: now, Err: dns}, {Start: now, Err: upstream}}})
}

// told gives the events after seq as "kind level text".
func (b *bench) told(seq int, kinds ...string) (texts []string) {
	for _, e := range b.store.Events(0)[seq:] {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			texts = append(texts, e.Kind+" "+e.Level+" "+e.Text)
		}
	}
	return texts
}

func (b *bench) count() int { return len(b.store.Events(0)) }

// upAsUsual is a bench whose service is confirmed up and announced as usual.
func upAsUsual() *bench {
	b := newBench(loadedUp(true, vip), withUpstream(vip))
	b.reads(routers.Advertised)
	b.both(nil, nil)
	b.both(nil, nil)
	return b
}

func TestDegradesAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := upAsUsual()
		b.wanted(t, vip, routers.Announced)
		before := b.count()
		if next := b.both(nil, errUpstream); next != 200*time.Millisecond {
			t.Errorf("after the first round that differs the next one is in %s, want a fast one", next)
		}
		b.wanted(t, vip, routers.Announced)
		if next := b.both(nil, errUpstream); next != time.Second {
			t.Errorf("settled, and the next round is in %s", next)
		}
		b.wanted(t, vip, routers.Degraded)
		at := time.Now()
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		snap := b.Snapshot().Services[0]
		if snap.Verdict != health.Degraded || !snap.Since.Equal(at) || snap.Soft == nil || snap.Soft.Bad != 2 || snap.Good != 4 {
			t.Errorf("snapshot: %+v, soft %+v", snap, snap.Soft)
		}
		if line := statusLine(b.Snapshot()); !strings.Contains(line, "resolver degraded, 1 of 1 prefixes advertised") {
			t.Errorf("status line %q", line)
		}
		if next := b.both(nil, nil); next != 200*time.Millisecond {
			t.Errorf("on the way back the next round is in %s, want a fast one", next)
		}
		b.wanted(t, vip, routers.Degraded)
		b.both(nil, nil)
		b.wanted(t, vip, routers.Announced)
		b.reads(routers.Advertised)
		want := []string{
			"verdict warn degraded (was up): 2 bad rounds in a row; upstream failed: timeout: no answer",
			"decision info degraded: upstream failed: timeout: no answer; 2 bad rounds in a row (fall 2)",
			"stage info advertised, degraded (was advertised), 0s after it was to be degraded",
			"verdict info up (was degraded): 2 good rounds in a row",
			"decision info announced: 6 good rounds in a row (rise 2)",
			"stage info advertised (was advertised, degraded), 0s after it was to be announced",
		}
		if diff := cmp.Diff(want, b.told(before, state.KindVerdict, state.KindDecision, state.KindStage)); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever degrades, a hard failure and a drain withdraw; and coming back from there it is degraded.
func TestWithdrawOutranksDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := upAsUsual()
		b.both(nil, errUpstream)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Degraded)
		before := b.count()
		b.both(errDown, errUpstream)
		b.wanted(t, vip, routers.Degraded)
		b.both(errDown, errUpstream)
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Absent)
		b.both(nil, errUpstream)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Degraded)
		want := []string{
			"verdict warn down (was degraded): 2 bad rounds in a row; dns failed: refused: nobody listens",
			"verdict warn degraded (was down): 2 good rounds in a row, but not of the checks that degrade it; upstream failed: timeout: no answer",
		}
		if diff := cmp.Diff(want, b.told(before, state.KindVerdict)); diff != "" {
			t.Error(diff)
		}
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		o := orders{b.core}
		if err := o.Drain(t.Context(), "resolver", decide.Drain{By: "root"}); err != nil {
			t.Fatal(err)
		}
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Absent)
		if err := o.Resume(t.Context(), "resolver", "root"); err != nil {
			t.Fatal(err)
		}
		b.wanted(t, vip, routers.Keep)
		b.both(nil, errUpstream)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Degraded)
	})
}

// A service that goes up before its degrading checks have risen is announced in the worse way: after a
// boot nothing says that it should not be.
func TestGoesUpDegradedUntilItHasRisen(t *testing.T) {
	for name, tc := range map[string]struct {
		upstream error
		want     routers.Want
	}{
		"good":    {nil, routers.Announced},
		"failing": {errUpstream, routers.Degraded},
		"unknown": {errUnknown, routers.Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := withUpstream(vip)
				sc.Health.Fall = 5
				b := newBench(state.Loaded{}, sc)
				b.reads(routers.Absent)
				b.both(nil, tc.upstream)
				b.wanted(t, vip, routers.Withdrawn)
				b.both(nil, tc.upstream)
				b.wanted(t, vip, tc.want)
				for range 10 {
					b.both(nil, tc.upstream)
				}
				b.wanted(t, vip, tc.want)
				if tc.upstream != nil && slices.ContainsFunc(b.wants, func(d reconcile.Desired) bool { return d[vip] == routers.Announced }) {
					t.Error("it was to be announced as usual before")
				}
				b.both(nil, nil)
				b.both(nil, nil)
				b.wanted(t, vip, routers.Announced)
			})
		})
	}
}

// A degrading check that is added to a service which is up has to fail before it changes anything, and
// its first success is no change of the verdict.
func TestADegradingCheckIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		since, before := b.Snapshot().Services[0].Since, b.count()
		b.onReload(&config.Config{Services: []config.Service{withUpstream(vip)}})
		b.both(nil, errUnknown)
		b.wanted(t, vip, routers.Announced)
		b.both(nil, nil)
		b.both(nil, nil)
		b.wanted(t, vip, routers.Announced)
		if got := b.Snapshot().Services[0].Since; !got.Equal(since) {
			t.Errorf("up since %s, want since %s", got, since)
		}
		if told := b.told(before, state.KindVerdict, state.KindDecision); len(told) > 0 {
			t.Errorf("told: %q", told)
		}
		b.both(nil, errUpstream)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Degraded)
		b.onReload(&config.Config{Services: []config.Service{resolver(vip)}})
		b.wanted(t, vip, routers.Announced) // nothing is left that could degrade it
	})
}

// loadedDegraded is the state file of a run that ended with the service up but degraded.
func loadedDegraded(ps ...netip.Prefix) state.Loaded {
	l := loadedUp(true, ps...)
	s := l.Services["resolver"]
	s.Soft = health.State{Verdict: health.Down, Since: time.Now(), LastRound: time.Now()}
	l.Services["resolver"] = s
	return l
}

func TestRestartWhileDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedDegraded(vip), withUpstream(vip))
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		b.both(nil, nil)
		b.wanted(t, vip, routers.Degraded)
		if sv := b.toSave().Services["resolver"]; sv.Soft.Verdict != health.Down || sv.State.Verdict != health.Up {
			t.Errorf("to be saved: %+v", sv)
		}
		b.both(nil, nil)
		b.wanted(t, vip, routers.Announced)
		for _, w := range b.wants {
			if w[vip] == routers.Withdrawn {
				t.Error("it was withdrawn for a moment")
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // what is not there is not announced by the word of the state file
		b := newBench(loadedDegraded(vip), withUpstream(vip))
		b.reads(routers.Absent)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Keep)
		b.both(nil, errUpstream)
		b.wanted(t, vip, routers.Degraded)
	})
	synctest.Test(t, func(t *testing.T) { // nor is what is degraded announced as usual by it
		sc := withUpstream(vip)
		sc.Health.Fall = 3
		b := newBench(loadedUp(true, vip), sc)
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		for range 3 {
			b.wanted(t, vip, routers.Keep)
			b.both(nil, errUpstream)
		}
		b.wanted(t, vip, routers.Degraded)
	})
	synctest.Test(t, func(t *testing.T) { // a broken one is as good as none
		b := newBench(loadedUp(true, vip), withUpstream(vip))
		b.readsAs(routers.Observation{Stage: routers.Configured, Broken: true})
		b.wanted(t, vip, routers.Keep)
		b.both(nil, nil)
		b.both(nil, nil)
		b.wanted(t, vip, routers.Announced)
	})
}

func TestDriftBetweenTheWaysIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := upAsUsual()
		before := b.count()
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		time.Sleep(5 * time.Millisecond)
		b.reads(routers.Advertised)
		b.both(nil, errUpstream)
		b.both(nil, errUpstream)
		b.readsAs(routers.Observation{Stage: routers.Advertised, Degraded: true})
		b.reads(routers.Advertised)
		want := []string{
			"stage warn advertised, degraded (was advertised), changed by something else than vouch; it is degraded though it ought to be announced as usual",
			"stage info advertised (was advertised, degraded), put right 5ms after that was read, and at most 405ms after it happened",
			"stage info advertised, degraded (was advertised), 0s after it was to be degraded",
			"stage warn advertised (was advertised, degraded), changed by something else than vouch; it is announced as usual though it ought to be degraded",
		}
		if diff := cmp.Diff(want, b.told(before, state.KindStage)); diff != "" {
			t.Error(diff)
		}
	})
}

// A slow check that can only degrade is not waited for: neither a good nor a bad round is held up by it,
// and it counts as it was last.
func TestASlowDegradingCheckHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := upAsUsual()
		sc := withUpstream(vip)
		settled := settledBy(&sc)
		fine, pending := checks.Result{Start: time.Now()}, checks.Result{}
		for name, tc := range map[string]struct {
			rs    []checks.Result
			after time.Duration
			want  bool
		}{
			"both are there":           {[]checks.Result{fine, fine}, 0, true},
			"the hard one is pending":  {[]checks.Result{pending, fine}, time.Hour, false},
			"the soft one is pending":  {[]checks.Result{fine, pending}, 199 * time.Millisecond, false},
			"for longer than is good":  {[]checks.Result{fine, pending}, 200 * time.Millisecond, true},
			"the hard one has failed":  {[]checks.Result{{Start: time.Now(), Err: errDown}, pending}, 0, true},
			"a failure settles a soft": {[]checks.Result{fine, {Start: time.Now(), Err: errUpstream}}, 0, true},
		} {
			for i := range tc.rs {
				if !tc.rs[i].Start.IsZero() {
					tc.rs[i].Start = time.Now().Add(-tc.after)
				}
			}
			if got := settled(tc.rs); got != tc.want {
				t.Errorf("%s: settled %t, want %t", name, got, tc.want)
			}
		}
		time.Sleep(time.Millisecond)
		b.onNote("resolver", 0, 1, checks.Result{Start: time.Now(), Err: errUpstream})
		for range 2 {
			time.Sleep(200 * time.Millisecond)
			now := time.Now()
			b.onRound("resolver", 0, checks.Round{Start: now, Results: []checks.Result{{Start: now}, {}}})
		}
		b.wanted(t, vip, routers.Degraded)
	})
}
