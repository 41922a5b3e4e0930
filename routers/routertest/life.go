package routertest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/routers"
)

// readings is how often a state is read to see that it stays.
const readings = 10

// life is the life of a prefix: each change is asked for once, and arrives.
func life(w *world) {
	w.step("at first")
	w.becomes(routers.Withdrawn, w.One)
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.toldOf(w.One)
	w.step("withdrawn")
	start := time.Now()
	w.apply(routers.Withdrawn, w.One)
	w.becomes(routers.Withdrawn, w.One)
	w.note("withdrawn, read to be so and gone from the core in %s", time.Since(start).Round(time.Millisecond))
	w.step("withdrawn when it already is")
	w.apply(routers.Withdrawn, w.One)
	w.stays(routers.Withdrawn, w.One)
}

// toldOf wants at least one peer named for each prefix, where the driver reads that far.
func (w *world) toldOf(ps []netip.Prefix) {
	if w.err != nil || w.r.router.Goal() != routers.Advertised || w.Without["peers"] != "" {
		return
	}
	os, _ := w.read(ps)
	for _, o := range os {
		if len(o.Reached()) == 0 {
			w.fail("%s is advertised, and to no peer by name", o.Prefix)
		}
	}
}

// stays reads the prefixes again and again: they must be as wanted each time, and at the core at last.
func (w *world) stays(want routers.Want, ps []netip.Prefix) {
	for range readings {
		if w.err != nil {
			return
		}
		os, err := w.read(ps)
		if err := errors.Join(err, short(want, os, w.r.router.Goal())); err != nil {
			w.fail("%s does not stay %s: %w", some(ps), want, err)
		}
	}
	w.core(want != routers.Withdrawn, ps)
}

// degrade goes to the worse way and back, which no neighbour may notice as a loss.
func degrade(w *world) {
	w.step("degraded from absent")
	w.apply(routers.Degraded, w.One)
	w.becomes(routers.Degraded, w.One)
	w.worse(true, w.One)
	w.step("announced from degraded")
	w.throughout(w.One, func() {
		w.apply(routers.Announced, w.One)
		w.becomes(routers.Announced, w.One)
		w.worse(false, w.One)
		w.step("degraded from announced")
		w.apply(routers.Degraded, w.One)
		w.becomes(routers.Degraded, w.One)
		w.worse(true, w.One)
		w.step("degraded again")
		w.apply(routers.Degraded, w.One)
		w.stays(routers.Degraded, w.One)
		w.worse(true, w.One)
	})
	w.step("withdrawn from degraded")
	w.apply(routers.Withdrawn, w.One)
	w.becomes(routers.Withdrawn, w.One)
	w.step("announced after that")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.worse(false, w.One)
}

// worse waits until the core has the prefixes in the worse way, or in the usual one.
func (w *world) worse(want bool, ps []netip.Prefix) {
	for _, p := range ps {
		w.wait("the core to have "+p.String()+" as wanted", func() error {
			worse, err := w.Worse(w.ctx, p)
			if err == nil && worse != want {
				err = errors.New("it has it in the other way")
			}
			return err
		})
	}
}

// twice asks for what is so already.
func twice(w *world) {
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.step("announced again")
	w.throughout(w.One, func() {
		w.apply(routers.Announced, w.One)
		w.stays(routers.Announced, w.One)
	})
	w.step("withdrawn twice at once")
	w.apply(routers.Withdrawn, slices.Concat(w.One, w.Two))
	w.apply(routers.Withdrawn, slices.Concat(w.One, w.Two))
	w.becomes(routers.Withdrawn, slices.Concat(w.One, w.Two))
}

// sideBySide changes one service beside another one.
func sideBySide(w *world) {
	w.step("one of two announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.becomes(routers.Withdrawn, w.Two)
	w.step("the other one comes and goes")
	w.throughout(w.One, func() {
		w.apply(routers.Announced, w.Two)
		w.becomes(routers.Announced, w.Two)
		w.apply(routers.Withdrawn, w.Two)
		w.becomes(routers.Withdrawn, w.Two)
	})
	w.step("both change places in one batch")
	if err := w.ask(append(changes(routers.Announced, w.Two), changes(routers.Withdrawn, w.One)...)); err != nil {
		w.fail("%w", err)
	}
	w.becomes(routers.Withdrawn, w.One)
	w.becomes(routers.Announced, w.Two)
}

// nonsense must be refused, and change nothing.
func nonsense(w *world) {
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	one := w.One[0]
	cs := []routers.Change{
		{Prefix: netip.Prefix{}, Want: routers.Announced},
		{Prefix: netip.PrefixFrom(one.Addr(), one.Bits()-8), Want: routers.Announced},
		{Prefix: netip.PrefixFrom(netip.AddrFrom16(one.Addr().As16()), 128), Want: routers.Announced},
		{Prefix: one, Want: routers.Keep},
	}
	if w.Worse == nil {
		cs = append(cs, routers.Change{Prefix: one, Want: routers.Degraded})
	}
	w.throughout(w.One, func() {
		for _, c := range cs {
			w.step("asked to have %s %s", c.Prefix, c.Want)
			if err := w.ask([]routers.Change{c}); w.err == nil && !errors.Is(err, routers.ErrRefused) {
				w.fail("it was not refused: %v", err)
			}
			w.stays(routers.Announced, w.One)
		}
		w.step("asked for nothing")
		if err := w.ask(nil); err != nil {
			w.fail("%w", err)
		}
		if os, err := w.read(nil); len(os) != 0 || err != nil {
			w.fail("reading nothing gave %v, %w", os, err)
		}
	})
}

// refused has the daemon refuse a change: that is told for what it is, and what was before is still so.
func refused(w *world) {
	w.step("announced")
	w.apply(routers.Announced, w.One)
	w.becomes(routers.Announced, w.One)
	w.step("refused")
	var r Refusal
	w.do(func(ctx context.Context) (err error) { r, err = w.Refuse(ctx); return err })
	if w.err != nil {
		return
	}
	w.throughout(w.One, func() {
		err := w.ask([]routers.Change{r.Change})
		names := r.Names
		if names == "" {
			names = r.Change.Prefix.String()
		}
		switch {
		case !errors.Is(err, routers.ErrRefused):
			w.fail("%s %s was not refused: %v", r.Change.Want, r.Change.Prefix, err)
		case !strings.Contains(err.Error(), names):
			w.fail("the error does not name %s: %w", names, err)
		default:
			w.note("refused with: %v", err)
		}
		os, _ := w.read([]netip.Prefix{r.Change.Prefix})
		if !r.Anyway && met(r.Change.Want, os[0], w.r.router.Goal()) {
			w.fail("it is read to be so all the same: %s", describe(os[0]))
		}
		w.stays(routers.Announced, w.One)
	})
	if r.Restore == nil {
		return
	}
	w.step("possible again")
	err := w.err
	w.err = nil // the daemon is put right in any case
	w.do(r.Restore)
	w.err = errors.Join(err, w.err)
	w.settle(r.Change.Want, w.Two)
	w.becomes(routers.Announced, w.One)
}
