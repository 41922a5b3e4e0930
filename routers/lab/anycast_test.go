package lab_test

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vouch/routers/lab"
)

// slow is how long an answer may take on a busy machine. What cannot be answered is refused at once, for the most part.
const slow = 15 * time.Second

// known waits until what became of every query so far is known, and tells until when that is: of the later ones some
// are under way.
func known(t *testing.T, s *lab.Stream) time.Time {
	t.Helper()
	now := time.Now()
	if err := s.Settled(within(t, time.Minute), now); err != nil {
		t.Fatal(err)
	}
	return now
}

var anyDefault = netip.MustParsePrefix("0.0.0.0/0")

// within gives a context for one step.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func address(t *testing.T, nd *lab.AnycastNode, action string, p netip.Prefix) {
	t.Helper()
	if err := nd.Address(t.Context(), action, p.String(), "lo"); err != nil {
		t.Fatal(err)
	}
}

func follow(t *testing.T, l *lab.AnycastLab, p netip.Prefix) *lab.Follower {
	t.Helper()
	f, err := l.Core.FollowNextHops(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

// becomes waits until the next hops are the given ones. ospf6d holds its LSAs back for up to 5 s.
func becomes(t *testing.T, f *lab.Follower, since time.Time, via ...netip.Addr) lab.Seen {
	t.Helper()
	h, err := f.Await(within(t, time.Minute), since, func(now []netip.Addr) bool { return slices.Equal(now, via) })
	if err != nil {
		t.Fatalf("%v, want %v; history %v", err, via, f.History())
	}
	return h
}

func TestAnycastSpreadsOverBothNodes(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{IPv6: true})
	one, two := l.Nodes[0], l.Nodes[1]
	f, f6 := follow(t, l, lab.Service), follow(t, l, lab.Service6)
	becomes(t, f, time.Now())
	began := time.Now()
	for _, nd := range l.Nodes {
		address(t, nd, "add", lab.Service)
		address(t, nd, "add", lab.Service6)
	}
	t.Logf("both next hops after %s", becomes(t, f, began, one.Via, two.Via).Time.Sub(began))
	t.Logf("both IPv6 next hops after %s", becomes(t, f6, began, one.Via6, two.Via6).Time.Sub(began))

	for _, nd := range []*lab.Node{l.Client, one.Node} { // one has a default route, the other the address itself
		if via, err := nd.NextHops(lab.Service); err != nil || len(via) > 0 {
			t.Errorf("%s has next hops %v (%v)", nd.Name(), via, err)
		}
	}

	s, s6 := l.Client.Stream(t.Context(), lab.StreamConfig{Server: lab.Service.Addr(), Timeout: slow}), l.Client.Stream(t.Context(), lab.StreamConfig{Server: lab.Service6.Addr(), Timeout: slow})
	for _, s := range []*lab.Stream{s, s6} {
		if err := s.Until(within(t, time.Minute), time.Time{}, 20, "apu01", "apu02"); err != nil {
			t.Fatal(err)
		}
	}
	for _, nd := range l.Nodes {
		if err := l.Quiet(within(t, time.Minute), nd); err != nil {
			t.Fatal(err)
		}
	}
	before := known(t, s)
	asked := time.Now()
	lo, err := one.FollowAddresses(t.Context(), "lo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lo.Stop)
	address(t, one, "del", lab.Service)
	gone := becomes(t, f, asked, two.Via)
	t.Logf("next hop gone after %s", gone.Time.Sub(asked))
	becomes(t, lo, time.Now(), lab.Service6.Addr())
	if was := lo.History()[0].Addrs; !slices.Equal(was, []netip.Addr{lab.Service.Addr(), lab.Service6.Addr()}) {
		t.Errorf("on lo there were %v", was)
	}
	if err := s.Until(within(t, time.Minute), gone.Time, 20, "apu02"); err != nil {
		t.Fatal(err)
	}
	end := time.Now()
	if err := s.Settled(within(t, time.Minute), end); err != nil {
		t.Fatal(err)
	}
	if n := s.Between(gone.Time.Add(50*time.Millisecond), end).ByNode["apu01"]; n > 0 {
		t.Errorf("apu01 answered %d queries sent after it was gone", n)
	}
	accounts(t, s, s6, before, gone.Time)
}

// accounts ends both streams, of which only the first may have lost queries: those that were under way when the address
// went, or were sent while the core did not know yet.
func accounts(t *testing.T, s, s6 *lab.Stream, before, gone time.Time) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s6.Stop(); err != nil {
		t.Error(err)
	}
	// What reaches apu01 after its address is gone and before the core knows goes round between the
	// two until its TTL ends.
	for _, q := range s.Lost(time.Time{}, time.Now()) {
		if q.Sent.Before(before) || q.Sent.After(gone) {
			t.Errorf("sent at %s, and lost though the address was there until after %s, and the next hop until %s: %v", q.Sent, before, gone, q.Lost)
		}
	}
	if lost := s6.Lost(time.Time{}, time.Now()); len(lost) > 0 {
		t.Errorf("%d IPv6 queries lost, the first: %v", len(lost), lost[0])
	}
}

func TestTwoNetworksAtOnce(t *testing.T) {
	t.Parallel()
	var labs [2]*lab.AnycastLab
	var wg sync.WaitGroup
	lab.Require(t)
	for i := range labs {
		wg.Go(func() {
			l, err := lab.Anycast(within(t, 5*time.Minute), lab.AnycastOptions{NoUnbound: i == 1})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
			labs[i] = l
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	f := follow(t, labs[0], lab.Service)
	other := follow(t, labs[1], lab.Service)
	address(t, labs[0].Nodes[0], "add", lab.Service)
	becomes(t, f, time.Now(), labs[0].Nodes[0].Via)
	if h := other.History(); len(h) != 1 || len(h[0].Addrs) > 0 {
		t.Errorf("a route of one network shows in the other: %v", h)
	}
	if err := labs[1].Close(); err != nil {
		t.Fatal(err)
	}
	if found := traces(t, labs[1].ID()); len(found) > 0 {
		t.Errorf("Close left %v", found)
	}
	if _, err := labs[0].CoreFRR.Show(t.Context(), "ospfd", "show ip ospf"); err != nil {
		t.Errorf("closing one network hurt the other: %v", err)
	}
}

// full says what the node's ospfd says of the core.
func full(t *testing.T, nd *lab.AnycastNode) bool {
	t.Helper()
	out, err := nd.FRR.Show(t.Context(), "ospfd", "show ip ospf neighbor")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(out, "Full")
}

// hasDefault waits until the node's kernel has a default route, or has none.
func hasDefault(t *testing.T, nd *lab.AnycastNode, want bool) {
	t.Helper()
	err := lab.Wait(within(t, time.Minute), "the default route", 5*time.Millisecond, func() (bool, error) {
		via, err := nd.NextHops(anyDefault)
		return len(via) > 0 == want, err
	})
	if err != nil {
		t.Fatalf("a default route: %t wanted: %v", want, err)
	}
}

// The faults that vouch is for, on one network one after the other: OSPF says all is well while
// the kernel has no route.
func TestFaultsShow(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoUnbound: true})
	nd := l.Nodes[0]
	for _, fault := range []struct {
		name string
		make func() error
	}{
		{"nexthop objects flushed", func() error { _, err := nd.Run(t.Context(), "ip", "nexthop", "flush"); return err }},
		{"zebra restarted alone", func() error { return nd.FRR.RestartDaemon(within(t, time.Minute), "zebra") }},
		{"zebra killed and started", func() error {
			if err := nd.FRR.Kill("zebra"); err != nil {
				return err
			}
			return nd.FRR.StartDaemon(within(t, time.Minute), "zebra")
		}},
	} {
		if err := fault.make(); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		hasDefault(t, nd, false)
		err := lab.Wait(within(t, time.Minute), "the neighbour to be Full", 5*time.Millisecond, func() (bool, error) { return full(t, nd), nil })
		if err != nil {
			t.Errorf("%s: %v", fault.name, err)
		}
		if err := nd.FRR.RestartDaemon(within(t, time.Minute), "ospfd"); err != nil {
			t.Fatalf("%s: heal: %v", fault.name, err)
		}
		hasDefault(t, nd, true)
	}
}

func TestWithoutNexthopObjectsAFlushHarmsNothing(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoUnbound: true, NoNexthopObjects: true})
	if _, err := l.Nodes[0].Run(t.Context(), "ip", "nexthop", "flush"); err != nil {
		t.Fatal(err)
	}
	if via, err := l.Nodes[0].NextHops(anyDefault); err != nil || len(via) != 1 {
		t.Fatalf("the default route leads to %v (%v)", via, err)
	}
}

