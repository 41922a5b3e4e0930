package vyos

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// What others do between a decision and its commit; both ways of configuring stand these.
var meanwhile = []scene{
	{name: "a lock just before the commit", play: func(b *bench, r *Router) {
		done, release := b.heldUp("my_commit", r, routers.Announced, one)
		free := b.system.HoldLock()
		release()
		b.wait("the commit to meet it", func() error {
			if cs := b.system.CallsOf("my_commit"); len(cs) != 1 || !cs[0].Ended {
				return fmt.Errorf("my_commit ran %d times", len(cs))
			}
			return nil
		})
		free()
		b.must(<-done)
		b.calls("my_commit", 2)
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
	}},
	{name: "another makes the same meanwhile", play: func(b *bench, r *Router) {
		done, release := b.heldUp("my_set", r, routers.Announced, one)
		b.system.OperatorCommit("set protocols static route " + one.String() + " blackhole")
		release()
		b.must(<-done)
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
	}},
	{name: "a child comes before the commit", play: func(b *bench, r *Router) {
		node := "protocols static route " + one.String()
		b.announced(r, one)
		done, release := b.heldUp("my_delete", r, routers.Withdrawn, one)
		b.system.OperatorCommit("set " + node + " description resolver")
		release()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "nothing was committed") || !strings.Contains(err.Error(), "description") {
			b.Errorf("it was not refused: %v", err)
		}
		if active := b.system.Active(); !slices.Contains(active, node+" description resolver") {
			b.Errorf("it went along: %q", active)
		}
		b.withdrawn(r, one)
		if active := b.system.Active(); !slices.Contains(active, node+" description resolver") || slices.Contains(active, node+" blackhole") {
			b.Errorf("%q", active)
		}
	}},
	{name: "his tag or distance comes before the commit", play: func(b *bench, r *Router) {
		node := "protocols static route " + one.String()
		for leaf, child := range map[string]string{"distance 9": "", "tag 5": " description resolver"} { // all is to be deleted, and the blackhole alone
			b.announced(r, one)
			if child != "" {
				b.system.OperatorCommit("set " + node + child)
			}
			done, release := b.heldUp("my_delete", r, routers.Withdrawn, one)
			b.system.OperatorCommit("set " + node + " blackhole " + leaf)
			release()
			if err := <-done; err == nil || !strings.Contains(err.Error(), "nothing was committed") || !strings.Contains(err.Error(), leaf) {
				b.Errorf("it was not refused: %v", err)
			}
			if active := b.system.Active(); !slices.Contains(active, node+" blackhole "+leaf) {
				b.Errorf("it went along: %q", active)
			}
			b.system.OperatorCommit("delete " + node)
		}
	}},
	{name: "a route comes before the commit of the last one", system: vyostest.Options{Collapse: true}, play: func(b *bench, r *Router) {
		his := "protocols static route 198.51.100.0/24 blackhole"
		b.announced(r, one)
		done, release := b.heldUp("showConfig", r, routers.Withdrawn, one)
		b.system.OperatorCommit("set " + his)
		release()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "nothing was committed") {
			b.Errorf("it was not refused: %v", err)
		}
		b.withdrawn(r, one)
		if !slices.Contains(b.system.Active(), his) {
			b.Errorf("his route went along: %q", b.system.Active())
		}
		b.system.OperatorCommit("delete protocols static")
	}},
	{name: "a route comes after what is there was read", system: vyostest.Options{Collapse: true}, play: func(b *bench, r *Router) {
		his := "protocols static route 198.51.100.0/24 blackhole"
		b.announced(r, one)
		done, release := b.heldUp("listActiveNodes", r, routers.Withdrawn, one)
		b.system.OperatorCommit("set " + his)
		release()
		if err := <-done; err != nil {
			b.Log(err)
		}
		b.withdrawn(r, one)
		if !slices.Contains(b.system.Active(), his) {
			b.Errorf("his route went along: %q", b.system.Active())
		}
		b.system.OperatorCommit("delete protocols static")
	}},
	{name: "VyOS does not say what it has", options: Options{Patience: 1, Timeout: 5 * time.Second}, play: func(b *bench, r *Router) {
		b.wait("to be announced", func() error { return b.apply(r, routers.Announced, one) })
		b.becomes(r, routers.Advertised, false, one)
		done, release := b.heldUp("showActive", r, routers.Withdrawn, one)
		b.wantError(<-done, routers.ErrBusy, "taken out of FRR", "cli-shell-api")
		b.core(false, one)
		release()
		b.wait("to be withdrawn", func() error { return b.apply(r, routers.Withdrawn, one) })
		b.becomes(r, routers.Absent, false, one)
	}},
	{name: "VyOS cannot say what it has", play: func(b *bench, r *Router) {
		b.wait("to be announced", func() error { return b.apply(r, routers.Announced, one) })
		b.becomes(r, routers.Advertised, false, one)
		program := system{b.system.Root()}.path(cliShellAPI)
		if err := os.Rename(program, program+".away"); err != nil {
			b.Fatal(err)
		}
		if err := b.apply(r, routers.Withdrawn, one); !errors.Is(err, routers.ErrUnavailable) || errors.Is(err, routers.ErrBusy) {
			b.Errorf("that is no matter of time: %v", err)
		}
		b.core(false, one)
		if err := os.Rename(program+".away", program); err != nil {
			b.Fatal(err)
		}
		b.wait("to be withdrawn", func() error { return b.apply(r, routers.Withdrawn, one) })
		b.becomes(r, routers.Absent, false, one)
	}},
	{name: "a foreign change in our session", play: func(b *bench, r *Router) {
		done, release := b.heldUp("showConfig", r, routers.Announced, one)
		b.system.Left(b.system.Sessions()[0], "set protocols static route "+one.String()+" blackhole", "delete protocols bgp")
		release()
		b.wantError(<-done, routers.ErrUnavailable, "nothing was committed", "not ours", "bgp")
		b.calls("my_commit", 0)
	}},
	{name: "a child comes before an announce", play: func(b *bench, r *Router) {
		node := "protocols static route " + one.String()
		done, release := b.heldUp("my_set", r, routers.Announced, one)
		b.system.OperatorCommit("set " + node + " next-hop 10.0.1.1")
		release()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "nothing was committed") || !strings.Contains(err.Error(), "next-hop") {
			b.Errorf("it was not refused: %v", err)
		}
		if active := b.system.Active(); slices.Contains(active, node+" blackhole") {
			b.Errorf("it is beside what is his: %q", active)
		}
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, "next-hop")
		b.system.OperatorCommit("delete " + node)
	}},
	{name: "commit-confirm begins before the commit", play: func(b *bench, r *Router) {
		b.announced(r, two)
		done, release := b.heldUp("my_set", r, routers.Announced, one)
		confirm, _ := b.system.CommitConfirm("set protocols static route 198.51.100.0/24 blackhole")
		release()
		b.wantError(<-done, routers.ErrBusy, "nothing was committed", "commit-confirm")
		if b.configured(one) {
			b.Errorf("it was announced: %q", b.system.Active())
		}
		b.withdrawn(r, two)
		confirm()
		b.announced(r, one)
		b.withdrawn(r, one)
	}},
	{name: "others bring back what is withdrawn", play: func(b *bench, r *Router) {
		b.system.OperatorCommit("set protocols static route 198.51.100.0/24 blackhole")
		b.announced(r, one)
		waiting, release := b.system.HoldUp("my_delete")
		done := make(chan error, 1)
		go func() { // in a namespace where it hears of no route: it has the lock alone to go by
			runtime.LockOSThread() // and the thread ends with it
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				done <- err
				return
			}
			done <- r.Apply(b.Context(), []routers.Change{{Prefix: one, Want: routers.Withdrawn}})
		}()
		waiting()
		b.core(false, one)
		b.system.Fault(vyostest.CommitSlow, 1, "1s") // as on a router: the lock is looked at every now and then
		b.system.OperatorCommit("set protocols static route 198.51.101.0/24 blackhole")
		b.lost(one)
		b.core(false, one)
		release()
		b.must(<-done)
		b.becomes(r, routers.Absent, false, one)
		b.system.OperatorCommit("delete protocols static")
	}},
	{name: "a route comes back while it is withdrawn", play: func(b *bench, r *Router) {
		b.announced(r, one)
		done, release := b.heldUp("my_delete", r, routers.Withdrawn, one)
		b.core(false, one)
		b.system.Gain(routeLine(one)) // and nobody has the lock
		b.lost(one)
		b.core(false, one)
		release()
		b.must(<-done)
		b.becomes(r, routers.Absent, false, one)
	}},
}

// lost waits until FRR is not configured with the prefix.
func (b *bench) lost(p netip.Prefix) {
	b.Helper()
	b.wait("FRR to have lost it", func() error {
		if text := b.system.Vtysh("show running-config"); strings.Contains(text, routeLine(p)) {
			return errors.New(text)
		}
		return nil
	})
}
