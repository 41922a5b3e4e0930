package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// drivers measures, for each driver and method, how long after it was asked the core's kernel table has
// changed. Networks with OSPF are waited for most of the time, so all of them stand at once; but changes are
// made one at a time.
func (b *bench) drivers(ctx context.Context, r *report) error {
	var failed []error
	bgp, ospf := bgpSites(), ospfSites()
	shown.begin("drivers", b.changes(bgp, ospf))
	for _, s := range bgp {
		failed = append(failed, b.at(ctx, []site{s}, r))
	}
	return errors.Join(append(failed, b.at(ctx, ospf, r))...)
}

// changes gives how many changes are made in all.
func (b *bench) changes(all ...[]site) (n int) {
	for _, s := range slices.Concat(all...) {
		for _, sub := range s.subjects {
			n += 2 * b.times(sub)
			if sub.instead != nil {
				n += 2 * b.times(*sub.instead)
			}
		}
	}
	return n
}

// times is how often a subject is measured.
func (b *bench) times(s subject) int {
	if s.slow {
		return b.few()
	}
	return b.runs
}

// at measures some sites. It has all stand before, and none ends before all are measured, so that nothing
// starts or stops meanwhile.
func (b *bench) at(ctx context.Context, sites []site, r *report) error {
	stands := make([]*stand, len(sites))
	var one sync.Mutex
	var all sync.WaitGroup
	for i, s := range sites {
		all.Go(func() { stands[i] = standing(ctx, s, &one) })
	}
	all.Wait()
	reports, failed := make([]report, len(sites)), make([]error, len(sites))
	for i, st := range stands {
		all.Go(func() {
			reports[i].part = r.part
			failed[i] = st.measure(ctx, b, &reports[i])
		})
	}
	all.Wait()
	for i, st := range stands {
		r.rows = append(r.rows, reports[i].rows...)
		failed = append(failed, st.close())
	}
	return errors.Join(failed...)
}

// A stand is a site that stands, or err says why it does not.
type stand struct {
	site
	name string
	lab  *lab.AnycastLab
	one  *sync.Mutex // held while a change is made and measured
	err  error
}

func standing(ctx context.Context, s site, one *sync.Mutex) *stand {
	st := &stand{site: s, name: named(ctx, s.release), one: one}
	if missing := lab.Missing(s.release); len(missing) > 0 {
		st.err = fmt.Errorf("missing %s: run contrib/lab/roots", strings.Join(missing, ", "))
		return st
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	st.lab, st.err = lab.Anycast(ctx, s.network)
	return st
}

func (st *stand) close() error {
	if st.lab == nil {
		return nil
	}
	return st.lab.Close()
}

// measure measures all subjects. What fails is in the row of it, and the rows that follow may be good.
func (st *stand) measure(ctx context.Context, b *bench, r *report) error {
	var failed []error
	for _, s := range st.subjects {
		runs := b.times(s)
		own := st.times(ctx, s, runs)
		var other *times
		if s.instead != nil {
			other = st.times(ctx, *s.instead, runs)
		}
		for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
			failed = append(failed, own.report(r, st.name+" "+s.name, want, runs, s.instead, other))
		}
	}
	return errors.Join(failed...)
}

// times are how long changes took: until the core had them, and until the configuration had, where there is one
// that follows.
type times struct {
	core, config map[routers.Want]*tally
	keeps        bool
}

// times measures a subject.
func (st *stand) times(ctx context.Context, s subject, runs int) *times {
	t := &times{core: map[routers.Want]*tally{}, config: map[routers.Want]*tally{}}
	for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
		t.core[want], t.config[want] = &tally{}, &tally{}
	}
	err := st.err
	if err == nil {
		err = st.subject(ctx, s, runs, t)
	}
	for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
		t.core[want].cut(err)
		t.config[want].cut(err)
	}
	return t
}

// report adds the rows of one kind of change, with those of what would be used instead.
func (t *times) report(r *report, name string, want routers.Want, runs int, instead *subject, other *times) error {
	at, in := "gone at the core", "gone from VyOS's configuration"
	if want == routers.Announced {
		at, in = "there at the core", "in VyOS's configuration"
	}
	var failed []error
	add := func(what string, own func(*times) *tally) {
		of, short := r.tally(name+": "+what, *own(t), runs)
		failed = append(failed, short)
		if other != nil {
			failed = append(failed, r.insteadTally(of, instead.name, *own(other), runs))
		}
	}
	add(at, func(t *times) *tally { return t.core[want] })
	if t.keeps {
		add(in, func(t *times) *tally { return t.config[want] })
	}
	return errors.Join(failed...)
}

// A course is a driver in a network while it is measured.
type course struct {
	*stand
	prefix   netip.Prefix
	via      netip.Addr // the core's next hop
	node     *lab.AnycastNode
	router   routers.Router
	follower *lab.Follower
	bound    time.Duration // how long a change may take to show
	rest     time.Duration
	last     time.Time // when the core had the last change
	took     *times
}

