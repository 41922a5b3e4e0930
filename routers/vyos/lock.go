package vyos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// lockEvery is how often the lock of all commits is looked at: what a commit of others leaves behind tells no kernel.
const lockEvery = 100 * time.Millisecond

// A turn is what the lock of all commits was last seen to be.
type turn struct {
	pid int // who holds it; 0: nobody
	own bool
}

// next takes in who holds the lock by now. It tells whether a commit has ended since, and whether that was another's.
func (t *turn) next(pid int, own func(pid int) bool) (ended, others bool) {
	was := *t
	if was.pid == pid {
		return false, false
	}
	*t = turn{pid, pid != 0 && own(pid)}
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
		ended, others := seen.next(pid, ours)
		if others {
			s.epoch.Add(1)
		}
		if ended {
			wake()
		}
	}
}

// A calm is how the lock of all commits and the running configuration stand at a time.
type calm struct {
	free    bool  // nobody commits, as far as that can be read
	written int64 // when the configuration was, in nanoseconds since 1970
}

// calm looks at both, and changes nothing.
func (s system) calm() calm {
	pid, err := s.holder()
	c := calm{free: err == nil && pid == 0}
	if info, err := os.Stat(s.path(activeDir)); err == nil {
		c.written = info.ModTime().UnixNano()
	}
	return c
}

// lasts tells whether nobody has committed since: the running configuration is still what was read of it meanwhile.
func (c calm) lasts(s system) bool { return c.free && s.calm() == c }

// ours tells whether a process is one of vouch's commits. One that is gone already is taken for one: what was refused
// must not be asked for again by the end of its own commit.
func ours(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return !errors.Is(err, os.ErrPermission)
	}
	return len(env) == 0 || slices.Contains(strings.Split(string(env), "\x00"), commitVia)
}
