package vyos

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// A scene is something that goes wrong, or somebody else does, on a system of its own.
type scene struct {
	name    string
	system  vyostest.Options
	options Options
	play    func(b *bench, r *Router)
	dirty   bool // something of a session is left in the end
}

// stage plays scenes over one FRR.
func stage(t *testing.T, via string, scenes []scene) {
	t.Helper()
	b := open(t, vyostest.Options{})
	for _, s := range scenes {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			s.system.SocketDir, s.options.Method, s.options.Via = b.lab.Nodes[0].FRR.SocketDir(), MethodStatic, via
			own := &bench{t, b.lab, vyostest.New(t, s.system)}
			r := own.router(s.options)
			s.play(own, r)
			if !s.dirty {
				own.clean()
			}
			own.vtysh("no "+routeLine(one), "no "+routeLine(one6), "no "+routeLine(two), "no ip route "+one.String()+" 10.0.1.1")
			own.core(false, one, one6, two)
		})
	}
}

func (b *bench) announced(r *Router, ps ...netip.Prefix) {
	b.Helper()
	b.must(b.apply(r, routers.Announced, ps...))
	b.becomes(r, routers.Advertised, false, ps...)
}

func (b *bench) withdrawn(r *Router, ps ...netip.Prefix) {
	b.Helper()
	b.must(b.apply(r, routers.Withdrawn, ps...))
	b.becomes(r, routers.Absent, false, ps...)
}

// calls wants so many runs of a program.
func (b *bench) calls(verb string, want int) {
	b.Helper()
	if got := len(b.system.CallsOf(verb)); got != want {
		b.Errorf("%s ran %d times, want %d", verb, got, want)
	}
}

// failing is one fault that makes an announce fail in a way, and the next one go well.
func failing(name string, class error, words []string, args ...string) scene {
	return scene{name: name, play: func(b *bench, r *Router) {
		b.system.Fault(name, 1, args...)
		b.wantError(b.apply(r, routers.Announced, one), class, words...)
		b.clean()
		b.announced(r, one)
		b.withdrawn(r, one)
	}}
}

