package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"vouch/routers"
)

func TestBackoff(t *testing.T) {
	opt := Options{}.withDefaults()
	ms := func(ns ...int) (ds []time.Duration) {
		for _, n := range ns {
			ds = append(ds, time.Duration(n)*time.Millisecond)
		}
		return ds
	}
	for _, tc := range []struct {
		err  error
		to   routers.Want
		want []time.Duration
	}{
		{errors.New("any"), announced, ms(200, 400, 800, 1600, 3200, 6400, 10000, 10000)},
		{routers.ErrUnavailable, withdrawn, ms(200, 400, 800, 1600, 2500, 2500)},
		{routers.ErrUnavailable, degraded, ms(200, 400, 800, 1600, 3200, 5000, 5000)},
		{routers.ErrRefused, degraded, ms(5000, 10000, 20000, 40000, 80000, 150000, 150000)},
		{routers.ErrBusy, degraded, ms(100, 200, 400, 800, 1600, 2000, 2000)},
		{fmt.Errorf("frr: %w", routers.ErrBusy), withdrawn, ms(100, 200, 400, 800, 1600, 2000, 2000)},
		{fmt.Errorf("frr: %w", routers.ErrRefused), announced, ms(5000, 10000, 20000, 40000, 80000, 160000, 300000, 300000)},
		{routers.ErrRefused, withdrawn, ms(200, 400, 800, 1600, 2500, 2500)},
	} {
		var b backoff
		var got []time.Duration
		for range tc.want {
			b.grow(classOf(tc.err), opt, tc.to)
			got = append(got, b.jittered(0))
			if low := b.jittered(0.999); low > b.wait || low < b.wait*4/5 {
				t.Errorf("%v: %s becomes %s", tc.err, b.wait, low)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v, to be %s: %v, want %v", tc.err, tc.to, got, tc.want)
		}
	}
	b := backoff{class: refused, wait: refusedMax}
	if b.grow(busy, opt, announced); b.wait != busyMin {
		t.Errorf("busy after refused: %s, want %s", b.wait, busyMin)
	}
}

func TestBucket(t *testing.T) {
	var b bucket
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var got []time.Duration
	for range 8 {
		got = append(got, b.take(now).Sub(now))
	}
	if want := []time.Duration{0, 0, 0, 0, 0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("eight at once: %v, want %v", got, want)
	}
	_ = b.next(now)
	if b.next(now) != now.Add(4*time.Second) {
		t.Errorf("the ninth at %s, want after four seconds, and to ask counts nothing", b.next(now).Sub(now))
	}
	if later := now.Add(time.Minute); b.take(later) != later {
		t.Error("a minute later there is still a delay")
	}
}

func TestPace(t *testing.T) {
	var p pace
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var got []time.Duration
	for _, hinted := range []string{"-", "h", "h", "h", "h", "h", "c", "h", "-"} {
		p.read(now, hinted != "-", hinted == "c")
		got = append(got, p.next().Sub(now)/time.Millisecond)
	}
	if want := []time.Duration{10, 20, 40, 80, 100, 100, 10, 20, 10}; !slices.Equal(got, want) {
		t.Errorf("distances in ms: %v, want %v", got, want)
	}
}
