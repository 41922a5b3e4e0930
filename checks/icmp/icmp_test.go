package icmp

import (
	"context"
	"errors"
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

// probe runs one round in a space.
func probe(tb testing.TB, in *checktest.Space, s Spec, timeout time.Duration) (err error) {
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
		t.Errorf("%s: got %v, want %q with %q", what, err, reason, words)
	}
}

const (
	short = time.Second
	// medium has a quarter of it waited for after an objection.
	medium = 2 * time.Second
	long   = 10 * time.Second
)

// sockets have a space's processes use a raw socket, or an unprivileged one.
func sockets(s *checktest.Space) map[string]func() {
	return map[string]func(){
		"raw":  func() { s.Sysctl("ipv4/ping_group_range", "1 0") },
		"ping": func() { s.Sysctl("ipv4/ping_group_range", "0 0") },
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	for kind, use := range sockets(p.Near) {
		use()
		for _, far := range []string{checktest.Far4, checktest.Far6, checktest.Near4, "127.0.0.1", "::1"} {
			want(t, kind+" "+far, probe(t, p.Near, Spec{Address: far}, long), "", "")
			want(t, kind+" three to "+far, probe(t, p.Near, Spec{Address: far, Count: 3, Size: 3000}, long), "", "")
		}
	}
}

// A router that refuses names itself, and what it says.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"raw", "ping"} {
		t.Run(kind, func(t *testing.T) { refused(t, kind) })
	}
}

func refused(t *testing.T, kind string) {
	p := checktest.NewPath(t, 1500, 1500)
	sockets(p.Near)[kind]()
	p.Router.IP("route add unreachable 10.9.1.0/24", "route add prohibit 10.9.2.0/24", "route add blackhole 10.9.3.0/24",
		"route add unreachable fd09:1::/64", "route add prohibit fd09:2::/64", "route add blackhole fd09:3::/64")
	p.Near.IP("route add unreachable 10.9.4.0/24", "route add prohibit 10.9.5.0/24")
	for _, c := range []struct {
		to     string
		reason checks.Reason
		words  string
	}{
		{"10.9.1.1", checks.ReasonUnreachable, "10.0.1.1 says: host unreachable (sent from 10.0.1.2, 0 of 1 replies)"},
		{"10.9.2.1", checks.ReasonUnreachable, "10.0.1.1 says: communication administratively prohibited (sent"},
		{"10.9.3.1", checks.ReasonTimeout, "no reply within D (sent from 10.0.1.2, 0 of 1 replies)"},
		{"10.9.4.1", checks.ReasonUnreachable, "no route to host"},
		{"10.9.5.1", checks.ReasonDenied, "permission denied"},
		{"10.0.1.255", checks.ReasonDenied, "or it is a broadcast address: connect: permission denied"},
		{"fd09:1::1", checks.ReasonUnreachable, "fd00:1::1 says: no route to destination (sent from fd00:1::2"},
		{"fd09:2::1", checks.ReasonUnreachable, "fd00:1::1 says: communication administratively prohibited"},
		{"fd09:3::1", checks.ReasonTimeout, "no reply within D (sent from fd00:1::2, 0 of 1 replies)"},
	} {
		d := medium
		if c.reason == checks.ReasonTimeout {
			d = short
		}
		want(t, c.to, probe(t, p.Near, Spec{Address: c.to}, d), c.reason, c.words)
	}
	// Linux objects five times at once to a host, and then once in a second: the third of four is not awaited.
	want(t, "several", probe(t, p.Near, Spec{Address: "10.9.1.1", Count: 3, MaxLoss: 1}, 2*time.Second), checks.ReasonUnreachable, "host unreachable (sent from 10.0.1.2, 0 of 3 replies)")
}

// What this node itself has no room for tells nothing of the target: here the other end of the link takes no
// packets that large, which the kernel says of each at once.
func TestDropped(t *testing.T) {
	t.Parallel()
	near, far := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(near, far, "eth0", "eth0", 1500, 1000, []string{"10.1.0.2/24"}, []string{"10.1.0.1/24"})
	near.Await("10.1.0.1")
	for kind, use := range sockets(near) {
		use()
		want(t, kind, probe(t, near, Spec{Address: "10.1.0.1", Size: 1300, Count: 2}, medium), checks.ReasonUnknown, "dropped by a queue of this node")
		want(t, kind+" small", probe(t, near, Spec{Address: "10.1.0.1"}, long), "", "")
	}
}

