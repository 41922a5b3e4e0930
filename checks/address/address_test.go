package address

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/checks"
	"vouch/routers/rtnl/rtnltest"
)

func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("ip %s: %v\n%s", strings.Join(lines, "; ip "), err, out)
	}
}

func checker(tb testing.TB, s Spec) checks.Checker {
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

func TestCheck(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link set lo up", "link add eth0 type veth peer name peer0", "link set eth0 up",
		"addr add 10.53.53.53/32 dev lo", "addr add fd53::53/128 dev lo nodad",
		"addr add 10.0.1.2/30 dev eth0", "addr add fd00:1::2/64 dev eth0",
		"addr add 10.53.53.60 peer 10.9.9.9/32 dev eth0", "addr add fd00:2::2/64 dev eth0 nodad preferred_lft 0")
	ns.Wait("fd00:1::2 is there", func() bool {
		var f *checks.Failure
		err := checker(t, Spec{Address: "fd00:1::2"}).Check(t.Context())
		return errors.As(err, &f) && f.Reason == checks.ReasonUnusable
	})
	for _, c := range []struct {
		spec   Spec
		reason checks.Reason
		detail string
	}{
		{Spec{Address: "10.53.53.53"}, "", ""},
		{Spec{Address: "10.53.53.53/32", Interface: "lo"}, "", ""},
		{Spec{Address: "fd53::53"}, "", ""},
		{Spec{Address: "fd53::53/128", Interface: "lo"}, "", ""},
		{Spec{Address: "10.0.1.2/30", Interface: "eth0"}, "", ""},
		{Spec{Address: "10.53.53.60"}, "", ""},
		{Spec{Address: "fd00:2::2"}, "", ""},
		{Spec{Address: "10.9.9.9"}, checks.ReasonAbsent, "no address 10.9.9.9"},
		{Spec{Address: "10.53.53.5"}, checks.ReasonAbsent, "no address 10.53.53.5"},
		{Spec{Address: "10.53.53.53", Interface: "eth0"}, checks.ReasonAbsent, `no address 10.53.53.53 on eth0, but there is 10.53.53.53/32 on interface "lo"`},
		{Spec{Address: "10.0.1.2/24"}, checks.ReasonAbsent, `no address 10.0.1.2/24, but there is 10.0.1.2/30 on interface "eth0"`},
		{Spec{Address: "fd53::54"}, checks.ReasonAbsent, "no address fd53::54"},
		{Spec{Address: "fd00:1::2"}, checks.ReasonUnusable, `fd00:1::2/64 on interface "eth0": tentative: duplicate address detection has not ended`},
		{Spec{Address: "10.0.1.2", Interface: "nosuch0"}, checks.ReasonAbsent, `no address 10.0.1.2 on nosuch0, but there is 10.0.1.2/30 on interface "eth0"`},
	} {
		err := checker(t, c.spec).Check(t.Context())
		if c.reason == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.spec, err)
			}
			continue
		}
		var f *checks.Failure
		if !errors.As(err, &f) || f.Reason != c.reason || f.Detail != c.detail {
			t.Errorf("%+v: got %v, want %s: %s", c.spec, err, c.reason, c.detail)
		}
	}
}

// TestDADFailed has the same address at both ends of a link.
func TestDADFailed(t *testing.T) {
	ns := rtnltest.New(t)
	ip(t, "link add eth0 type veth peer name peer0", "link set eth0 up", "link set peer0 up",
		"addr add fd53::53/128 dev peer0 nodad", "addr add fd53::53/128 dev eth0")
	c := checker(t, Spec{Address: "fd53::53", Interface: "eth0"})
	ns.Wait("duplicate address detection fails", func() bool {
		var f *checks.Failure
		return errors.As(c.Check(t.Context()), &f) && f.Reason == checks.ReasonUnusable && strings.Contains(f.Detail, "another host")
	})
	if err := checker(t, Spec{Address: "fd53::53"}).Check(t.Context()); err != nil {
		t.Errorf("one usable address of two is enough: %v", err)
	}
}

func TestUnreadableIsUnknown(t *testing.T) {
	rtnltest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := checker(t, Spec{Address: "127.0.0.1"}).Check(ctx)
	if r := (checks.Result{Start: time.Unix(1, 0), Err: err}); r.Status() != checks.Unknown {
		t.Errorf("%v is %s, want unknown", err, r.Status())
	}
}

// TestWatch checks on hints only.
func TestWatch(t *testing.T) {
	for _, p := range []string{"10.53.53.53/32", "fd53::53/128"} {
		t.Run(p, func(t *testing.T) {
			ns := rtnltest.New(t)
			ip(t, "link set lo up")
			c := checker(t, Spec{Address: p})
			var status atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ns.Go(func() {
				_ = c.(checks.Watcher).Watch(ctx, func() {
					r := checks.Result{Start: time.Unix(1, 0), Err: c.Check(ctx)}
					status.Store(int32(r.Status()))
				})
			})
			is := func(s checks.Status) func() bool { return func() bool { return checks.Status(status.Load()) == s } }
			ns.Wait("the check fails", is(checks.Failed))
			ip(t, "addr add "+p+" dev lo")
			ns.Wait("the check is ok", is(checks.OK))
			ip(t, "addr del "+p+" dev lo")
			ns.Wait("the check fails again", is(checks.Failed))
		})
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Spec{
		{Address: "10.0.1.2"}, {Address: "10.0.1.2/30"}, {Address: "fd00::1", Interface: "eth0.100"}, {Address: "fd00::1/64", Interface: "lo"},
	} {
		if ps := s.Validate(); ps != nil {
			t.Errorf("%+v: %+v", s, ps)
		}
	}
	for _, address := range []string{"", "resolver", "10.0.1.2/33", "10.0.1", "fe80::1%eth0", "::ffff:10.0.1.2", "::ffff:10.0.1.2/120"} {
		if ps := (&Spec{Address: address}).Validate(); len(ps) != 1 || ps[0].Key != "address" {
			t.Errorf("address %q: %+v, want one problem", address, ps)
		}
	}
	want := []checks.Problem{
		{Key: "address", What: "must be an address, or an address and its length", Got: `"x"`, WayOut: `write "192.0.2.1" or "192.0.2.1/24"`},
		{Key: "interface", What: "must be the name of an interface, at most 15 bytes without slash and space", Got: `"a name that is too long"`,
			WayOut: `write "lo", or leave it out for any interface`},
	}
	if diff := cmp.Diff(want, (&Spec{Address: "x", Interface: "a name that is too long"}).Validate()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if ps := (&Spec{}).Validate(); len(ps) != 1 || ps[0].What != "is missing" {
		t.Errorf("no address: %+v", ps)
	}
}

func TestString(t *testing.T) {
	for want, s := range map[string]Spec{
		"address 10.0.1.2":            {Address: "10.0.1.2"},
		"address 10.0.1.2/30 on eth0": {Address: "10.0.1.2/30", Interface: "eth0"},
	} {
		if got := checker(t, s).String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
