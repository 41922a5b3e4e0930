package vyos

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
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
			if o := b.observe(r, one)[0]; o.Stage != routers.Advertised || o.Broken || !strings.Contains(o.Detail, child) {
				b.Errorf("while it is announced the %s is not told: %+v", child, o)
			}
			done, release := b.heldUp("my_commit", r, routers.Withdrawn, one)
			b.core(false, one)
			release()
			b.must(<-done)
			if active := b.system.Active(); !slices.Contains(active, node+" "+child+" "+value) || slices.Contains(active, node+" blackhole") {
				b.Errorf("%s: %q", child, active)
			}
			b.wait("it to be told", func() error {
				if o := b.observe(r, one)[0]; !strings.Contains(o.Detail, child) || o.Stage > routers.Selected && child != "next-hop" {
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
		waiting, release := b.system.HoldUp("my_commit")
		b.wantError(b.leave(waiting, r, routers.Announced, two), routers.ErrBusy, "still committing")
		err := b.apply(r, routers.Withdrawn, one, two)
		b.wantError(err, routers.ErrBusy, "still committing")
		if errors.Is(err, context.DeadlineExceeded) {
			b.Error("the withdraw could be read only when its time was over")
		}
		b.core(false, one, two)
		release()
		b.wait("the commit to end", func() error { // which makes both anew
			if b.system.Locked() || !b.configured(two) {
				return errors.New("not yet")
			}
			return nil
		})
		method := r.method.(*static)
		method.mu.Lock()
		j := method.running
		method.mu.Unlock()
		<-j.done
		b.wait("FRR to have lost both, though nobody asks again", func() error {
			return b.do(func() error {
				origins, err := r.source.Zebra(b.Context(), []netip.Prefix{one, two})
				if err == nil && (origins[0].There || origins[1].There) {
					err = fmt.Errorf("it has %+v", origins)
				}
				return err
			})
		})
		b.withdrawn(r, one, two)
	}},
	{name: "a withdraw does not wait for its commit", play: func(b *bench, r *Router) {
		b.announced(r, both...)
		done, release := b.heldUp("my_commit", r, routers.Withdrawn, both...)
		b.core(false, both...)
		release()
		b.must(<-done)
		b.becomes(r, routers.Absent, false, both...)
	}},
	{name: "FRR hangs", options: Options{Timeout: 2 * time.Second}, play: func(b *bench, r *Router) {
		node := b.lab.Nodes[0].FRR
		for _, daemon := range []string{"zebra", "staticd"} {
			b.announced(r, one)
			before := len(b.system.CallsOf("setupSession"))
			for _, c := range []routers.Change{{Prefix: one, Want: routers.Withdrawn}, {Prefix: two, Want: routers.Announced}} {
				b.must(node.Signal(daemon, syscall.SIGSTOP))
				err := b.apply(r, c.Want, c.Prefix)
				b.must(node.Signal(daemon, syscall.SIGCONT))
				b.wantError(err, routers.ErrUnavailable, "nothing was committed", daemon)
			}
			b.calls("setupSession", before)
			b.withdrawn(r, one)
		}
	}},
	{name: "staticd is dead", play: func(b *bench, r *Router) {
		node := b.lab.Nodes[0].FRR
		b.must(node.StopDaemon("staticd"))
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "staticd of VyOS's FRR does not run", "nothing was committed")
		b.calls("setupSession", 0)
		b.must(node.StartDaemon(b.Context(), "staticd"))
		b.announced(r, one)
		b.withdrawn(r, one)
	}},
}
