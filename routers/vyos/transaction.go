package vyos

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vouch/routers"
)

// A transaction is one session with one commit.
type transaction struct {
	options Options
	system  system
	ops     []op
	commits func(bool) // called with true when a commit begins, which nothing breaks off, and false when it has ended
}

// run makes the changes. Until the commit begins it ends with ctx; then nothing ends it. The error is of a class of
// package routers, and holds a routers.PrefixError for each prefix that VyOS refused alone: the others were made.
func (t *transaction) run(ctx context.Context) error {
	group, err := t.system.ready()
	if err != nil {
		return err
	}
	if t.options.Via == ViaVbash {
		return t.script(ctx, group)
	}
	s, err := newSession(ctx, t.system, sessionID, group, t.options.Step)
	if err != nil {
		return err
	}
	if err = s.open(ctx); err == nil {
		err = t.inside(ctx, s)
	} else if errors.Is(err, routers.ErrBusy) { // what is there is in use
		return err
	}
	if s.left() {
		err = routers.Join(err, s.close())
	}
	return err
}

// inside does what there is to do between the opening of a session and its end.
func (t *transaction) inside(ctx context.Context, s *session) error {
	made, refused, err := t.edit(ctx, s)
	if err == nil && made {
		err = t.commit(ctx, s)
	}
	if err != nil { // what is left pending would go into the next commit of the session
		err = routers.Join(err, s.discard())
	}
	return routers.Join(append(refused, err)...)
}

// edit puts the ops into the session, and tells whether there are any. One that VyOS refuses for what it is keeps back
// all of its prefix, which would be announced in another way than was wanted, and none of the others.
func (t *transaction) edit(ctx context.Context, s *session) (made bool, refused []error, err error) {
	for i := 0; i < len(t.ops); {
		o := t.ops[i]
		out, err := t.put(ctx, s, o)
		if err != nil {
			return false, refused, err
		}
		if out.verdict != refusal {
			i++
			continue
		}
		refused = append(refused, &routers.PrefixError{Prefix: o.prefix, Err: routers.Errorf(routers.ErrRefused, "%s: VyOS refuses `%s`: %s", o.prefix, o.line(), out.reason)})
		half := i > 0 && t.ops[i-1].prefix == o.prefix
		t.ops = slices.DeleteFunc(t.ops, func(other op) bool { return other.prefix == o.prefix })
		if half {
			if err := s.discard(); err != nil {
				return false, refused, err
			}
			i = 0
		}
	}
	return len(t.ops) > 0, refused, nil
}

// attempts is how often a set or delete is tried that fails without a word, as it may beside another's commit.
const attempts = 4

// put puts one op into the session.
func (t *transaction) put(ctx context.Context, s *session, o op) (outcome, error) {
	program := "my_set"
	if o.remove {
		program = "my_delete"
	}
	for range attempts {
		got, err := s.run(ctx, s.program(program), o.path...)
		if err != nil {
			return outcome{}, err
		}
		out := classify(got)
		switch out.verdict {
		case done, unchanged, refusal:
			return out, nil
		case retry:
		default:
			return out, out.err(o.line())
		}
		if err := t.free(ctx, time.Now().Add(t.options.LockWait)); err != nil {
			return outcome{}, err
		}
		if err := pause(ctx, lockMin); err != nil {
			return outcome{}, err
		}
	}
	return outcome{}, routers.Errorf(routers.ErrUnavailable, "`%s` fails without a reason: is %s writable for group %s?", o.line(), s.path(activeDir), groupName)
}

// commit commits what the session holds when that is only what it is to hold, and looks again before each attempt:
// another's commit may have changed the rest meanwhile, or the mount be lost.
func (t *transaction) commit(ctx context.Context, s *session) error {
	until := time.Now().Add(t.options.LockWait)
	for {
		if err := t.free(ctx, until); err != nil {
			return err
		}
		before := t.system.calm()
		if changed, err := s.changed(ctx); err != nil || !changed { // without its mount a session has forgotten all
			return routers.Join(err, s.whole())
		}
		if err := t.only(ctx, s); err != nil {
			return err
		}
		out, err := t.attempt(s, before)
		if err != nil {
			return err
		}
		if out.verdict != busy {
			return routers.Join(out.err("commit"), t.save(s, out))
		}
		if time.Now().After(until) {
			return t.locked()
		}
		if err := pause(ctx, lockMin); err != nil {
			return routers.Join(t.locked(), err)
		}
	}
}

