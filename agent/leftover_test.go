package agent

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// a shelf is a router of which somebody else sets the stages.
type shelf struct {
	routers.Router // whatever is not here is not to be called
	config         config.Router
	mu             sync.Mutex
	stages         map[netip.Prefix]routers.Stage
	labels         map[netip.Prefix]routers.Label
	looked, closed int
}

func (s *shelf) Observe(_ context.Context, ps []netip.Prefix) (os []routers.Observation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	for _, p := range ps {
		os = append(os, routers.Observation{Prefix: p, Stage: s.stages[p]})
	}
	return os, nil
}

// put sets the stage of vip.
func (s *shelf) put(stage routers.Stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages[vip] = stage
}

// times tells how often it was looked at.
func (s *shelf) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked
}

func (s *shelf) SetLabels(labels map[netip.Prefix]routers.Label) { s.labels = labels }
func (s *shelf) Close() error                                    { s.closed++; return nil }

// movedFrom is what a run left that announced the prefixes as old says.
func movedFrom(t *testing.T, old config.Router, ps ...netip.Prefix) state.Loaded {
	t.Helper()
	l := loadedUp(true, ps...)
	raw, err := json.Marshal(old)
	must(t, err)
	l.Place, l.Router = place(old), raw
	s := l.Services["resolver"]
	s.Symbols = map[netip.Prefix]string{vip: "RESOLVER_OFF"}
	l.Services["resolver"] = s
	return l
}

// What an earlier run announced elsewhere is told when it is read there, and for as long as it is; the first time
// before this run can have announced anything itself.
func TestLeftoverIsToldWhenItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := config.Router{Method: "include", Include: "/etc/bird/vouch.conf", Symbol: "{SERVICE}_OFF", Timeout: 3 * time.Second}
		l := movedFrom(t, old, vip, vip2)
		b := newBench(l, resolver(vip, vip2))
		there := &shelf{stages: map[netip.Prefix]routers.Stage{vip: routers.Advertised, vip2: routers.Absent}}
		a := New(b.cfg, Deps{NewRouter: func(c config.Router) (routers.Router, error) { there.config = c; return there, nil }})
		a.core = b.core
		tasks := a.leftovers(l)
		if len(tasks) != 1 || place(there.config) != l.Place || there.config.Timeout != old.Timeout || there.labels[vip] != (routers.Label{Service: "resolver", Symbol: "RESOLVER_OFF"}) {
			t.Fatalf("%v, of %+v with %v", tasks, there.config, there.labels)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- tasks[0].Run(ctx) }()
		synctest.Wait()
		if there.times() > 0 {
			t.Error("looked before this run's router was read")
		}
		before := b.count()
		b.reads(routers.Absent)
		close(a.read)
		synctest.Wait()
		if ps := b.Snapshot().Problems; len(ps) != 1 || !strings.HasPrefix(ps[0], vip.String()+": still there by include file /etc/bird/vouch.conf") || strings.Contains(ps[0], vip2.String()) {
			t.Errorf("problems: %q", ps)
		}
		b.reads(routers.Advertised) // here, while it is there too
		time.Sleep(5 * lookAgain)
		if ps := b.Snapshot().Problems; len(ps) != 1 {
			t.Errorf("it was forgotten: %q", ps)
		}
		there.put(routers.Unknown)
		time.Sleep(2 * lookAgain)
		if ps := b.Snapshot().Problems; len(ps) != 1 {
			t.Errorf("it was forgotten when it could not be read: %q", ps)
		}
		there.put(routers.Absent)
		time.Sleep(2 * lookAgain)
		if ps := b.Snapshot().Problems; len(ps) != 0 {
			t.Errorf("nothing is left: %q", ps)
		}
		looked := there.times()
		time.Sleep(5 * lookAgain)
		if stop(); <-ended != nil || there.times() != looked || there.closed != 1 {
			t.Errorf("looked %d times after that, closed %d times", there.times()-looked, there.closed)
		}
		if told := b.told(before, state.KindRouter); len(told) != 3 || !strings.HasPrefix(told[1], "router error "+vip.String()) || !strings.HasPrefix(told[2], "router info nothing is left") {
			t.Errorf("told: %q", told)
		}
	})
}

