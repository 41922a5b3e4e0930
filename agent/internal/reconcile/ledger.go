package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
)

// An entry is one prefix that is not, or not surely, as it ought to be.
type entry struct {
	since    time.Time
	attempts int
	next     time.Time // not asked before
	deadline time.Time // asked, and given until then to be read as wanted; zero: not under way
	asked    bool      // ever: then one reading as wanted is not enough, it may not be settled
	followed bool      // it was read since it was taken
	undone   int       // how often others undid what was taken
	force    bool      // the opposite was under way: ask, until that is taken, even when it is read as wanted
	seen     routers.Observation
	retry    backoff   // after what an attempt came to
	turn     backoff   // while others, or what was asked for before, keep one from coming to anything
	repeated time.Time // when it was last asked, by an attempt or because of a hint
	err      error     // of the last attempt that failed
}

// met says whether the last reading was as wanted, which the next one is to confirm.
func (e *entry) met() bool { return e.seen.Stage != routers.Unknown }

// waits says whether the entry is neither being read back nor being confirmed.
func (e *entry) waits() bool { return e.deadline.IsZero() && !e.met() }

// A ledger is what is known of the managed prefixes and what is still to be done. It is not safe for
// concurrent use. Its methods take the time, and where they choose a wait a random number below 1,
// one for all prefixes, so that what failed together is tried again together.
type ledger struct {
	opt     Options
	goal    routers.Stage
	want    Desired
	have    []routers.Observation // of the last reading, sorted
	err     error                 // of the last reading
	entries map[netip.Prefix]*entry
	repairs map[netip.Prefix]*bucket
}

func newLedger(opt Options) *ledger {
	return &ledger{opt: opt, entries: map[netip.Prefix]*entry{}, repairs: map[netip.Prefix]*bucket{}}
}

// find gives the Observation of p in have, which is sorted, or nil.
func find(have []routers.Observation, p netip.Prefix) *routers.Observation {
	i, ok := slices.BinarySearchFunc(have, p, func(o routers.Observation, p netip.Prefix) int { return o.Prefix.Compare(p) })
	if !ok {
		return nil
	}
	return &have[i]
}

// last gives what p was last read as.
func (l *ledger) last(p netip.Prefix) routers.Observation {
	if o := find(l.have, p); o != nil {
		return *o
	}
	return routers.Observation{Prefix: p}
}

// desire takes in what is wanted from now on. A prefix that ought to be something else now starts
// afresh: no wait of the past holds it up.
func (l *ledger) desire(next Desired, now time.Time) {
	old := l.want
	l.want = next
	for p := range old {
		if _, ok := next[p]; !ok {
			delete(l.entries, p)
			delete(l.repairs, p)
		}
	}
	for p, w := range next {
		if was, ok := old[p]; ok && was == w {
			continue
		}
		e := l.entries[p]
		force := e != nil && e.asked && w != routers.Keep
		delete(l.entries, p)
		if force || !Met(w, l.last(p), l.goal) {
			l.entries[p] = &entry{since: now, next: now, force: force}
		}
	}
}

// observe takes in a reading, one Observation for each managed prefix.
func (l *ledger) observe(have []routers.Observation, err error, goal routers.Stage, now time.Time, random float64) {
	back := l.err != nil && err == nil
	old := l.have
	l.have, l.err, l.goal = have, err, goal
	for _, o := range have {
		e := l.entries[o.Prefix]
		switch ok := Met(l.want[o.Prefix], o, goal); {
		case ok && e != nil && !e.force:
			l.confirm(e, o)
		case ok && e == nil:
		case e == nil:
			l.entries[o.Prefix] = &entry{since: now, next: l.repairAt(o, now)}
		case e.met(): // and was undone again
			e.seen, e.deadline, e.next = routers.Observation{}, time.Time{}, l.repairAt(o, now)
		case !e.deadline.IsZero() && !now.Before(e.deadline):
			l.failed(o.Prefix, l.notTaken(o), now, random)
		case !e.deadline.IsZero() && e.fell(l.want[o.Prefix], find(old, o.Prefix), o):
			e.undone++
			e.deadline, e.next = time.Time{}, l.repairAt(o, now)
		case !e.deadline.IsZero():
			e.followed = true
		case back && away(e.err):
			e.next = now
		case e.waits() && e.next.After(now) && moved(l.want[o.Prefix], find(old, o.Prefix), o):
			l.hasten(e, o, now)
		}
	}
}

