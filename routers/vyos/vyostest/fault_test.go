package vyostest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers/vyos/vyostest"
	"vouch/routers/vyos/vyostest/store"
)

// What a commit answers and what has become of VyOS and FRR, by fault.
func TestCommitFaults(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	for _, c := range []struct {
		fault       string
		code        int
		active, frr bool
	}{
		{vyostest.CommitRefused, 1, false, false},
		{vyostest.CommitRefusedSilent, 1, false, false},
		{vyostest.CommitDeleteFailed, 1, false, false},
		{vyostest.CommitInternal, 1, false, true},
		{vyostest.CommitTempLeft, 1, true, true},
		{vyostest.CommitPartialOurs, 1, true, true},
		{vyostest.CommitPartialOther, 1, false, false},
		{vyostest.CommitNoFRR, 0, true, false},
		{vyostest.CommitFRROnly, 1, false, true},
		{vyostest.CommitDaemonDown, 1, false, false},
	} {
		t.Run(c.fault, func(t *testing.T) {
			sub := *r
			sub.TB = t
			t.Cleanup(func() {
				sub.clean()
				if sub.shows(route) {
					r.system.Lose(route)
				}
			})
			r.system.Fault(c.fault, 1)
			env := sub.session("vouchfault")
			sub.steps(env, ok("my_set "+black))
			if got := sub.run(env, "/opt/vyatta/sbin/my_commit"); got.code != c.code {
				t.Errorf("%+v", got)
			}
			if got := slices.Contains(r.system.Active(), black); got != c.active {
				t.Errorf("active: %v", got)
			}
			sub.frrHas(route, c.frr)
			sub.run(env, "/opt/vyatta/sbin/my_discard")
		})
	}
}

func TestLateCommit(t *testing.T) {
	r := standin(t, vyostest.Options{})
	r.system.Fault(vyostest.CommitLate, 1, "1ms")
	_, release := r.system.HoldUp("protocols_static.py")
	env := r.session("vouchlate")
	r.steps(env, ok("my_set "+black), ok("my_commit"), ok("existsActive "+black))
	r.frrHas(route, false)
	release()
	r.await("FRR to follow", func() bool { return r.shows(route) })
}

