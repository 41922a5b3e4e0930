package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

// peerOf finds one peer's part of a sight.
func peerOf(s sight, name string) routers.Peer {
	for _, p := range s.peers {
		if p.Name == name {
			return p
		}
	}
	return routers.Peer{}
}

// reconfigure replaces a text in the node's configuration and has BIRD load it by the command.
func (s *scene) reconfigure(t *testing.T, command, old, new string) {
	t.Helper()
	ctx := sceneWithin(t, 30*time.Second)
	config, err := s.main.Config()
	if err == nil && !strings.Contains(config, old) {
		err = fmt.Errorf("no %q in the configuration", old)
	}
	if err == nil {
		err = s.main.WriteConfig(strings.Replace(config, old, new, 1))
	}
	if err == nil {
		_, err = s.main.Show(ctx, command)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// F03: `configure soft` leaves at a peer what the new filter would not give it any more, and that is seen
// where BIRD can tell it.
func TestObserveSoftReconfiguration(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		d := s.daemons()
		defer d.close()
		s.reconfigure(t, "configure soft", "if net = 10.53.53.55/32 then reject", "if net ~ [10.53.53.53/32, 10.53.53.55/32] then reject")
		core := func() routers.Peer { return peerOf(s.sights(t, d)[sceneStatic], "core4") }
		if got := core(); got.Stage != routers.Advertised && tellsSentOf(s.release) {
			t.Errorf("after configure soft: %v", got)
		}
		reload := "reload out core4"
		if s.release == lab.BIRD3 {
			reload = "reload filters out core4"
		}
		if _, err := s.main.Show(t.Context(), reload); err != nil {
			t.Fatal(err)
		}
		sceneWait(t, "the peer to be sent the withdrawal", func() error {
			if got := core(); got.Stage != routers.Selected || got.Detail != "its export filter to_core4 does not let it pass" {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
	})
}

// A daemon that was restarted, or killed and started, is read as if nothing had been; one that is away makes
// everything unknown, never absent.
func TestObserveRestart(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		d := s.daemons()
		defer d.close()
		s.sights(t, d)
		for name, end := range map[string]func() error{"stop": s.main.Stop, "kill": s.main.Kill} {
			if err := end(); err != nil {
				t.Fatal(err)
			}
			sights, err := d.observe(t.Context(), s.options(), []netip.Prefix{sceneStatic, sceneAbsent})
			want := map[string]error{"stop": syscall.ENOENT, "kill": syscall.ECONNREFUSED}[name]
			if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, want) {
				t.Errorf("%s: error %v", name, err)
			}
			for p, s := range sights {
				if stage, _ := s.stage(1); stage != routers.Unknown {
					t.Errorf("%s: %s is %v", name, p, stage)
				}
			}
			if err := s.main.Start(sceneWithin(t, 30*time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.observe(t.Context(), s.options(), []netip.Prefix{sceneStatic}); err != nil {
				t.Errorf("%s: after the start: %v", name, err)
			}
		}
		if err := s.main.Restart(sceneWithin(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.observe(t.Context(), s.options(), []netip.Prefix{sceneStatic}); err != nil {
			t.Errorf("between two readings it was restarted: %v", err)
		}
	})
}

// A daemon that hangs costs one timeout.
func TestObserveHang(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		d := s.daemons()
		defer d.close()
		s.sights(t, d)
		if err := s.main.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer s.main.Signal(syscall.SIGCONT)
		began := time.Now()
		sights, err := d.observe(t.Context(), s.options(), []netip.Prefix{sceneStatic})
		if stage, _ := sights[sceneStatic].stage(1); !errors.Is(err, routers.ErrUnavailable) || stage != routers.Unknown {
			t.Errorf("%v, error %v", stage, err)
		}
		if took := time.Since(began); took > 2*unhurried {
			t.Errorf("took %v", took)
		}
	})
}

// The neighbour dies: nobody is told any more, by BGP or by OSPF, and each says so.
func TestObserveNeighbourDies(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		d := s.daemons()
		defer d.close()
		if err := s.its.Kill(); err != nil {
			t.Fatal(err)
		}
		sceneWait(t, "nobody to be told", func() error {
			seen := s.sights(t, d)[sceneStatic]
			stage, detail := seen.stage(1)
			ospf := peerOf(seen, "ospf4")
			if stage != routers.Selected || !strings.HasPrefix(detail, "given to 0 of 1: core4: not established (") {
				return fmt.Errorf("%v (%s)", stage, detail)
			}
			if ospf.Stage != routers.Selected || ospf.Detail != "in its LSA, and no neighbour is full" {
				return fmt.Errorf("%v", ospf)
			}
			return nil
		})
	})
}

