package mtu

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/checktest"
)

// made gives the check of a valid Spec.
func made(tb testing.TB, s Spec) checks.Checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("%+v: %+v", s, ps)
	}
	c, err := s.New()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// probeFrom runs one round in a space.
func probeFrom(tb testing.TB, in *checktest.Space, s Spec, timeout time.Duration) (err error) {
	tb.Helper()
	c := made(tb, s)
	ctx := tb.Context()
	var mu sync.Mutex
	var trace strings.Builder
	ctx = checks.WithTrace(ctx, func(d checks.Direction, text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&trace, "\n%c %s", d, text)
	})
	in.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err = c.Check(ctx)
	})
	if err != nil {
		tb.Logf("%s: %v%s", c, err, &trace)
	}
	return err
}

// waited is how long a check says that it waited, which a busy machine makes shorter.
var waited = regexp.MustCompile(`(within|waited) [0-9.]+m?s`)

// want compares an error with a reason and with a part of its text; "" is ok.
func want(t *testing.T, what string, err error, reason checks.Reason, words string) {
	t.Helper()
	got := checks.Result{Start: time.Now(), Err: err}.Reason()
	if got != reason || err != nil && !strings.Contains(waited.ReplaceAllString(err.Error(), "$1 D"), words) {
		t.Errorf("%s:\n got %v\nwant %q with %q", what, err, reason, words)
	}
}

const (
	short = time.Second
	// medium has a quarter of it waited for after an objection.
	medium = 2 * time.Second
	long   = 10 * time.Second
)

func to(ds ...string) Spec { return Spec{Destinations: ds} }

// sockets have a space's processes use a raw socket, or an unprivileged one.
func sockets(s *checktest.Space) map[string]func() {
	return map[string]func(){
		"raw":  func() { s.Sysctl("ipv4/ping_group_range", "1 0") },
		"ping": func() { s.Sysctl("ipv4/ping_group_range", "0 0") },
	}
}

// A path that carries the packets, and exactly how large ones.
func TestCarries(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1400, 1400)
	for kind, use := range sockets(p.Near) {
		use()
		for _, far := range []string{checktest.Far4, checktest.Far6} {
			for _, bytes := range []int{0, 1280, 1400, 101} {
				s := to(far)
				s.Bytes = bytes
				want(t, kind+" "+far, probeFrom(t, p.Near, s, long), "", "")
			}
			s := to(far)
			s.Bytes = 1401
			want(t, kind+" one too many "+far, probeFrom(t, p.Near, s, medium), checks.ReasonUnusable, "the path carries 1400 bytes, not 1401, says ")
		}
	}
}

// A router that says that a packet is too big is named, and so is what would fit. What the kernel learned of it
// does not keep the next round from asking again.
func TestNarrow(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1200, 1500) // an IPv6 link carries 1280 at least, so that IPv6 is off on this one
	for kind, use := range sockets(p.Near) {
		use()
		const text = "the path carries 1200 bytes, not 1280, says 10.0.1.1 (sent from 10.0.1.2)"
		want(t, kind, probeFrom(t, p.Near, to(checktest.Far4), medium), checks.ReasonUnusable, text)
		want(t, kind+" again", probeFrom(t, p.Near, to(checktest.Far4), medium), checks.ReasonUnusable, text)
		p.Router.IP("link set far0 mtu 1500")
		want(t, kind+" healed", probeFrom(t, p.Near, to(checktest.Far4), long), "", "")
		p.Router.IP("link set far0 mtu 1200")
	}
}

func TestNarrow6(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1300, 1500)
	s := to(checktest.Far6)
	s.Bytes = 1400
	for kind, use := range sockets(p.Near) {
		use()
		want(t, kind, probeFrom(t, p.Near, s, medium), checks.ReasonUnusable, "the path carries 1300 bytes, not 1400, says fd00:1::1 (sent from fd00:1::2)")
		want(t, kind+" again", probeFrom(t, p.Near, s, medium), checks.ReasonUnusable, "the path carries 1300 bytes")
		want(t, kind+" smaller", probeFrom(t, p.Near, to(checktest.Far6), long), "", "")
		p.Router.IP("link set far0 mtu 1500")
		want(t, kind+" healed", probeFrom(t, p.Near, s, long), "", "")
		p.Router.IP("link set far0 mtu 1300")
	}
}