// A commit that hangs keeps the lock, and dies with the system.
func TestCommitHangs(t *testing.T) {
	r := standin(t, vyostest.Options{})
	r.system.Fault(vyostest.CommitHang, 1)
	env := r.session("vouchhang")
	r.steps(env, ok("my_set "+black))
	done := make(chan result, 1)
	go func() { done <- r.asWith(env, 0, vyostest.Group, nil, r.system.Path("/opt/vyatta/sbin/my_commit")) }()
	r.await("the lock", r.system.Locked)
	r.frrHas(route, false)
	r.system.Close()
	if got := <-done; got.code != 128+int(syscall.SIGKILL) {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(r.system.Root()); err == nil {
		t.Error("the root is still there")
	}
}

func TestLockHeld(t *testing.T) {
	r := standin(t, vyostest.Options{})
	release := r.system.HoldLock()
	if !r.system.Locked() {
		t.Error("not locked")
	}
	release()
	if r.system.Locked() {
		t.Error("locked after the release")
	}
	r.system.Fault(vyostest.LockHeld, 1, "300ms")
	r.await("the lock to be free", func() bool { return !r.system.Locked() })
}

// The lock is held for as many commits as it was told to, or until it is told again.
func TestLockHeldTimes(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	env := r.session("vouchheld")
	busy := says("my_commit", 1, locked)
	r.system.Fault(vyostest.LockHeld, 2)
	r.steps(env, ok("my_set "+black), busy, busy, ok("my_commit"), ok("existsActive "+black))
	r.system.Fault(vyostest.LockHeld, -1)
	r.steps(env, busy, busy, busy)
	r.system.Fault(vyostest.LockHeld, 0)
	r.await("the lock to be free", func() bool { return !r.system.Locked() })
}

// An operator's commit holds the lock as long as it takes.
func TestOperatorCommitting(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	o := r.system.Operator()
	o.Edit("set service ssh")
	release := o.Committing()
	env := r.session("vouchbeside")
	r.steps(env, ok("my_set "+black), says("my_commit", 1, locked), no("existsActive service"))
	release()
	r.steps(env, ok("existsActive service"), ok("my_commit"), ok("existsActive "+black))
}

// The boot is done after so many programs, or after a time, or when it is said.
func TestBootAbsentTimes(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	done := func() bool {
		b, err := os.ReadFile(r.path(store.Boot))
		return err == nil && string(b) == "0"
	}
	for _, steps := range [][]bool{{false, true}, {false, false, true, true}} {
		r.system.Fault(vyostest.BootAbsent, slices.Index(steps, true))
		for i, want := range steps {
			if done() != want {
				t.Errorf("after %d programs: %v", i, done())
			}
			r.api(nil, "listActiveNodes", "protocols")
		}
	}
	r.system.Fault(vyostest.BootAbsent, -1)
	r.steps(r.session("vouchboot"), ok("my_set "+black))
	if done() {
		t.Error("done, which it was never to be")
	}
	r.system.Fault(vyostest.BootAbsent, 0)
	if !done() {
		t.Error("not done")
	}
	r.system.Fault(vyostest.BootAbsent, 1, "50ms")
	r.await("the boot", done)
	r.system.Fault(vyostest.BootAbsent, 1)
	r.system.Boot("1")
	r.api(nil, "listActiveNodes", "protocols")
	if done() {
		t.Error("what was said of the boot is overwritten")
	}
}

// scripts waits until so many scripts of commits have run, which in 1.5 begin when the commit may have answered.
func (r *router) scripts(n int) {
	r.Helper()
	r.await(fmt.Sprintf("script %d to end", n), func() bool {
		calls := r.system.CallsOf("protocols_static.py")
		return len(calls) == n && calls[n-1].Ended
	})
}

// In 1.5 what becomes of FRR nobody is told.
func TestDaemonDownLate(t *testing.T) {
	r := standin(t, vyostest.Options{Style: vyostest.RerenderLate, Delay: quick, Late: time.Millisecond})
	r.system.Fault(vyostest.CommitDaemonDown, 1)
	r.steps(r.session("vouchdown"), ok("my_set "+black), ok("my_commit"), ok("existsActive "+black))
	r.scripts(1)
	if code := r.system.CallsOf("protocols_static.py")[0].Code; code != 1 {
		t.Errorf("the script answers %d", code)
	}
	r.frrHas(route, false)
}

// In 1.5 a commit of routing takes all away that FRR was told behind VyOS's back, and brings back what was taken; other
// commits do not.
func TestReload(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Style: vyostest.RerenderLate, Delay: quick, Late: time.Millisecond})
	s := r.system
	s.Vtysh("configure terminal", bgp, "neighbor 192.0.2.253 remote-as 65003", "address-family ipv4 unicast", "redistribute static", "neighbor 192.0.2.253 prefix-list KEPT in")
	s.Vtysh("configure terminal", "ip prefix-list KEPT seq 5 permit 203.0.113.0/24")
	s.Rendered()
	rendered := s.Vtysh("show running-config")
	s.Vtysh("configure terminal", bgp, "no bgp router-id", "neighbor 192.0.2.254 remote-as 65002", "address-family ipv4 unicast",
		"no redistribute static", "network 203.0.113.0/24 route-map NEW", "neighbor 192.0.2.254 activate", "neighbor 192.0.2.253 weight 7")
	s.Vtysh("configure terminal", "no ip prefix-list KEPT", "route-map NEW permit 10", "set metric 5")
	changed := s.Vtysh("show running-config")
	env := r.session("vouchreload")
	r.steps(env, ok("my_set system time-zone UTC"), ok("my_commit"))
	r.scripts(1)
	if got := s.Vtysh("show running-config"); got != changed {
		t.Errorf("a commit of something else made\n%s\nof\n%s", got, changed)
	}
	r.steps(env, ok("my_set protocols bgp timers holdtime 30"), ok("my_commit"))
	r.scripts(2)
	if got := s.Vtysh("show running-config"); got != rendered {
		t.Errorf("there is\n%s\nand rendered was\n%s", got, rendered)
	}
}