// Where nothing was announced nothing is to be withdrawn by hand; nor where this run's router has it too, such as
// an address that another is said to own now, until that has withdrawn it.
func TestNothingLeftIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := movedFrom(t, config.Router{Method: "address", Interface: "lo", Owner: "frr"}, vip)
		b := newBench(l, resolver(vip))
		problems := func() int { return len(b.Snapshot().Problems) }
		is := func(s routers.Stage) bool {
			return b.onLeftover(l.Place, []routers.Observation{{Prefix: vip, Stage: s}})
		}
		if b.reads(routers.Absent); !is(routers.Absent) || problems() != 0 {
			t.Errorf("absent here and there: %d problems", problems())
		}
		if is(routers.Unknown) || problems() != 0 {
			t.Errorf("unreadable: %d problems, or done", problems())
		}
		if b.reads(routers.Advertised); is(routers.Advertised) || problems() != 0 {
			t.Errorf("here and there: %d problems, or done", problems())
		}
		if b.reads(routers.Absent); is(routers.Configured) || problems() != 1 {
			t.Errorf("withdrawn here, left there: %d problems, or done", problems())
		}
	})
}

func TestTheSamePlaceIsNotLookedAt(t *testing.T) {
	cfg := &config.Config{Router: config.Router{Method: "address", Interface: "lo"}}
	a := New(cfg, Deps{NewRouter: func(config.Router) (routers.Router, error) { panic("made") }})
	raw, err := json.Marshal(cfg.Router)
	must(t, err)
	for what, l := range map[string]state.Saved{
		"the same": {Place: place(cfg.Router), Router: raw}, "none": {}, "not told how to read": {Place: "elsewhere"}, "nonsense": {Place: "elsewhere", Router: []byte("[")},
	} {
		if tasks := a.leftovers(state.Loaded{Saved: l}); len(tasks) > 0 {
			t.Errorf("%s: %v", what, tasks)
		}
	}
}

// birdConfig is a configuration with one service, whose name is in the symbol.
func birdConfig(t *testing.T, service string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("bird.toml", []byte(`[router]
daemon = "bird"
method = "include"
include = "/etc/bird/vouch.conf"
[service.`+service+`]
prefixes = ["10.53.53.53/32"]
[service.`+service+`.check.dns]
type = "dns"
server = "127.0.0.1:53"
`))
	must(t, err)
	return cfg
}

// benchOf starts a core for cfg on what was loaded.
func benchOf(l state.Loaded, cfg *config.Config) *bench {
	b := newBench(state.Loaded{}, cfg.Services...)
	b.cfg, b.labels, b.problems, b.services = cfg, cfg.Labels(), map[string]string{}, map[string]*service{}
	for _, sc := range cfg.Services {
		b.services[sc.Name] = newService(sc)
	}
	b.start(l, nil)
	return b
}

// A service that has another name after a restart goes by another symbol, and BIRD's configuration may still have
// the old one: that is told until the new one is seen to withdraw it. Its drain comes along.
func TestRenamedServiceIsToldUntilItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(state.Loaded{}, birdConfig(t, "resolver"))
		saved := b.toSave()
		if got := saved.Services["resolver"].Symbols[vip]; got != "RESOLVER_OFF" {
			t.Fatalf("saved symbol %q", got)
		}
		if same := benchOf(state.Loaded{Saved: saved}, birdConfig(t, "resolver")); len(same.renamed) > 0 {
			t.Errorf("the same name: %v", same.renamed)
		}
		b = benchOf(state.Loaded{Saved: saved}, birdConfig(t, "dns"))
		before := b.count()
		b.reads(routers.Unknown)
		if ps := b.Snapshot().Problems; len(ps) > 0 {
			t.Errorf("nothing is read yet: %q", ps)
		}
		b.wanted(t, vip, routers.Withdrawn)
		for range 3 {
			b.reads(routers.Advertised)
		}
		ps := b.Snapshot().Problems
		if len(ps) != 1 || !strings.Contains(ps[0], "goes by DNS_OFF in BIRD's configuration now, and went by RESOLVER_OFF") || !strings.Contains(ps[0], "[service.dns]") {
			t.Errorf("problems: %q", ps)
		}
		if told := b.told(before, state.KindRouter); !slices.Equal(told[1:], []string{"router warn " + ps[0]}) {
			t.Errorf("told: %q", told)
		}
		b.reads(routers.Absent)
		b.reads(routers.Advertised)
		if ps := b.Snapshot().Problems; len(ps) > 0 {
			t.Errorf("it has been withdrawn: %q", ps)
		}
	})
}

func TestRenamedServiceStaysDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loadedUp(true, vip)
		s := l.Services["resolver"]
		s.Drain = &decide.Drain{By: "alice", Since: time.Now()}
		l.Services["resolver"] = s
		other, third := resolver(vip), resolver(vip2)
		other.Name, third.Name = "dns", "web"
		b := newBench(l, other, third)
		if d := b.services["dns"].drain; d == nil || d.By != "alice" || d == s.Drain {
			t.Errorf("drain: %+v", d)
		}
		b.wanted(t, vip, routers.Withdrawn)
		if d := b.services["web"].drain; d != nil {
			t.Errorf("a service with other prefixes is drained: %+v", d)
		}
	})
}