// A route that answers in the end makes the round pass, whatever was lost before.
func TestLostAtFirst(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Far.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	want(t, "ignored", probe(t, p.Near, Spec{Address: checktest.Far4, Count: 4, MaxLoss: 3}, short), checks.ReasonTimeout, "0 of 4 replies")

	c := made(t, Spec{Address: checktest.Far4, Count: 4, MaxLoss: 3})
	sent := 0
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	ctx = checks.WithTrace(ctx, func(d checks.Direction, _ string) {
		if d == checks.Sent {
			if sent++; sent == 4 {
				p.Far.Sysctl("ipv4/icmp_echo_ignore_all", "0")
			}
		}
	})
	var err error
	p.Near.Do(func() { err = c.Check(ctx) })
	want(t, "the last of four", err, "", "")
	if sent != 4 {
		t.Errorf("sent %d requests", sent)
	}
}

// The origin decides the way: here two links lead to the same address, and only one of them to a host.
func TestOrigin(t *testing.T) {
	t.Parallel()
	here, good, bad := checktest.NewSpace(t), checktest.NewSpace(t), checktest.NewSpace(t)
	const far = "10.8.0.1"
	checktest.Link(here, good, "good0", "eth0", 1500, 1500, []string{"10.1.0.2/24"}, []string{"10.1.0.1/24", far + "/32"})
	checktest.Link(here, bad, "bad0", "eth0", 1500, 1500, []string{"10.2.0.2/24"}, []string{"10.2.0.1/24"})
	here.IP("route add default via 10.2.0.1", "route add default via 10.1.0.1 table 100", "rule add fwmark 7 table 100",
		"rule add from 10.1.0.2 table 100", "route add 10.8.0.0/24 via 10.1.0.1 dev good0 metric 900", "route add 10.8.0.0/24 via 10.2.0.1 dev bad0 metric 100")
	here.Await("10.1.0.1", "10.2.0.1")
	bad.IP("route add blackhole 10.8.0.0/24")
	for kind, use := range sockets(here) {
		use()
		for _, c := range []struct {
			origin checks.Origin
			reason checks.Reason
			words  string
		}{
			{checks.Origin{}, checks.ReasonTimeout, "sent from 10.2.0.2"},
			{checks.Origin{Source: "10.1.0.2"}, "", ""},
			{checks.Origin{Source: "10.2.0.2"}, checks.ReasonTimeout, "sent from 10.2.0.2"},
			{checks.Origin{Mark: 7}, "", ""},
			{checks.Origin{Mark: 8}, checks.ReasonTimeout, "sent from 10.2.0.2"},
			{checks.Origin{Device: "good0"}, "", ""},
			{checks.Origin{Device: "bad0"}, checks.ReasonTimeout, "sent from 10.2.0.2"},
			{checks.Origin{Source: "192.0.2.77"}, checks.ReasonUnreachable, "the source address 192.0.2.77 is not on this node"},
			{checks.Origin{Device: "nosuch0"}, checks.ReasonUnreachable, "there is no interface nosuch0"},
		} {
			d := long
			if c.reason == checks.ReasonTimeout {
				d = short
			}
			want(t, kind+" "+c.origin.Source+c.origin.Device, probe(t, here, Spec{Address: far, Origin: c.origin}, d), c.reason, c.words)
		}
	}
}

func TestLinkLocal(t *testing.T) {
	t.Parallel()
	here, there := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(here, there, "eth0", "eth0", 1500, 1500, []string{"fe80::1/64"}, []string{"fe80::2/64"})
	here.Await("fe80::2%eth0")
	for kind, use := range sockets(here) {
		use()
		want(t, kind+" with its zone", probe(t, here, Spec{Address: "fe80::2%eth0"}, long), "", "")
		want(t, kind+" with a device", probe(t, here, Spec{Address: "fe80::2", Origin: checks.Origin{Device: "eth0"}}, long), "", "")
		want(t, kind+" from its own", probe(t, here, Spec{Address: "fe80::2%eth0", Origin: checks.Origin{Source: "fe80::1"}}, long), "", "")
		want(t, kind+" no such zone", probe(t, here, Spec{Address: "fe80::2%eth9"}, long), checks.ReasonUnreachable, "there is no interface eth9")
	}
}

