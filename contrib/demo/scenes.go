package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/routers/lab"
)

// A scene is one thing that happens and what is promised of it. Every scene after the first begins
// and ends with both nodes as next hops.
type scene struct {
	title, promise string
	play           func(s *stage, ctx context.Context) error
}

var scenes = []scene{
	{"vouch is started on both nodes", "each announces once its checks were good twice; both answer", (*stage).begin},
	{"unbound is killed on apu01", "address off lo within 1.5 s of the death, next hop gone within 100 ms of that, nothing missed after", (*stage).death},
	{"unbound is started again", "next hop back, no query missed on the return", (*stage).rebirth},
	{"the kernel's routes vanish under FRR on apu01", "FRR says Full and installed, the kernel has no route: withdrawn within 1.5 s; back when it is healed", (*stage).blackhole},
	{"the address is put back by hand on a sick node", "off lo within 50 ms, next hop gone at the core soon after", (*stage).undo},
	{"vouch is killed (SIGKILL) on apu01 and started again", "nothing changes at either, no query missed", (*stage).killed},
	{"FRR is restarted on apu01 while withdrawn", "stays withdrawn; back when unbound is", (*stage).restarted},
}

// perScene is how long a scene may take before it counts as failed.
const perScene = 30 * time.Second

// playAll plays the scenes and gives the names of those that went wrong. A broken promise ends no
// scene; but where one could not be played to its end, those after it could not begin.
func (s *stage) playAll(ctx context.Context) (failed []string) {
	for i, sc := range scenes {
		s.line.title(i+1, sc.title, sc.promise)
		s.broken = 0
		err := s.playOne(ctx, sc)
		if err != nil {
			s.promise(false, "%v", err)
		}
		if s.broken > 0 {
			failed = append(failed, fmt.Sprintf("%d. %s", i+1, sc.title))
		}
		if err != nil {
			return append(failed, "what comes after")
		}
	}
	s.line.title(len(scenes)+1, "The whole", "no query missed but between a fault and its withdrawal")
	s.broken = 0
	if s.account(); s.broken > 0 {
		failed = append(failed, fmt.Sprintf("%d. The whole", len(scenes)+1))
	}
	return failed
}