// F12: with BIRD 1 a dead bird6 makes only IPv6 unknown, and a dead bird only IPv4.
func TestObserveOneOfTwoDies(t *testing.T) {
	s := openScene(t, lab.BIRD1, "")
	d := s.daemons()
	defer d.close()
	ps := []netip.Prefix{sceneStatic, sceneStatic6}
	check := func(four, six routers.Stage) {
		t.Helper()
		sights, err := d.observe(t.Context(), s.options(), ps)
		stage4, _ := sights[sceneStatic].stage(1)
		stage6, _ := sights[sceneStatic6].stage(1)
		if stage4 != four || stage6 != six || !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("IPv4 %v, IPv6 %v, error %v", stage4, stage6, err)
		}
	}
	if err := s.six.Kill(); err != nil {
		t.Fatal(err)
	}
	check(routers.Advertised, routers.Unknown)
	if err := errors.Join(s.six.Start(sceneWithin(t, 30*time.Second)), s.main.Kill()); err != nil {
		t.Fatal(err)
	}
	sceneWait(t, "IPv6 to be announced again", func() error {
		sights, _ := d.observe(t.Context(), s.options(), ps)
		if stage, detail := sights[sceneStatic6].stage(1); stage != routers.Advertised {
			return fmt.Errorf("%v (%s)", stage, detail)
		}
		return nil
	})
	check(routers.Unknown, routers.Advertised)
}

// F12: with one BIRD for both families a second socket is never asked.
func TestObserveOneForBoth(t *testing.T) {
	s := openScene(t, lab.BIRDHost, "")
	d := s.daemons()
	defer d.close()
	if d.of(t.Context(), sceneStatic6) != d.main {
		t.Error("IPv6 is somebody else's")
	}
	if err := s.main.Kill(); err != nil {
		t.Fatal(err)
	}
	if d.of(t.Context(), sceneStatic6) != d.main {
		t.Error("IPv6 is somebody else's while BIRD is away")
	}
}

// Every release's own birdc tells what the socket does.
func TestObserveByCommand(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		o := s.options()
		client := s.main.Client()
		o.Timeout, o.Via, o.Birdc, o.Birdc6 = 10*time.Second, ViaCommand, sceneScript(t, client[:len(client)-2]), "birdc6"
		if s.six != nil {
			client := s.six.Client()
			o.Birdc6 = sceneScript(t, client[:len(client)-2])
		}
		d := newDaemons(o)
		defer d.close()
		sights, err := d.observe(t.Context(), o, scenePrefixes)
		if err != nil {
			t.Fatal(err)
		}
		if err := sceneStands(sights); err != nil {
			t.Error(err)
		}
		replies, err := d.main.read(t.Context(), "disable core4")
		if err != nil || !replies[0].Has(ctl.AccessDenied) {
			t.Errorf("reading is allowed to change: %v, error %v", replies, err)
		}
		for _, command := range []string{"disable 'anycast4'", "enable 'anycast4'"} {
			if replies, err := d.main.change(t.Context(), command); err != nil || !replies[0].Has(ctl.Disabled, ctl.Enabled) {
				t.Errorf("%s: %v, error %v", command, replies, err)
			}
		}
	})
}

// 1,000 prefixes are few round trips where a peer has little more than them.
func TestObserveThousand(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		var routes strings.Builder
		var ps []netip.Prefix
		for i := range 1000 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 54, byte(i >> 8), byte(i)}), 32)
			ps = append(ps, p)
			if i%2 == 0 {
				fmt.Fprintf(&routes, "route %s blackhole; ", p)
			}
		}
		s.reconfigure(t, "configure", "route 10.53.53.57/32 blackhole;", routes.String())
		var asked []string
		d := s.daemons()
		defer d.close()
		sceneWait(t, "all to be announced", func() error {
			asked = nil
			began := time.Now()
			sights, err := observe(t.Context(), spy{d.main, &asked}, s.options(), ps)
			for i, p := range ps {
				want := map[bool]routers.Stage{true: routers.Advertised, false: routers.Absent}[i%2 == 0]
				if stage, detail := sights[p].stage(2); stage != want {
					return fmt.Errorf("%s: %v (%s), error %v", p, stage, detail, err)
				}
			}
			t.Logf("%d questions in %v", len(asked), time.Since(began))
			return err
		})
		tables := 1
		if s.release.Split() { // which asks each table apart
			tables = 2
		}
		if len(asked) > len(ps)*tables+20 {
			t.Errorf("%d questions", len(asked))
		}
	})
}
