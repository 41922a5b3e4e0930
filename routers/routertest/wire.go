package routertest

import (
	"errors"
	"fmt"
	"time"

	"vouch/routers"
)

// How many of a reply's boundaries are cut at, about, where it is not all of them.
const (
	often = 150
	few   = 10 // where each costs much
)

// through plays with a driver that speaks to the daemon through a proxy. What it leaves announced stays
// so when it is closed.
func (w *world) through(play func(p *Proxy)) {
	if w.err != nil {
		return
	}
	p, closing, err := proxied(w.Wire)
	if err != nil {
		w.fail("%w", err)
		return
	}
	own := w.r
	w.r = &contract{router: w.named(w.Wire.Through(p.Dir())), node: w.Node}
	play(p)
	if w.err == nil {
		w.step("closed")
		w.settle(routers.Announced, w.One)
	}
	if w.r.fault != nil && own.fault == nil {
		own.fault = w.r.fault
	}
	if err := w.r.router.Close(); err != nil {
		w.fail("close: %w", err)
	}
	w.r = own
	if err := closing(); err != nil {
		w.fail("%w", err)
	}
	w.becomes(routers.Announced, w.One) // nobody asks for it again, and this driver may have read little of it
	w.stays(routers.Announced, w.One)
}

// steady looks at what is sent when nothing has to change.
func steady(w *world) {
	w.through(func(p *Proxy) {
		for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
			w.step("nothing to be changed while %s", want)
			w.settle(want, w.One)
			p.Traffic()
			w.stays(want, w.One)
			requests, dials := p.Traffic()
			for _, r := range requests {
				if !w.Wire.Reading.MatchString(r) {
					w.fail("it was sent %q", r)
				}
			}
			w.note("%s: %d requests and %d dials in %d readings", want, len(requests), dials, readings)
		}
	})
}

// cutReading breaks the connection off after every byte of what the daemon says to one reading. What is
// read then is right, or unknown.
func cutReading(w *world) {
	w.through(func(p *Proxy) {
		w.settle(routers.Announced, w.One)
		total := w.replies(p, func() { _, _ = w.read(w.One) })
		stride := 1 + total/often
		if w.Thorough {
			stride = 1
		}
		cuts := w.cutEach(p, "announced", true, stride)
		cuts += w.cutEach(p, "announced, for a moment", false, 1+total/often)
		w.settle(routers.Withdrawn, w.One)
		cuts += w.cutEach(p, "withdrawn", true, 1+total/often)
		w.note("replies of %d bytes, %d cuts, one every %d bytes while announced", total, cuts, stride)
	})
}

// replies counts the bytes that the daemon says meanwhile.
func (w *world) replies(p *Proxy, do func()) int {
	const never = 1 << 30
	p.Cut(never, false)
	do()
	p.Mend()
	return p.Passed()
}

// cutEach cuts one reading after 0 bytes, stride bytes and so on, until one is not cut any more, and
// gives how many were.
func (w *world) cutEach(p *Proxy, state string, stays bool, stride int) (cuts int) {
	right, err := w.read(w.One)
	if err != nil {
		w.fail("%w", err)
	}
	for ; w.err == nil; cuts++ {
		w.step("reading of what is %s, cut after %d bytes", state, cuts*stride)
		p.Cut(cuts*stride, stays)
		os, err := w.read(w.One)
		cut := p.Mend()
		for i, o := range os {
			switch {
			case o.Stage == right[i].Stage && o.Degraded == right[i].Degraded && o.Broken == right[i].Broken:
			case o.Stage != routers.Unknown || !cut:
				w.fail("read as %s, which is %s", describe(o), describe(right[i]))
			case err == nil:
				w.fail("read as %s, without an error", describe(o))
			}
		}
		if !cut {
			break
		}
	}
	return cuts
}

// cutChange breaks the connection off in the midst of an Apply, after some of the bytes the daemon says to
// it. Whatever became of it, the same driver gets it done afterwards.
func cutChange(w *world) {
	w.through(func(p *Proxy) {
		w.settle(routers.Announced, w.One)
		w.settle(routers.Withdrawn, w.One)
		total := w.replies(p, func() { w.apply(routers.Announced, w.One) })
		w.settle(routers.Withdrawn, w.One)
		stride := 1 + total/few
		start := time.Now()
		cuts := 0
		for n := 0; w.err == nil && n <= total+stride; n += stride {
			for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
				w.step("%s, cut after %d bytes", want, n)
				p.Cut(n, n%2 == 0)
				w.unsure(w.ask(changes(want, w.One)))
				if p.Mend() {
					cuts++
				}
				w.settle(want, w.One)
			}
		}
		w.note("replies of %d bytes, %d cuts in %s", total, cuts, time.Since(start).Round(time.Millisecond))
	})
}

// unsure takes the error of a change that was broken off: it may be anything but a refusal.
func (w *world) unsure(err error) {
	if err != nil && errors.Is(classOf(err), routers.ErrRefused) {
		w.fail("a broken connection is taken for a refusal: %w", err)
	}
}

// many announces and withdraws very many prefixes at once beside another service.
func many(w *world) {
	run := func(count func() string) {
		w.step("announced beside")
		w.settle(routers.Announced, w.One)
		w.throughout(w.One, func() {
			for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
				count()
				w.step("%d at once %s", len(w.Many), want)
				start := time.Now()
				w.settle(want, w.Many)
				w.note("%d %s, read to be so and the core too in %s%s", len(w.Many), want, time.Since(start).Round(time.Millisecond), count())
			}
		})
	}
	if w.Wire == nil {
		run(func() string { return "" })
		return
	}
	w.through(func(p *Proxy) {
		run(func() string {
			requests, dials := p.Traffic()
			changing := 0
			for _, r := range requests {
				if !w.Wire.Reading.MatchString(r) {
					changing++
				}
			}
			return fmt.Sprintf(", with %d requests, %d of them for changes, and %d dials", len(requests), changing, dials)
		})
	})
}
