package state

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
)

func sample(now time.Time) Saved {
	return Saved{Place: "address on lo", Router: []byte(`{"Interface":"lo"}`),
		Services: map[string]SavedService{"resolver": {
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.53.53.53/32")},
			State: health.State{Verdict: health.Down, Since: now.Add(-time.Minute), Bad: 3, LastRound: now.Add(-time.Second),
				LastCounted: now.Add(-2 * time.Second), Hold: time.Minute, HoldUntil: now.Add(10 * time.Second)},
			Soft:    health.State{Verdict: health.Up, Since: now.Add(-time.Hour), Good: 9, UnknownSince: now.Add(-3 * time.Second)},
			Symbols: map[netip.Prefix]string{netip.MustParsePrefix("10.53.53.53/32"): "RESOLVER_OFF"},
			Drain:   &decide.Drain{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), By: "root", Reason: "kernel"},
		}},
		Events: []Event{{Seq: 7, Time: now.Add(-time.Minute).Round(0), Level: "warn", Kind: KindVerdict, Text: "down"}},
	}
}

// A clock set back an hour between two runs must move neither the hold-down nor the drain's end.
func TestFileKeepsAgesWhenTheClockIsSetBack(t *testing.T) {
	now := time.Now()
	b, err := Encode(sample(now), Clock{Now: now, Boot: 100 * time.Hour, BootID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	back := now.Add(-time.Hour)
	got, same, err := Decode(b, Clock{Now: back, Boot: 100*time.Hour + 5*time.Second, BootID: "a"})
	if err != nil || !same {
		t.Fatalf("Decode: same boot %v, %v", same, err)
	}
	sv := got.Services["resolver"]
	if left := sv.State.HoldUntil.Sub(back); left != 5*time.Second {
		t.Errorf("hold-down left: %v, want 5s", left)
	}
	if left := sv.Drain.Until.Sub(back); left != time.Hour-5*time.Second {
		t.Errorf("drain left: %v, want 59m55s", left)
	}
	if sv.State.Verdict != health.Down || sv.State.Bad != 3 || sv.Unrisen {
		t.Errorf("state came back as %+v", sv)
	}
	if sv.Soft.Verdict != health.Up || sv.Soft.Good != 9 || sv.Soft.Bad != 0 || back.Sub(sv.Soft.UnknownSince) != 8*time.Second {
		t.Errorf("the checks that degrade came back as %+v", sv.Soft)
	}
	if p := sv.Prefixes[0]; sv.Symbols[p] != "RESOLVER_OFF" {
		t.Errorf("symbols came back as %v", sv.Symbols)
	}
	var router struct{ Interface string }
	if err := json.Unmarshal(got.Router, &router); err != nil || router.Interface != "lo" || got.Place != "address on lo" {
		t.Errorf("the place came back as %q, %s, %v", got.Place, got.Router, err)
	}
	if diff := cmp.Diff(sample(now).Events, got.Events); diff != "" {
		t.Error(diff)
	}
}

func TestFileOfAnotherBootKeepsOnlyTheDrain(t *testing.T) {
	now := time.Now()
	b, err := Encode(sample(now), Clock{Now: now, Boot: 100 * time.Hour, BootID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	got, same, err := Decode(b, Clock{Now: now.Add(time.Minute), Boot: time.Minute, BootID: "b"})
	if err != nil || same {
		t.Fatalf("Decode: same boot %v, %v", same, err)
	}
	sv := got.Services["resolver"]
	if !sv.Unrisen || sv.State != (health.State{}) || sv.Soft != (health.State{}) {
		t.Errorf("a verdict survived the boot: %+v", sv)
	}
	if sv.Drain == nil || !sv.Drain.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("the drain did not survive: %+v", sv.Drain)
	}
}

// A file of a version that could not degrade is taken up as it is.
func TestFileOfAnOlderVersion(t *testing.T) {
	const old = `{"format": 1, "boot_id": "a", "saved": "2026-03-01T12:00:00Z", "place": "address on lo", "services": {"resolver": {
		"prefixes": ["10.53.53.53/32"], "verdict": "up", "good": 57, "bad": 0,
		"since": {"boot_ns": 90000000000, "wall": "2026-03-01T11:59:50Z"}}}, "events": []}`
	now := time.Now()
	got, same, err := Decode([]byte(old), Clock{Now: now, Boot: 100 * time.Second, BootID: "a"})
	if err != nil || !same {
		t.Fatalf("Decode: same boot %v, %v", same, err)
	}
	want := SavedService{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.53.53.53/32")},
		State: health.State{Verdict: health.Up, Good: 57, Since: now.Add(-10 * time.Second)}}
	if diff := cmp.Diff(want, got.Services["resolver"], cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestLoadSetsACorruptFileAside(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "half": `{"format": 1, "boot_id": "a", "serv`, "binary": "\x00\x01\x02", "other format": `{"format": 99}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Load(path, Clock{BootID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			if l.Why == nil || !strings.Contains(l.Why.Error(), path) {
				t.Errorf("Why = %v, want an error naming %s", l.Why, path)
			}
			if got, err := os.ReadFile(l.Aside); err != nil || string(got) != content {
				t.Errorf("set aside: %q, %v", got, err)
			}
			if l, err := Load(path, Clock{}); err != nil || l.Why != nil || l.SameBoot {
				t.Errorf("second Load = %+v, %v; want nothing", l, err)
			}
		})
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir() // a directory where the file should be
	if _, err := Load(dir, Clock{}); err == nil {
		t.Error("no error")
	}
}

func TestKeeperTriesAgainWithTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		var now atomic.Int64
		var failing atomic.Bool
		failing.Store(true)
		var wrote []int64
		var reports []error
		k := NewKeeper(func() error {
			if failing.Load() {
				return full
			}
			wrote = append(wrote, now.Load())
			return nil
		}, func(err error) { reports = append(reports, err) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		k.Save()
		synctest.Wait()
		now.Store(2)
		for range 20 { // saves that come faster than the retry must not put it off
			k.Save()
			time.Sleep(300 * time.Millisecond)
		}
		failing.Store(false)
		time.Sleep(retryMax)
		now.Store(3)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int64{2, 3}, wrote); diff != "" {
			t.Errorf("written: %s", diff)
		}
		if len(reports) != 2 || !errors.Is(reports[0], full) || reports[1] != nil {
			t.Errorf("reports = %v, want the failure once and the recovery once", reports)
		}
	})
}

func TestWriteToAFullDiskKeepsTheOldFile(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("mounting a small tmpfs needs root")
		}
		t.Skip("NOT TESTED: mounting a small tmpfs needs root")
	}
	path := smallDisk(t)
	if err := Write(path, []byte(`{"format": 1}`)); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, make([]byte, 1<<20)); err == nil {
		t.Fatal("1 MiB fitted into 64 KiB")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{\"format\": 1}\n" {
		t.Errorf("the old file became %q, %v", b, err)
	}
	if es, err := os.ReadDir(filepath.Dir(path)); err != nil || len(es) != 1 {
		t.Errorf("left behind: %v, %v", es, err)
	}
}

// A stream of one kind of events pushes neither the failures out nor the other kinds, over a restart neither.
func TestStoreKeepsOfEach(t *testing.T) {
	s := NewStore()
	ch := s.Changed()
	s.Add(Event{Level: "error", Kind: KindStage, Text: "first"})
	select {
	case <-ch:
	default:
		t.Error("Changed was not closed")
	}
	for range 3 * keepOfEach / 2 {
		s.Add(Event{Level: "info", Kind: KindVerdict})
	}
	for range 5000 {
		s.Add(Event{Level: "info", Kind: KindStage})
	}
	es := s.Events(0)
	if es[0].Text != "first" || es[0].Seq != 1 {
		t.Errorf("the oldest event is %+v, want the failure", es[0])
	}
	if n := len(es); n != 1+keepOfEach+keepEvents || !slices.IsSortedFunc(es, func(a, b Event) int { return int(a.Seq) - int(b.Seq) }) {
		t.Errorf("%d events kept, want %d, in order", n, 1+keepOfEach+keepEvents)
	}
	if n := len(s.events); n > 3*keepEvents {
		t.Errorf("%d are in memory", n)
	}
	if got := s.Events(es[len(es)-1].Seq - 1); len(got) != 1 {
		t.Errorf("Events(after) gave %d, want 1", len(got))
	}
	if in := latest(es, keepInFile, keepOfEachInFile); len(in) != 1+keepOfEachInFile+keepInFile || in[0].Text != "first" {
		t.Errorf("%d of them go over a restart", len(in))
	}
	r := NewStore()
	r.Restore(es)
	if e := r.Add(Event{}); e.Seq != es[len(es)-1].Seq+1 {
		t.Errorf("numbering went on with %d", e.Seq)
	}
}
