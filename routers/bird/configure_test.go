package bird

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

// What 2.0.12 and 3.1.8 were seen to answer. Their status has one code, whether a configuration is on its way or not.
var (
	done       = []string{"2 Reading configuration from /etc/bird/bird.conf", "3 Reconfigured"}
	inProgress = []string{"2 Reading configuration from /etc/bird/bird.conf", "4 Reconfiguration in progress"}
	queued     = []string{"2 Reading configuration from /etc/bird/bird.conf", "5 Reconfiguration already in progress, queueing new config"}
	atRest     = []string{"1000 BIRD 2.0.12", "13 Daemon is up and running"}
	underWay   = []string{"1000 BIRD 2.0.12", "13 Reconfiguration in progress"}
)

// slow is a BIRD whose reconfigurations take their time. It keeps the commands that it was given.
type slow struct {
	talker
	t         *testing.T
	configure []string
	statuses  [][]string // the last one stays; without an answer where that is empty
	asked     []string
}

func (s *slow) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	s.asked = append(s.asked, commands...)
	if len(s.statuses[0]) == 0 {
		<-ctx.Done()
		return nil, routers.Errorf(routers.ErrUnavailable, "show status: %w", ctx.Err())
	}
	reply := replyOf(s.t, s.statuses[0]...)
	if len(s.statuses) > 1 {
		s.statuses = s.statuses[1:]
	}
	return []ctl.Reply{reply}, nil
}

func (s *slow) change(_ context.Context, commands ...string) ([]ctl.Reply, error) {
	s.asked = append(s.asked, commands...)
	return []ctl.Reply{replyOf(s.t, s.configure...)}, nil
}

// A configure that is not in force when it is answered is waited for, and with BIRD 3 nothing is asked while
// another one is on its way.
func TestConfigureWaits(t *testing.T) {
	bird2, bird3 := ctl.Version{Major: 2, Patch: 12}, ctl.Version{Major: 3, Minor: 1, Patch: 8}
	for name, c := range map[string]struct {
		v         ctl.Version
		configure []string
		statuses  [][]string
		asked     string
	}{
		"in force at once":         {bird2, done, [][]string{underWay}, "configure"},
		"in progress":              {bird2, inProgress, [][]string{underWay, underWay, atRest}, "configure, show status, show status, show status"},
		"queued":                   {bird2, queued, [][]string{underWay, atRest}, "configure, show status, show status"},
		"3: at rest":               {bird3, done, [][]string{atRest}, "show status, configure"},
		"3: another is on its way": {bird3, done, [][]string{underWay, underWay, atRest}, "show status, show status, show status, configure"},
		"3: ours takes its time":   {bird3, inProgress, [][]string{atRest, underWay, atRest}, "show status, configure, show status, show status"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{t: t, configure: c.configure, statuses: slices.Clone(c.statuses)}
			if err := configure(t.Context(), s, c.v, func() error { return nil }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := strings.Join(s.asked, ", "); got != c.asked {
				t.Errorf("%s: asked %s, want %s", name, got, c.asked)
			}
		})
	}
}

// One that does not come to its end is told to be so, and with BIRD 3 is not joined by another.
func TestConfigureWaitsInVain(t *testing.T) {
	for _, v := range []ctl.Version{{Major: 2, Patch: 12}, {Major: 3, Minor: 1, Patch: 8}} {
		for _, statuses := range [][][]string{{underWay}, {underWay, nil}} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s := &slow{t: t, configure: queued, statuses: statuses}
				if err := configure(ctx, s, v, func() error { return nil }); !errors.Is(err, routers.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", v, err)
				}
				if slices.Contains(s.asked, "configure") != (v.Major < 3) {
					t.Errorf("%s: asked %v", v, s.asked)
				}
			})
		}
	}
}

// stuck is a real BIRD that says it is reconfiguring, for ever.
type stuck struct{ talker }

func (s stuck) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	replies, err := s.talker.read(ctx, commands...)
	for _, r := range replies {
		for i, l := range r.Lines {
			if l.Code == ctl.Status {
				r.Lines[i].Text = "Reconfiguration in progress"
			}
		}
	}
	return replies, err
}

// A withdraw does not wait for a reconfiguration of somebody's that does not end.
func TestWithdrawnBesideStuckConfigure(t *testing.T) {
	p := openPair(t, lab.BIRD3, StyleSwitch)
	p.settle(t, routers.Announced)
	d := newDaemons(p.options.withDefaults())
	r := newRouter(p.options.withDefaults(), daemons{stuck{d.main}, d.six})
	defer func() { _ = r.Close() }()
	r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
	if err := r.Apply(sceneWithin(t, 12*time.Second), changes(routers.Withdrawn)); !errors.Is(err, routers.ErrBusy) || !strings.Contains(err.Error(), "are disabled at run time") {
		t.Errorf("withdrawing: %v", err)
	}
	sceneWait(t, "the core to have lost both", func() error {
		for _, q := range both {
			if has := p.coreHas(t.Context(), q); strings.Contains(has, q.String()) {
				return errors.New(has)
			}
		}
		return nil
	})
	p.settle(t, routers.Withdrawn)
}