// A path that loses large packets without a word is told from a destination that is down.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1200)
	const text = "the path carries 100 bytes, not 1280, and no router says so: a packet of that size is lost without a word (waited D) (sent from 10.0.1.2)"
	want(t, "lost without a word", probeFrom(t, p.Near, to(checktest.Far4), short), checks.ReasonUnusable, text)
	p.Far.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	want(t, "down", probeFrom(t, p.Near, to(checktest.Far4), short), checks.ReasonTimeout,
		"no answer within D, neither to a packet of 1280 bytes nor to one of 100: whatever the size, it is not reached (sent from 10.0.1.2)")
}

func TestBlackHole6(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1300)
	s := to(checktest.Far6)
	want(t, "1280 are carried", probeFrom(t, p.Near, s, long), "", "")
	s.Bytes = 1400
	want(t, "lost without a word", probeFrom(t, p.Near, s, short), checks.ReasonUnusable, "the path carries 100 bytes, not 1400")
}

// This node's own interface may be what is too narrow, or hold a route that leads nowhere.
func TestOwn(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Near.IP("link set eth0 mtu 1300", "route add unreachable 10.9.4.0/24")
	for kind, use := range sockets(p.Near) {
		use()
		for _, far := range []string{checktest.Far4, checktest.Far6} {
			s := to(far)
			s.Bytes = 1400
			want(t, kind+" "+far, probeFrom(t, p.Near, s, long), checks.ReasonUnusable, "this node's own interface eth0 carries 1300 bytes, not 1400 (sent from ")
		}
		want(t, kind+" unreachable", probeFrom(t, p.Near, to("10.9.4.1"), long), checks.ReasonUnreachable, "no route to host")
	}
	want(t, "source", probeFrom(t, p.Near, Spec{Destinations: []string{checktest.Far4}, Origin: checks.Origin{Source: "192.0.2.77"}}, long),
		checks.ReasonUnreachable, "the source address 192.0.2.77 is not on this node")
}

// A packet that this node drops before it leaves, each time and it alone, is too large for the other end of its link; the
// kernel has the same word (ENOBUFS) for a queue that is full.
func TestDropped(t *testing.T) {
	t.Parallel()
	near, far := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(near, far, "eth0", "eth0", 1500, 1000, []string{"10.1.0.2/24"}, []string{"10.1.0.1/24"})
	near.Await("10.1.0.1")
	for kind, use := range sockets(near) {
		use()
		want(t, kind, probeFrom(t, near, to("10.1.0.1"), short), checks.ReasonUnusable,
			"a packet of 1280 bytes is dropped by this node's own queue, or at the narrower other end of its link; one of 100 bytes is not (sent from 10.1.0.2)")
	}
}

// What a route of this node says of the MTU binds those who ask the kernel; the path is asked past it.
func TestRouteMTU(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Near.IP("route add 10.0.2.0/24 via 10.0.1.1 mtu lock 1000")
	want(t, "route mtu", probeFrom(t, p.Near, to(checktest.Far4), long), "", "")
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Router.IP("route add unreachable 10.9.1.0/24", "route add blackhole 10.9.3.0/24")
	sent := 0
	ctx := checks.WithTrace(t.Context(), func(_ checks.Direction, text string) {
		if strings.HasPrefix(text, "a packet of 1280 bytes to 10.9.3.1") { // by one goroutine
			sent++
		}
	})
	var err error
	p.Near.Do(func() { err = made(t, to("10.9.3.1", checktest.Far4)).Check(ctx) })
	want(t, "any, one carries", err, "", "")
	if sent > 1 {
		t.Errorf("went on for %d tries when there was one that carries", sent)
	}
	// Linux objects five times at once to a host, and then once in a second: there are four here.
	s := to("10.9.3.1", "10.9.1.1", checktest.Far4)
	s.Require = "all"
	want(t, "all, two do not", probeFrom(t, p.Near, s, short), checks.ReasonUnreachable, "10.9.3.1: no answer within D, neither to a packet of 1280 bytes nor to one of 100: "+
		"whatever the size, it is not reached (sent from 10.0.1.2); 10.9.1.1: 10.0.1.1 says: host unreachable (sent from 10.0.1.2)")
	want(t, "any, none carries", probeFrom(t, p.Near, to("10.9.3.1", "10.9.1.1"), short), checks.ReasonUnreachable, "10.9.3.1: no answer")
	s = to(checktest.Far4, checktest.Far6)
	s.Require = "all"
	want(t, "all carry", probeFrom(t, p.Near, s, long), "", "")
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1200)
	ctx, cancel := context.WithCancel(t.Context())
	ctx = checks.WithTrace(ctx, func(checks.Direction, string) { cancel() })
	var err error
	p.Near.Do(func() { err = made(t, to(checktest.Far4)).Check(ctx) })
	want(t, "canceled", err, checks.ReasonUnknown, "broken off")
}

