package kinds

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"vouch/checks"
)

// listening are the tables, by kind, of checks that watch who listens at an address.
var listening = map[string][]string{
	"dns": {"server = %q", "server = %q\nproto = \"tcp\"", "server = %q\nproto = \"tls\"\nverify = false", "server = %q\nproto = \"https\"\nverify = false"},
	"http": {
		"url = \"http://%s/\"", "url = \"https://www.example.net/\"\nconnect = %q",
		"url = \"https://www.example.net/\"\nconnect = %q\nversion = \"3\"",
	},
	"tcp": {"address = %q", "address = %q\ntls = true\nverify = false"},
	"tls": {"address = %q\nverify = false"},
}

// otherwise are the kinds that watch something else, which is tested where they are, or nothing.
var otherwise = []string{"address", "exec", "file", "icmp", "mtu", "ntp", "route", "systemd", "udp"}

// Each kind of check of what listens over TCP is woken by what it is configured for, when that is gone.
func TestWatch(t *testing.T) {
	for _, kind := range Names() {
		if (listening[kind] != nil) == slices.Contains(otherwise, kind) {
			t.Errorf("%s is in none of this test's tables, or in both", kind)
		}
		for _, table := range listening[kind] {
			t.Run(kind, func(t *testing.T) { wakes(t, kind, table) })
		}
	}
}

// wakes has a hint come when the watch begins, and when the listener is closed, whichever way it is asked for.
func wakes(t *testing.T, kind, table string) {
	for _, watch := range []func(context.Context, checks.Subscriber, func(), func(error)){
		func(ctx context.Context, s checks.Subscriber, wake func(), over func(error)) {
			go func() { over(s.Watch(ctx, wake)) }()
		},
		func(ctx context.Context, s checks.Subscriber, wake func(), over func(error)) {
			s.Subscribe(ctx, wake, over)
		},
	} {
		l, err := net.Listen("tcp", home+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s, is := made(t, kind, fmt.Sprintf(table, l.Addr())).(checks.Subscriber)
		if !is {
			t.Fatalf("%s is watched by a goroutine each", kind)
		}
		woken, ended := make(chan struct{}, 8), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch(ctx, s, func() { woken <- struct{}{} }, func(err error) { ended <- err })
		for _, what := range []string{"that it has begun", "that nobody listens any more"} {
			select {
			case <-woken:
			case err := <-ended:
				t.Fatalf("%s: the watch ended: %v", s, err)
			case <-time.After(plenty):
				t.Fatalf("%s: waited %s in vain for a hint %s", s, plenty, what)
			}
			l.Close()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
