package routertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

const (
	// patience is how long a state is waited for by default: neighbours find each other again after a
	// restart within ten seconds or so.
	patience = 2 * time.Minute
	// again is how long a change that was taken may take effect before it is asked for anew, and soon
	// how long one that was not taken is left alone.
	again = 3 * time.Second
	soon  = 300 * time.Millisecond
	// pause is between two readings.
	pause = 10 * time.Millisecond
	// bound is how long one call may take, also for a thousand prefixes, and little how long with a daemon
	// that does not answer.
	bound  = time.Minute
	little = 10 * time.Second
	// slow is a step that is worth a note.
	slow = 3 * time.Second
)

// A world is a subject in the midst of a scenario. The first step that fails ends it: those that follow
// do nothing, and err tells what happened.
type world struct {
	*Subject
	ctx      context.Context
	r        *contract
	scenario string
	at       string // the step, for people
	since    time.Time
	err      error
	notes    []string
}

// fail ends the scenario with all that can be known about it.
func (w *world) fail(format string, args ...any) {
	if w.err != nil {
		return
	}
	err := fmt.Errorf(format, args...)
	if w.r.fault != nil {
		err = fmt.Errorf("%w; the contract of package routers was broken: %w", err, w.r.fault)
	}
	w.err = fmt.Errorf("%s: %s: %s: %w\n%s", w.Name, w.scenario, w.at, err, w.sights())
}

// sights is what is read now, and what the core has.
func (w *world) sights() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 3*time.Second)
	defer cancel()
	ps := slices.Concat(w.One, w.Two, w.Foreign)
	os, err := w.r.observe(ctx, ps)
	var b strings.Builder
	for _, o := range os {
		via, cerr := w.Core.NextHops(o.Prefix)
		fmt.Fprintf(&b, "\tread: %s; the core's next hops: %v", describe(o), via)
		if cerr != nil {
			fmt.Fprintf(&b, " (%v)", cerr)
		}
		if w.Told != nil {
			fmt.Fprintf(&b, "; it says: %s", strings.Join(strings.Fields(w.Told(ctx, o.Prefix)), " "))
		}
		b.WriteString("\n")
	}
	if err != nil {
		fmt.Fprintf(&b, "\tthe reading's error: %v\n", err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func describe(o routers.Observation) string {
	s := fmt.Sprintf("%s %s", o.Prefix, o.Stage)
	for word, is := range map[string]bool{"degraded": o.Degraded, "broken": o.Broken} {
		if is {
			s += " " + word
		}
	}
	if len(o.Peers) > 0 {
		s += fmt.Sprintf(" %v", o.Peers)
	}
	if o.Detail != "" {
		s += " (" + o.Detail + ")"
	}
	return s
}

// step names what comes next.
func (w *world) step(format string, args ...any) {
	if took := time.Since(w.since); w.at != "" && took > slow {
		w.note("%s: took %s", w.at, took.Round(time.Millisecond))
	}
	w.at, w.since = fmt.Sprintf(format, args...), time.Now()
}

// note is said of the scenario when it has passed.
func (w *world) note(format string, args ...any) {
	if w.err == nil {
		w.notes = append(w.notes, fmt.Sprintf(format, args...))
	}
}

// do does something to the daemon that must work.
func (w *world) do(do func(ctx context.Context) error) {
	if w.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, cmp.Or(w.Patience, patience))
	defer cancel()
	if err := do(ctx); err != nil {
		w.fail("%w", err)
	}
}

// apply asks for the prefixes once, all in one batch, which must be taken.
func (w *world) apply(want routers.Want, ps []netip.Prefix) {
	if err := w.ask(changes(want, ps)); err != nil {
		w.fail("%s %s was not taken: %w", want, some(ps), err)
	}
}

// ask asks for changes once.
func (w *world) ask(cs []routers.Change) (err error) {
	if w.err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	return w.r.apply(ctx, cs)
}

func changes(want routers.Want, ps []netip.Prefix) []routers.Change {
	cs := make([]routers.Change, len(ps))
	for i, p := range ps {
		cs[i] = routers.Change{Prefix: p, Want: want}
	}
	return cs
}

// read reads once.
func (w *world) read(ps []netip.Prefix) ([]routers.Observation, error) {
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	return w.r.observe(ctx, ps)
}

// becomes waits until the prefixes are read to be as wanted, and the core has them so.
func (w *world) becomes(want routers.Want, ps []netip.Prefix) {
	w.wait(fmt.Sprintf("%s to be %s", some(ps), want), func() error {
		os, err := w.read(ps)
		if err != nil {
			return err
		}
		return short(want, os, w.r.router.Goal())
	})
	w.core(want != routers.Withdrawn, ps)
}

// settle asks for the prefixes, as often as it takes, until they are as wanted and the core has them so:
// what vouch's own loop does.
func (w *world) settle(want routers.Want, ps []netip.Prefix) {
	var next time.Time
	var refused error
	w.wait(fmt.Sprintf("%s to be %s in the end", some(ps), want), func() error {
		os, err := w.read(ps)
		rest := short(want, os, w.r.router.Goal())
		if rest == nil {
			return nil
		}
		if cs := open(want, os, w.r.router.Goal()); len(cs) > 0 && time.Now().After(next) {
			refused = w.ask(cs)
			next = time.Now().Add(again)
			if refused != nil {
				w.note("%s: %d of %d to be %s, not taken: %v", w.at, len(cs), len(ps), want, refused)
				next = time.Now().Add(soon)
			}
		}
		return errors.Join(rest, err, refused)
	})
	w.core(want != routers.Withdrawn, ps)
}

// short says what is not as wanted.
func short(want routers.Want, os []routers.Observation, goal routers.Stage) error {
	for _, o := range os {
		if !met(want, o, goal) {
			return fmt.Errorf("it is %s", describe(o))
		}
	}
	return nil
}

// met says whether a prefix that was read as o is as wanted.
func met(want routers.Want, o routers.Observation, goal routers.Stage) bool {
	if want == routers.Withdrawn {
		return o.Stage == routers.Absent
	}
	return o.Stage >= goal && !o.Broken && o.Degraded == (want == routers.Degraded)
}

// open gives the changes that may be asked for: a withdraw always, all else never of what is unknown.
func open(want routers.Want, os []routers.Observation, goal routers.Stage) []routers.Change {
	var cs []routers.Change
	for _, o := range os {
		if !met(want, o, goal) && (want == routers.Withdrawn || o.Stage != routers.Unknown) {
			cs = append(cs, routers.Change{Prefix: o.Prefix, Want: want})
		}
	}
	return cs
}

// core waits until the core sends packets for the prefixes to the node, or none of them.
func (w *world) core(has bool, ps []netip.Prefix) {
	w.wait(fmt.Sprintf("the core to have %s: %v", some(ps), has), func() error {
		for _, p := range ps {
			via, err := w.Core.NextHops(p)
			if err != nil {
				return err
			}
			if w.reaches(via) != has {
				return fmt.Errorf("its next hops to %s are %v", p, via)
			}
		}
		return nil
	})
}

// reaches says whether one of the next hops is the node.
func (w *world) reaches(via []netip.Addr) bool {
	return slices.ContainsFunc(via, func(a netip.Addr) bool { return slices.Contains(w.Hops, a) })
}

// wait waits until ok has nothing to say any more.
func (w *world) wait(what string, ok func() error) {
	if w.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, cmp.Or(w.Patience, patience))
	defer cancel()
	if err := lab.Wait(ctx, what, pause, func() (bool, error) { err := ok(); return err == nil, err }); err != nil {
		w.fail("%w", err)
	}
}

