package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"vouch/routers/lab"
)

// A stage is the network with everything that watches it.
type stage struct {
	lab      *lab.AnycastLab
	line     *timeline
	sidecars [2]*sidecar
	core     *lab.Follower    // the core's next hops to the service
	lo       [2]*lab.Follower // the addresses on the nodes' lo
	client   *lab.Stream

	stop     context.CancelFunc
	printing sync.WaitGroup
	broken   int       // promises of the scene being played that were not kept
	since    time.Time // when both nodes first were next hops
	excused  []window  // when queries could be missed: from a fault to its withdrawal
}

// A window is a time, its end not included.
type window struct{ from, to time.Time }

// answerWithin is how long the client waits for an answer. The network answers in a millisecond.
const answerWithin = 500 * time.Millisecond

// underWay is longer than any query is under way, so that one sent this long before something
// broke must have been answered.
const underWay = 50 * time.Millisecond

func newStage(ctx context.Context, l *lab.AnycastLab, line *timeline, program string) (*stage, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stage{lab: l, line: line, stop: cancel}
	var err error
	if s.core, err = l.Core.FollowNextHops(ctx, lab.Service); err != nil {
		return nil, errors.Join(err, s.end())
	}
	for i, nd := range l.Nodes {
		if s.lo[i], err = nd.FollowAddresses(ctx, "lo"); err != nil {
			return nil, errors.Join(err, s.end())
		}
		if s.sidecars[i], err = newSidecar(nd, program); err != nil {
			return nil, errors.Join(err, s.end())
		}
	}
	s.client = l.Client.Stream(ctx, lab.StreamConfig{Server: lab.Service.Addr(), Timeout: answerWithin})
	s.show(ctx, "core", s.core, func(via []netip.Addr) string {
		return fmt.Sprintf("next hops of %s: %s", lab.Service, s.names(via))
	})
	for i, nd := range l.Nodes {
		s.show(ctx, nd.Name(), s.lo[i], func(on []netip.Addr) string {
			if slices.Contains(on, lab.Service.Addr()) {
				return lab.Service.String() + " is on lo"
			}
			return lab.Service.String() + " is not on lo"
		})
	}
	return s, nil
}

// end stops everything that watches, and waits for it. The network stays.
func (s *stage) end() error {
	s.stop()
	s.printing.Wait()
	for _, f := range []*lab.Follower{s.core, s.lo[0], s.lo[1]} {
		if f != nil {
			f.Stop()
		}
	}
	if s.client != nil {
		return s.client.Stop()
	}
	return nil
}

// show prints every change that a follower sees.
func (s *stage) show(ctx context.Context, who string, f *lab.Follower, text func([]netip.Addr) string) {
	s.printing.Go(func() {
		last := f.History()[0]
		s.line.say(last.Time, who, text(last.Addrs))
		for {
			next, err := f.Await(ctx, last.Time, func(now []netip.Addr) bool { return !slices.Equal(now, last.Addrs) })
			if err != nil {
				return
			}
			s.line.say(next.Time, who, text(next.Addrs))
			last = next
		}
	})
}

