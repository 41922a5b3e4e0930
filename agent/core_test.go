package agent

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

var (
	vip  = netip.MustParsePrefix("10.53.53.53/32")
	vip2 = netip.MustParsePrefix("10.53.53.54/32")
)

// a bench is a core whose sinks remember.
type bench struct {
	*core
	wants []reconcile.Desired
	saves int
}

func resolver(prefixes ...netip.Prefix) config.Service {
	return config.Service{Name: "resolver", Prefixes: prefixes, OnStop: "keep",
		Health: health.Settings{Rise: 2, Fall: 2, Interval: time.Second, Fast: 200 * time.Millisecond},
		Checks: []config.Check{{Name: "dns", Type: "dns", OnFail: "withdraw"}}}
}

// newBench starts a core for services on what was loaded. It must be called in a bubble.
func newBench(l state.Loaded, services ...config.Service) *bench {
	b := &bench{}
	head := state.Snapshot{Version: "test", Node: "apu01", Router: state.Router{Name: "fake", Goal: routers.Advertised}}
	b.core = newCore(&config.Config{Services: services}, head, state.NewStore(&head))
	b.want = func(d reconcile.Desired) { b.wants = append(b.wants, d) }
	b.save = func() { b.saves++ }
	b.log = func(state.Event) {}
	b.start(l, nil)
	return b
}

// round lets one round of the only check come in, 200 ms after the last one.
func (b *bench) round(err error) time.Duration {
	time.Sleep(200 * time.Millisecond)
	now := time.Now()
	return b.onRound("resolver", b.services["resolver"].generation, checks.Round{Start: now, Results: []checks.Result{{Start: now, Err: err}}})
}

// reads lets a reading come in that says stage of each managed prefix.
func (b *bench) reads(stage routers.Stage) {
	r := reconcile.Report{Time: time.Now(), Desired: b.desired}
	for p := range b.desired {
		r.Observations = append(r.Observations, routers.Observation{Prefix: p, Stage: stage})
	}
	b.onReport(r)
}

func (b *bench) wanted(t *testing.T, p netip.Prefix, want routers.Want) {
	t.Helper()
	if got := b.wants[len(b.wants)-1][p]; got != want {
		t.Errorf("%s ought to be %s, the core wants it %s", p, want, got)
	}
}

var errDown = &checks.Failure{Reason: checks.ReasonRefused, Detail: "nobody listens"}

func TestAfterABootNothingIsAnnouncedBeforeRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Advertised) // saved in the daemon's configuration
		b.round(nil)
		b.wanted(t, vip, routers.Withdrawn)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		b.round(errDown)
		b.wanted(t, vip, routers.Announced)
		b.round(errDown)
		b.wanted(t, vip, routers.Withdrawn)
	})
}

// loadedUp is the state file of a run that ended with the service up.
func loadedUp(same bool, ps ...netip.Prefix) state.Loaded {
	return state.Loaded{SameBoot: same, Saved: state.Saved{Services: map[string]state.SavedService{
		"resolver": {Prefixes: ps, State: health.State{Verdict: health.Up, LastRound: time.Now()}}}}}
}

func TestRestartKeepsWhatIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.wanted(t, vip, routers.Keep)
		b.reads(routers.Advertised)
		b.wanted(t, vip, routers.Announced)
		b.round(nil)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		for _, w := range b.wants {
			if w[vip] == routers.Withdrawn {
				t.Error("it was withdrawn for a moment")
			}
		}
	})
}

// The state file may be older than the last withdraw: kill -9 in between. What is not announced
// must then wait for rounds of the new run.
func TestRestartAnnouncesNothingOnTheWordOfTheStateFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Absent)
		b.wanted(t, vip, routers.Keep)
		b.round(nil)
		b.wanted(t, vip, routers.Keep)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
	})
}

func TestRestartWithADeadServiceWithdrawsAfterFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(errDown)
		b.wanted(t, vip, routers.Announced)
		b.round(errDown)
		b.wanted(t, vip, routers.Withdrawn)
	})
}

func TestAnotherMethodThanBeforeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loadedUp(true, vip)
		l.Place = "network statement in /run/frr"
		b := newBench(l, resolver(vip))
		if ps := b.store.Snapshot().Problems; len(ps) != 1 || !strings.Contains(ps[0], l.Place) {
			t.Errorf("problems: %q", ps)
		}
		if s := b.toSave(); s.Place == l.Place {
			t.Error("the place of the earlier run is kept")
		}
	})
}

// Nothing is known of a service that was added, or whose state file was corrupt: what is stays.
func TestUnknownKeepsWhatIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{SameBoot: true}, resolver(vip))
		b.wanted(t, vip, routers.Keep)
		unknown := &checks.Failure{Reason: checks.ReasonUnknown}
		for range 5 {
			b.round(unknown)
		}
		b.wanted(t, vip, routers.Keep)
		b.round(nil)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		for range 50 {
			b.round(unknown)
		}
		b.wanted(t, vip, routers.Announced)
	})
}

func TestPrefixesOfARemovedServiceLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip, vip2), resolver(vip))
		b.wanted(t, vip2, routers.Withdrawn)
		b.reads(routers.Advertised)
		b.onReload(&config.Config{})
		b.wanted(t, vip, routers.Withdrawn)
		b.wanted(t, vip2, routers.Withdrawn)
		if !b.store.Snapshot().Services[0].Removed {
			t.Error("the snapshot does not show it as removed")
		}
		b.reads(routers.Absent)
		if n := len(b.services) + len(b.wants[len(b.wants)-1]); n != 0 {
			t.Errorf("%d services and prefixes are left", n)
		}
	})
}

func TestReloadKeepsHistoryAndMovesPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip, vip2), resolver(vip, vip2))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		changed := resolver(vip)
		changed.Health.Fall = 5
		other := resolver(vip2)
		other.Name = "other"
		stop, start := b.onReload(&config.Config{Services: []config.Service{other, changed}})
		if !slices.Equal(stop, []string{"other", "resolver"}) || len(start) != 2 {
			t.Errorf("stop %v, start %d", stop, len(start))
		}
		b.wanted(t, vip, routers.Announced)
		b.wanted(t, vip2, routers.Keep) // the other service's now, of which nothing is known
		if stop, _ := b.onReload(&config.Config{Services: []config.Service{other, changed}}); len(stop) != 0 {
			t.Errorf("a reload of the same stops %v", stop)
		}
	})
}

func TestDrainOutranksAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		o := orders{b.core}
		if err := o.Drain(t.Context(), "resolver", decide.Drain{By: "root", Until: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		b.wanted(t, vip, routers.Withdrawn)
		b.reads(routers.Absent)
		for range 3 {
			b.round(nil)
		}
		b.wanted(t, vip, routers.Withdrawn)
		time.Sleep(time.Minute)
		b.tick()
		b.wanted(t, vip, routers.Announced)
		if err := o.Drain(t.Context(), "resolver", decide.Drain{By: "root"}); err != nil {
			t.Fatal(err)
		}
		if err := o.Resume(t.Context(), "resolver", "root"); err != nil {
			t.Fatal(err)
		}
		b.wanted(t, vip, routers.Announced)
		var unknown *UnknownServiceError
		if err := o.Drain(t.Context(), "nosuch", decide.Drain{}); !errors.As(err, &unknown) || !slices.Equal(unknown.Known, []string{"resolver"}) {
			t.Errorf("drain of an unknown service: %v", err)
		}
		if err := o.Drain(t.Context(), "resolver", decide.Drain{Until: time.Now().Add(-time.Second)}); err == nil {
			t.Error("a drain that has ended was taken")
		}
	})
}

func TestStopWithdrawsWhatItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := resolver(vip)
		leaving.OnStop = "withdraw"
		b := newBench(loadedUp(true, vip), leaving)
		b.reads(routers.Advertised)
		if !b.beginStop() {
			t.Fatal("nothing to withdraw")
		}
		b.wanted(t, vip, routers.Withdrawn)
		if b.stopped() {
			t.Error("stopped while it is still read advertised")
		}
		b.reads(routers.Unknown)
		if b.stopped() {
			t.Error("stopped while the table cannot be read")
		}
		b.reads(routers.Absent)
		if !b.stopped() {
			t.Error("not stopped though it is read absent")
		}
	})
}

// Transitions are told once: a steady state tells nothing, whatever rounds and readings come in.
func TestEventsAreTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		steady := len(b.store.Events(0))
		for range 100 {
			b.round(nil)
			b.reads(routers.Advertised)
			b.tick()
		}
		if es := b.store.Events(0); len(es) != steady {
			t.Errorf("a steady state told %+v", es[steady:])
		}
		for range 100 {
			b.round(errDown)
		}
		var kinds []string
		for _, e := range b.store.Events(0)[steady:] {
			kinds = append(kinds, e.Kind)
		}
		if want := []string{state.KindCheck, state.KindVerdict, state.KindDecision}; !slices.Equal(kinds, want) {
			t.Errorf("the failure told %v, want %v", kinds, want)
		}
		for range 100 {
			b.onReport(reconcile.Report{Time: time.Now(), ReadErr: errors.New("ospfd: refused"),
				Observations: []routers.Observation{{Prefix: vip}},
				Outstanding:  map[netip.Prefix]reconcile.Outstanding{vip: {Err: errors.New("no answer")}}})
		}
		var last []string
		for _, e := range b.store.Events(0)[steady+3:] {
			last = append(last, e.Kind)
		}
		if want := []string{state.KindRouter, state.KindStage, state.KindDiverged}; !slices.Equal(last, want) {
			t.Errorf("the lost daemon told %v, want %v", last, want)
		}
		if line := statusLine(b.store.Snapshot()); !strings.Contains(line, "fake cannot be read") {
			t.Errorf("status line %q", line)
		}
	})
}

func TestSnapshotSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		snap := b.store.Snapshot()
		b.round(errDown)
		b.reads(routers.Absent)
		if k := snap.Services[0].Checks[0]; k.Status != checks.OK {
			t.Errorf("the published snapshot changed: %+v", k)
		}
		if p := snap.Services[0].Prefixes[0]; p.Stage != routers.Advertised {
			t.Errorf("the published snapshot changed: %+v", p)
		}
	})
}