func (st *stand) subject(ctx context.Context, s subject, runs int, took *times) (err error) {
	c := course{stand: st, took: took, prefix: s.prefix, rest: s.rest, bound: 20 * time.Second, node: st.lab.Nodes[0], via: st.lab.Nodes[0].Via}
	if s.prefix.Addr().Is6() {
		c.via = c.node.Via6
	}
	if c.follower, err = st.lab.Core.FollowNextHops(ctx, s.prefix); err != nil {
		return err
	}
	defer c.follower.Stop()
	if c.router, err = s.driver(c.node); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.router.Close()) }()
	_, took.keeps = c.router.(keeper)
	if labeled, ok := c.router.(routers.Labeled); ok {
		labeled.SetLabels(map[netip.Prefix]routers.Label{s.prefix: {Service: "resolver"}})
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	for i := range 2 * runs {
		want := []routers.Want{routers.Announced, routers.Withdrawn}[i%2]
		took.core[want].note(c.change(ctx, want))
		shown.step()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if took.core[want].hopeless() {
			return fmt.Errorf("given up after %d failures in a row", hopeless)
		}
	}
	return nil
}

// begin has the prefix withdrawn, as it would be before the service is first found well.
func (c *course) begin(ctx context.Context) error {
	defer func() { c.last = time.Now() }()
	if err := c.apply(ctx, routers.Withdrawn); err != nil {
		return err
	}
	return c.verify(ctx, routers.Withdrawn)
}

func (c *course) apply(ctx context.Context, want routers.Want) error {
	return c.node.Do(func() error { return c.router.Apply(ctx, []routers.Change{{Prefix: c.prefix, Want: want}}) })
}

// change makes one change, and says how long after that the core had it. The core must have had the
// opposite before, and the driver must read what the core has.
func (c *course) change(ctx context.Context, want routers.Want) (time.Duration, error) {
	if err := c.quiet(ctx); err != nil {
		return 0, fmt.Errorf("before it is %s: %w", want, err)
	}
	took, err := c.timed(ctx, want)
	if err == nil {
		err = c.verify(ctx, want)
	}
	if err != nil {
		return 0, fmt.Errorf("to be %s: %w", want, err)
	}
	return took, nil
}

// quiet waits until neither the node nor the core holds a change back.
func (c *course) quiet(ctx context.Context) error {
	if c.network.BGP {
		return nil
	}
	if c.rest > 0 {
		// Quiet takes a second too, and asks the daemons all the while. BIRD does some things at every tick of
		// a second, of which all moments are to be met.
		if err := pause(ctx, time.Until(c.last.Add(c.rest-time.Second))+rand.N(time.Second)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	return c.lab.Quiet(ctx, c.node)
}

func (c *course) timed(ctx context.Context, want routers.Want) (time.Duration, error) {
	c.one.Lock()
	defer c.one.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	there := want == routers.Announced
	if hops := c.follower.Now().Addrs; slices.Contains(hops, c.via) == there {
		return 0, fmt.Errorf("the core had it so before: its next hops to %s were %v", c.prefix, hops)
	}
	defer func() { c.last = time.Now() }()
	asked := time.Now()
	kept := c.keeping(ctx, asked, there)
	defer func() { cancel(); _, _ = kept() }()
	if err := c.apply(ctx, want); err != nil {
		return 0, err
	}
	seen, err := c.follower.Await(ctx, asked, func(hops []netip.Addr) bool { return slices.Contains(hops, c.via) == there })
	if err != nil {
		return 0, err
	}
	if _, ok := c.router.(keeper); ok {
		c.took.config[want].note(kept())
	}
	return seen.Time.Sub(asked), nil
}

// keeping follows the configuration, where there is one. What it gives waits until that is as asked, and says how
// long it took.
func (c *course) keeping(ctx context.Context, asked time.Time, there bool) (wait func() (time.Duration, error)) {
	k, ok := c.router.(keeper)
	if !ok {
		return func() (time.Duration, error) { return 0, nil }
	}
	var took time.Duration
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = k.kept(ctx, c.prefix, there)
		took = time.Since(asked)
	}()
	return func() (time.Duration, error) { <-done; return took, err }
}

// verify waits until the driver reads the prefix to be as wanted.
func (c *course) verify(ctx context.Context, want routers.Want) error {
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	return lab.Wait(ctx, "the driver to read so", 5*time.Millisecond, func() (bool, error) {
		var os []routers.Observation
		err := c.node.Do(func() (err error) { os, err = c.router.Observe(ctx, []netip.Prefix{c.prefix}); return err })
		if err == nil && !reached(os[0].Stage, want, c.router.Goal()) {
			err = fmt.Errorf("it reads %s: %s", os[0].Stage, os[0].Detail)
		}
		return err == nil, err
	})
}