// The origin decides the way, and each way has an MTU of its own.
func TestOrigin(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	narrow := checktest.NewSpace(t)
	checktest.Link(p.Near, narrow, "eth1", "near0", 1500, 1500, []string{"10.3.0.2/24"}, []string{"10.3.0.1/24"})
	checktest.Link(narrow, p.Far, "far0", "eth1", 1000, 1500, []string{"10.4.0.1/24"}, []string{"10.4.0.2/24"})
	narrow.Sysctl("ipv4/ip_forward", "1")
	narrow.IP("route add 10.0.2.0/24 via 10.4.0.2")
	p.Near.IP("route add default via 10.3.0.1 table 100", "rule add fwmark 7 table 100")
	p.Far.IP("route add 10.3.0.0/24 via 10.4.0.1")
	narrow.Await(checktest.Far4)
	p.Near.Await("10.3.0.1")
	s := to(checktest.Far4)
	want(t, "unmarked", probeFrom(t, p.Near, s, long), "", "")
	s.Origin = checks.Origin{Mark: 7, Source: "10.3.0.2"}
	want(t, "marked", probeFrom(t, p.Near, s, medium), checks.ReasonUnusable, "the path carries 1000 bytes, not 1280, says 10.3.0.1 (sent from 10.3.0.2, mark 7)")
	s.Origin = checks.Origin{Device: "nosuch0"}
	want(t, "no such device", probeFrom(t, p.Near, s, long), checks.ReasonUnreachable, "there is no interface nosuch0")
}

// A process that may not ping says so; QUIC it may speak.
func TestDenied(t *testing.T) {
	t.Parallel()
	here := checktest.NewSpace(t)
	here.Sysctl("ipv4/ping_group_range", "1 0")
	s, q := to("127.0.0.1"), overQUIC(0, "127.0.0.1")
	c, overQUIC := made(t, s), made(t, q)
	var err, errQUIC error
	var found, foundQUIC []checks.Problem
	here.Do(func() {
		var none [2]unix.CapUserData // taken from this thread only
		if err = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err == nil {
			err, errQUIC = c.Check(t.Context()), overQUIC.Check(t.Context())
			found, foundQUIC = s.Local(), q.Local()
		}
	})
	want(t, "ping", err, checks.ReasonUnknown, "CAP_NET_RAW, or its group a place in the sysctl net.ipv4.ping_group_range")
	want(t, "quic", errQUIC, checks.ReasonRefused, "port unreachable")
	if len(found) != 1 || found[0].Key != "probe" || foundQUIC != nil {
		t.Errorf("told at start: %+v, %+v", found, foundQUIC)
	}
}

// Rounds leave nothing behind, however they end.
func TestNoLeak(t *testing.T) {
	p := checktest.NewPath(t, 1200, 1500)
	p.Router.IP("route add unreachable 10.9.1.0/24", "route add blackhole 10.9.3.0/24")
	rounds := func(n int) {
		for range n {
			for _, s := range []Spec{to(checktest.Far4), to("10.9.1.1", "10.9.3.1"), to("127.0.0.1", "10.9.3.1"), overQUIC(0, checktest.Far4),
				{Destinations: []string{checktest.Far4, "10.9.3.1"}, Origin: checks.Origin{Source: "192.0.2.77"}}} {
				c := made(t, s)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
				p.Near.Do(func() { _ = c.Check(ctx) })
				cancel()
			}
		}
	}
	rounds(5)
	checktest.Flat(t, func() { rounds(100) })
}

func BenchmarkCheck(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIPPED: needs CAP_NET_RAW")
	}
	c := made(b, to("127.0.0.1"))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
