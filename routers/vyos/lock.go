package vyos

import (
	"context"
	"time"
)

// lockEvery is how often the lock of all commits is looked at: what a commit of others leaves behind tells no kernel.
const lockEvery = 100 * time.Millisecond

// A turn is what the lock of all commits was last seen to be.
type turn struct {
	pid int  // who holds it; 0: nobody
	own bool // a commit of ours was under way
}

// next takes in who holds the lock by now, and whether a commit of ours is under way. It tells whether a commit has
// ended since, and whether that was another's.
func (t *turn) next(pid int, own bool) (ended, others bool) {
	was := *t
	if *t = (turn{pid, own}); was.pid == pid {
		t.own = was.own || own
		return false, false
	}
	return was.pid != 0, was.pid != 0 && !was.own
}

// watchLock wakes whenever a commit has ended, until ctx ends, and begins a new epoch with that of others: what VyOS
// refused may be taken now.
func (s *static) watchLock(ctx context.Context, wake func()) {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	s.epoch.CompareAndSwap(0, 1)
	var seen turn
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		pid, err := s.system.holder()
		if err != nil {
			continue
		}
		ended, others := seen.next(pid, s.commitsNow())
		if others {
			s.epoch.Add(1)
		}
		if ended {
			wake()
		}
	}
}

// commitsNow tells whether a commit of ours is under way.
func (s *static) commitsNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running != nil && s.running.committing.Load() != nil
}
