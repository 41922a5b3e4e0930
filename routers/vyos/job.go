package vyos

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// A job is a transaction on its own goroutine. It goes on beyond the call that began it, as long as what it does is
// wanted, and is told what is wanted by the calls since.
type job struct {
	began      time.Time
	committing atomic.Pointer[time.Time]     // since when it commits; nil: it does not
	cancel     context.CancelFunc            // breaks it off unless it commits already
	makes      map[netip.Prefix]routers.Want // what it is to make
	wants      map[netip.Prefix]routers.Want // what is wanted by now, of it and of the calls since; guarded by static.mu
	stirred    chan struct{}                 // a route of the kernel has changed
	done       chan struct{}
	broken     bool  // it was broken off, as something else is wanted; by the callers alone
	err        error // once done is closed
	ended      time.Time
}

// wanted tells whether none of the changes is against what it does.
func (j *job) wanted(cs []routers.Change) bool {
	for _, c := range cs {
		if w, ok := j.makes[c.Prefix]; ok && w != c.Want {
			return false
		}
	}
	return true
}

// start begins a transaction. In the namespace of the calling thread it hears of routes that come back.
func (s *static) start(ctx context.Context, p plan, cs []routers.Change) *job {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{began: time.Now(), cancel: cancel, makes: map[netip.Prefix]routers.Want{}, wants: map[netip.Prefix]routers.Want{},
		stirred: make(chan struct{}, 1), done: make(chan struct{})}
	for _, c := range p.changes {
		j.makes[c.Prefix] = c.Want
	}
	for _, c := range cs {
		j.wants[c.Prefix] = c.Want
	}
	t := &transaction{options: s.options, system: s.system, ops: p.ops, commits: func(begins bool) { s.commits(j, begins) }}
	s.mu.Lock()
	s.running = j
	s.mu.Unlock()
	guarded, unguard := context.WithCancel(context.WithoutCancel(ctx))
	rtnl.SubscribeFor(guarded, rtnl.OnNetworks, j.stir, func(error) {}) // without it the lock is watched still
	go func() {
		defer close(j.done)
		defer cancel()
		var guard sync.WaitGroup
		guard.Go(func() { keepOut(guarded, j.stirred, s.system.committer, func() { s.hold(j) }) })
		j.err, j.ended = t.run(inner), time.Now()
		unguard()
		guard.Wait()
	}()
	return j
}

// stir notes that routes have changed.
func (j *job) stir() {
	select {
	case j.stirred <- struct{}{}:
	default:
	}
}

// commits notes that a commit of the job begins, or has ended, which made FRR's routes anew.
func (s *static) commits(j *job, begins bool) {
	if begins {
		now := time.Now()
		j.committing.Store(&now)
		return
	}
	s.hold(j)
	j.committing.Store(nil)
}

// How often the lock of all commits is looked at, and FRR while somebody has it.
const (
	guardEvery = 50 * time.Millisecond
	lookEvery  = time.Second
)

// keepOut sees to it, while a job lasts, that what is withdrawn stays out of FRR, which hold takes out of it: a commit of
// others makes FRR's routes anew from what was configured when it began, and the job may have to wait for its turn.
func keepOut(ctx context.Context, stirred <-chan struct{}, committer func() (pid int), hold func()) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	held, looked, changed := 0, time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-stirred:
			if changed = true; time.Since(looked) < guardEvery {
				continue // at the next tick
			}
		case <-tick.C:
		}
		was := held
		held = committer()
		if changed || was != 0 && held != was || held != 0 && time.Since(looked) > lookEvery {
			hold()
			looked, changed = time.Now(), false
		}
	}
}

// hold takes what is withdrawn by now out of FRR once more. Nobody else may look for long.
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
	_, _ = s.hasten(ctx, cs, origins) // the next call meets it too, and tells
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

// idle waits for a transaction that an earlier call left running, and gives it when it has ended; nil: there was none.
// One that does not commit yet is broken off where something else is wanted than it does. Any other is waited for by
// who is patient: what was just taken out of FRR is to be read first.
func (s *static) idle(ctx context.Context, cs []routers.Change, patient bool) (*job, error) {
	s.mu.Lock()
	j := s.running
	s.mu.Unlock()
	if j == nil {
		return nil, nil
	}
	drop := j.committing.Load() == nil && !j.wanted(cs)
	if drop {
		j.broken = true
		j.cancel()
	}
	if !patient && !drop {
		select {
		case <-j.done:
		default:
			return nil, s.unfinished(j, nil)
		}
	}
	return j, s.wait(ctx, j, s.options.Patience)
}

// wait waits so long for the end of a job, which is the running one no more then; its own error is not given.
func (s *static) wait(ctx context.Context, j *job, patience time.Duration) error {
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-j.done:
	case <-over.C:
	case <-ctx.Done():
	}
	select {
	case <-j.done:
	default:
		return s.unfinished(j, ctx.Err())
	}
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	return nil
}

// unfinished says why a job is not done yet. It is the same text as long as that is so, which is told once.
func (s *static) unfinished(j *job, ended error) error {
	busy, underway := errors.Join(routers.ErrBusy, ended), errors.Join(routers.ErrBusy, routers.ErrUnderway, ended)
	if since := j.committing.Load(); since != nil {
		return routers.Errorf(underway, "VyOS is still committing, since %s, and is left to end", since.Format(time.TimeOnly))
	}
	if pid, err := s.system.holder(); err == nil && pid != 0 {
		return routers.Errorf(busy, "%w", s.system.lockedBy(pid))
	}
	return routers.Errorf(underway, "VyOS's session, begun at %s, is not committed yet", j.began.Format(time.TimeOnly))
}

// stale is when what became of a job is no answer any more to who asks for the same.
const stale = time.Minute

// earlier tells, of each prefix that a job was to make which an earlier call left running, that this goes on, or what it came
// to: nil where it went well.
func (s *static) earlier() map[netip.Prefix]error {
	s.mu.Lock()
	j := s.running
	s.mu.Unlock()
	if j == nil {
		return nil
	}
	told := map[netip.Prefix]error{}
	for p := range j.makes {
		select {
		case <-j.done:
			if unsaved := errors.Is(j.err, errUnsaved); unsaved || !j.broken && time.Since(j.ended) <= stale {
				told[p] = routers.About(j.err, p)
			}
		default:
			told[p] = s.unfinished(j, nil)
		}
	}
	return told
}

// made tells whether it was to make anything of a prefix.
func (j *job) made(p netip.Prefix) bool {
	_, ok := j.makes[p]
	return ok
}

// outcome gives what became of a job that an earlier call began, and those of the changes that are still to be looked
// at: where it failed with what it was to do, that is the answer to who wants the same.
func (j *job) outcome(cs []routers.Change) (rest []routers.Change, err error) {
	if j.broken || j.err == nil || time.Since(j.ended) > stale && !errors.Is(j.err, errUnsaved) {
		return cs, nil
	}
	for _, c := range cs {
		if j.made(c.Prefix) {
			err = j.err
		} else {
			rest = append(rest, c)
		}
	}
	return rest, err
}

// close waits for a transaction that still commits, and breaks off one that does not yet.
func (s *static) close() error {
	s.mu.Lock()
	j := s.running
	s.mu.Unlock()
	if j == nil {
		return nil
	}
	if j.committing.Load() == nil {
		j.cancel()
	}
	return s.wait(context.Background(), j, s.options.Deadline)
}
