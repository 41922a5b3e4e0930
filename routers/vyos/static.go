package vyos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
)

// static is the method of static blackhole routes in VyOS's configuration.
type static struct {
	options Options
	source  *frr.Source
	system  system

	mu      sync.Mutex
	running *job // the last transaction, which may outlive the call that began it
}

// A job is a transaction on its own goroutine.
type job struct {
	began      time.Time
	committing atomic.Bool
	cancel     context.CancelFunc            // breaks it off unless it commits already
	wants      map[netip.Prefix]routers.Want // what is wanted by now, of it and of the calls since; guarded by static.mu
	done       chan struct{}
	err        error // once done is closed
}

func newStatic(o Options, source *frr.Source, s system) *static {
	return &static{options: o, source: source, system: s}
}

// settle is what a reader of the running configuration waits before it believes that something is not there: a
// commit rewrites it in place.
const settle = 10 * time.Millisecond

// observe asks VyOS for the routes that there are, and looks into the blackholes of those alone that zebra lacks.
func (s *static) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	origins, err := s.source.Read(ctx, ps)
	byPrefix := index(origins)
	a, unread := s.read(ctx, ps, byPrefix, func(p netip.Prefix) bool { return !byPrefix[p].There })
	os := make([]routers.Observation, len(ps))
	for i, o := range origins {
		n := a.nodes[ps[i]]
		mine := made{there: n.blackhole, kin: true, unread: unread, what: "the static route", where: "VyOS's configuration"}
		worse := s.options.Degraded.Tag
		mine.degraded = worse != 0 && (slices.Contains(o.Tags, worse) || !o.There && n.blackhole && n.tag == worse)
		mine.foreign = foreign(ps[i], n, o)
		os[i] = judge(o, mine)
		if n.blackhole && o.Unread == nil && !o.There {
			os[i].Detail = join(os[i].Detail, "the next commit may put it into FRR again, as long as it is in VyOS's configuration")
		}
	}
	return os, routers.Join(err, unread)
}

// foreign says what else there is of a prefix; empty: nothing that was seen.
func foreign(p netip.Prefix, n node, o frr.Origin) string {
	switch {
	case len(n.others) > 0:
		return fmt.Sprintf("protocols static %s %s has children that are not ours (%s): they stay when it is withdrawn, and it is not announced again while they are there", routeNode(p), p, strings.Join(n.others, ", "))
	case o.Others:
		return "there is another static route for it, which is not ours and stays"
	}
	return ""
}

func index(origins []frr.Origin) map[netip.Prefix]frr.Origin {
	all := make(map[netip.Prefix]frr.Origin, len(origins))
	for _, o := range origins {
		all[o.Prefix] = o
	}
	return all
}

// read reads the running configuration, and once more where it lacks what zebra has, or all there was.
func (s *static) read(ctx context.Context, ps []netip.Prefix, origins map[netip.Prefix]frr.Origin, deep func(netip.Prefix) bool) (active, error) {
	a, err := s.system.readActive(ctx, ps, deep)
	doubtful := func(p netip.Prefix) bool {
		return !a.nodes[p].blackhole && (origins[p].There || len(a.routes[routeNode(p)]) == 0)
	}
	if err != nil || !slices.ContainsFunc(ps, doubtful) {
		return a, err
	}
	if err := pause(ctx, settle); err != nil {
		return a, err
	}
	return s.system.readActive(ctx, ps, deep)
}

