package routertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
)

// undo has somebody else undo what was done. It is read to be so, and put right.
func undo(w *world) {
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.step("taken away by somebody else")
	w.do(func(ctx context.Context) error { return w.Undo(ctx, w.One) })
	w.core(false, w.One)
	w.noLonger(routers.Announced, w.One)
	w.step("announced again")
	w.settle(routers.Announced, w.One)
	w.step("withdrawn")
	w.apply(routers.Withdrawn, w.One)
	w.becomes(routers.Withdrawn, w.One)
	w.step("announced by somebody else")
	w.do(func(ctx context.Context) error { return w.Redo(ctx, w.One) })
	w.core(true, w.One)
	w.noLonger(routers.Withdrawn, w.One)
	w.step("withdrawn again")
	w.settle(routers.Withdrawn, w.One)
	w.stays(routers.Withdrawn, w.One)
}

// noLonger waits until each of the prefixes is read to be something else than wanted.
func (w *world) noLonger(want routers.Want, ps []netip.Prefix) {
	w.wait(fmt.Sprintf("%s to be read as no longer %s", some(ps), want), func() error {
		os, _ := w.read(ps)
		for _, o := range os {
			if met(want, o, w.r.router.Goal()) {
				return fmt.Errorf("it is %s", describe(o))
			}
		}
		return nil
	})
}

// hang stops the daemon without ending it.
func hang(w *world) {
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.hung(func() {
		w.step("read while it hangs")
		w.unread(bound/2, w.One)
		w.step("read while it hangs, in a short time")
		w.unread(100*time.Millisecond, w.One)
		w.step("withdrawn while it hangs")
		w.tried(routers.Withdrawn, w.One)
		w.truthful(w.One)
	})
	w.step("withdrawn when it goes on")
	w.settle(routers.Withdrawn, w.One)
	w.stays(routers.Withdrawn, w.One)
	w.settle(routers.Announced, w.One)
}

// lateAnnounce has the daemon take up an announce when it is to be withdrawn already.
func lateAnnounce(w *world) {
	w.hung(func() {
		w.step("announced while it hangs")
		w.tried(routers.Announced, w.One)
	})
	w.step("withdrawn when it goes on")
	w.settle(routers.Withdrawn, w.One)
	w.stays(routers.Withdrawn, w.One)
	w.settle(routers.Announced, w.One)
}

// hung does something while the daemon hangs, and lets it go on in any case.
func (w *world) hung(do func()) {
	if w.err != nil {
		return
	}
	w.do(func(context.Context) error { return w.Daemon.Signal(syscall.SIGSTOP) })
	do()
	if err := w.Daemon.Signal(syscall.SIGCONT); err != nil {
		w.fail("%w", err)
	}
}

// unread wants the prefixes, which are announced, unknown within a time: nothing can be read.
func (w *world) unread(within time.Duration, ps []netip.Prefix) {
	if w.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, within)
	defer cancel()
	start := time.Now()
	os, err := w.r.observe(ctx, ps)
	if took := time.Since(start); took > within+late {
		w.fail("it took %s", took)
	}
	if !errors.Is(err, routers.ErrUnavailable) {
		w.fail("the error is %v, which is not unavailable", err)
	}
	for _, o := range os {
		if o.Stage != routers.Unknown {
			w.fail("nothing can be read, and it is read as %s", describe(o))
		}
	}
}

// tried asks for a change of a daemon that cannot answer. It may work where the daemon has no part in
// it.
func (w *world) tried(want routers.Want, ps []netip.Prefix) {
	if w.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, bound/2)
	defer cancel()
	if err := w.r.apply(ctx, changes(want, ps)); err != nil && !errors.Is(err, routers.ErrUnavailable) {
		w.fail("the error is not unavailable: %w", err)
	}
}

// truthful reads the prefixes of a daemon that is ill: absent is said only of what the core lacks.
func (w *world) truthful(ps []netip.Prefix) {
	if w.err != nil {
		return
	}
	os, _ := w.read(ps)
	for _, o := range os {
		via, err := w.Core.NextHops(o.Prefix)
		if o.Stage == routers.Absent && (err != nil || w.reaches(via)) {
			w.fail("it is read as %s, and the core's next hops are %v, %v", describe(o), via, err)
		}
	}
}

// restart has somebody restart the daemon, which forgets or remembers what it likes.
func restart(w *world) {
	for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
		w.step("restarted while %s", want)
		w.settle(want, w.One)
		w.meanwhile(w.Daemon.Restart)
		w.step("%s after the restart", want)
		w.settle(want, w.One)
		w.core(true, w.Foreign)
		w.stays(want, w.One)
	}
}

// meanwhile reads on while something is done to the daemon: whatever is read, the contract holds.
func (w *world) meanwhile(do func(ctx context.Context) error) {
	if w.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, cmp.Or(w.Patience, patience))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		_, _ = w.read(w.One)
		select {
		case err := <-done:
			if err != nil {
				w.fail("%w", err)
			}
			return
		case <-time.After(pause):
		}
	}
}

// kill has the daemon die, which leaves its sockets and what it put into the kernel.
func kill(w *world) {
	w.step("announced")
	w.settle(routers.Announced, w.One)
	w.step("killed")
	w.do(func(context.Context) error { return w.Daemon.Kill() })
	w.unread(bound/2, w.One)
	w.step("withdrawn while it is dead")
	w.tried(routers.Withdrawn, w.One)
	if os, _ := w.read(w.One); w.err == nil && strings.Contains(fmt.Sprint(os), "advertised") {
		w.fail("a dead daemon is read to advertise: %v", os)
	}
	w.step("started again")
	start := w.Daemon.Start
	if w.err != nil { // started in any case
		_ = start(w.ctx)
		return
	}
	w.do(start)
	w.settle(routers.Withdrawn, w.One)
	w.core(true, w.Foreign) // by then the neighbours have given back what they knew of it
	w.settle(routers.Withdrawn, w.One)
	w.stays(routers.Withdrawn, w.One)
	w.settle(routers.Announced, w.One)
	w.core(true, w.Foreign)
}
