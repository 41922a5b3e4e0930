package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/agent/internal/systemd"
	"vouch/routers"
)

var (
	errLocked = routers.Errorf(routers.ErrBusy, "locked by pid 42")
	errGone   = routers.Errorf(routers.ErrUnavailable, "zebra is away")
)

// TestStopWaitsForOthers: a stop that withdraws gives up soon what fails, and waits longer while others keep the
// daemon from being changed. What it gives up it tells of, with the way out: in the journal and to whoever stopped it.
func TestStopWaitsForOthers(t *testing.T) {
	for name, c := range map[string]struct {
		onStop   string
		deadline time.Duration
		err      error
		gone     time.Duration // when it is read absent; 0: never
		lasts    time.Duration
		told     string // empty: it ends well
	}{
		"withdrawn":          {"withdraw", 3 * time.Second, nil, 9 * time.Second, 9 * time.Second, ""},
		"fails":              {"withdraw", 3 * time.Second, errGone, 0, 10 * time.Second, "after 10s; 10.53.53.53/32 still read configured: zebra is away; it may come back. "},
		"a commit":           {"withdraw", 30 * time.Second, nil, 0, 30 * time.Second, "after 30s; 10.53.53.53/32 still read configured: it may come back. "},
		"locked for a while": {"withdraw", 30 * time.Second, errLocked, 2 * time.Minute, 2 * time.Minute, ""},
		"locked for good":    {"withdraw", 30 * time.Second, errLocked, 0, 3 * time.Minute, "after 3m0s; 10.53.53.53/32 still read configured: locked by pid 42; it may come back. "},
		"begun before":       {"keep", 3 * time.Second, errLocked, 0, 5 * time.Second, "after 5s; "},
		"begun, and locked":  {"keep", 30 * time.Second, errLocked, 20 * time.Second, 20 * time.Second, ""},
		"begun, and fails":   {"keep", 30 * time.Second, errGone, 20 * time.Second, 5 * time.Second, "after 5s; "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := resolver(vip)
				sc.OnStop = c.onStop
				b := newBench(loadedUp(true, vip), sc)
				b.cfg.Router.Timeout, b.cfg.Router.Deadline = time.Second, c.deadline
				var events []state.Event
				b.log = func(e state.Event) { events = append(events, e) }
				b.reads(routers.Advertised)
				b.round(errDown)
				b.round(errDown)
				left := b.reading(routers.Observation{Prefix: vip, Stage: routers.Configured, Detail: "it may come back"})
				left.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Doing: reconcile.Withdrawing, Err: c.err}}
				b.onReport(left)
				if c.gone > 0 {
					time.AfterFunc(c.gone, func() { b.reads(routers.Absent) })
				}
				a := &Agent{cfg: b.cfg, core: b.core, deps: Deps{Notifier: &systemd.Notifier{}}, runners: &runners{byID: map[string]*running{}}}
				began := time.Now()
				err := a.stop()
				if lasted := time.Since(began); lasted != c.lasts {
					t.Errorf("it lasted %s, want %s", lasted, c.lasts)
				}
				at := slices.IndexFunc(events, func(e state.Event) bool { return e.Level == "error" && e.Kind == state.KindStop })
				if c.told == "" {
					if err != nil || at >= 0 {
						t.Errorf("error %v, events %+v", err, events)
					}
					return
				}
				const wayOut = "nobody withdraws it from now on: run vouch withdraw --owned, or start vouch again"
				if err == nil || !strings.Contains(err.Error(), c.told) || !strings.Contains(err.Error(), wayOut) {
					t.Errorf("error %v, want %q in it", err, c.told)
				}
				if at < 0 || events[at].Prefix != vip.String() || !strings.Contains(events[at].Text, "it may come back") || !strings.Contains(events[at].Text, wayOut) {
					t.Errorf("events %+v", events)
				}
			})
		})
	}
}
