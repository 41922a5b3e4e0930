package agent

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

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
			r := b.reading(routers.Observation{Prefix: vip})
			r.ReadErr, r.Outstanding = errors.New("ospfd: refused"), map[netip.Prefix]reconcile.Outstanding{vip: {Err: errors.New("no answer")}}
			b.onReport(r)
		}
		var last []string
		for _, e := range b.store.Events(0)[steady+3:] {
			last = append(last, e.Kind)
		}
		if want := []string{state.KindRouter, state.KindStage, state.KindDiverged}; !slices.Equal(last, want) {
			t.Errorf("the lost daemon told %v, want %v", last, want)
		}
		if line := statusLine(b.Snapshot()); !strings.Contains(line, "fake cannot be read") {
			t.Errorf("status line %q", line)
		}
	})
}

func TestDriftIsToldAsDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		before := len(b.store.Events(0))
		for _, s := range []routers.Stage{routers.Absent, routers.Configured, routers.Advertised} {
			time.Sleep(5 * time.Millisecond)
			b.reads(s)
		}
		var got []string
		for _, e := range b.store.Events(0)[before:] {
			got = append(got, e.Level+" "+e.Text)
		}
		want := []string{
			"warn absent (was advertised), changed by something else than vouch; it ought to be announced",
			"info configured (was absent)",
			"info advertised (was configured), put right 10ms after that was read, and at most 415ms after it happened",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// An address that goes while the table still holds the prefix leaves the stage as it is, and is told.
func TestBrokenIsToldAsDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		before := len(b.store.Events(0))
		for _, broken := range []bool{true, true, false} {
			time.Sleep(5 * time.Millisecond)
			b.readsAs(routers.Observation{Stage: routers.Advertised, Broken: broken})
		}
		var got []string
		for _, e := range b.store.Events(0)[before:] {
			got = append(got, e.Level+" "+e.Text)
		}
		want := []string{
			"warn broken, though advertised (was advertised), changed by something else than vouch; it ought to be announced",
			"info advertised (was broken, though advertised), put right 10ms after that was read, and at most 415ms after it happened",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// When a routing daemon is started anew nobody has changed anything: no peer has the prefix until the sessions
// are back. What is changed then is told as that.
func TestLostPeersAreNobodysDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		sent := []routers.Peer{{Name: "core1", Stage: routers.Advertised}, {Name: "core2", Stage: routers.Selected}}
		all := routers.Observation{Stage: routers.Advertised, Peers: sent}
		b.readsAs(all)
		b.round(nil)
		b.round(nil)
		before := b.count()
		for _, o := range []routers.Observation{
			{Stage: routers.Selected, Peers: sent[1:]}, all,
			{Stage: routers.Selected, Peers: sent}, all,
			{Stage: routers.Unknown}, {Stage: routers.Selected}, {Stage: routers.Absent}, {Stage: routers.Selected}, all,
		} {
			time.Sleep(time.Second)
			b.readsAs(o)
		}
		want := []string{
			"stage warn selected (was advertised), no peer has it now; it ought to be announced",
			"stage info advertised (was selected), peers have it again 1s after that was read, and at most 2.4s after it happened",
			"stage warn selected (was advertised), too few peers have it now; it ought to be announced",
			"stage info advertised (was selected), peers have it again 1s after that was read, and at most 2s after it happened",
			"stage warn unknown (was advertised)",
			"stage warn selected (was unknown), no peer has it now; it ought to be announced",
			"stage warn absent (was selected), changed by something else than vouch; it ought to be announced",
			"stage info selected (was absent)",
			"stage info advertised (was selected), put right 2s after that was read, and at most 5s after it happened",
		}
		if diff := cmp.Diff(want, b.told(before)); diff != "" {
			t.Error(diff)
		}
	})
}