// only wants what the session would change to be only what it is to change, and somebody to want it still.
func (t *transaction) only(ctx context.Context, s *session) error {
	diff, err := s.diff(ctx)
	if err == nil {
		err = t.check(ctx, diff)
	}
	if err == nil {
		err = s.whole()
	}
	if err != nil {
		return err
	}
	return broken(ctx)
}

// attempt runs the commit once, unless somebody has committed since before, or does: where ours is the last route the
// node above is deleted with all that has come into it, which is not in what was read.
func (t *transaction) attempt(s *session, before calm) (outcome, error) {
	said := t.system.said()
	if !before.lasts(t.system) {
		return outcome{verdict: busy}, nil
	}
	t.commits(true)
	got, err := s.lasting(s.spec(s.program("my_commit")))
	t.commits(false)
	if err != nil {
		return outcome{}, err
	}
	out := classify(got)
	if out.verdict == refusal && strings.HasPrefix(out.reason, mute) {
		got.Stdout = append(got.Stdout, said.since()...)
		out = classify(got)
	}
	return out, nil
}

// errUnsaved is of a commit that went well, and was not saved.
var errUnsaved = errors.New("not saved")

// save saves the whole configuration after a commit that changed something, where that is asked for. VyOS writes an
// empty one when it takes the boot for unfinished; and one that is saved while a commit-confirm is pending is what
// VyOS 1.3 and 1.4 would boot to take it back.
func (t *transaction) save(s *session, out outcome) error {
	if !t.options.Save || out.verdict != done {
		return nil
	}
	_, err := s.ready()
	if why := s.unsettled(); err == nil && why != "" {
		err = routers.Errorf(routers.ErrBusy, "%s; the next commit of vouch that finds nothing pending saves", why)
	}
	if err != nil {
		return routers.Errorf(errors.Join(err, errUnsaved), "committed, but not saved: %w", err)
	}
	for _, program := range []string{s.path("usr/libexec/vyos/vyos-save-config.py"), s.path(sbin, "vyatta-save-config.pl")} {
		if _, err := os.Stat(program); err != nil {
			continue
		}
		got, err := s.lasting(s.spec(program))
		if err == nil && got.Code != 0 {
			err = routers.Errorf(routers.ErrUnavailable, "%s: exit status %d: %s", filepath.Base(program), got.Code, reason(text(got)))
		}
		if err != nil {
			err = routers.Errorf(errors.Join(err, errUnsaved), "committed, but not saved: %w", err)
		}
		return err
	}
	return routers.Errorf(errors.Join(routers.ErrUnavailable, errUnsaved), "committed, but not saved: VyOS has no program for it")
}

// How long is waited between two looks at a lock that others hold; a quarter more or less.
const (
	lockMin = 250 * time.Millisecond
	lockMax = time.Second
)

// free waits until nobody holds the lock of all commits.
func (t *transaction) free(ctx context.Context, until time.Time) error {
	for wait := lockMin; ; wait = min(2*wait, lockMax) {
		pid, err := t.system.holder()
		if err != nil || pid == 0 {
			return err
		}
		if time.Now().After(until) {
			return t.locked()
		}
		if err := pause(ctx, wait*3/4+rand.N(wait/2)); err != nil {
			return routers.Join(t.locked(), err)
		}
	}
}

// locked names who holds the lock.
func (t *transaction) locked() error {
	pid, err := t.system.holder()
	if err != nil || pid == 0 {
		return routers.Errorf(routers.ErrBusy, "nothing was committed, as another commit had VyOS's lock %s, which is free again by now", t.system.path(lockFile))
	}
	return t.system.lockedBy(pid)
}

// pause waits so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return broken(ctx)
	}
}

// broken tells of a ctx that has ended.
func broken(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return routers.Errorf(errors.Join(routers.ErrBusy, ctx.Err()), "broken off before the commit")
}

// err is the error of what is neither done nor so already.
func (o outcome) err(what string) error {
	why := cmp.Or(o.reason, "VyOS refused the "+what+" and gave no reason")
	switch o.verdict {
	case done, unchanged:
		return nil
	case denied:
		why += ": run vouch as root"
	case busy:
		why = "another commit has the lock"
	}
	return routers.Errorf(o.class(), "%s: %s", what, why)
}

// class is that of its error.
func (o outcome) class() error {
	switch o.verdict {
	case refusal, denied:
		return routers.ErrRefused
	case busy:
		return routers.ErrBusy
	}
	return routers.ErrUnavailable
}
