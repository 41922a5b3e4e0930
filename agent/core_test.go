package agent

import (
	"context"
	"errors"
	"maps"
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
	b.core = newCore(&config.Config{Services: services}, head, state.NewStore())
	b.want = func(d reconcile.Desired) { b.wants = append(b.wants, maps.Clone(d)) }
	b.amend = func(some reconcile.Desired) {
		b.want(b.wants[len(b.wants)-1])
		maps.Copy(b.wants[len(b.wants)-1], some)
	}
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
func (b *bench) reads(stage routers.Stage) { b.readsAs(routers.Observation{Stage: stage}) }

// readsAs lets a reading come in that says the same of each managed prefix.
func (b *bench) readsAs(o routers.Observation) {
	var os []routers.Observation
	for o.Prefix = range b.desired {
		os = append(os, o)
	}
	b.onReport(b.reading(os...))
}

// reading gives a report of a reading that came to os.
func (b *bench) reading(os ...routers.Observation) reconcile.Report {
	return reconcile.Report{Time: time.Now(), Desired: maps.Clone(b.desired), Router: "fake", Goal: routers.Advertised, Observations: os}
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

// A withdraw is not finished on the strength of a reading from before what was announced meanwhile.
func TestWithdrawIsUnfinishedUntilItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		b.reads(routers.Absent)
		for _, err := range []error{nil, nil, errDown, errDown} {
			b.round(err)
		}
		b.wanted(t, vip, routers.Withdrawn)
		if got := b.unfinished(); !slices.Equal(got, []netip.Prefix{vip}) {
			t.Errorf("unfinished is %v", got)
		}
		b.reads(routers.Absent)
		if got := b.unfinished(); len(got) > 0 {
			t.Errorf("unfinished is still %v", got)
		}
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
		if ps := b.Snapshot().Problems; len(ps) != 1 || !strings.Contains(ps[0], l.Place) {
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
		b.wanted(t, vip, routers.Keep) // what happened meanwhile is not known
		b.round(nil)
		b.wanted(t, vip, routers.Keep)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		b.reads(routers.Advertised)
		if err := o.Drain(t.Context(), "resolver", decide.Drain{By: "root"}); err != nil {
			t.Fatal(err)
		}
		b.reads(routers.Absent)
		if err := o.Resume(t.Context(), "resolver", "root"); err != nil {
			t.Fatal(err)
		}
		b.wanted(t, vip, routers.Keep)
		b.round(errDown)
		b.round(errDown)
		b.wanted(t, vip, routers.Withdrawn)
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
		if !b.beginStop(false) {
			t.Fatal("nothing to withdraw")
		}
		b.wanted(t, vip, routers.Withdrawn)
		left := func(when string, want ...netip.Prefix) {
			t.Helper()
			if got := b.unfinished(); !slices.Equal(got, want) {
				t.Errorf("%s: unfinished %v, want %v", when, got, want)
			}
		}
		left("nothing read yet", vip)
		b.reads(routers.Unknown)
		left("the table cannot be read", vip)
		old := b.reading(routers.Observation{Prefix: vip, Stage: routers.Absent})
		old.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Doing: reconcile.Withdrawing}}
		b.onReport(old)
		left("absent, but the withdraw is still under way", vip)
		b.reads(routers.Absent)
		left("read absent")
	})
}

// An agent that is only replaced leaves what is announced to the next one.
func TestReplacedKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := resolver(vip)
		leaving.OnStop = "withdraw"
		b := newBench(loadedUp(true, vip), leaving)
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		if b.beginStop(true) {
			t.Error("it withdraws")
		}
		b.wanted(t, vip, routers.Announced)
	})
}

// A withdraw under way is seen through whatever on_stop says.
func TestStopSeesAWithdrawThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(errDown)
		b.round(errDown)
		if b.beginStop(false) {
			t.Error(`it has on_stop = "keep"`)
		}
		if got := b.unfinished(); !slices.Equal(got, []netip.Prefix{vip}) {
			t.Errorf("unfinished: %v", got)
		}
		b.reads(routers.Absent)
		if got := b.unfinished(); len(got) > 0 {
			t.Errorf("unfinished: %v", got)
		}
	})
}

// A prefix that is being withdrawn goes on being withdrawn when it comes to a service of which
// nothing is known yet; and the drain of a service that comes back before it has left stays.
// A removed prefix is forgotten only when nothing is under way any more: an absent that was read
// before an announce came through proves nothing.
// Rounds that are not counted confirm nothing: two events of one moment are one round.
func TestOnlyCountedRoundsConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Absent)
		time.Sleep(time.Second)
		for range 5 {
			now := time.Now()
			b.onRound("resolver", 0, checks.Round{Start: now, Results: []checks.Result{{Start: now}}})
			time.Sleep(time.Millisecond)
		}
		b.wanted(t, vip, routers.Keep)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		if why := deciding(b.services["resolver"].decision).Text; strings.Contains(why, "confirmed") {
			t.Errorf("confirmed, and still told: %s", why)
		}
	})
}

// A check that hangs for longer than any pause between rounds still brings the service down.
func TestSilentDeathWithALongTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := config.Parse("long.toml", []byte(`[router]
daemon = "kernel"
[service.resolver]
prefixes = ["10.53.53.53/32"]
[service.resolver.check.plugin]
type = "exec"
command = ["/bin/true"]
timeout = "1m"
`))
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(loadedUp(true, vip), cfg.Services[0])
		b.reads(routers.Advertised)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		r := checks.NewRunner("resolver", []checks.Probe{{Name: "plugin", Checker: silent{}, Timeout: time.Minute}}, time.Second, nil,
			func(_ context.Context, round checks.Round) time.Duration { return b.onRound("resolver", 0, round) })
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		b.wanted(t, vip, routers.Withdrawn)
	})
}

// silent is a check that gets no answer.
type silent struct{}

func (silent) Check(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (silent) String() string                  { return "silent" }

// A check that was made to probe something else knows nothing of it yet.
// Transitions are told once: a steady state tells nothing, whatever rounds and readings come in.
// What vouch did not do is told as somebody else's doing, and its repair as one.