// both ways of configuring stand these.
var everywhere = []scene{
	failing(vyostest.MountMissing, routers.ErrUnavailable, []string{"nothing was committed", "not mounted"}),
	failing(vyostest.FuseDies, routers.ErrUnavailable, []string{"nothing was committed"}, "my_set"),
	failing(vyostest.FuseDies, routers.ErrUnavailable, []string{"nothing was committed", "not mounted"}, "showConfig"),
	failing(vyostest.CommitRefused, routers.ErrRefused, []string{"the table is full"}, "the table is full"),
	failing(vyostest.CommitRefusedSilent, routers.ErrRefused, []string{"VyOS refused the commit and gave no reason: [[protocols static]] failed"}),
	failing(vyostest.CommitDeleteFailed, routers.ErrRefused, []string{"delete [ protocols static ] failed"}),
	failing(vyostest.CommitInternal, routers.ErrUnavailable, []string{"Failed to generate committed config"}),
	failing(vyostest.CommitDaemonDown, routers.ErrUnavailable, []string{"failed to connect to any daemons"}),
	failing(vyostest.CommitPartialOther, routers.ErrRefused, []string{"[[service ssh]] failed"}),
	{name: "boot not done", play: func(b *bench, r *Router) {
		b.system.Boot("")
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "boot", "PrivateTmp")
		b.calls("setupSession", 0)
		b.system.Boot("0")
		b.announced(r, one)
	}},
	{name: "no fuse", play: func(b *bench, r *Router) {
		b.must(os.Remove(b.system.Path("/dev/fuse")))
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, "dev/fuse", "PrivateDevices")
		b.calls("setupSession", 0)
	}},
	{name: "no group", play: func(b *bench, r *Router) {
		b.must(os.WriteFile(b.system.Path("/etc/group"), []byte("root:x:0:\n"), 0o644))
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, "vyattacfg", "is this VyOS?")
		b.calls("setupSession", 0)
	}},
	{name: "lock released", play: func(b *bench, r *Router) {
		b.system.HoldLock("700ms")
		b.announced(r, one)
		b.calls("my_commit", 1)
	}},
	{name: "a commit longer than a step", options: Options{Step: 3 * time.Second}, play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitSlow, 1, "5s")
		b.announced(r, one)
		b.calls("my_commit", 1)
		b.withdrawn(r, one)
	}},
	{name: "the end waits for the commit", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitSlow, 1, "1s")
		waiting, release := b.system.HoldUp("my_commit")
		b.wantError(b.leave(waiting, r, routers.Announced, one), routers.ErrBusy, "still committing")
		release()
		b.must(r.Close())
		if b.system.Locked() || !b.configured(one) {
			b.Error("the commit has not ended")
		}
	}},
	{name: "lock kept", options: Options{LockWait: 300 * time.Millisecond}, play: func(b *bench, r *Router) {
		release := b.system.HoldLock()
		err := b.apply(r, routers.Announced, one)
		b.wantError(err, routers.ErrBusy, "VyOS's configuration is locked by pid ", "hold) since ", ".lock")
		b.calls("my_commit", 0)
		b.clean()
		release()
		b.announced(r, one)
	}},
	{name: "time over beside a lock", play: func(b *bench, r *Router) {
		release := b.system.HoldLock()
		b.wantError(b.leave(func() { b.begun(r) }, r, routers.Announced, one), routers.ErrBusy, "VyOS's configuration is locked by pid ", ".lock")
		b.must(b.apply(r, routers.Withdrawn, one))
		release()
		b.calls("my_commit", 0)
		b.becomes(r, routers.Absent, false, one)
	}},
	{name: "partial, ours done", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitPartialOurs, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused, "[[service ssh]] failed")
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
	}},
	{name: "FRR not changed", options: Options{VerifyWait: 200 * time.Millisecond}, play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitNoFRR, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, one.String(), "FRR does not")
		b.becomes(r, routers.Configured, false, one)
		b.announced(r, one)
		b.calls("my_commit", 1)
	}},
	{name: "FRR changed late", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitLate, 1, "800ms")
		b.announced(r, one)
		b.calls("my_commit", 1)
	}},
	{name: "FRR changed and not VyOS", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitFRROnly, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused)
		b.core(true, one)
		if o := b.observe(r, one)[0]; o.Stage < routers.Selected || !o.Broken {
			b.Errorf("it would go with the next commit, and is read as %+v", o)
		}
		b.announced(r, one)
		if !b.configured(one) {
			b.Error("VyOS does not have it")
		}
	}},
	{name: "noise", play: func(b *bench, r *Router) {
		for _, kind := range []string{"sudo", "binary", "big"} {
			b.system.Fault(vyostest.Noisy, 1, "my_commit", kind)
			b.announced(r, one)
			b.withdrawn(r, one)
		}
	}},
	{name: "FRR loses it", play: func(b *bench, r *Router) {
		b.announced(r, both...)
		for _, p := range both {
			b.system.Lose(routeLine(p))
		}
		b.becomes(r, routers.Configured, false, both...)
		b.announced(r, both...)
		b.calls("my_commit", 1)
		b.must(b.apply(r, routers.Degraded, one))
		b.system.Lose(routeLine(one))
		b.becomes(r, routers.Configured, true, one)
		b.must(b.apply(r, routers.Degraded, one))
		b.becomes(r, routers.Advertised, true, one)
		b.calls("my_commit", 2)
	}},
	{name: "FRR gains it", play: func(b *bench, r *Router) {
		b.system.Gain(routeLine(one))
		b.core(true, one)
		b.wait("it to be read", func() error {
			if o := b.observe(r, one)[0]; o.Stage != routers.Advertised || !o.Broken {
				return errors.New("it is not broken")
			}
			return nil
		})
		b.withdrawn(r, one)
		b.calls("my_commit", 0)
	}},
	{name: "an operator edits", play: func(b *bench, r *Router) {
		o := b.system.Operator()
		o.Edit("set system host-name r2", "set protocols static route 198.51.100.0/24 blackhole")
		b.announced(r, one)
		if slices.ContainsFunc(b.system.Active(), func(l string) bool { return strings.Contains(l, "r2") || strings.Contains(l, "198.51.100.0/24 ") }) {
			b.Errorf("his edits were committed: %q", b.system.Active())
		}
		o.Discard()
		o.Exit()
		b.withdrawn(r, one)
	}},
	{name: "an operator commits", play: func(b *bench, r *Router) {
		b.announced(r, one)
		b.system.OperatorCommit("set protocols static route 198.51.100.0/24 blackhole")
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
		if !slices.Contains(b.system.Active(), "protocols static route 198.51.100.0/24 blackhole") {
			b.Errorf("his route is gone: %q", b.system.Active())
		}
		b.system.OperatorCommit("delete protocols static")
		b.becomes(r, routers.Absent, false, one)
	}},
	{name: "an operator deletes it", play: func(b *bench, r *Router) {
		b.announced(r, one)
		b.system.OperatorCommit("delete protocols static")
		b.becomes(r, routers.Absent, false, one)
		b.announced(r, one)
	}},
	{name: "commit-confirm", play: func(b *bench, r *Router) {
		b.announced(r, one)
		confirm, _ := b.system.CommitConfirm("set protocols static route 198.51.100.0/24 blackhole")
		b.wantError(b.apply(r, routers.Announced, two), routers.ErrBusy, two.String(), "commit-confirm", "confirm")
		b.must(b.apply(r, routers.Announced, one)) // it is so already
		b.withdrawn(r, one)
		confirm()
		b.announced(r, two)
		b.withdrawn(r, two)
	}},
	{name: "commit-confirm reverts a withdraw", play: func(b *bench, r *Router) {
		b.announced(r, one)
		_, revert := b.system.CommitConfirm("set protocols static route 198.51.100.0/24 blackhole")
		b.withdrawn(r, one)
		revert()
		b.core(true, one)
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
	}},
	{name: "many at once", play: func(b *bench, r *Router) {
		var ps []netip.Prefix
		for a := netip.MustParseAddr("10.53.60.0"); len(ps) < 50; a = a.Next() {
			ps = append(ps, netip.PrefixFrom(a, 32))
		}
		b.must(b.apply(r, routers.Announced, ps...))
		b.calls("my_commit", 1)
		b.must(b.apply(r, routers.Withdrawn, ps...))
		b.calls("my_commit", 2)
		for _, o := range b.observe(r, ps...) {
			if o.Stage != routers.Absent {
				b.Errorf("%+v", o)
			}
		}
	}},
	{name: "a commit outlives its time", play: func(b *bench, r *Router) {
		waiting, release := b.system.HoldUp("protocols_static.py")
		b.wantError(b.leave(waiting, r, routers.Announced, one), routers.ErrBusy, "still committing", "left to end")
		b.underway(r, "still committing", routers.Announced, two)
		release()
		b.must(b.apply(r, routers.Announced, two))
		b.becomes(r, routers.Advertised, false, one, two)
		b.calls("my_commit", 2)
	}},
	{name: "the commit is killed", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitKilled, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "killed")
		b.core(true, one)
		if o := b.observe(r, one)[0]; !o.Broken {
			b.Errorf("VyOS does not know of it, and it is read as %+v", o)
		}
		b.withdrawn(r, one)
	}},
}