// moved says whether what happened to a prefix between two readings, which is not as wanted in either, is a
// reason to ask again: whoever did that may have undone what was done before, or ended what the last attempt
// failed for. A withdraw has it in whatever draws more traffic.
func moved(w routers.Want, was *routers.Observation, is routers.Observation) bool {
	switch {
	case was == nil || is.Stage == routers.Unknown:
		return false
	case was.Epoch != 0 && is.Epoch > was.Epoch:
		return true
	case w == routers.Withdrawn:
		return is.Stage > was.Stage || was.Degraded && !is.Degraded
	}
	return was.Stage != routers.Unknown && (is.Stage != was.Stage || is.Degraded != was.Degraded || is.Broken != was.Broken)
}

// fell says whether a prefix that was asked for, and taken, was undone by somebody else: it is further away from what is
// wanted of it than at the reading before, which may be one from before it was taken; or nothing that was asked for is
// there.
func (e *entry) fell(w routers.Want, was *routers.Observation, is routers.Observation) bool {
	switch {
	case was == nil || is.Stage == routers.Unknown || e.undone == burst: // then it has its deadline each time
		return false
	case w == routers.Withdrawn:
		return e.followed && (is.Stage > was.Stage || was.Degraded && !is.Degraded)
	}
	return is.Broken || e.followed && is.Stage < was.Stage
}

// hasten has a prefix that waits asked for at once, as often as anything is repaired.
func (l *ledger) hasten(e *entry, o routers.Observation, now time.Time) {
	if b := l.bucket(o.Prefix); b.next(now).Before(e.next) {
		e.next = b.take(now)
	}
}

