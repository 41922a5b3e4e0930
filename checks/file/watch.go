package file

import (
	"context"
	"fmt"
	"time"
)

// tries is how often in a row a path is followed while it changes under our eyes.
const tries = 8

// Watch wakes when the path may lead to something else, when what it leads to was changed, where that
// matters, and when it gets too old. Each directory and link on the way is watched, so that none need be
// there yet. What is not seen: a file system that is mounted on the way, and on NFS what other machines
// do. On a file system that is dead it waits for a look to come back.
func (c *checker) Watch(ctx context.Context, wake func()) error {
	s, err := c.kernel.join()
	if err != nil {
		return err
	}
	defer s.leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if _, ok := c.looks.look(ctx, view{path: c.path}); !ok {
			return nil
		}
		next, err := c.aim(s)
		if err != nil {
			return err
		}
		wake()
		var due <-chan time.Time
		if next > 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.lost:
			return s.in.failed()
		case <-s.events:
		case <-due:
		}
	}
}

// aim watches all that the path leads over. It gives the time until what is there gets too old, or until
// a path that never held still is followed again; 0: never.
func (c *checker) aim(s *seat) (time.Duration, error) {
	for range tries {
		t := walk(c.path)
		refused, err := s.aim(c.targets(t, time.Now()))
		if err != nil {
			return 0, err
		}
		if dir := t.unwatched(refused); dir != "" {
			return 0, fmt.Errorf("%s cannot be watched: the agent's user may not read it", dir)
		}
		if t.same(walk(c.path)) { // so whatever changes from now on is an event
			return c.untilStale(t, time.Now()), nil
		}
	}
	return time.Second, nil
}

// unwatched gives a directory on the way of which changes are not told. Where the way ends because the last
// one may not be entered there is no need: that it may be is told by the one above.
func (t trail) unwatched(refused []target) string {
	for _, st := range t.steps {
		ends := denied(t.err) && st.dir == t.steps[len(t.steps)-1].dir
		if refusedAt(refused, st.dir) && !ends {
			return st.dir
		}
	}
	return ""
}

// targets are what must be watched to see a change: of each directory on the way the name that is looked
// for there, and at the end the file, if its age or content matters. A write to a file that is fresh
// anyway changes nothing.
func (c *checker) targets(t trail, now time.Time) []target {
	var all []target
	for _, st := range t.steps {
		all = append(all, target{path: st.dir, name: st.name, dir: true, mask: dirMask})
	}
	if t.err != nil || c.absent || c.maxAge == 0 && !c.reads() {
		return all
	}
	end := target{path: t.end, dir: t.info.IsDir(), mask: dirMask | fileMask}
	if !c.reads() && c.judgeAge(t.info.ModTime(), now) == nil {
		end.mask = moved
	}
	return append(all, end)
}

// untilStale gives the time until what was found gets too old; 0: never, or it is so already.
func (c *checker) untilStale(t trail, now time.Time) time.Duration {
	if t.err != nil || c.maxAge == 0 || c.absent {
		return 0
	}
	return max(0, t.info.ModTime().Add(c.maxAge).Sub(now))
}