// These are of the way through the configuration binaries, which tell more.
var direct = []scene{
	otherwise,
	failing(vyostest.SessionStolen, routers.ErrUnavailable, nil, "my_set"),
	{name: "what failed is discarded", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.CommitRefused, 1, "no")
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrRefused)
		b.calls("my_discard", 1)
	}},
	{name: "set fails for a while", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.SetFailed, 2)
		b.announced(r, one)
	}},
	{name: "set fails for ever", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.SetFailed, -1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, one.String(), "vyattacfg")
		b.calls("my_commit", 0)
	}},
	{name: "one of two is refused", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.SetRejected, 1, one.String())
		err := b.apply(r, routers.Announced, one, two)
		b.wantError(err, routers.ErrRefused, one.String())
		if about := routers.About(err, one); about == err {
			b.Errorf("it is not told of %s alone: %v", one, err)
		}
		b.becomes(r, routers.Advertised, false, two)
	}},
	{name: "the tag is refused", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.SetRejected, 1, "666")
		b.wantError(b.apply(r, routers.Degraded, one, two), routers.ErrRefused, one.String(), "tag 666")
		b.becomes(r, routers.Advertised, true, two)
		if b.configured(one) {
			b.Errorf("%s is announced, and not as the worse one: %q", one, b.system.Active())
		}
	}},
	{name: "teardown fails", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.TeardownFails, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "could not be ended", "umount")
		b.becomes(r, routers.Advertised, false, one)
		b.withdrawn(r, one)
	}},
	{name: "teardown leaves all", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.TeardownLeaves, 1)
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, "could not be ended")
		b.withdrawn(r, one)
	}},
	{name: "stale directory", play: func(b *bench, r *Router) {
		b.system.Stale(sessionID)
		b.announced(r, one)
	}},
	{name: "left session", play: func(b *bench, r *Router) {
		b.system.Left(sessionID, "set system host-name r2", "delete protocols bgp")
		b.announced(r, one)
	}},
	{name: "distance", options: Options{Distance: 7}, play: func(b *bench, r *Router) {
		b.announced(r, one)
		if !slices.Contains(b.system.Active(), "protocols static route "+one.String()+" blackhole distance 7") {
			b.Errorf("%q", b.system.Active())
		}
		b.system.Lose(routeLine(one) + " 7")
		b.becomes(r, routers.Configured, false, one)
		b.announced(r, one)
		b.withdrawn(r, one)
	}},
}

func TestFaultsConfig(t *testing.T) {
	stage(t, ViaConfig, slices.Concat(everywhere, withdraws, meanwhile, foreigners, []scene{slow, told}, direct))
}

func TestFaultsVbash(t *testing.T) {
	stage(t, ViaVbash, slices.Concat(everywhere, withdraws, meanwhile, foreigners, []scene{slow, told}, scripted))
}