// A process that may not ping says so, and how to change it; nothing of it is a finding about the host.
func TestDenied(t *testing.T) {
	t.Parallel()
	here := checktest.NewSpace(t)
	here.Sysctl("ipv4/ping_group_range", "1 0")
	spec := Spec{Address: "127.0.0.1"}
	c := made(t, spec)
	var err error
	var found []checks.Problem
	here.Do(func() {
		if err = dropCapabilities(); err == nil {
			err, found = c.Check(t.Context()), spec.Local()
		}
	})
	want(t, "no rights", err, checks.ReasonUnknown, "CAP_NET_RAW, or its group a place in the sysctl net.ipv4.ping_group_range")
	if len(found) != 1 || found[0].WayOut == "" || !strings.Contains(found[0].What, "may not ping") {
		t.Errorf("told at start: %+v", found)
	}
}

// dropCapabilities takes all rights from the calling thread.
func dropCapabilities() error {
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

func TestLocal(t *testing.T) {
	t.Parallel()
	here := checktest.NewSpace(t)
	here.Do(func() {
		if ps := (&Spec{Address: "127.0.0.1"}).Local(); ps != nil {
			t.Errorf("all is there: %+v", ps)
		}
		ps := (&Spec{Address: "127.0.0.1", Origin: checks.Origin{Source: "192.0.2.77", Device: "nosuch0"}}).Local()
		if len(ps) != 2 {
			t.Errorf("neither source nor device is there: %+v", ps)
		}
	})
}

// A round that is broken off ends at once and has found nothing out.
func TestCanceled(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Far.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	ctx, cancel := context.WithCancel(t.Context())
	ctx = checks.WithTrace(ctx, func(checks.Direction, string) { cancel() })
	var err error
	p.Near.Do(func() { err = made(t, Spec{Address: checktest.Far4, Count: 3}).Check(ctx) })
	want(t, "canceled", err, checks.ReasonUnknown, "")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What `vouch check -v` shows.
func TestTrace(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	var lines []string
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { lines = append(lines, string(d)+" "+text) })
	var err error
	p.Near.Do(func() { err = made(t, Spec{Address: checktest.Far4}).Check(ctx) })
	want(t, "traced", err, "", "")
	if got := strings.Join(lines, "\n"); got != "> echo request 1 of 1 to 10.0.2.2 from 10.0.1.2, 56 bytes of payload\n< 64 bytes from 10.0.2.2" {
		t.Errorf("trace:\n%s", got)
	}
}

// Rounds leave nothing behind, however they end.
func TestNoLeak(t *testing.T) {
	p := checktest.NewPath(t, 1500, 1500)
	p.Router.IP("route add unreachable 10.9.1.0/24", "route add blackhole 10.9.3.0/24")
	rounds := func(n int) {
		for range n {
			for _, to := range []string{checktest.Far4, checktest.Far6, "10.9.1.1", "10.9.3.1"} {
				_ = probe(t, p.Near, Spec{Address: to}, 2*time.Millisecond)
			}
			_ = probe(t, p.Near, Spec{Address: checktest.Far4, Origin: checks.Origin{Source: "192.0.2.77"}}, time.Second)
		}
	}
	rounds(5)
	checktest.Flat(t, func() { rounds(100) })
}

// Without a descriptor left nothing is found out.
func TestStarved(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	c := made(t, Spec{Address: "127.0.0.1"})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	err := c.Check(t.Context())
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	want(t, "no descriptors", err, checks.ReasonUnknown, "too many open files")
}

func BenchmarkCheck(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIPPED: needs CAP_NET_RAW")
	}
	c := made(b, Spec{Address: "127.0.0.1"})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