// throughout runs do, during which the core must never be without the prefixes.
func (w *world) throughout(ps []netip.Prefix, do func()) {
	if w.err != nil {
		return
	}
	var follow []*lab.Follower
	for _, p := range ps {
		f, err := w.Core.FollowNextHops(w.ctx, p)
		if err != nil {
			w.fail("%w", err)
			return
		}
		defer f.Stop()
		follow = append(follow, f)
	}
	do()
	for i, f := range follow {
		w.held(ps[i], f.History())
	}
}

// held looks at what the core had of a prefix over a time.
func (w *world) held(p netip.Prefix, history []lab.Seen) {
	for i, seen := range history {
		if w.reaches(seen.Addrs) {
			continue
		}
		back := time.Now()
		if i+1 < len(history) {
			back = history[i+1].Time
		}
		if gone := back.Sub(seen.Time); p.Addr().Is4() || gone > w.Blink {
			before := w.err
			w.err = nil // what else went wrong may have come of it
			w.fail("the core lost %s meanwhile, for %s: its next hops were %v", p, gone, seen.Addrs)
			w.err = errors.Join(before, w.err)
			return
		}
	}
}

// some names prefixes without naming a thousand.
func some(ps []netip.Prefix) string {
	if len(ps) > 4 {
		return fmt.Sprintf("%s and %d more", ps[0], len(ps)-1)
	}
	return strings.Trim(fmt.Sprint(ps), "[]")
}
