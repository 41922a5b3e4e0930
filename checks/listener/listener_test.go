package listener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/routers/rtnl/rtnltest"
)

// TestMain is also the process that listens and is killed.
func TestMain(m *testing.M) {
	if at := os.Getenv("LISTENER_TEST_AT"); at != "" {
		if _, err := net.Listen("tcp", at); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("listening")
		select {}
	}
	os.Exit(m.Run())
}

func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("ip %s: %v\n%s", strings.Join(lines, "; ip "), err, out)
	}
}

// node makes a namespace with loopback and one more address of each family.
func node(tb testing.TB) *rtnltest.Namespace {
	tb.Helper()
	ns := rtnltest.New(tb)
	ip(tb, "link set lo up", "addr add 10.53.53.53/32 dev lo", "addr add fd53::53/128 dev lo nodad")
	ns.Wait("the kernel takes fd53::53 for its own", func() bool { // a moment after it was added
		here, err := local(tb.Context(), netip.MustParseAddr("fd53::53"))
		return here && err == nil
	})
	return ns
}

// listen listens in the namespace of the test's thread.
func listen(tb testing.TB, at string) *net.TCPListener {
	tb.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, failed)
	}}
	l, err := lc.Listen(tb.Context(), "tcp", at)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// A watcher counts the hints of one Watch.
type watcher struct {
	ns    *rtnltest.Namespace
	hints atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

// watch waits until Watch has subscribed.
func watch(tb testing.TB, ns *rtnltest.Namespace, target string) *watcher {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	w := &watcher{ns: ns, ended: make(chan error, 1), stop: cancel}
	tb.Cleanup(cancel)
	ns.Go(func() { w.ended <- Watch(ctx, netip.MustParseAddrPort(target), func() { w.hints.Add(1) }) })
	ns.Wait("Watch begins", func() bool { return w.hints.Load() > 0 })
	return w
}

func (w *watcher) wakes(what string, do func()) {
	before := w.hints.Load()
	do()
	w.ns.Wait("Watch wakes after "+what, func() bool { return w.hints.Load() > before })
}

// quiet wants no hint of what is done: it does it, closes a listener that another watch waits for, and looks
// when that has its hint, which came through the same socket behind it.
func (w *watcher) quiet(tb testing.TB, what string, do func()) {
	tb.Helper()
	l := listen(tb, "127.0.0.1:9999")
	marker := watch(tb, w.ns, "127.0.0.1:9999")
	before := w.hints.Load()
	do()
	marker.wakes("the marker", func() { l.Close() })
	if got := w.hints.Load(); got != before {
		tb.Errorf("%d hints of %s", got-before, what)
	}
	marker.stop()
}

func TestClose(t *testing.T) {
	for _, c := range []struct{ listen, watch string }{
		{"127.0.0.1:5300", "127.0.0.1:5300"}, {"0.0.0.0:5300", "127.0.0.1:5300"}, {"10.53.53.53:5300", "10.53.53.53:5300"},
		{"[::1]:5300", "[::1]:5300"}, {"[::]:5300", "[fd53::53]:5300"}, {"[::]:5300", "10.53.53.53:5300"},
		{"127.0.0.1:5300", "[::ffff:127.0.0.1]:5300"},
	} {
		t.Run(c.listen+" "+c.watch, func(t *testing.T) {
			ns := node(t)
			l := listen(t, c.listen)
			watch(t, ns, c.watch).wakes("Close", func() { l.Close() })
		})
	}
}

func TestKill(t *testing.T) {
	ns := node(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "LISTENER_TEST_AT=127.0.0.1:5300")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("listening"))); err != nil {
		t.Fatal(err)
	}
	watch(t, ns, "127.0.0.1:5300").wakes("kill -9", func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
}

// TestReusePort has two listen, of whom one goes.
func TestReusePort(t *testing.T) {
	ns := node(t)
	one, two := listen(t, "127.0.0.1:5300"), listen(t, "127.0.0.1:5300")
	w := watch(t, ns, "127.0.0.1:5300")
	w.wakes("the first", func() { one.Close() })
	w.wakes("the second", func() { two.Close() })
}

// TestQuiet has much happen to other sockets.
func TestQuiet(t *testing.T) {
	ns := node(t)
	l := listen(t, "127.0.0.1:5300")
	w := watch(t, ns, "127.0.0.1:5300")
	for what, do := range map[string]func(){
		"connections that end": func() {
			for range 100 {
				connect(t, l)
			}
		},
		"another port":    func() { listen(t, "127.0.0.1:5301").Close() },
		"another address": func() { listen(t, "10.53.53.53:5300").Close() },
		"a refused connection from the port": func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 53, 53, 53), Port: 5300}}
			if c, err := d.Dial("tcp", "10.53.53.53:1"); err == nil {
				c.Close()
			}
		},
		"a UDP socket": func() {
			if c, err := net.ListenPacket("udp", "127.0.0.1:5300"); err == nil {
				c.Close()
			}
		},
	} {
		w.quiet(t, what, do)
	}
	w.wakes("the listener itself", func() { l.Close() })
}