func TestSessionFaults(t *testing.T) {
	r := standin(t, vyostest.Options{})
	s := r.system
	s.Fault(vyostest.TeardownFails, 1)
	env := r.session("one")
	r.steps(env, no("teardownSession"), ok("inSession"))
	s.Fault(vyostest.TeardownLeaves, 1)
	if got := r.api(env, "teardownSession"); got.code != 0 || !strings.HasPrefix(got.err, "fusermount: failed to unmount ") {
		t.Errorf("%+v", got)
	}
	if got := s.Mounted(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("mounted %v", got)
	}
	s.Fault(vyostest.SessionStolen, 1, "sessionChanged")
	r.steps(env, ok("my_set "+black), ok("sessionChanged"), says("my_commit", 139))
	if got := s.Sessions(); len(got) > 0 {
		t.Errorf("sessions %v", got)
	}
	s.Left("two", "set "+black)
	r.steps(s.Session("two"), ok("sessionChanged"))
	s.Fault(vyostest.SetRejected, 1, q4)
	r.steps(s.Session("two"), says("my_set protocols static route "+q4+" blackhole", 1, "Error: "+q4+" is not valid",
		"Invalid value", "Value validation failed", "Set failed"))
}

func TestNoise(t *testing.T) {
	r := standin(t, vyostest.Options{})
	env := r.session("vouchnoise")
	for kind, want := range map[string]string{"sudo": "sudo: unable", "binary": "\xff\xfe", "big": "xxxx", "failed": "Warning: the last Commit failed"} {
		r.system.Fault(vyostest.Noisy, 1, "", kind)
		r.steps(env, no("exists "+black), ok("listActiveNodes protocols static route")) // what is read has no noise in it
		got := r.run(env, "/opt/vyatta/sbin/my_set", strings.Fields(black)...)
		if got.code != 0 || !strings.HasPrefix(got.out, want) || kind == "big" && len(got.out) < 1<<20-1 {
			t.Errorf("%s: %d, %d bytes", kind, got.code, len(got.out))
		}
		r.steps(env, says("my_discard", 0, "Changes have been discarded"))
	}
}

// A fault happens as often as it was told to.
func TestFaultTimes(t *testing.T) {
	r := standin(t, vyostest.Options{})
	env := r.session("vouchtimes")
	failed := says("my_set "+black, 1, "Set failed")
	r.system.Fault(vyostest.SetFailed, 2)
	r.steps(env, failed, failed, ok("my_set "+black))
	r.system.Fault(vyostest.SetFailed, -1, "my_delete")
	deleted := "my_delete protocols static route " + p4
	r.steps(env, says(deleted, 1, "Set failed"), says(deleted, 1, "Set failed"), ok("my_set protocols static route "+q4+" blackhole"))
	r.system.Fault(vyostest.SetFailed, 0)
	r.steps(env, ok(deleted))
}

// While a commit writes it the running configuration may be seen empty.
func TestActiveEmpty(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	r.system.Fault(vyostest.ActiveEmpty, 1, "3s")
	env := r.session("vouchempty")
	r.steps(env, ok("my_set "+black))
	done := make(chan result, 1)
	go func() { done <- r.asWith(env, 0, vyostest.Group, nil, r.system.Path("/opt/vyatta/sbin/my_commit")) }()
	r.await("the configuration to be seen empty", func() bool { return len(r.system.Active()) == 0 })
	if got := <-done; got.code != 0 || !slices.Contains(r.system.Active(), black) {
		t.Errorf("%+v, %v", got, r.system.Active())
	}
}

// Whoever calls may be killed at any step.
func TestKillCaller(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	env := r.session("vouchcaller")
	r.system.Fault(vyostest.KillCaller, 1)
	r.steps(env, ok("my_set "+black))
	got := r.asWith(env, 0, vyostest.Group, nil, "/bin/sh", "-c", quote([]string{r.system.Path("/opt/vyatta/sbin/my_commit")})+"; echo not reached")
	if got.code != 128+int(syscall.SIGKILL) || got.out != "" {
		t.Errorf("%+v", got)
	}
	r.await("the commit to go on by itself", func() bool { return slices.Contains(r.system.Active(), black) && r.shows(route) })
}
