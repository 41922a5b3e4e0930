package vyos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// The end of a commit is a reason to read, and that of another's one to ask again for what was refused.
func TestWatchCommits(t *testing.T) {
	b := open(t, vyostest.Options{})
	r := b.router(Options{Method: MethodStatic})
	if e := b.observe(r, one)[0].Epoch; e != 0 {
		t.Errorf("epoch %d, and nobody looks", e)
	}
	ctx, end := context.WithCancel(t.Context())
	var woken atomic.Int32
	ended := make(chan error)
	go func() { ended <- b.do(func() error { return r.Watch(ctx, func() { woken.Add(1) }) }) }()
	b.wait("the lock to be watched", func() error {
		if b.observe(r, one)[0].Epoch == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	began := b.observe(r, one)[0].Epoch
	b.system.Fault(vyostest.CommitSlow, 1, "2s")
	b.announced(r, one)
	b.becomes(r, routers.Advertised, false, one)
	if e := b.observe(r, one)[0].Epoch; e != began {
		t.Errorf("epoch %d became %d by a commit of ours", began, e)
	}
	before := woken.Load()
	b.wait("another's commit to be noticed", func() error {
		release := b.system.HoldLock()
		b.observe(r, one) // which takes longer than from one look to the next, most times
		b.observe(r, one)
		release()
		if e := b.observe(r, one)[0].Epoch; e == began || woken.Load() == before {
			return errors.New("not yet")
		}
		return nil
	})
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An Apply that has waited long enough lets the tables be read beside the commit, which goes on, and the next one has
// its outcome.
func TestPatience(t *testing.T) {
	b := open(t, vyostest.Options{})
	for _, via := range []string{ViaConfig, ViaVbash} {
		r := b.router(Options{Method: MethodStatic, Via: via, Patience: 1})
		b.system.Fault(vyostest.CommitSlow, 1, "3s")
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnderway, "VyOS")
		b.wait("the outcome", func() error { return b.apply(r, routers.Announced, one) })
		b.becomes(r, routers.Advertised, false, one)
		b.wait("to be withdrawn", func() error { return b.apply(r, routers.Withdrawn, one) })
		b.becomes(r, routers.Absent, false, one)
	}
	b.clean()
}

// A commit that could not be saved, of which nobody waited for the end, is told by what is read, and by the next Apply.
func TestNotSavedIsTold(t *testing.T) {
	b := open(t, vyostest.Options{})
	for _, path := range []string{"usr/libexec/vyos/vyos-save-config.py", "opt/vyatta/sbin/vyatta-save-config.pl"} {
		if err := os.Remove(filepath.Join(b.system.Root(), path)); !errors.Is(err, os.ErrNotExist) {
			b.must(err)
		}
	}
	r := b.router(Options{Method: MethodStatic, Save: true, Patience: 1})
	b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnderway, "VyOS")
	b.wait("it to be told", func() error {
		if o := b.observe(r, one, one6); !o[0].Broken || !strings.Contains(o[0].Detail, "not saved") || o[1].Broken {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "committed, but not saved")
	b.becomes(r, routers.Advertised, false, one)
}
