package rtnl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/rtnltest"
)

// A watcher counts the hints of one Watch.
type watcher struct {
	ns    *rtnltest.Namespace
	hints atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

// watch starts follow, or Watch itself, inside the namespace and waits for its first hint.
func watch(tb testing.TB, ns *rtnltest.Namespace, follow func(context.Context, func()) error) *watcher {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	w := &watcher{ns: ns, ended: make(chan error, 1), stop: cancel}
	tb.Cleanup(cancel)
	ns.Go(func() { w.ended <- follow(ctx, func() { w.hints.Add(1) }) })
	ns.Wait("Watch wakes after subscribing", func() bool { return w.hints.Load() > 0 })
	return w
}

// wakes does something and waits for the hint of it.
func (w *watcher) wakes(what string, do func()) {
	w.ns.Wait("the hints have settled", w.settled())
	before := w.hints.Load()
	do()
	w.ns.Wait("Watch wakes after "+what, func() bool { return w.hints.Load() > before })
}

// settled gives a condition that holds when no hint came in 20 askings, each a millisecond apart.
func (w *watcher) settled() func() bool {
	last, same := w.hints.Load(), 0
	return func() bool {
		now := w.hints.Load()
		same++
		if now != last {
			last, same = now, 0
		}
		return same > 20
	}
}

func (w *watcher) end(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(time.Minute):
		tb.Fatal("Watch did not return")
		return nil
	}
}

func TestWatchWakesForEachKindOfChange(t *testing.T) {
	ns := twoPairs(t)
	w := watch(t, ns, Watch)
	for _, line := range []string{
		"addr add 10.53.53.53/32 dev lo", "addr del 10.53.53.53/32 dev lo",
		"addr add fd53::53/128 dev lo", "addr del fd53::53/128 dev lo",
		"route add default via 10.0.1.1", "route del default",
		"route add ::/0 via fd00:1::1", "route del ::/0 via fd00:1::1",
		"nexthop add id 7 via 10.0.1.1 dev eth0", "route add default nhid 7", "nexthop del id 7",
		"addr change 10.0.2.2/30 dev eth1 valid_lft 9000 preferred_lft 9000",  // no route message
		"addr change fd00:2::2/64 dev eth1 valid_lft 9000 preferred_lft 9000", // no route message
		"link set eth0 down", "link set peer1 down",
	} {
		w.wakes(line, func() { ip(t, line) })
	}
	w.ns.Wait("the hints have settled", w.settled())
	w.stop()
	if err := w.end(t); err != nil {
		t.Errorf("Watch after its context ended: %v, want nil", err)
	}
}

// TestWatchIsQuiet shows that hints come of changes only. There is no interface but lo: others tell of
// their carrier late.
func TestWatchIsQuiet(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link set lo up")
	w := watch(t, ns, Watch)
	w.ns.Wait("the hints have settled", w.settled())
	before := w.hints.Load()
	for range 20 {
		addresses(t)
	}
	w.ns.Wait("the hints have settled", w.settled())
	if got := w.hints.Load(); got != before {
		t.Errorf("reading gave %d hints", got-before)
	}
}

// all makes of follow what Watch is: it begins with a hint.
func all(c *conn) func(context.Context, func()) error {
	return func(ctx context.Context, wake func()) error {
		wake()
		return c.follow(ctx, func() Concern { return OnEverything }, func(Concern) { wake() })
	}
}

func TestWatchInStorm(t *testing.T) {
	ns := twoPairs(t)
	w := watch(t, ns, Watch)
	start := time.Now()
	w.wakes("a storm", func() { storm(t, 20000) })
	w.ns.Wait("the hints have settled", w.settled())
	most := int64(time.Since(start)/(5*time.Millisecond)) + 2
	if got := w.hints.Load(); got > most {
		t.Errorf("%d hints for a storm, want at most 200 a second: %d", got, most)
	}
	w.wakes("the storm, for a single change", func() { ip(t, "addr add 10.53.53.53/32 dev lo") })
}

// TestWatchSurvivesLostMessages overflows a socket that nobody reads meanwhile.
func TestWatchSurvivesLostMessages(t *testing.T) {
	ns := twoPairs(t)
	c, err := listen(watched)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	shrink(t, c)
	storm(t, 2000)
	if _, _, err := c.receiveAny(); !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("the storm did not overflow the socket: %v", err)
	}
	if _, err := c.drain(func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	ip(t, "route flush table 77")
	if changed, err := c.changed(); err != nil || changed != OnEverything {
		t.Errorf("lost messages: %b, %v", changed, err)
	}
	w := watch(t, ns, all(c))
	storm(t, 2000)
	w.wakes("messages were lost", func() { ip(t, "addr add 10.53.53.53/32 dev lo") })
	w.stop()
	if err := w.end(t); err != nil {
		t.Error(err)
	}
}

// TestWatchWakesForLostMessages has nothing but the loss itself to tell of a change.
func TestWatchWakesForLostMessages(t *testing.T) {
	ns := twoPairs(t)
	c, err := listen(watched)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	shrink(t, c)
	var hints atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ns.Go(func() {
		_ = all(c)(ctx, func() {
			if hints.Add(1) == 1 {
				close(held)
				<-release
			}
		})
	})
	<-held
	storm(t, 2000)
	close(release)
	ns.Wait("Watch wakes after it was held up", func() bool { return hints.Load() > 1 })
	cancel()
}

func TestWatchTellsOfLostSocket(t *testing.T) {
	ns := twoPairs(t)
	c, err := listen(watched)
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, ns, all(c))
	c.close()
	if err := w.end(t); err == nil || !strings.Contains(err.Error(), "subscription lost") {
		t.Errorf("Watch on a closed socket: %v, want an error", err)
	}
}

// storm adds n routes to a table that nothing else uses.
func storm(tb testing.TB, n int) {
	tb.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("route replace 100.%d.%d.%d/32 via 10.0.1.1 table 77", 64+i>>16, i>>8&255, i&255)
	}
	ip(tb, lines...)
}

// shrink makes the socket's receive buffer as small as the kernel lets it be.
func shrink(tb testing.TB, c *conn) {
	tb.Helper()
	var err error
	if control := c.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); control != nil || err != nil {
		tb.Fatal(control, err)
	}
}