func TestDaemonsAreHandledOneByOne(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{NoUnbound: true})
	frr := l.Nodes[0].FRR
	if err := frr.Signal("ospfd", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := frr.Show(within(t, 200*time.Millisecond), "ospfd", "show version"); err == nil {
		t.Error("a stopped ospfd answered")
	}
	if _, err := frr.Show(t.Context(), "zebra", "show version"); err != nil {
		t.Errorf("zebra: %v", err)
	}
	if err := frr.Signal("ospfd", syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := frr.Show(t.Context(), "ospfd", "show nonsense"); err == nil || !strings.Contains(err.Error(), "status 2") {
		t.Errorf("an unknown command gave %v", err)
	}
	if err := frr.StartDaemon(t.Context(), "ospfd"); err == nil {
		t.Error("ospfd was started twice")
	}
	if err := frr.Kill("bgpd"); err == nil {
		t.Error("a daemon was killed that was never started")
	}
	before := frr.PID("ospfd")
	if err := frr.Restart(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if after := frr.PID("ospfd"); after == before || after == 0 {
		t.Errorf("ospfd was %d, is %d", before, after)
	}
	out, err := frr.Vtysh(within(t, time.Minute), "show running-config")
	if err != nil || !strings.Contains(out, "network 10.53.53.0/24 area 0") || !strings.Contains(out, "ip ospf hello-interval 1") {
		t.Errorf("the configuration was not loaded again (%v): %s", err, out)
	}
	if err := frr.Kill("zebra"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(frr.SocketDir() + "/zebra.vty"); err != nil {
		t.Errorf("a killed zebra leaves its socket: %v", err)
	}
	hasDefault(t, l.Nodes[1], true)
}

func TestResolverDiesAndComesBack(t *testing.T) {
	t.Parallel()
	l := lab.OpenAnycast(t, lab.AnycastOptions{})
	nd := l.Nodes[0]
	address(t, nd, "add", lab.Service)
	becomes(t, follow(t, l, lab.Service), time.Now(), nd.Via)
	s := l.Client.Stream(t.Context(), lab.StreamConfig{Server: lab.Service.Addr(), Timeout: slow})
	if err := s.Until(within(t, time.Minute), time.Time{}, 10, "apu01"); err != nil {
		t.Fatal(err)
	}
	before := known(t, s)
	died := time.Now()
	if err := nd.Resolver().Kill(); err != nil {
		t.Fatal(err)
	}
	err := lab.Wait(within(t, time.Minute), "lost queries", 5*time.Millisecond, func() (bool, error) {
		return len(s.Lost(died, time.Now())) >= 10, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lost := s.Lost(time.Time{}, before); len(lost) > 0 {
		t.Errorf("lost before the death: %v", lost)
	}
	if err := nd.StartUnbound(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	if err := s.Until(within(t, time.Minute), back, 10, "apu01"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if tally := s.Between(back, time.Now()); tally.Lost > 0 || tally.Waiting > 0 {
		t.Errorf("after the return: %s", tally)
	}
}
