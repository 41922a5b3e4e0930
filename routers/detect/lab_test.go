package detect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

func TestFRRIsFound(t *testing.T) {
	t.Parallel()
	for _, release := range lab.FRRs {
		t.Run(release.String(), func(t *testing.T) {
			h := newHost(t, release)
			version, err := release.Version(t.Context())
			must(t, err)
			f := h.frr(release, "ospfd")
			found, other := h.look()
			if !found.Running || found.Version != version || found.By != filepath.Join(f.SocketDir(), "zebra.vty") || found.protocol != frr.ProtocolOSPF {
				t.Errorf("found %+v, want %s", found, version)
			}
			if s := socket(t, found, "ospfd.vty"); s.State != Answers || s.Mode != "Srwxrwx---" || s.Problem != "" {
				t.Errorf("%+v", s)
			}
			if other.Running {
				t.Errorf("found %+v", other)
			}
			must(t, f.Kill("zebra"))
			if found, _ = h.look(); !found.Running || found.Version != version || socket(t, found, "zebra.vty").State != Stale {
				t.Errorf("only ospfd is left, and it is %+v", found)
			}
			must(t, f.Kill("ospfd"))
			if f.PID("mgmtd") > 0 {
				must(t, f.Kill("mgmtd"))
			}
			found, _ = h.look()
			if _, err := Choose([]Found{found}); found.Running || err == nil || !strings.Contains(err.Error(), ".vty: left behind: nobody listens") || !strings.Contains(err.Error(), "/usr/lib/frr/zebra and /usr/bin/vtysh installed") {
				t.Errorf("all are dead, and it is %+v, %v", found, err)
			}
		})
	}
}

func TestBIRDIsFound(t *testing.T) {
	t.Parallel()
	for _, release := range lab.BIRDs {
		t.Run(release.String(), func(t *testing.T) {
			h := newHost(t, release)
			version, err := release.Version(t.Context())
			must(t, err)
			b := h.bird(release)
			other, found := h.look()
			if !found.Running || found.Version != version || found.By != b.Socket() || found.socket != b.Socket() || found.socket6 != "" {
				t.Errorf("found %+v, want %s", found, version)
			}
			if s := found.Sockets[0]; s.State != Answers || s.Mode != "Srw-rw----" || s.Group == "" {
				t.Errorf("%+v", s)
			}
			if other.Running {
				t.Errorf("found %+v", other)
			}
			if release.Split() {
				b6, err := h.node.BIRD6(within(t), release, smallBIRD)
				must(t, err)
				if _, found = h.look(); found.socket6 != b6.Socket() || found.By != b.Socket() || len(found.Sockets) != 2 {
					t.Errorf("with bird6: %+v", found)
				}
				must(t, b.Stop())
				if _, found = h.look(); !found.Running || found.By != b6.Socket() || found.Version != version {
					t.Errorf("bird6 alone: %+v", found)
				}
				must(t, b6.Stop())
			}
			must(t, b.Kill())
			_, found = h.look()
			if found.Running {
				t.Errorf("it is dead: %+v", found)
			}
		})
	}
}

