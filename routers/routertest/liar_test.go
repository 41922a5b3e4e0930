package routertest_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/routertest"
)

// A liar is a router with something wrong about it. A func that is nil is the honest one's.
type liar struct {
	routers.Router
	observe func(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error)
	apply   func(ctx context.Context, cs []routers.Change) error
}

func (l *liar) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	if l.observe != nil {
		return l.observe(ctx, ps)
	}
	return l.Router.Observe(ctx, ps)
}

func (l *liar) Apply(ctx context.Context, cs []routers.Change) error {
	if l.apply != nil {
		return l.apply(ctx, cs)
	}
	return l.Router.Apply(ctx, cs)
}

// remembering reports what was asked for, and reads nothing.
func remembering(honest routers.Router, passOn bool) *liar {
	asked := map[netip.Prefix]routers.Stage{}
	return &liar{Router: honest,
		observe: func(_ context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
			os := make([]routers.Observation, len(ps))
			for i, p := range ps {
				os[i] = routers.Observation{Prefix: p, Stage: max(asked[p], routers.Absent), Peers: []routers.Peer{{Name: "core", Stage: routers.Advertised}}}
			}
			return os, nil
		},
		apply: func(ctx context.Context, cs []routers.Change) error {
			for _, c := range cs {
				asked[c.Prefix] = map[routers.Want]routers.Stage{routers.Announced: honest.Goal(), routers.Withdrawn: routers.Absent}[c.Want]
			}
			if passOn {
				return honest.Apply(ctx, cs)
			}
			return nil
		}}
}

// edited changes what an honest router read.
func edited(honest routers.Router, edit func(o *routers.Observation)) *liar {
	return &liar{Router: honest, observe: func(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
		os, err := honest.Observe(ctx, ps)
		for i := range os {
			edit(&os[i])
		}
		return os, err
	}}
}

// liars are what the table must not let pass, each with the scenario that finds it and a part of what is said.
var liars = []struct {
	name     string
	scenario string
	says     string
	make     func(honest routers.Router, core *lab.Node) routers.Router
}{
	{"reports what was asked for, and does nothing", "life", "announced: lab: waiting for the core to have",
		func(r routers.Router, _ *lab.Node) routers.Router { return remembering(r, false) }},
	{"reports what was asked for", "undo", "taken away by somebody else: lab: waiting for 10.53.54.1/32",
		func(r routers.Router, _ *lab.Node) routers.Router { return remembering(r, true) }},
	{"reports what was asked for, of a daemon that hangs", "hang", "read while it hangs: the error is <nil>",
		func(r routers.Router, _ *lab.Node) routers.Router { return remembering(r, true) }},
	{"takes unknown for absent", "hang", "nothing can be read, and it is read as 10.53.54.1/32 absent",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return edited(r, func(o *routers.Observation) {
				if o.Stage == routers.Unknown {
					o.Stage = routers.Absent
				}
			})
		}},
	{"takes a reply that was cut for absent", "cut reading", "absent",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return edited(r, func(o *routers.Observation) {
				if o.Stage == routers.Unknown {
					o.Stage = routers.Absent
				}
			})
		}},
	{"never says degraded", "degrade", "degraded from absent: lab: waiting for 10.53.54.1/32",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return edited(r, func(o *routers.Observation) { o.Degraded = false })
		}},
	{"goes to the worse way through absent", "degrade", "the core lost 10.53.54.1/32 meanwhile",
		func(r routers.Router, core *lab.Node) routers.Router {
			return &liar{Router: r, apply: func(ctx context.Context, cs []routers.Change) error {
				for _, c := range cs {
					if err := r.Apply(ctx, []routers.Change{{Prefix: c.Prefix, Want: routers.Withdrawn}}); err != nil {
						return err
					}
				}
				for via := []netip.Addr(nil); len(cs) > 0 && ctx.Err() == nil; { // until the core knows
					if via, _ = core.NextHops(cs[0].Prefix); len(via) == 0 {
						break
					}
				}
				return r.Apply(ctx, cs)
			}}
		}},
	{"touches what is foreign", "twice", "the core lost 10.53.54.99/32 meanwhile",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, apply: func(ctx context.Context, cs []routers.Change) error {
				return r.Apply(ctx, append(cs, routers.Change{Prefix: inRange(54, 99)[0], Want: routers.Withdrawn}))
			}}
		}},
	{"believes a refusal", "refused", "was not refused: <nil>",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, apply: func(ctx context.Context, cs []routers.Change) error {
				if err := r.Apply(ctx, cs); !errors.Is(err, routers.ErrRefused) {
					return err
				}
				return nil
			}}
		}},
	{"takes nonsense", "nonsense", "it was not refused",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, apply: func(ctx context.Context, cs []routers.Change) error {
				if len(cs) > 0 && cs[0].Want == routers.Keep {
					return nil
				}
				return r.Apply(ctx, cs)
			}}
		}},
	{"writes again what is so already", "steady", `it was sent "configure terminal"`,
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, observe: func(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
				os, err := r.Observe(ctx, ps)
				for _, o := range os {
					if o.Stage == r.Goal() {
						_ = r.Apply(ctx, []routers.Change{{Prefix: o.Prefix, Want: routers.Announced}})
					}
				}
				return os, err
			}}
		}},
	{"has errors of no class", "hang", "the error is not unavailable: oh dear",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, apply: func(ctx context.Context, cs []routers.Change) error {
				if err := r.Apply(ctx, cs); err != nil {
					return errors.New("oh dear")
				}
				return nil
			}}
		}},
	{"panics", "cut reading", "Observe panics: oh dear",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return edited(r, func(o *routers.Observation) {
				if o.Stage == routers.Unknown {
					panic("oh dear")
				}
			})
		}},
	{"forgets a prefix", "life", "Observe gave 1 observations for ",
		func(r routers.Router, _ *lab.Node) routers.Router {
			return &liar{Router: r, observe: func(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
				os, err := r.Observe(ctx, ps)
				return os[:min(1, len(os))], err
			}}
		}},
}

// The table must be able to say no: each liar fails, where it is found and for what it does.
func TestLiars(t *testing.T) {
	t.Parallel()
	honest := frrBGP(t, lab.FRRHost)[1]
	for _, l := range liars {
		t.Run(l.name, func(t *testing.T) {
			s := *honest
			wire := *honest.Wire
			s.Name, s.Wire, s.Patience = "liar", &wire, 5*time.Second
			s.Router = l.make(honest.Router, s.Core)
			s.Wire.Through = func(dir string) routers.Router { return l.make(honest.Wire.Through(dir), s.Core) }
			r := routertest.Play(t.Context(), &s, l.scenario)
			if r.Err == nil || !strings.Contains(r.Err.Error(), "liar: "+l.scenario+": ") || !strings.Contains(r.Err.Error(), l.says) {
				t.Errorf("want %q:\n%v", l.says, r.Err)
			}
			check(t, s.Redo(t.Context(), s.Foreign))
			if clean := routertest.Play(t.Context(), honest, "life"); clean.Err != nil {
				t.Fatalf("after it: %v", clean.Err)
			}
		})
	}
}
