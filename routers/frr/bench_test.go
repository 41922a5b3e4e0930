package frr

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// BenchmarkQuery asks ospfd for the node's router-LSA: by the socket, by a vtysh that is forked for
// ospfd alone, and by a vtysh that connects to all daemons, as scripts do it.
func BenchmarkQuery(b *testing.B) {
	_, s := ospfLab(b, lab.AnycastOptions{}, Options{})
	const question = "show ip ospf database router self-originate json"
	o := s.r.options
	for name, talk := range map[string]talker{"socket": bySocket(o), "vtysh -d": byCommand(o)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := ask(b.Context(), talk, "ospfd", question); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("vtysh", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.frr.Vtysh(b.Context(), question); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkObserve reads how far one prefix has come.
func BenchmarkObserve(b *testing.B) {
	_, s := ospfLab(b, lab.AnycastOptions{}, Options{})
	s.apply(announce(lab.Service)...)
	s.await(routers.Advertised, lab.Service)
	if err := s.node.Do(func() error {
		for b.Loop() {
			if _, err := s.r.Observe(b.Context(), []netip.Prefix{lab.Service}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkChange makes one change and reads until the table says so: an address by the driver, and
// the same by vtysh as scripts do it; OSPF is quiet before each, which is not counted.
func BenchmarkChange(b *testing.B) {
	l, s := ospfLab(b, lab.AnycastOptions{}, Options{})
	want := routers.Announced
	p := lab.Service
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	b.Run("driver", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			check(b, l.Quiet(ctx, l.Nodes[0]))
			b.StartTimer()
			err := s.node.Do(func() error { return changeByDriver(ctx, s.r, routers.Change{Prefix: p, Want: want}) })
			check(b, err)
			want = routers.Announced + routers.Withdrawn - want
		}
	})
	s.apply(withdraw(p)...)
	s.await(routers.Absent, p)
	want = routers.Announced
	b.Run("vtysh", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			check(b, l.Quiet(ctx, l.Nodes[0]))
			b.StartTimer()
			check(b, changeByVtysh(ctx, s.frr, p, want == routers.Announced))
			want = routers.Announced + routers.Withdrawn - want
		}
	})
}

func changeByDriver(ctx context.Context, r *Router, c routers.Change) error {
	if err := r.Apply(ctx, []routers.Change{c}); err != nil {
		return err
	}
	stage := routers.Absent
	if c.Want == routers.Announced {
		stage = routers.Advertised
	}
	return lab.Wait(ctx, "the change", time.Millisecond, func() (bool, error) {
		os, err := r.Observe(ctx, []netip.Prefix{c.Prefix})
		return err == nil && os[0].Stage == stage, err
	})
}

func changeByVtysh(ctx context.Context, f *lab.FRR, p netip.Prefix, up bool) error {
	command := "ip address " + p.String()
	if !up {
		command = "no " + command
	}
	if _, err := f.Vtysh(ctx, "configure terminal", "interface lo", command); err != nil {
		return err
	}
	return lab.Wait(ctx, "the change", time.Millisecond, func() (bool, error) {
		text, err := f.Vtysh(ctx, "show ip ospf database router self-originate json")
		return err == nil && strings.Contains(text, p.Addr().String()) == up, err
	})
}