func TestNothingRuns(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.BIRDHost)
	r := New(h.options)
	os, err := h.observe(r)
	if !errors.Is(err, routers.ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{"no routing daemon runs here", "/frr/zebra.vty: no such socket", "/bird/bird.ctl: no such socket",
		"/usr/sbin/bird and /usr/sbin/birdc installed", "/usr/bin/vtysh installed", "in [router]"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if len(os) != 2 || os[1].Prefix != v6 || os[1].Stage != routers.Unknown || os[1].Detail == "" {
		t.Errorf("%+v", os)
	}
	if err := r.Apply(within(t), []routers.Change{{Prefix: v4, Want: routers.Withdrawn}}); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if fs := r.Examine(within(t), nil); len(fs) != 1 || fs[0].Severity != routers.Failing {
		t.Errorf("%+v", fs)
	}
}

// A daemon that hangs is there: its driver can still take addresses from the kernel.
func TestHungOneIsChosen(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	f := h.frr(lab.FRRHost, "ospfd")
	for _, d := range []string{"zebra", "ospfd"} {
		must(t, f.Signal(d, syscall.SIGSTOP))
	}
	r := New(h.options)
	must(t, h.node.Address(within(t), "add", v4.String(), "lo"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	began := time.Now()
	_ = h.node.Do(func() error {
		_, err := r.Observe(ctx, []netip.Prefix{v4})
		if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer within") {
			t.Errorf("the driver has no time of its own: %v", err)
		}
		return nil
	})
	if took := time.Since(began); took >= unhurried {
		t.Errorf("took %s", took)
	}
	if got := r.String(); got != "frr (address on lo, ospf), found by "+f.SocketDir()+"/zebra.vty" {
		t.Errorf("drives %q", got)
	}
	_ = h.node.Do(func() error { return r.Apply(within(t), []routers.Change{{Prefix: v4, Want: routers.Withdrawn}}) })
	if out, err := h.node.Run(within(t), "ip", "address", "show", "dev", "lo"); err != nil || strings.Contains(out, "10.53.53.53") {
		t.Errorf("a daemon that hangs keeps the address: %v %s", err, out)
	}
	for _, d := range []string{"zebra", "ospfd"} {
		must(t, f.Signal(d, syscall.SIGCONT))
	}
	h.drives("it goes on", r, "frr")
	must(t, f.Restart(within(t)))
	h.drives("it was restarted", r, "frr 8.4.4 (address on lo, ospf), found by ")
}

// A BIRD that hangs takes connections and does not greet.
func TestHungBIRD(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.BIRDHost)
	b := h.bird(lab.BIRDHost)
	must(t, b.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	began := time.Now()
	found := Look(ctx, h.options)[1]
	if took := time.Since(began); took >= unhurried {
		t.Errorf("took %s", took)
	}
	if s := found.Sockets[0]; !found.Running || found.Version != "" || s.State != Silent || s.WayOut == "" {
		t.Errorf("%+v", found)
	}
}

// Without an answer on a socket the programs are asked, which may know better how to get there.
func TestFoundByProgram(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.BIRDHost)
	f, b := h.frr(lab.FRRHost), h.bird(lab.BIRDHost)
	script := func(name, text string) string {
		path := filepath.Join(h.node.Dir(), name)
		must(t, lab.WriteProgram(path, "#!/bin/sh\n"+text+"\n"))
		return path
	}
	none := filepath.Join(h.node.Dir(), "none")
	for _, via := range []string{"", "command", "socket"} {
		o := Options{FRR: frr.Options{Via: via, SocketDir: none, Vtysh: script("vtysh", "exec vtysh --vty_socket "+f.SocketDir()+` -c "show version"`)},
			BIRD: bird.Options{Via: via, Socket: none, Birdc: script("birdc", "exec birdc -s "+b.Socket()+" show status")}}
		for i, want := range []Found{{Version: "8.4.4", By: o.FRR.Vtysh}, {Version: "2.0.12", By: o.BIRD.Birdc}} {
			got := Look(within(t), o)[i]
			if via == "socket" {
				want = Found{}
			}
			if got.Running != (want.By != "") || got.Version != want.Version || got.By != want.By {
				t.Errorf("via %q: %+v, want %+v", via, got, want)
			}
		}
	}
}

// Of the places where BIRD's packages put the socket it is driven by the one that answers.
func TestUsualPlaces(t *testing.T) {
	h := newHost(t, lab.BIRDHost)
	b := h.bird(lab.BIRDHost)
	stale := filepath.Join(h.node.Dir(), "stale.ctl")
	l, err := net.Listen("unix", stale)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
	usual := bird.Sockets
	t.Cleanup(func() { bird.Sockets = usual })
	bird.Sockets = []string{filepath.Join(h.node.Dir(), "none.ctl"), stale, b.Socket()}
	r := New(Options{BIRD: bird.Options{Via: bird.ViaSocket}, Only: []string{"bird"}})
	if _, err := h.observe(r); err != nil || r.String() != "bird 2.0.12 (address on lo), found by "+b.Socket() {
		t.Errorf("%s, %v", r, err)
	}
}

// The protocol is that of the daemon which runs, also when that comes later.
func TestProtocolOfFRR(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	f := h.frr(lab.FRRHost, "bgpd", "ospfd")
	r := New(h.options)
	h.drives("both", r, "frr 8.4.4 (address on lo, ospf)")
	must(t, f.StopDaemon("ospfd"))
	must(t, f.RestartDaemon(within(t), "bgpd"))
	h.drives("only bgpd runs", r, "frr 8.4.4 (address on lo, bgp)")
	must(t, f.StartDaemon(within(t), "ospfd"))
	h.drives("ospfd is back", r, "frr 8.4.4 (address on lo, ospf)")
	for method, want := range map[string]string{frr.MethodStatic: "frr 8.4.4 (static, bgp)", frr.MethodNetwork: "frr 8.4.4 (network, bgp)"} {
		o := h.options
		o.FRR.Method, o.Only = method, []string{"frr"}
		h.drives(method, New(o), want)
	}
	o := h.options
	o.FRR.Protocol = frr.ProtocolBGP
	h.drives("asked for", New(o), "frr 8.4.4 (address on lo, bgp)")
}

// Daemons come and go. With two, none is driven that was not driven before.
func TestGoesAndComes(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.BIRDHost, lab.BIRD3)
	r := New(h.options)
	h.drives("nothing runs", r, "auto (no daemon chosen)")
	f, b := h.frr(lab.FRRHost, "ospfd"), h.bird(lab.BIRDHost)
	h.drives("both", r, "auto (no daemon chosen)")
	_, err := h.observe(r)
	for _, part := range []string{"more than one", "frr 8.4.4 (" + f.SocketDir() + "/zebra.vty) and bird 2.0.12 (" + b.Socket() + ")", `set daemon = "frr" or daemon = "bird" in [router]`} {
		if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	must(t, b.Stop())
	h.drives("only frr", r, "frr 8.4.4 ")
	must(t, b.Start(within(t)))
	h.drives("bird comes beside", r, "frr 8.4.4 ")
	must(t, f.Stop())
	h.drives("frr has gone just now", r, "frr 8.4.4 ")
	must(t, f.Start(within(t)))
	h.drives("frr is back", r, "frr 8.4.4 ")
	must(t, f.Stop())
	h.drives("frr has gone", r, "frr 8.4.4 ")
	h.drives("and is noticed to", r, "frr 8.4.4 ")
	later(t, r)
	h.drives("and is away for long", r, "bird 2.0.12 ")
	must(t, f.Start(within(t)))
	h.drives("frr is back late", r, "bird 2.0.12 ")
	must(t, f.Stop())
	must(t, b.Stop())
	h.drives("nothing runs any more", r, "bird 2.0.12 ")
	h.drives("and is noticed not to", r, "bird 2.0.12 ")
	later(t, r)
	h.drives("for long", r, "bird 2.0.12 ")
	b3 := h.bird(lab.BIRD3)
	h.drives("another version", r, "bird "+version(t, b3.Release()))
}

// With two daemons and none chosen what is to be withdrawn is taken off the interface all the same.
func TestWithdrawsBesideTwo(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.BIRDHost)
	h.frr(lab.FRRHost, "ospfd")
	h.bird(lab.BIRDHost)
	for _, p := range []netip.Prefix{v4, v6} {
		must(t, h.node.Address(within(t), "add", p.String(), "lo"))
	}
	r := New(h.options)
	var err error
	_ = h.node.Do(func() error {
		err = r.Apply(within(t), []routers.Change{{Prefix: v4, Want: routers.Withdrawn}, {Prefix: v6, Want: routers.Announced}})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("%v", err)
	}
	out, err := h.node.Run(within(t), "ip", "-o", "address", "show", "dev", "lo")
	if must(t, err); strings.Contains(out, v4.String()) || !strings.Contains(out, v6.String()) {
		t.Errorf("left on lo: %s", out)
	}
}

// Who may not connect is told which group to join, and whether somebody listens is known to him too.
func TestDenied(t *testing.T) {
	if dir := os.Getenv("DETECT_TEST_DIR"); dir != "" {
		for _, f := range Look(within(t), Options{FRR: frr.Options{SocketDir: dir + "/frr"}, BIRD: bird.Options{Socket: dir + "/bird/bird.ctl"}}) {
			for _, s := range f.Sockets {
				fmt.Println(f.Daemon, f.Running, s.State, filepath.Base(s.Path), s.Problem+";", s.WayOut)
			}
		}
		return
	}
	t.Parallel()
	h := newHost(t, lab.BIRDHost)
	f, b := h.frr(lab.FRRHost), h.bird(lab.BIRDHost)
	test := filepath.Join(h.node.Dir(), "test")
	bin, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(test, bin, 0o755))
	asNobody := func() string {
		var out string
		must(t, lab.Wait(within(t), "the copied program to be free", 20*time.Millisecond, func() (bool, error) {
			var err error // another test's fork may hold it open for writing for a moment
			out, err = h.node.Run(within(t), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "DETECT_TEST_DIR="+h.node.Dir(),
				test, "-test.run=^TestDenied$", "-test.v")
			return err == nil, err
		}))
		return out
	}
	out := asNobody()
	for _, line := range []string{
		"frr true denied zebra.vty permission denied; add the user that vouch runs as to group frrvty (usermod -aG frrvty USER), and restart vouch",
		"bird true denied bird.ctl permission denied; add the user that vouch runs as to group bird (usermod -aG bird USER), and restart vouch",
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("%q is not in:\n%s", line, out)
		}
	}
	must(t, errors.Join(f.Kill("zebra"), b.Kill()))
	out = asNobody()
	for _, line := range []string{"frr false stale zebra.vty left behind", "bird false stale bird.ctl left behind"} {
		if !strings.Contains(out, line) {
			t.Errorf("%q is not in:\n%s", line, out)
		}
	}
}

// On VyOS the FRR that runs is not for others to drive, unless they say so.
func TestVyOSIsTold(t *testing.T) {
	t.Parallel()
	h := newHost(t, lab.FRRHost)
	h.frr(lab.FRRHost, "bgpd")
	h.options.VyOS = filepath.Join(h.node.Dir(), "my_commit")
	if found, _ := h.look(); found.Unclear != "" {
		t.Errorf("no VyOS: %q", found.Unclear)
	}
	must(t, os.WriteFile(h.options.VyOS, nil, 0o755))
	found, _ := h.look()
	if _, err := Choose([]Found{found}); err == nil || !strings.Contains(err.Error(), `set daemon = "vyos" in [router]`) {
		t.Errorf("on VyOS: %+v, %v", found, err)
	}
}