func (s *stage) playOne(ctx context.Context, sc scene) error {
	ctx, cancel := context.WithTimeout(ctx, perScene)
	defer cancel()
	return sc.play(s, ctx)
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// tells prints what vouch on apu01 says once it has come to a verdict.
func (s *stage) tells(ctx context.Context, what string, ok func(view) bool) error {
	v, err := s.sidecars[0].until(ctx, what, ok)
	if err != nil {
		return err
	}
	s.line.say(time.Now(), "apu01", "vouch says: "+v.String())
	return nil
}

func (s *stage) begin(ctx context.Context) error {
	began := s.do("demo", "vouch run on apu01 and apu02")
	for _, c := range s.sidecars {
		if err := c.start(); err != nil {
			return err
		}
	}
	for _, c := range s.sidecars {
		if _, err := c.until(ctx, "ready", ready); err != nil {
			return err
		}
	}
	seen, err := s.both(ctx, began)
	if err != nil {
		return err
	}
	s.promise(seen.Time.Sub(began) < 5*time.Second, "both next hops %s after the start", ms(seen.Time.Sub(began)))
	if err := s.tells(ctx, "up", up); err != nil {
		return err
	}
	s.since = seen.Time
	return s.noneMissed(ctx, "once both were there, and both answer", seen.Time, seen.Time, "apu01", "apu02")
}

// withdrawn waits for the withdrawal after a fault of the first node and promises its times. It
// gives when the core had done it; queries missed until then are excused.
func (s *stage) withdrawn(ctx context.Context, fault time.Time) (time.Time, error) {
	off, err := s.taken(ctx, fault)
	if err != nil {
		return fault, err
	}
	gone, err := s.hops(ctx, fault, s.lab.Nodes[1])
	if err != nil {
		return fault, err
	}
	s.promise(off.Time.Sub(fault) <= 1500*time.Millisecond, "off lo %s after the fault", ms(off.Time.Sub(fault)))
	s.promise(gone.Time.Sub(off.Time) <= 100*time.Millisecond, "next hop gone at the core %s after that", ms(gone.Time.Sub(off.Time)))
	return gone.Time, s.excuse(ctx, "between fault and withdrawal", fault, gone.Time)
}

// sicken kills unbound on apu01, waits for the withdrawal, and gives when the core had done it.
func (s *stage) sicken(ctx context.Context) (time.Time, error) {
	died := s.do("demo", "unbound on apu01 killed")
	if err := s.lab.Nodes[0].Resolver().Kill(); err != nil {
		return died, err
	}
	gone, err := s.withdrawn(ctx, died)
	if err != nil {
		return gone, err
	}
	return gone, s.tells(ctx, "down", down)
}

// heal starts unbound on apu01, waits until it is a next hop again, and promises that none was
// missed since a time.
func (s *stage) heal(ctx context.Context, since time.Time) error {
	started := s.do("demo", "unbound on apu01 started")
	if err := s.lab.Nodes[0].StartUnbound(ctx); err != nil {
		return err
	}
	answers := time.Now()
	back, err := s.both(ctx, started)
	if err != nil {
		return err
	}
	s.promise(back.Time.Sub(answers) < 5*time.Second, "next hop back %s after the start", ms(back.Time.Sub(started)))
	return s.noneMissed(ctx, "on the return, and apu01 answers", since, back.Time, "apu01", "apu02")
}

func (s *stage) death(ctx context.Context) error {
	gone, err := s.sicken(ctx)
	if err != nil {
		return err
	}
	if err := s.noneMissed(ctx, "after", gone, gone, "apu02"); err != nil {
		return err
	}
	return s.quiet(ctx)
}

func (s *stage) rebirth(ctx context.Context) error { return s.heal(ctx, time.Now()) }

func (s *stage) blackhole(ctx context.Context) error {
	nd := s.lab.Nodes[0]
	fault := s.do("demo", "ip nexthop flush on apu01")
	if _, err := nd.Run(ctx, "ip", "nexthop", "flush"); err != nil {
		return err
	}
	if err := s.disagree(ctx, nd); err != nil {
		return err
	}
	gone, err := s.withdrawn(ctx, fault)
	if err != nil {
		return err
	}
	if err := s.tells(ctx, "down", down); err != nil {
		return err
	}
	if err := s.noneMissed(ctx, "after", gone, gone, "apu02"); err != nil {
		return err
	}
	if err := s.disagree(ctx, nd); err != nil { // it does not heal by itself
		return err
	}
	healed := s.do("demo", "ospfd on apu01 restarted, which heals it")
	if err := nd.FRR.RestartDaemon(ctx, "ospfd"); err != nil {
		return err
	}
	back, err := s.both(ctx, healed)
	if err != nil {
		return err
	}
	s.promise(back.Time.Sub(healed) < perScene, "next hop back %s after the restart", ms(back.Time.Sub(healed)))
	return s.noneMissed(ctx, "on the return, and apu01 answers", healed, back.Time, "apu01", "apu02")
}

// disagree promises that FRR says all is well while the kernel has no default route.
func (s *stage) disagree(ctx context.Context, nd *lab.AnycastNode) error {
	via, err := nd.NextHops(netip.MustParsePrefix("0.0.0.0/0"))
	if err != nil {
		return err
	}
	neighbours, err := nd.FRR.Show(ctx, "ospfd", "show ip ospf neighbor")
	if err != nil {
		return err
	}
	route, err := nd.FRR.Show(ctx, "zebra", "show ip route 0.0.0.0/0 json")
	if err != nil {
		return err
	}
	full, installed := strings.Contains(neighbours, "Full/"), strings.Contains(strings.ReplaceAll(route, " ", ""), `"installed":true`)
	s.promise(full && installed && len(via) == 0, "FRR: neighbour Full %t, default route installed %t; kernel: %d default routes", full, installed, len(via))
	return nil
}

func (s *stage) undo(ctx context.Context) error {
	nd := s.lab.Nodes[0]
	if _, err := s.sicken(ctx); err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	put := s.do("demo", "ip addr add on apu01, by hand")
	if err := nd.Address(ctx, "add", lab.Service.String(), "lo"); err != nil {
		return err
	}
	err := lab.Wait(ctx, "the address to be removed", time.Millisecond, func() (bool, error) {
		on, err := nd.Addresses("lo")
		return err == nil && !slices.Contains(on, lab.Service.Addr()), err
	})
	took := time.Since(put)
	if err != nil {
		return err
	}
	s.promise(took <= 50*time.Millisecond, "off lo at most %s after it was put there", ms(took))
	if err := s.settled(ctx, put); err != nil {
		return err
	}
	return s.heal(ctx, time.Now())
}

// settled waits until the core knows that an address which came and went has gone, and promises that
// this did not take long. It is not a matter of course: without "timers lsa min-arrival 0" the core
// would drop the second change within a second, and OSPF send it again 5 to 10 s later.
func (s *stage) settled(ctx context.Context, put time.Time) error {
	if err := s.quiet(ctx); err != nil {
		return err
	}
	gone, err := s.hops(ctx, time.Now(), s.lab.Nodes[1])
	if err != nil {
		return err
	}
	if gone.Time.Before(put) {
		s.promise(true, "apu01 was no next hop of the core at any time")
		return nil
	}
	s.promise(gone.Time.Sub(put) <= 500*time.Millisecond, "next hop gone at the core %s after the address was put there", ms(gone.Time.Sub(put)))
	return s.excuse(ctx, "while it was", put, gone.Time)
}

// still promises that neither the core's next hops nor apu01's addresses changed since a time.
func (s *stage) still(since time.Time, when string) {
	core, lo := len(s.core.Since(since))-1, len(s.lo[0].Since(since))-1
	s.promise(core == 0 && lo == 0, "%s: %d changes at the core, %d on apu01's lo", when, core, lo)
}

func (s *stage) killed(ctx context.Context) error {
	c := s.sidecars[0]
	at := s.do("demo", "vouch on apu01 killed (SIGKILL)")
	if err := c.proc.Kill(); err != nil {
		return err
	}
	if err := s.noneMissed(ctx, "without vouch", at, at, "apu01", "apu02"); err != nil {
		return err
	}
	s.still(at, "without vouch")
	again := s.do("demo", "vouch run on apu01")
	if err := c.start(); err != nil {
		return err
	}
	if err := s.tells(ctx, "up", up); err != nil {
		return err
	}
	if err := s.noneMissed(ctx, "after the restart", again, time.Now(), "apu01", "apu02"); err != nil {
		return err
	}
	s.still(at, "after the restart")
	return nil
}

func (s *stage) restarted(ctx context.Context) error {
	nd := s.lab.Nodes[0]
	gone, err := s.sicken(ctx)
	if err != nil {
		return err
	}
	s.do("demo", "FRR on apu01 restarted")
	if err := nd.FRR.Restart(ctx); err != nil {
		return err
	}
	err = lab.Wait(ctx, "apu01 to have its default route again", 20*time.Millisecond, func() (bool, error) {
		via, err := nd.NextHops(netip.MustParsePrefix("0.0.0.0/0"))
		return len(via) > 0, err
	})
	if err != nil {
		return err
	}
	s.line.say(time.Now(), "apu01", "default route is back in the kernel")
	if err := s.quiet(ctx); err != nil {
		return err
	}
	s.still(gone, "since the withdrawal")
	return s.heal(ctx, gone)
}