func connect(tb testing.TB, l net.Listener) {
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	s.Close()
	c.Close()
}

func TestNotOnThisNode(t *testing.T) {
	node(t)
	for _, target := range []string{"192.0.2.1:53", "[2001:db8::1]:53"} {
		err := Watch(t.Context(), netip.MustParseAddrPort(target), func() { t.Error("woken") })
		if !errors.Is(err, checks.ErrNoHints) || !strings.Contains(err.Error(), "is not on this node") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestOneSocket has many watch, who share a socket that goes with the last, and never mix two namespaces up.
func TestOneSocket(t *testing.T) {
	ns := node(t)
	before := descriptors(t)
	var ws []*watcher
	for port := range 50 {
		ws = append(ws, watch(t, ns, fmt.Sprintf("127.0.0.1:%d", 5300+port)))
	}
	if got := descriptors(t); got > before+2 { // the socket, and what the runtime waits with
		t.Errorf("%d watches have %d descriptors", len(ws), got-before)
	}
	for i, w := range ws {
		l := listen(t, fmt.Sprintf("127.0.0.1:%d", 5300+i))
		w.wakes("its listener", func() { l.Close() })
	}
	for i, w := range ws {
		if got := w.hints.Load(); got != 2 {
			t.Errorf("watch %d had %d hints, want the first and its own", i, got)
		}
		w.stop()
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
	}
	if len(subscriptions()) != 0 {
		t.Error("a socket is left")
	}
	other := watch(t, node(t), "127.0.0.1:5300") // the test's thread is in another namespace now
	w := watch(t, ns, "127.0.0.1:5300")
	l := listen(t, "127.0.0.1:5300")
	other.wakes("its own namespace's listener", func() { l.Close() })
	if got := w.hints.Load(); got != 1 {
		t.Errorf("a watch in another namespace had %d hints", got)
	}
}

// subscriptions lists open sock_diag sockets of this process by what /proc says of them.
func subscriptions() (open []string) {
	text, _ := os.ReadFile("/proc/thread-self/net/netlink")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == fmt.Sprint(unix.NETLINK_SOCK_DIAG) && f[2] != "0" {
			open = append(open, line)
		}
	}
	return open
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(all)
}

// TestNobody has a thread without rights watch.
func TestNobody(t *testing.T) {
	ns := node(t)
	l := listen(t, "127.0.0.1:5300")
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var hints atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ns.Go(func() {
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		if err := Watch(ctx, l.Addr().(*net.TCPAddr).AddrPort(), func() { hints.Add(1) }); err != nil {
			t.Errorf("without rights: %v", err)
		}
	})
	ns.Wait("Watch begins", func() bool { return hints.Load() == 1 })
	l.Close()
	ns.Wait("Watch wakes", func() bool { return hints.Load() == 2 })
}

// TestRunner acts on a listener that is gone though the interval is an hour. It is in the namespace that the
// tests began in, for there the Runner's goroutines are.
func TestRunner(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	states := make(chan checks.Status, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := dialer{Watcher{l.Addr().(*net.TCPAddr).AddrPort()}, make(chan struct{}, 1)}
	r := checks.NewRunner("s", []checks.Probe{{Checker: c, Timeout: 10 * time.Second}}, time.Hour, nil,
		func(_ context.Context, round checks.Round) time.Duration {
			states <- round.Results[0].Status()
			return time.Hour
		})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	await := func(want checks.Status) {
		select {
		case got := <-states:
			if got != want {
				t.Errorf("the check is %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("waited 10s in vain until the check is %s", want)
		}
	}
	<-c.watching
	await(checks.OK)
	l.Close()
	await(checks.Failed)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A dialer is a check of whether something listens.
type dialer struct {
	Watcher
	watching chan struct{}
}

func (dialer) String() string { return "dialer" }

func (d dialer) Subscribe(ctx context.Context, wake func(), over func(error)) {
	d.Watcher.Subscribe(ctx, func() {
		select {
		case d.watching <- struct{}{}:
		default:
		}
		wake()
	}, over)
}

func (d dialer) Check(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.Target.String())
	if err != nil {
		return err
	}
	return conn.Close()
}
