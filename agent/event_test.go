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
			"info advertised (was configured), put right 10ms after it was changed",
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
			"info advertised (was broken, though advertised), put right 10ms after it was changed",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
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
