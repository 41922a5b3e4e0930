package unit

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// patientTest bounds what ought to come at once.
const patientTest = 20 * time.Second

var running = checktest.Unit{"Id": "unbound.service", "LoadState": "loaded", "ActiveState": "active", "SubState": "running",
	"Result": "success", "Type": "notify", "NRestarts": "0"}

func dead(u checktest.Unit) checktest.Unit {
	return u.With("ActiveState", "failed", "SubState", "failed", "Result", "signal", "ExecMainCode", "2", "ExecMainStatus", "9")
}

// on makes a check on a bus of its own.
func on(tb testing.TB, socket string, s Spec) *checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("%+v", ps)
	}
	c, err := s.New()
	must(tb, err)
	own := c.(*checker)
	own.bus = busAt(socket)
	return own
}

func busAt(socket string) *bus { return newBus(func() (string, error) { return socket, nil }) }

// check makes one round.
func check(tb testing.TB, c *checker) checks.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patientTest)
	defer cancel()
	return checks.Result{Start: time.Now(), Err: c.Check(ctx)}
}

// A watched is a check that is being watched, as a Runner would.
type watched struct {
	*checker
	tb    testing.TB
	hints chan struct{}
	ended chan error
	count atomic.Int64
	stop  func()
}

func watch(tb testing.TB, c *checker) *watched {
	tb.Helper()
	w := &watched{checker: c, tb: tb, hints: make(chan struct{}, 1), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = sync.OnceFunc(func() { stop(); <-w.ended })
	go func() {
		w.ended <- c.Watch(ctx, func() { w.count.Add(1); poke(w.hints) })
		close(w.ended)
	}()
	tb.Cleanup(w.stop)
	return w
}

// becomes waits until the check has that result, and looks only when it is told to.
func (w *watched) becomes(want checks.Status, what string) {
	w.tb.Helper()
	late := time.After(patientTest)
	for {
		select {
		case <-w.hints:
			if check(w.tb, w.checker).Status() == want {
				return
			}
		case err := <-w.ended:
			w.tb.Fatalf("%s: the watch ended: %v", what, err)
		case <-late:
			w.tb.Fatalf("%s: no hint led to %s: now %v", what, want, check(w.tb, w.checker).Err)
		}
	}
}

// until waits for a state.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	late := time.After(patientTest)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("not yet: %s", what)
		}
	}
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(tb, err)
	return len(entries)
}

// Rounds without a watch leave nothing behind, whatever comes of them.
func TestNoLeak(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	c := on(t, s.Socket, Spec{Unit: "unbound"})
	none := on(t, s.Socket, Spec{Unit: "none"})
	away := on(t, s.Socket+".none", Spec{Unit: "unbound"})
	check(t, c)
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	past, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for range 200 {
		if r := check(t, c); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := check(t, none); r.Reason() != checks.ReasonAbsent {
			t.Fatal(r.Err)
		}
		if r := check(t, away); r.Status() != checks.Unknown {
			t.Fatal(r.Err)
		}
		if r := (checks.Result{Start: time.Now(), Err: c.Check(past)}); r.Status() != checks.Unknown {
			t.Fatal(r.Err)
		}
	}
	until(t, "all is given back", func() bool { return descriptors(t) <= before+2 && runtime.NumGoroutine() <= goroutines })
}

// What hangs is broken off when the time is up, and is unknown: the bus, systemd, and a server that lets
// nobody in.
func TestHangs(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	c := on(t, s.Socket, Spec{Unit: "unbound"})
	soon := func(c *checker) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return c.Check(ctx)
	}
	const late = "unknown: systemd did not answer within "
	speak := s.Silence()
	if err := soon(c); err == nil || !strings.HasPrefix(err.Error(), late) {
		t.Errorf("systemd hangs: %v", err)
	}
	speak()
	must(t, syscall.Kill(s.Pid(), syscall.SIGSTOP))
	if err := soon(c); err == nil || !strings.HasPrefix(err.Error(), late) {
		t.Errorf("the bus hangs: %v", err)
	}
	must(t, syscall.Kill(s.Pid(), syscall.SIGCONT))
	if r := check(t, c); r.Err != nil {
		t.Errorf("it goes on: %v", r.Err)
	}
	socket := filepath.Join(filepath.Dir(s.Socket), "mute")
	ln, err := net.Listen("unix", socket)
	must(t, err)
	defer ln.Close()
	if err := soon(on(t, socket, Spec{Unit: "unbound"})); err == nil || !strings.HasPrefix(err.Error(), late) {
		t.Errorf("a mute server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Check(ctx); err == nil || !strings.HasPrefix(err.Error(), "unknown: broken off") {
		t.Errorf("%v", err)
	}
}

// What speaks something else is no bus.
func TestNoBus(t *testing.T) {
	dir := t.TempDir()
	for name, says := range map[string]string{"closes": "", "noise": strings.Repeat("\x00\xff", 64<<10), "an http server": "HTTP/1.1 400 Bad Request\r\n\r\n",
		"refuses": "REJECTED KERBEROS\r\nREJECTED KERBEROS\r\n", "lets in and raves": "REJECTED EXTERNAL\r\nOK 1234\r\n" + strings.Repeat("l\x02\x00\x01\xff", 1<<12)} {
		socket := filepath.Join(dir, strings.ReplaceAll(name, " ", ""))
		ln, err := net.Listen("unix", socket)
		must(t, err)
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(says))
				_ = conn.(*net.UnixConn).CloseWrite()
			}
		}()
		r := check(t, on(t, socket, Spec{Unit: "unbound"}))
		if r.Status() != checks.Unknown {
			t.Errorf("%s: %v", name, r.Err)
		}
		ln.Close()
	}
}