// names gives the names of the nodes behind next hops.
func (s *stage) names(via []netip.Addr) string {
	var names []string
	for _, v := range via {
		names = append(names, v.String())
		for _, nd := range s.lab.Nodes {
			if nd.Via == v {
				names[len(names)-1] = nd.Name()
			}
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// do says what is done now, and gives the time before it.
func (s *stage) do(who, what string) time.Time {
	now := time.Now()
	s.line.say(now, who, what)
	return now
}

// promise records and prints whether something is so.
func (s *stage) promise(ok bool, format string, args ...any) {
	if !ok {
		s.broken++
	}
	s.line.verdict(ok, fmt.Sprintf(format, args...))
}

// hops waits until the core's next hops are exactly the given nodes.
func (s *stage) hops(ctx context.Context, since time.Time, nodes ...*lab.AnycastNode) (lab.Seen, error) {
	var want []netip.Addr
	for _, nd := range nodes {
		want = append(want, nd.Via)
	}
	return s.core.Await(ctx, since, func(via []netip.Addr) bool { return slices.Equal(via, want) })
}

// taken waits until the service's address is not on the first node's lo.
func (s *stage) taken(ctx context.Context, since time.Time) (lab.Seen, error) {
	return s.lo[0].Await(ctx, since, func(on []netip.Addr) bool { return !slices.Contains(on, lab.Service.Addr()) })
}

// both waits until both nodes are next hops and the core would take a change at once.
func (s *stage) both(ctx context.Context, since time.Time) (lab.Seen, error) {
	seen, err := s.hops(ctx, since, s.lab.Nodes[:]...)
	if err != nil {
		return seen, err
	}
	return seen, s.quiet(ctx)
}

// quiet waits until a change of the first node would be taken by the core at once.
func (s *stage) quiet(ctx context.Context) error { return s.lab.Quiet(ctx, s.lab.Nodes[0]) }

// noneMissed waits for a hundred answers of each of the nodes after a time, and promises that the
// client missed none since another.
func (s *stage) noneMissed(ctx context.Context, what string, from, then time.Time, nodes ...string) error {
	if err := s.client.Until(ctx, then, 100, nodes...); err != nil {
		return err
	}
	end := time.Now()
	if err := s.client.Settled(ctx, end); err != nil {
		return err
	}
	s.promise(len(s.client.Lost(from, end)) == 0, "client missed none %s (%s%s)", what, s.client.Between(from, end), s.when(s.client.Lost(from, end)))
	return nil
}

// when says when the first of some queries were sent.
func (s *stage) when(queries []lab.Query) string {
	var b strings.Builder
	for _, q := range queries[:min(len(queries), 3)] {
		fmt.Fprintf(&b, "; sent at %.3f: %v", q.Sent.Sub(s.line.began).Seconds(), q.Lost)
	}
	return b.String()
}

// excuse says what the client missed from a fault until what was promised had been done about it.
func (s *stage) excuse(ctx context.Context, what string, fault, done time.Time) error {
	w := window{fault.Add(-underWay), done}
	s.excused = append(s.excused, w)
	err := s.client.Settled(ctx, done)
	s.line.say(time.Now(), "client", fmt.Sprintf("%s, %s: %s", what, ms(done.Sub(fault)), s.client.Between(w.from, w.to)))
	return err
}

// account promises, of all that the client asked once there were next hops, that it missed none but those excused.
func (s *stage) account() {
	lost := s.client.Lost(s.since, time.Now())
	rest := slices.DeleteFunc(slices.Clone(lost), func(q lab.Query) bool {
		return slices.ContainsFunc(s.excused, func(w window) bool { return !q.Sent.Before(w.from) && q.Sent.Before(w.to) })
	})
	all := s.client.Between(s.since, time.Now())
	s.promise(len(rest) == 0, "of %d queries in all the client missed %d, of these %d sent outside of the times above%s", all.Sent, len(lost), len(rest), s.when(rest))
}

// logs prints what the two vouch wrote.
func (s *stage) logs(out io.Writer) {
	for _, c := range s.sidecars {
		if c.proc != nil {
			fmt.Fprintf(out, "--- %s\n%s", c.proc, c.proc.Log())
		}
	}
}

// hints says how to look around in a network that was kept.
func (s *stage) hints() string {
	var b strings.Builder
	nd, core := s.lab.Nodes[0], s.lab.Core
	fmt.Fprintf(&b, "\nThe network is left up. To look around:\n")
	for _, c := range [][2]string{
		{"the core's table", fmt.Sprintf("ip netns exec %s ip route show %s", core.Namespace(), lab.Service)},
		{"FRR on the core", fmt.Sprintf("ip netns exec %s vtysh --vty_socket %s", core.Namespace(), s.lab.CoreFRR.SocketDir())},
		{"FRR on apu01", fmt.Sprintf("ip netns exec %s vtysh --vty_socket %s", nd.Namespace(), nd.FRR.SocketDir())},
		{"vouch on apu01", fmt.Sprintf("%s status --socket %s", s.sidecars[0].program, s.sidecars[0].socket)},
		{"why it is so", fmt.Sprintf("%s explain resolver --socket %s", s.sidecars[0].program, s.sidecars[0].socket)},
		{"its log", s.sidecars[0].node.Dir() + "/vouch.log"},
		{"ask as the client", fmt.Sprintf("ip netns exec %s dig @%s id.server CH TXT   (bind9-dnsutils)", s.lab.Client.Namespace(), lab.Service.Addr())},
		{"break unbound", fmt.Sprintf("kill %d", nd.Resolver().PID())},
		{"break the routes", fmt.Sprintf("ip -n %s nexthop flush", nd.Namespace())},
		{"tear down", "make demo ARGS='-down " + s.lab.ID() + "'"},
	} {
		fmt.Fprintf(&b, "  %-18s %s\n", c[0], c[1])
	}
	return b.String()
}