// apply takes what is to be withdrawn out of FRR first, whoever commits just now, and then has VyOS's configuration
// follow: an FRR that has lost a route gets it back from there with the next commit of anybody. Beside an FRR that
// hangs nothing is committed: that would hang too, and have the lock of all others meanwhile.
func (s *static) apply(ctx context.Context, cs []routers.Change) error {
	origins, dark := s.source.Zebra(ctx, prefixes(cs))
	if dark != nil && (hangs(dark) || ctx.Err() != nil) {
		return routers.Errorf(dark, "nothing was committed, as FRR does not answer: %w", dark)
	}
	s.tell(cs)
	early := routers.Join(dark, s.hasten(ctx, cs, origins))
	withdraws := slices.ContainsFunc(cs, func(c routers.Change) bool { return c.Want == routers.Withdrawn })
	waited, err := s.idle(ctx, !withdraws)
	if err != nil {
		return routers.Join(early, err)
	}
	if waited { // its commit may have brought back what was withdrawn
		origins, dark = s.source.Zebra(ctx, prefixes(cs))
		early = routers.Join(dark, s.hasten(ctx, cs, origins))
	}
	before, _ := s.system.holder()
	p, err := s.plan(ctx, cs)
	if err != nil {
		return routers.Join(early, err)
	}
	failed := append(p.refused, s.repair(ctx, p), s.unsure(p, before))
	if len(p.ops) > 0 {
		if err := staticd(ctx, s.options.SocketDir, s.options.Timeout); err != nil {
			return routers.Join(append(failed, err)...)
		}
		failed = append(failed, s.transact(ctx, p, cs))
	}
	if err := routers.Join(failed...); err != nil {
		return routers.Join(early, err)
	}
	return s.verify(ctx, p.changes)
}

