package vyos

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

func many(n int) []netip.Prefix {
	ps := make([]netip.Prefix, n)
	for i, a := 0, netip.MustParseAddr("10.53.60.0"); i < n; i, a = i+1, a.Next() {
		ps[i] = netip.PrefixFrom(a, 32)
	}
	return ps
}

// What many prefixes are is one question, also when FRR has none of them.
func TestManyAreReadAtOnce(t *testing.T) {
	ps := many(500)
	lines := []string{"protocols bgp system-as 65001", "system host-name r1"}
	for _, p := range ps {
		lines = append(lines, "protocols static route "+p.String()+" blackhole")
	}
	b := open(t, vyostest.Options{Active: lines})
	r := b.router(Options{Method: MethodStatic, Timeout: 20 * time.Second})
	for _, o := range b.observe(r, ps...) {
		if o.Stage != routers.Configured {
			t.Fatalf("%+v", o)
		}
	}
	if calls := b.system.Calls(); len(calls) != 1 {
		t.Errorf("%d programs were run", len(calls))
	}
}

// Each set takes VyOS a tenth of a second, and the caller has less time than all of them take: each call finds what
// the one before it began. A withdraw is out of FRR by then.
var slow = scene{name: "many, and slow", play: func(b *bench, r *Router) {
	ps := many(50)
	b.system.Fault(vyostest.Slow, -1, "my_set", "100ms")
	for i, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
		texts := map[string]bool{}
		b.wait(w.String(), func() error {
			ctx, cancel := context.WithTimeout(b.Context(), 1500*time.Millisecond)
			defer cancel()
			err := b.applyWithin(ctx, r, w, ps...)
			switch {
			case errors.Is(err, routers.ErrUnderway) && !strings.Contains(err.Error(), "has ended just now"):
				texts[err.Error()] = true
			case err != nil && ctx.Err() == nil: // on a busy machine its time may be over before it has read, or just when all is done
				b.Error(err)
			}
			return err
		})
		b.calls("my_commit", i+1)
		if len(texts) > 2 {
			b.Errorf("it is told anew each time: %v", texts)
		}
		b.reads(r, map[routers.Want]routers.Stage{routers.Announced: routers.Advertised, routers.Withdrawn: routers.Absent}[w], false, ps...)
		b.system.Fault(vyostest.Slow, -1, "my_delete", "100ms")
	}
}}

// underway applies with a time that is over before all is done, and wants to be told so.
func (b *bench) underway(r *Router, words string, w routers.Want, ps ...netip.Prefix) {
	b.Helper()
	b.wait("it to be under way", func() error {
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
		defer cancel()
		err := b.applyWithin(ctx, r, w, ps...)
		if !errors.Is(err, routers.ErrUnderway) && ctx.Err() != nil { // its time was over before it had read
			return err
		}
		b.wantError(err, routers.ErrBusy, words)
		return nil
	})
}

// What does not commit yet ends when something else is wanted, and goes on when more is.
var otherwise = scene{name: "another mind", play: func(b *bench, r *Router) {
	underway := func(w routers.Want, ps ...netip.Prefix) { b.Helper(); b.underway(r, "not committed yet", w, ps...) }
	_, release := b.system.HoldUp("my_set")
	underway(routers.Announced, one)
	underway(routers.Announced, one, two)
	underway(routers.Withdrawn, two)
	release()
	b.must(b.apply(r, routers.Announced, one))
	b.calls("my_commit", 1)
	b.becomes(r, routers.Advertised, false, one)
	_, release = b.system.HoldUp("my_set")
	underway(routers.Announced, two)
	b.must(b.apply(r, routers.Withdrawn, two))
	release()
	b.calls("my_commit", 1)
	b.withdrawn(r, one, two)
}}

// What became of a transaction that outlived its call is told to who asks for the same again.
var told = scene{name: "a refusal after its call", play: func(b *bench, r *Router) {
	b.system.Fault(vyostest.CommitRefused, 1, "the table is full")
	waiting, release := b.system.HoldUp("my_commit")
	err := b.leave(waiting, r, routers.Announced, one)
	b.wantError(err, routers.ErrBusy, "still committing")
	b.wantError(err, routers.ErrUnderway)
	release()
	b.wantError(b.apply(r, routers.Announced, one, two), routers.ErrRefused, "the table is full")
	b.calls("my_commit", 2)
	b.announced(r, one, two)
	b.withdrawn(r, one, two)
}}

// Who is not asked in time is not the one that is blamed.
func TestNobodyElseIsBlamed(t *testing.T) {
	b := open(t, vyostest.Options{})
	const timeout = 4 * time.Second // enough for all that is asked
	for _, r := range []*Router{b.router(Options{Timeout: timeout}), b.router(Options{Method: MethodStatic, Timeout: timeout})} {
		b.announced(r, one)
		stop := b.stopped("zebra")
		ctx, cancel := context.WithTimeout(b.Context(), timeout)
		var os []routers.Observation
		err := b.do(func() (err error) { os, err = r.Observe(ctx, []netip.Prefix{one}); return err })
		cancel()
		stop()
		b.wantError(err, routers.ErrUnavailable, "zebra")
		if len(os) != 1 || os[0].Stage < routers.Selected || slices.ContainsFunc([]string{os[0].Detail, err.Error()}, blames) {
			t.Errorf("%s: %+v: %v", r, os, err)
		}
		b.withdrawn(r, one)
	}
}
