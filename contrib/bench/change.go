package main

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

// Times between readings while a change is read back, as the agent has them.
const pollMin, pollMax = time.Millisecond, 50 * time.Millisecond

// A step is what one change by the driver took.
type step struct {
	apply, whole, settled time.Duration // asking; until read as wanted; until read so twice
	reads                 int           // until read as wanted
	read                  time.Duration // the last of these
}

// change makes one prefix announced and withdrawn, by the driver and by forked vtysh, each time
// until FRR's own table says so. OSPF is quiet before each change, which is not counted.
func (b *bench) change(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	driver := frr.New(frr.Options{SocketDir: n.node.FRR.SocketDir()})
	steps, forked := map[routers.Want][]step{}, map[routers.Want]sample{}
	shown.begin("change", 4*b.runs)
	for range b.runs {
		for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
			if err := n.quiet(ctx); err != nil {
				return err
			}
			s, err := n.byDriver(ctx, driver, want)
			if err != nil {
				return err
			}
			steps[want] = append(steps[want], s)
			shown.step()
		}
	}
	for range b.runs {
		for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
			if err := n.quiet(ctx); err != nil {
				return err
			}
			began := time.Now()
			if err := byVtysh(ctx, n.node.FRR, want == routers.Announced); err != nil {
				return err
			}
			s := forked[want]
			s.ms(time.Since(began))
			forked[want] = s
			shown.step()
		}
	}
	for _, want := range []routers.Want{routers.Announced, routers.Withdrawn} {
		addSteps(r, want.String(), steps[want], forked[want])
	}
	return nil
}

// addSteps tells where the time went.
func addSteps(r *report, what string, steps []step, forked sample) {
	var apply, whole, settled, reads, read sample
	for _, s := range steps {
		apply.ms(s.apply)
		whole.ms(s.whole)
		settled.ms(s.settled)
		read.ms(s.read)
		reads = append(reads, float64(s.reads))
	}
	r.instead(r.add(what+": until read to be so", "ms", whole), "forked vtysh -c, until read", forked)
	r.add("  of it: asking for the change", "ms", apply)
	r.add("  of it: one reading", "ms", read)
	r.add("  readings until it was so", "readings", reads)
	r.add("  until read so twice", "ms", settled)
}

// byDriver makes one change as the agent's reconciler does: ask, then read, at first at once and
// then less and less often, until two readings in a row are as wanted.
func (n *network) byDriver(ctx context.Context, r *frr.Router, want routers.Want) (s step, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = n.node.Do(func() error {
		began := time.Now()
		if err := r.Apply(ctx, []routers.Change{{Prefix: lab.Service, Want: want}}); err != nil {
			return err
		}
		s.apply = time.Since(began)
		wait := time.Duration(0)
		for {
			reading := time.Now()
			os, err := r.Observe(ctx, []netip.Prefix{lab.Service})
			is := err == nil && reached(os[0].Stage, want, r.Goal())
			switch {
			case is && s.whole > 0:
				s.settled = time.Since(began)
				return nil
			case is:
				s.whole, s.read = time.Since(began), time.Since(reading)
				s.reads++
			default:
				s.whole = 0
				s.reads++
			}
			wait = min(max(2*wait, pollMin), pollMax)
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(wait):
			}
		}
	})
	return s, err
}

// reached says whether a stage is what is wanted.
func reached(s routers.Stage, want routers.Want, goal routers.Stage) bool {
	if want == routers.Announced {
		return s >= goal
	}
	return s == routers.Absent
}

// byVtysh makes the change as a careful script does.
func byVtysh(ctx context.Context, f *lab.FRR, there bool) error {
	command := "ip address " + lab.Service.String()
	if !there {
		command = "no " + command
	}
	if _, err := f.Vtysh(ctx, "configure terminal", "interface lo", command); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return lab.Wait(ctx, "the change", pollMin, func() (bool, error) {
		text, err := f.Vtysh(ctx, "show ip ospf database router self-originate json")
		return err == nil && strings.Contains(text, lab.Service.Addr().String()) == there, err
	})
}