// away says whether an attempt failed because the daemon did not answer.
func away(err error) bool {
	return errors.Is(err, routers.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// confirm takes in a reading that is as wanted. What nobody was asked for is settled by it; what was
// asked for, by two in a row that are alike.
func (l *ledger) confirm(e *entry, o routers.Observation) {
	if !e.asked || e.seen.Stage == o.Stage {
		delete(l.entries, o.Prefix)
		return
	}
	e.seen = o
}

// repairAt gives the time to repair what somebody else has undone: at once, but not without end when
// it is undone each time.
func (l *ledger) repairAt(o routers.Observation, now time.Time) time.Time {
	if !askable(l.want[o.Prefix], o.Stage) {
		return now
	}
	return l.bucket(o.Prefix).take(now)
}

// bucket gives what bounds the repairs of p.
func (l *ledger) bucket(p netip.Prefix) *bucket {
	if l.repairs[p] == nil {
		l.repairs[p] = &bucket{}
	}
	return l.repairs[p]
}

// notTaken is the error of a change that was asked for and is not read.
func (l *ledger) notTaken(o routers.Observation) error {
	err := fmt.Errorf("%s is still read as %s, %s after it was asked to be %s", o.Prefix, inWhatWay(o, l.want[o.Prefix]), l.opt.Deadline, l.want[o.Prefix])
	if o.Detail != "" {
		err = fmt.Errorf("%w: %s", err, o.Detail)
	}
	return err
}

// inWhatWay names the stage, and the way where that may be what is not as wanted.
func inWhatWay(o routers.Observation, w routers.Want) string {
	switch {
	case o.Degraded:
		return o.Stage.String() + ", degraded"
	case w == routers.Degraded && o.Stage > routers.Absent:
		return o.Stage.String() + ", not degraded"
	}
	return o.Stage.String()
}

// due gives the changes to ask for at now, in Plan's order. It has none for a prefix that was in no
// reading yet.
func (l *ledger) due(now time.Time) []routers.Change {
	ready := Desired{}
	have := slices.Clone(l.have)
	for i, o := range have {
		e := l.entries[o.Prefix]
		if e == nil || !e.waits() || e.next.After(now) {
			continue
		}
		ready[o.Prefix] = l.want[o.Prefix]
		if e.force && o.Stage != routers.Unknown {
			have[i].Stage = unmet(l.want[o.Prefix])
		}
	}
	return Plan(ready, have, l.goal)
}

// unmet gives a stage that is not as wanted.
func unmet(w routers.Want) routers.Stage {
	if w == routers.Withdrawn {
		return routers.Configured
	}
	return routers.Absent
}

// urgent gives the changes that are due at now and do not wait for another reading: what draws traffic
// is to draw less of it.
func (l *ledger) urgent(now time.Time) []routers.Change {
	return slices.DeleteFunc(l.due(now), func(c routers.Change) bool {
		return c.Want != routers.Withdrawn && (c.Want != routers.Degraded || l.last(c.Prefix).Stage < routers.Configured)
	})
}

// undone gives the withdraws that were asked for and are not read to have come about, each at most
// every repeatEvery. One that was refused is not hammered.
func (l *ledger) undone(now time.Time) []routers.Change {
	var cs []routers.Change
	for p, e := range l.entries {
		if l.want[p] != routers.Withdrawn || !e.asked || Met(routers.Withdrawn, l.last(p), l.goal) || classOf(e.err) == refused || now.Sub(e.repeated) < repeatEvery {
			continue
		}
		e.repeated = now
		cs = append(cs, routers.Change{Prefix: p, Want: routers.Withdrawn})
	}
	sortChanges(cs)
	return cs
}

// ask notes that cs are about to be asked for, now.
func (l *ledger) ask(cs []routers.Change, now time.Time) {
	for _, c := range cs {
		e := l.entries[c.Prefix]
		e.repeated = now
		e.attempts++
		e.asked = true
	}
}

// taken notes that cs were asked for without an error, by now.
func (l *ledger) taken(cs []routers.Change, now time.Time) {
	for _, c := range cs {
		e := l.entries[c.Prefix]
		e.deadline, e.force, e.followed = now.Add(l.opt.Deadline), false, false
	}
}

// failed notes that an attempt at p came to err, and when the next one is due.
func (l *ledger) failed(p netip.Prefix, err error, now time.Time, random float64) {
	e := l.entries[p]
	wait := &e.turn
	if c := classOf(err); c != busy {
		wait, e.turn = &e.retry, backoff{}
	}
	wait.grow(classOf(err), l.opt, l.want[p])
	e.deadline, e.next = time.Time{}, now.Add(wait.jittered(random))
	if !errors.Is(err, routers.ErrUnderway) || e.err == nil || classOf(e.err) == busy { // else what an attempt came to stays
		e.err = err
	}
}

// polls says whether something is being read back.
func (l *ledger) polls() bool {
	for _, e := range l.entries {
		if !e.waits() {
			return true
		}
	}
	return false
}

// deadline gives the first one of what is being read back and was not yet read as wanted; zero: there is none.
func (l *ledger) deadline() (at time.Time) {
	for _, e := range l.entries {
		if !e.deadline.IsZero() && !e.met() && (at.IsZero() || e.deadline.Before(at)) {
			at = e.deadline
		}
	}
	return at
}

// newest gives since when the last of those that are outstanding is; zero: none is.
func (l *ledger) newest() (at time.Time) {
	for _, e := range l.entries {
		at = later(at, e.since)
	}
	return at
}

// withdrawing says whether a withdraw is being read back.
func (l *ledger) withdrawing() bool {
	for p, e := range l.entries {
		if l.want[p] == routers.Withdrawn && !e.waits() {
			return true
		}
	}
	return false
}

// nextAttempt gives the time of the next change to be asked for; zero: none is waiting.
func (l *ledger) nextAttempt() time.Time {
	var at time.Time
	for p, e := range l.entries {
		if e.waits() && askable(l.want[p], l.last(p).Stage) && (at.IsZero() || e.next.Before(at)) {
			at = e.next
		}
	}
	return at
}

// first gives the want that is outstanding and comes first in Plan's order; Announced, when none is.
func (l *ledger) first() routers.Want {
	first := routers.Announced
	for p := range l.entries {
		if w := l.want[p]; w != routers.Keep {
			first = min(first, w)
		}
	}
	return first
}

// outstanding gives a copy of the entries for a Report.
func (l *ledger) outstanding() map[netip.Prefix]Outstanding {
	out := make(map[netip.Prefix]Outstanding, len(l.entries))
	for p, e := range l.entries {
		o := Outstanding{Since: e.since, Attempts: e.attempts, Err: e.err, Doing: Announcing}
		w, s := l.want[p], l.last(p).Stage
		switch {
		case w == routers.Withdrawn:
			o.Doing = Withdrawing
		case s == routers.Unknown:
			o.Doing = Waiting
		case w == routers.Degraded:
			o.Doing = Degrading
		}
		switch {
		case e.met():
			o.Err = nil // what it complained of has come about
		case o.Doing == Waiting && classOf(e.err) == busy:
			o.Err = nil // nobody asks meanwhile, and it would be told when that is long over
		case e.waits() && askable(w, s):
			o.Next = e.next
		}
		out[p] = o
	}
	return out
}
