package http

import (
	"context"
	"errors"
	"net"
	nethttp "net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// held counts what the process has open and running.
func held(t testing.TB) (descriptors, goroutines int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all), runtime.NumGoroutine()
}

// settles waits until no more is held than before, or a few more.
func settles(t testing.TB, descriptors, goroutines int) {
	t.Helper()
	const more = 5
	var d, g int
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if d, g = held(t); d <= descriptors+more && g <= goroutines+more {
			return
		}
		<-tick.C
	}
	t.Errorf("descriptors %d, were %d; goroutines %d, were %d", d, descriptors, g, goroutines)
	_ = pprof.Lookup("goroutine").WriteTo(t.Output(), 1)
}

// rounds runs n checks, several side by side, each within d.
func rounds(t testing.TB, s Spec, n int, d time.Duration, reason checks.Reason) {
	t.Helper()
	const abreast = 20
	var wg sync.WaitGroup
	for range abreast {
		c := create(t, s)
		wg.Go(func() {
			for range n / abreast {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				err := c.Check(ctx)
				cancel()
				if f := (*checks.Failure)(nil); reason == checks.ReasonTimeout && errors.As(err, &f) && f.Reason == checks.ReasonUnknown {
					continue // on a busy machine not even our own files were read in that time
				}
				want(t, err, reason)
			}
		})
	}
	wg.Wait()
}

// uncollected runs n checks, and wants nothing left of them. It keeps the garbage collector from closing what
// was forgotten.
func uncollected(t testing.TB, s Spec, n int, within time.Duration, reason checks.Reason) {
	t.Helper()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	d, g := held(t)
	rounds(t, s, n, within, reason)
	settles(t, d, g)
}

// Each round closes what it opened, whatever comes of it.
func TestNoLeak(t *testing.T) {
	mixed := nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write(make([]byte, 200000))
		case "/silent":
			<-r.Context().Done()
		case "/aborts":
			panic(nethttp.ErrAbortHandler)
		}
	})
	s := serve(t, mixed)
	for way, aborted := range map[string]checks.Reason{"1.1": checks.ReasonRefused, "2": checks.ReasonProtocol, "3": checks.ReasonProtocol} {
		for path, reason := range map[string]checks.Reason{"/": "", "/long": "", "/silent": checks.ReasonTimeout, "/aborts": aborted} {
			spec := s.spec(way, path)
			spec.MaxBody = 1000
			within := long
			if reason == checks.ReasonTimeout {
				within = time.Second
			}
			rounds(t, spec, 20, within, reason) // what a server keeps at all
			uncollected(t, spec, 100, within, reason)
		}
	}
}

// 2000 rounds in all over HTTP/3 that fail leave neither sockets nor goroutines.
func TestNoLeakOfPackets(t *testing.T) {
	hole, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	ca := checktest.NewCA(t)
	bad := checktest.HTTP3(t, "127.0.0.1", ca.Issue(t, "other.example").Config(), hello)
	for at, c := range map[string]struct {
		n      int
		reason checks.Reason
		d      time.Duration
	}{
		checktest.Closed(t, "127.0.0.1").String(): {1000, checks.ReasonRefused, long},
		hole.LocalAddr().String():                 {500, checks.ReasonTimeout, 20 * time.Millisecond},
		bad.String():                              {500, checks.ReasonTLS, long},
	} {
		s := Spec{URL: "https://" + name + "/", Connect: at, Version: "3", Spec: trust.Spec{CA: ca.File}}
		uncollected(t, s, c.n, c.d, c.reason)
	}
}

// A check that is broken off found nothing out, and leaves nothing.
func TestCanceled(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := serve(t, nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	for way := range ways {
		c := create(t, s.spec(way, "/"))
		ctx, cancel := context.WithTimeout(t.Context(), long)
		done := make(chan error, 1)
		go func() { done <- c.Check(ctx) }()
		<-asked
		cancel()
		want(t, <-done, checks.ReasonUnknown, "broken off")
		want(t, c.Check(ctx), checks.ReasonUnknown)
	}
}