// hasten removes the withdrawn routes from FRR: VyOS takes seconds. Its error does not matter when the commit, which
// does the same, goes well.
func (s *static) hasten(ctx context.Context, cs []routers.Change, origins []frr.Origin) error {
	var there []netip.Prefix
	for i, c := range cs {
		if c.Want == routers.Withdrawn && origins[i].There {
			there = append(there, c.Prefix)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return s.source.RemoveStatic(ctx, there)
}

// tell has a transaction that an earlier call left running know what is wanted now.
func (s *static) tell(cs []routers.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	for _, c := range cs {
		s.running.wants[c.Prefix] = c.Want
	}
}

// hold takes what is withdrawn by now out of FRR once more: a commit, whoever's it is, takes seconds, and makes FRR's
// routes anew from what was configured when it began. Nobody else may look for long.
func (s *static) hold(j *job) {
	s.mu.Lock()
	var cs []routers.Change
	for p, w := range j.wants {
		if w == routers.Withdrawn {
			cs = append(cs, routers.Change{Prefix: p, Want: w})
		}
	}
	s.mu.Unlock()
	if len(cs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Step)
	defer cancel()
	origins, _ := s.source.Zebra(ctx, prefixes(cs))
	_ = s.hasten(ctx, cs, origins) // the next call meets it too, and tells
}

// idle waits for a transaction that an earlier call left running, and tells whether there was one. One that does not
// commit yet is broken off: what it was to do is not what is wanted now. One that commits is waited for by who is patient:
// what was just taken out of FRR is to be read first.
func (s *static) idle(ctx context.Context, patient bool) (waited bool, err error) {
	s.mu.Lock()
	j := s.running
	s.mu.Unlock()
	if j == nil {
		return false, nil
	}
	if !j.committing.Load() {
		j.cancel()
	} else if !patient {
		return true, s.unfinished(j, nil)
	}
	if err := s.wait(ctx, j); err != nil {
		return true, err
	}
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	return true, nil
}

// wait waits for the end of a job; its own error is not given.
func (s *static) wait(ctx context.Context, j *job) error {
	patience := time.NewTimer(s.options.Deadline)
	defer patience.Stop()
	select {
	case <-j.done:
		return nil
	default:
	}
	select {
	case <-j.done:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	return s.unfinished(j, ctx.Err())
}

// unfinished says why a job is not done yet. It is the same text as long as that is so, which is told once.
func (s *static) unfinished(j *job, ended error) error {
	busy, since := errors.Join(routers.ErrBusy, ended), j.began.Format(time.TimeOnly)
	if j.committing.Load() {
		return routers.Errorf(busy, "VyOS is still committing, since %s, and is left to end", since)
	}
	if pid, err := s.system.holder(); err == nil && pid != 0 {
		return routers.Errorf(busy, "%w", s.system.lockedBy(pid))
	}
	return routers.Errorf(busy, "VyOS's session, begun at %s, does not end yet", since)
}

// plan reads all that the changes depend on, and decides.
func (s *static) plan(ctx context.Context, cs []routers.Change) (plan, error) {
	ps := prefixes(cs)
	origins, _ := s.source.Zebra(ctx, ps) // what it cannot tell repairs nothing
	byPrefix := index(origins)
	a, err := s.read(ctx, ps, byPrefix, func(netip.Prefix) bool { return true })
	if err != nil {
		return plan{}, err
	}
	r := rules{tag: s.options.Degraded.Tag, distance: s.options.Distance, unsettled: s.system.unsettled()}
	return makePlan(cs, a, byPrefix, r), nil
}

// repair makes FRR what VyOS's configuration says already: no commit would.
func (s *static) repair(ctx context.Context, p plan) error {
	var errs []error
	if len(p.drop) > 0 {
		errs = append(errs, s.source.PurgeStatic(ctx, p.drop))
	}
	if len(p.add) > 0 {
		errs = append(errs, s.source.AddStatic(ctx, p.add))
	}
	return routers.Join(errs...)
}

// unsure says that what was repaired is to be looked at again, as somebody has committed meanwhile, or had begun to: the
// configuration that was read is not the one that comes of it.
func (s *static) unsure(p plan, before int) error {
	after, _ := s.system.holder()
	pid := cmp.Or(after, before)
	if pid == 0 {
		return nil
	}
	var errs []error
	for _, prefix := range p.repaired() {
		errs = append(errs, &routers.PrefixError{Prefix: prefix, Err: routers.Errorf(routers.ErrBusy,
			"%s: put right in FRR while somebody commits (%s), which may undo it", prefix, nameOf(pid))})
	}
	return routers.Join(errs...)
}

// transact begins a transaction and waits for its end, or that of ctx.
func (s *static) transact(ctx context.Context, p plan, cs []routers.Change) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{began: time.Now(), cancel: cancel, wants: map[netip.Prefix]routers.Want{}, done: make(chan struct{})}
	commits := func(begins bool) {
		if !begins {
			s.hold(j)
		}
		j.committing.Store(begins)
	}
	t := &transaction{options: s.options, system: s.system, ops: p.ops, commits: commits, others: func() { s.hold(j) }}
	s.mu.Lock()
	s.running = j
	s.mu.Unlock()
	s.tell(cs)
	go func() {
		defer close(j.done)
		defer cancel()
		j.err = t.run(inner)
	}()
	err := s.wait(ctx, j)
	if err != nil {
		if !j.committing.Load() {
			cancel()
		}
		return err
	}
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	return j.err
}

// verifyStep is between two looks at FRR after a commit.
const verifyStep = 50 * time.Millisecond

// verify waits until zebra has what was asked for: from VyOS 1.5 on a commit is answered before FRR has it, and what
// becomes of it then is told to nobody.
func (s *static) verify(ctx context.Context, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	until := time.Now().Add(s.options.VerifyWait)
	for {
		origins, err := s.source.Zebra(ctx, prefixes(cs))
		if err != nil {
			return err
		}
		var late []error
		for i, o := range origins {
			if why := s.late(cs[i].Want, o); why != "" {
				late = append(late, &routers.PrefixError{Prefix: o.Prefix, Err: routers.Errorf(routers.ErrUnavailable, "%s: %s", o.Prefix, why)})
			}
		}
		if len(late) == 0 {
			return nil
		}
		if time.Now().After(until) || pause(ctx, verifyStep) != nil {
			return routers.Join(late...)
		}
	}
}

// late says what zebra lacks of what was wanted, or has too much.
func (s *static) late(want routers.Want, o frr.Origin) string {
	worse := s.options.Degraded.Tag
	switch {
	case want == routers.Withdrawn && o.There:
		return "VyOS's configuration has it no more, and FRR still does"
	case want == routers.Withdrawn:
		return ""
	case !o.There:
		return "VyOS's configuration has it, and FRR does not"
	case worse != 0 && slices.Contains(o.Tags, worse) != (want == routers.Degraded):
		return "VyOS's configuration has another tag of it than FRR"
	}
	return ""
}

// close waits for a transaction that still runs.
func (s *static) close() error {
	_, err := s.idle(context.Background(), true)
	return err
}
