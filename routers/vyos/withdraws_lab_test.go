package vyos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// What keeps a withdraw from FRR, and what does not; both ways of configuring stand these.
var withdraws = []scene{
	{name: "other children", play: func(b *bench, r *Router) {
		node := "protocols static route " + one.String()
		for child, value := range map[string]string{"description": "resolver", "next-hop": "10.0.1.1"} {
			b.announced(r, one)
			b.system.OperatorCommit("set " + node + " " + child + " " + value)
			if active := b.system.Active(); !slices.Contains(active, node+" "+child+" "+value) {
				b.Fatalf("it was not set: %q", active)
			}
			b.system.Fault(vyostest.CommitSlow, 1, "2s")
			done := make(chan error)
			go func() { done <- b.apply(r, routers.Withdrawn, one) }()
			b.core(child == "next-hop", one) // his own route is his to announce
			b.must(<-done)
			if active := b.system.Active(); !slices.Contains(active, node+" "+child+" "+value) || slices.Contains(active, node+" blackhole") {
				b.Errorf("%s: %q", child, active)
			}
			b.wait("it to be told", func() error {
				if o := b.observe(r, one)[0]; !strings.Contains(o.Detail, child) {
					return fmt.Errorf("it is %+v", o)
				}
				return nil
			})
			b.must(b.apply(r, routers.Withdrawn, one)) // and that again is nothing
			err := b.apply(r, routers.Announced, one, two)
			b.wantError(err, routers.ErrRefused, one.String(), child, "remove them")
			if pe := (*routers.PrefixError)(nil); !errors.As(err, &pe) || pe.Prefix != one {
				b.Errorf("it is not told of %s alone: %v", one, err)
			}
			if !b.configured(two) {
				b.Errorf("%s was not announced beside", two)
			}
			b.system.OperatorCommit("delete " + node)
			b.withdrawn(r, one, two)
		}
	}},
	{name: "a commit brings back what was withdrawn meanwhile", play: func(b *bench, r *Router) {
		b.announced(r, one)
		b.system.Fault(vyostest.CommitSlow, 1, "2s")
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		go func() {
			b.wait("the commit to begin", func() error {
				if !b.system.Locked() {
					return errors.New("not yet")
				}
				return nil
			})
			cancel()
		}()
		b.wantError(b.applyWithin(ctx, r, routers.Announced, two), routers.ErrBusy, "still committing")
		short, stop := context.WithTimeout(b.Context(), 200*time.Millisecond)
		defer stop()
		b.wantError(b.applyWithin(short, r, routers.Withdrawn, one, two), routers.ErrBusy)
		b.core(false, one, two)
		b.wait("the commit to end", func() error { // which makes both anew
			if b.system.Locked() || !b.configured(two) {
				return errors.New("not yet")
			}
			return nil
		})
		b.core(false, one, two) // nobody has asked again
		b.withdrawn(r, one, two)
	}},
	{name: "a withdraw does not wait for its commit", play: func(b *bench, r *Router) {
		b.announced(r, both...)
		b.system.Fault(vyostest.CommitSlow, 1, "3s")
		done := make(chan error)
		go func() { done <- b.apply(r, routers.Withdrawn, both...) }()
		b.core(false, both...)
		select {
		case err := <-done:
			b.Errorf("the commit ended first: %v", err)
			return
		default:
		}
		b.must(<-done)
		b.becomes(r, routers.Absent, false, both...)
	}},
	{name: "staticd is dead", play: func(b *bench, r *Router) {
		frr := b.lab.Nodes[0].FRR
		b.must(frr.StopDaemon("staticd"))
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "staticd of VyOS's FRR does not run", "nothing was committed")
		b.calls("setupSession", 0)
		b.must(frr.StartDaemon(b.Context(), "staticd"))
		b.announced(r, one)
		b.withdrawn(r, one)
	}},
}