func TestLocal(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	s.Set(running.With("Id", "off.service", "LoadState", "masked", "ActiveState", "inactive"))
	s.Set(running.With("Id", "bad.service", "LoadState", "bad-setting", "ActiveState", "inactive"))
	for unit, want := range map[string]string{
		"unbound": "", "unbonud": `there is no such unit: did you mean "unbound.service"?`, "nginx": "there is no such unit: install it, and run systemctl daemon-reload",
		"off": "the unit is masked: systemctl unmask off.service", "bad": "the unit cannot be loaded: bad-setting: see systemctl status bad.service",
	} {
		spec := Spec{Unit: unit}
		spec.Validate()
		got := ""
		for _, p := range spec.local(busAt(s.Socket)) {
			got += p.What + ": " + p.WayOut
		}
		if got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
	spec := Spec{Unit: "unbound"}
	spec.Validate()
	if ps := spec.local(busAt("/nowhere")); len(ps) != 1 || !strings.HasPrefix(ps[0].What, "systemd cannot be asked") {
		t.Errorf("%+v", ps)
	}
}

func TestSystemSocket(t *testing.T) {
	for address, want := range map[string]string{"": socket, "unix:path=/x/y,guid=1": "/x/y", "unix:path=/a;tcp:host=b": "/a", "tcp:host=b": "", "unix:path=": ""} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
		if got, err := systemSocket(); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
}

// traced runs a check and gives what it tells.
func traced(t *testing.T, c *checker) string {
	t.Helper()
	var told strings.Builder
	_ = c.Check(checks.WithTrace(t.Context(), func(d checks.Direction, text string) { told.WriteString(string(d) + " " + text + "\n") }))
	return told.String()
}

func TestTrace(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(dead(running))
	told := traced(t, on(t, s.Socket, Spec{Unit: "unbound"}))
	for _, want := range []string{"> ListUnitsByNames unbound.service", "< unbound.service: LoadState=loaded ActiveState=failed SubState=failed NRestarts=0",
		"< Type=notify Result=signal ExecMainCode=2 ExecMainStatus=9"} {
		if !strings.Contains(told, want) {
			t.Errorf("lacks %q: %s", want, told)
		}
	}
}

// A unit that never ran has not been down since the machine was started.
func TestTraceOfNever(t *testing.T) {
	s := checktest.NewSystemd(t)
	for began, want := range map[string]string{"0": ", never left inactive\n", "1000000": ", left inactive "} {
		s.Set(running.With("ActiveState", "inactive", "SubState", "dead", "InactiveExitTimestampMonotonic", began))
		if told := traced(t, on(t, s.Socket, Spec{Unit: "unbound"})); !strings.Contains(told, want) {
			t.Errorf("%s: lacks %q: %s", began, want, told)
		}
	}
}

// One look cannot tell a crash loop from restarts of long ago, and says so where it may be either.
func TestTraceOfRestarts(t *testing.T) {
	s := checktest.NewSystemd(t)
	const note = "was restarted 5 times since it was started by hand"
	for n, want := range map[string]bool{"3": false, "5": true} {
		s.Set(running.With("NRestarts", n))
		c := on(t, s.Socket, Spec{Unit: "unbound", RestartsWithin: time.Second})
		if told := traced(t, c); strings.Contains(told, note) != want {
			t.Errorf("%s restarts: %s", n, told)
		}
		if told := traced(t, c); strings.Contains(told, note) {
			t.Errorf("%s restarts, seen again: %s", n, told)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := checktest.NewSystemd(b)
	s.Set(running)
	b.Run("alone", func(b *testing.B) { bench(b, on(b, s.Socket, Spec{Unit: "unbound"})) })
	b.Run("watched", func(b *testing.B) {
		c := on(b, s.Socket, Spec{Unit: "unbound"})
		watch(b, c).becomes(checks.OK, "it runs")
		bench(b, c)
	})
}

func bench(b *testing.B, c *checker) {
	b.ReportAllocs()
	for b.Loop() {
		must(b, c.Check(b.Context()))
	}
}

// Checks that run side by side share what connection there is, and none harms another.
func TestSideBySide(t *testing.T) {
	s := checktest.NewSystemd(t)
	s.Set(running)
	b := busAt(s.Socket)
	var wg sync.WaitGroup
	for range 16 {
		c := on(t, s.Socket, Spec{Unit: "unbound"})
		c.bus = b
		wg.Go(func() {
			for range 100 {
				if r := check(t, c); r.Err != nil {
					t.Error(r.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.open != nil {
		t.Error("a connection is left")
	}
}

// A connection that broke serves nobody any more, though one still holds it.
func TestBrokenIsReplaced(t *testing.T) {
	s := checktest.NewSystemd(t)
	b := busAt(s.Socket)
	first, err := b.acquire(t.Context())
	must(t, err)
	must(t, first.pipe.Conn.Close())
	until(t, "the end is seen", first.broken)
	second, err := b.acquire(t.Context())
	must(t, err)
	if second == first || second.broken() {
		t.Error("the broken one was given again")
	}
	b.release(first)
	if b.open != second {
		t.Error("the end of the first took the second away")
	}
	b.release(second)
}
