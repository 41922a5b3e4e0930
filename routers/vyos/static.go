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

	epoch atomic.Uint64 // a new one with each commit of others; 0: nobody looks
}

func newStatic(o Options, source *frr.Source, s system) *static {
	return &static{options: o, source: source, system: s}
}

// settle is what a reader of the running configuration waits before it believes that something is not there: a
// commit rewrites it in place.
const settle = 10 * time.Millisecond

// observe reads FRR and VyOS's configuration side by side: neither takes the time of the other.
func (s *static) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	var origins []frr.Origin
	var err error
	before := s.system.calm()
	read := make(chan struct{})
	go func() {
		defer close(read)
		origins, err = s.source.Read(ctx, ps)
	}()
	a, unread := s.system.readActive(ctx, ps, s.options.leaves())
	<-read
	if unread == nil {
		a, unread = s.again(ctx, ps, index(origins), a, before)
	}
	others, epoch, told := kernelRoutes(ctx, origins), s.epoch.Load(), s.earlier()
	os := make([]routers.Observation, len(ps))
	for i, o := range origins {
		n := a.nodes[ps[i]]
		mine := made{there: n.blackhole, kin: true, unread: unread, what: "the static route", where: "VyOS's configuration"}
		worse := s.options.Degraded.Tag
		mine.degraded = worse != 0 && (slices.Contains(o.Tags, worse) || !o.There && n.blackhole && n.tag == worse)
		mine.foreign = foreign(ps[i], n, o)
		os[i] = judge(o, mine)
		os[i].Epoch = epoch
		unsaved := errors.Is(told[ps[i]], errUnsaved)
		if told[ps[i]] != nil && (unsaved || os[i].Stage == routers.Unknown) { // nobody asks for what cannot be read, and is told
			os[i].Detail = join(os[i].Detail, told[ps[i]].Error())
		}
		os[i].Broken = os[i].Broken || unsaved // the next call takes it in, and tells
		if n.blackhole && o.Unread == nil && !o.There {
			os[i].Detail = join(os[i].Detail, "the next commit may put it into FRR again, as long as it is in VyOS's configuration")
		}
		if len(others[ps[i]]) > 0 {
			os[i] = twice(os[i])
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

// again reads the running configuration once more where it lacks what zebra has, or all there was, and somebody may have
// committed since before.
func (s *static) again(ctx context.Context, ps []netip.Prefix, origins map[netip.Prefix]frr.Origin, a active, before calm) (active, error) {
	doubtful := func(p netip.Prefix) bool {
		return !a.nodes[p].blackhole && (origins[p].There || len(a.routes[routeNode(p)]) == 0)
	}
	if !slices.ContainsFunc(ps, doubtful) || before.lasts(s.system) {
		return a, nil
	}
	if err := pause(ctx, settle); err != nil {
		return a, err
	}
	return s.system.readActive(ctx, ps, s.options.leaves())
}

// apply takes what is to be withdrawn out of FRR first, whoever commits just now, and then has VyOS's configuration
// follow: an FRR that has lost a route gets it back from there with the next commit of anybody. Beside an FRR that
// hangs nothing is committed: that would hang too, and have the lock of all others meanwhile.
func (s *static) apply(ctx context.Context, cs []routers.Change) error {
	s.tell(cs)
	took, early, err := s.early(ctx, cs)
	if err != nil {
		return err
	}
	withdraws := slices.ContainsFunc(cs, func(c routers.Change) bool { return c.Want == routers.Withdrawn })
	ended, err := s.idle(ctx, cs, !withdraws)
	if err != nil {
		return routers.Join(early, err)
	}
	var failed []error
	if ended != nil { // its commit may have brought back what was withdrawn
		if ctx.Err() != nil {
			return routers.Errorf(errors.Join(routers.ErrBusy, routers.ErrUnderway, ctx.Err()), "VyOS's session, begun at %s, has ended just now", ended.began.Format(time.TimeOnly))
		}
		more, late, err := s.early(ctx, cs)
		if err != nil {
			return err
		}
		took, early = took || more, late
		cs, err = ended.outcome(cs)
		failed = append(failed, err)
	}
	if len(cs) > 0 {
		failed = append(failed, s.follow(ctx, cs, took))
	}
	if err := routers.Join(failed...); err != nil {
		return routers.Join(early, err)
	}
	return nil
}

// early takes what is to be withdrawn out of FRR and the kernel, and tells whether FRR had any. What it could not matters
// no more, when the commit goes well; the second error ends all.
func (s *static) early(ctx context.Context, cs []routers.Change) (took bool, late, dark error) {
	kernel := dropKernelRoutes(ctx, cs, func(c routers.Change) bool { return c.Want == routers.Withdrawn })
	origins, dark := s.source.Zebra(ctx, prefixes(cs))
	if dark != nil && (hangs(dark) || ctx.Err() != nil) {
		return false, nil, routers.Join(routers.Errorf(dark, "nothing was committed, as FRR does not answer: %w", dark), kernel)
	}
	took, err := s.hasten(ctx, cs, origins)
	return took, routers.Join(dark, err, kernel), nil
}

// follow has VyOS's configuration be as is wanted, and FRR as that is. Where FRR was changed just now, that is to be read
// first, and a VyOS that does not say soon what it has is asked by the next call.
func (s *static) follow(ctx context.Context, cs []routers.Change, changed bool) error {
	before := s.system.committer()
	asking, cancel := ctx, func() {}
	if changed {
		asking, cancel = context.WithTimeout(ctx, max(s.options.Patience, s.options.Timeout))
	}
	p, err := s.plan(asking, cs)
	slow := asking.Err() != nil && ctx.Err() == nil
	cancel()
	if err != nil && slow {
		return routers.Errorf(errors.Join(routers.ErrBusy, err), "what is withdrawn is taken out of FRR, and nothing was committed yet, as VyOS does not say what it has: %w", err)
	}
	if err != nil {
		return err
	}
	failed := append(p.refused, s.repair(ctx, p), s.unsure(cs, p, before))
	if len(p.ops) > 0 {
		if err := staticd(ctx, s.source); err != nil {
			return routers.Join(append(failed, err)...)
		}
		j := s.start(ctx, p, cs)
		if err := s.wait(ctx, j, s.options.Patience); err != nil {
			return routers.Join(append(failed, err)...)
		}
		failed = append(failed, j.err)
	}
	if err := routers.Join(failed...); err != nil {
		return err
	}
	if err := s.verify(ctx, p.changes); err != nil {
		return err
	}
	return dropKernelRoutes(ctx, cs, func(routers.Change) bool { return true })
}

// hasten removes the withdrawn routes from FRR: VyOS takes seconds. It tells whether any were. Its error does not
// matter when the commit, which does the same, goes well.
func (s *static) hasten(ctx context.Context, cs []routers.Change, origins []frr.Origin) (took bool, err error) {
	var there []netip.Prefix
	for i, c := range cs {
		if c.Want == routers.Withdrawn && origins[i].There {
			there = append(there, c.Prefix)
		}
	}
	if len(there) == 0 {
		return false, nil
	}
	return true, s.source.RemoveStatic(ctx, there)
}

// plan reads all that the changes depend on, and decides.
func (s *static) plan(ctx context.Context, cs []routers.Change) (plan, error) {
	ps, before := prefixes(cs), s.system.calm()
	origins, _ := s.source.Zebra(ctx, ps) // what it cannot tell repairs nothing
	byPrefix := index(origins)
	a, err := s.system.readActive(ctx, ps, s.options.leaves())
	if err == nil {
		a, err = s.again(ctx, ps, byPrefix, a, before)
	}
	if err != nil {
		return plan{}, err
	}
	r := rules{s.options.leaves(), s.system.unsettled()}
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

// unsure says that what is not committed is to be looked at again, as somebody has committed meanwhile, or had begun to:
// the configuration that was read is not the one that comes of it.
func (s *static) unsure(cs []routers.Change, p plan, before int) error {
	pid := cmp.Or(s.system.committer(), before)
	if pid == 0 {
		return nil
	}
	settled, repaired := p.settled(), p.repaired()
	var errs []error
	for _, c := range cs {
		what := "VyOS's configuration is as wanted"
		again := c.Want != routers.Withdrawn && !settled[c.Prefix]
		if slices.Contains(repaired, c.Prefix) {
			what, again = "put right in FRR", true
		}
		if again {
			errs = append(errs, &routers.PrefixError{Prefix: c.Prefix, Err: routers.Errorf(routers.ErrBusy,
				"%s: %s while somebody commits (%s), which may undo it", c.Prefix, what, nameOf(pid))})
		}
	}
	return routers.Join(errs...)
}

// After a commit FRR is looked at each verifyStep, and no more when only verifySpare is left to tell.
const (
	verifyStep  = 50 * time.Millisecond
	verifySpare = time.Second
)

// verify waits until zebra has what was asked for: from VyOS 1.5 on a commit is answered before FRR has it, and what
// becomes of it then is told to nobody. When ctx ends first, that is no error: it was asked for, and is read next.
func (s *static) verify(ctx context.Context, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	until := time.Now().Add(s.options.VerifyWait)
	if end, ok := ctx.Deadline(); ok && end.Add(-verifySpare).Before(until) {
		until = end.Add(-verifySpare)
	}
	for {
		origins, err := s.source.Zebra(ctx, prefixes(cs))
		if ctx.Err() != nil {
			return nil
		}
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
		if time.Now().After(until) {
			return routers.Join(late...)
		}
		_ = pause(ctx, verifyStep)
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