// The time of a change is known no better than by the beginning of the last reading that was right.
func TestHowLongItWasWrongIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		for _, s := range []routers.Stage{routers.Advertised, routers.Absent, routers.Unknown, routers.Advertised} {
			time.Sleep(time.Second)
			r := b.reading(routers.Observation{Prefix: vip, Stage: s})
			r.Took = 300 * time.Millisecond
			b.onReport(r)
		}
		es := b.store.Events(0)
		if got, want := es[len(es)-1].Text, "advertised (was unknown), put right 2s after that was read, and at most 3.3s after it happened"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Nothing is settled of which nothing is known, or nothing wanted; what is settled later is told then.
func TestUnknownIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		o := orders{b.core}
		must(t, o.Drain(t.Context(), "resolver", decide.Drain{By: "root"}))
		away := b.reading(routers.Observation{Prefix: vip})
		away.ReadErr = errors.New("bird: no answer")
		away.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Err: errors.New("no answer")}}
		b.onReport(away)
		must(t, o.Resume(t.Context(), "resolver", "root"))
		b.wanted(t, vip, routers.Keep)
		before := b.count()
		kept := b.reading(routers.Observation{Prefix: vip})
		kept.ReadErr = away.ReadErr
		b.onReport(kept)
		b.reads(routers.Absent) // and nothing is wanted of it
		if told := b.told(before, state.KindSettled); len(told) > 0 {
			t.Errorf("told: %q", told)
		}
		b.round(nil)
		b.round(nil)
		b.wanted(t, vip, routers.Announced)
		b.onReport(away)
		if told := b.told(before, state.KindDiverged); len(told) != 1 {
			t.Errorf("the same cause, for another want, is told as %q", told)
		}
		b.reads(routers.Advertised)
		if told := b.told(before, state.KindSettled); !slices.Equal(told, []string{"settled info is advertised, as it ought to be"}) {
			t.Errorf("told: %q", told)
		}
	})
}

// What ought to be is measured against what is before anybody has looked again.
func TestWantIsNotSettledBeforeItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		diverged := func() bool { return !b.Snapshot().Services[0].Prefixes[0].Diverged.IsZero() }
		b.reads(routers.Advertised)
		b.round(nil)
		b.round(nil)
		if diverged() {
			t.Error("diverged, and all is well")
		}
		b.round(errDown)
		b.round(errDown)
		if b.wanted(t, vip, routers.Withdrawn); !diverged() {
			t.Error("read to be advertised, ought to be withdrawn, and nothing is said")
		}
		if b.reads(routers.Absent); diverged() {
			t.Error("diverged, and it is withdrawn")
		}
		b.readsAs(routers.Observation{Stage: routers.Absent, Broken: true})
		if p := b.Snapshot().Services[0].Prefixes[0]; !diverged() || !p.Broken {
			t.Errorf("it would not stay withdrawn: %+v", p)
		}
	})
}

func TestSnapshotSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(loadedUp(true, vip), resolver(vip))
		b.reads(routers.Advertised)
		b.round(nil)
		snap := b.Snapshot()
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

// What the router is still about is told of only when its deadline is over, and what fails at once.
func TestUnderwayIsToldLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(state.Loaded{}, resolver(vip))
		b.cfg.Router.Deadline = 30 * time.Second
		began := time.Now()
		report := func(err error) int {
			before, r := b.count(), b.reading(routers.Observation{Prefix: vip, Stage: routers.Absent})
			r.Outstanding = map[netip.Prefix]reconcile.Outstanding{vip: {Since: began, Err: err}}
			b.onReport(r)
			return len(b.told(before, state.KindDiverged))
		}
		going := routers.Errorf(errors.Join(routers.ErrBusy, routers.ErrUnderway), "still committing")
		if n := report(going); n != 0 {
			t.Errorf("an ordinary commit is told %d times", n)
		}
		if n := report(routers.Errorf(routers.ErrBusy, "locked")); n != 1 {
			t.Errorf("a lock is told %d times", n)
		}
		time.Sleep(30 * time.Second)
		if n := report(going) + report(going); n != 1 {
			t.Errorf("one that lasts is told %d times", n)
		}
	})
}
