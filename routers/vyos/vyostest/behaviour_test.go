package vyostest_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
	"vouch/routers/vyos/vyostest/store"
)

// Everything here is about the stand-in alone.
func standin(t *testing.T, o vyostest.Options) *router {
	t.Helper()
	if real() {
		t.Skip("not to be had on a router")
	}
	return open(t, o)
}

// shows says whether FRR's configuration has a line.
func (r *router) shows(line string) bool {
	r.Helper()
	return slices.Contains(strings.Split(r.system.Vtysh("show running-config"), "\n"), line)
}

// frrHas wants a line there or not, now.
func (r *router) frrHas(line string, want bool) {
	r.Helper()
	if r.shows(line) != want {
		r.Errorf("FRR's configuration has %q: %v", line, !want)
	}
}

// await waits for something to become so.
func (r *router) await(what string, ok func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := lab.Wait(ctx, what, 5*time.Millisecond, func() (bool, error) { return ok(), nil }); err != nil {
		r.Fatal(err)
	}
}

func (r *router) steps(env []string, steps ...step) {
	r.Helper()
	for _, s := range steps {
		r.step(env, s)
	}
}

const (
	bgp   = "router bgp 65001"
	route = "ip route " + p4 + " blackhole"
)

// Without the mount a commit takes all else away, in VyOS and in FRR, and answers 0.
func TestCommitWithoutMountErases(t *testing.T) {
	const id = "vouchmount"
	for name, spoil := range map[string]func(*vyostest.System){
		"mount missing": func(s *vyostest.System) { s.Fault(vyostest.MountMissing, 1) },
		"no fuse":       func(s *vyostest.System) { _ = os.Remove(s.Path("/dev/fuse")) },
		"stale":         func(s *vyostest.System) { s.Stale(id) },
		"fuse dies":     func(s *vyostest.System) { s.Fault(vyostest.FuseDies, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := standin(t, vyostest.Options{Delay: quick})
			r.frrHas(bgp, true)
			spoil(r.system)
			env := r.session(id)
			r.steps(env, ok("my_set "+black))
			if m := r.system.Mounted(); len(m) > 0 {
				t.Fatalf("mounted: %v", m)
			}
			diff := "delete 'interfaces'\ndelete 'protocols' 'bgp'\ndelete 'system'\nset 'protocols' 'static' 'route' '" + p4 + "' 'blackhole'"
			left := []string{black}
			if name == "fuse dies" { // what was set lies below the mount
				diff, left = "delete 'interfaces'\ndelete 'protocols'\ndelete 'system'", nil
			}
			r.steps(env, says(showDiff, 0, diff), ok("my_commit"))
			if got := r.system.Active(); !slices.Equal(got, left) {
				t.Errorf("active: %v", got)
			}
			r.frrHas(bgp, false)
		})
	}
}

// A commit of nothing takes the lock, and writes the running configuration again.
func TestCommitOfNothing(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	file := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(r.path(store.ActiveDir + "/.nodes"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before, active := file(), r.system.Active()
	env := r.session("vouchnothing")
	r.steps(env, says("hold my_commit", 1, locked))
	if !os.SameFile(before, file()) {
		t.Error("written without the lock")
	}
	r.steps(env, ok("my_commit"))
	if os.SameFile(before, file()) || !slices.Equal(r.system.Active(), active) {
		t.Errorf("not written again, or %v", r.system.Active())
	}
}

func TestIdentity(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	s := r.system
	set := func() result {
		return r.asWith(s.Session("human"), 1002, vyostest.Group, nil, s.Path("/opt/vyatta/sbin/my_set"), strings.Fields(black)...)
	}
	if got := r.asWith(s.Session("human"), 1002, vyostest.Group, nil, s.Path("/usr/bin/cli-shell-api"), "setupSession"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := set(); got != (result{}) {
		t.Errorf("%+v", got)
	}
	got := r.asWith(s.Session("human"), 1002, vyostest.Group, nil, s.Path("/opt/vyatta/sbin/my_commit"))
	if got.code != 1 || !strings.Contains(got.out, "sudo: a password is required\n\n[[protocols static]] failed\nCommit failed") {
		t.Errorf("without sudo: %+v", got)
	}
	env := s.Session("root")
	for _, args := range [][]string{{"cli-shell-api", "setupSession"}, {"my_set", "system", "host-name", "r2"}, {"my_commit"}} {
		dir := "/opt/vyatta/sbin/"
		if args[0] == "cli-shell-api" {
			dir = "/usr/bin/"
		}
		if got := r.asWith(env, 0, 0, nil, s.Path(dir+args[0]), args[1:]...); got != (result{}) {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	if got := r.asWith(s.Session("human"), 1002, vyostest.Group, nil, s.Path("/opt/vyatta/sbin/my_set"), "system", "host-name", "r3"); got != (result{code: 1, out: "Set failed\n"}) {
		t.Errorf("after root has committed without the group: %+v", got)
	}
	if got := r.as(65534, 65534, nil, s.Path("/usr/bin/sg"), "vyattacfg", "-c", "id"); got.code != 1 || !strings.Contains(got.err, "Password") {
		t.Errorf("sg of a stranger: %+v", got)
	}
}

func TestStyles(t *testing.T) {
	const foreign = "ip route 198.51.100.0/24 blackhole"
	for style, survives := range map[string]bool{vyostest.Incremental: true, vyostest.RerenderStatic: false, vyostest.RerenderLate: false} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			r := standin(t, vyostest.Options{Style: style, Delay: quick, Late: 50 * time.Millisecond})
			s := r.system
			settled := func(what string, ok func() bool) {
				t.Helper()
				if style == vyostest.RerenderLate {
					r.await(what, ok)
				}
				if !ok() {
					t.Errorf("not so: %s", what)
				}
			}
			s.Gain(foreign)
			env := r.session("vouchstyle")
			r.steps(env, ok("my_set system host-name r2"), ok("my_commit"))
			r.frrHas(foreign, true)
			r.steps(env, ok("my_set protocols bgp neighbor 192.0.2.254"), ok("my_commit"))
			settled("a commit of BGP leaves the other's but in 1.5", func() bool { return r.shows(foreign) == (style != vyostest.RerenderLate) })
			r.steps(env, ok("my_set "+black+" tag 7"), ok("my_set "+black+" distance 9"), ok("my_commit"))
			settled("the route is there", func() bool { return r.shows(route + " tag 7 9") })
			settled("the other's is as the style has it", func() bool { return r.shows(foreign) == survives })
			// What FRR has lost a commit does not bring back, unless it touches protocols static.
			s.Lose(route + " tag 7 9")
			r.steps(env, says("my_set "+black, 0, "Configuration path: ["+black+"] already exists"), ok("my_commit"))
			r.frrHas(route+" tag 7 9", false)
			r.steps(env, ok("my_set protocols static route6 "+p6+" blackhole"), ok("my_commit"))
			settled("the second route is there", func() bool { return r.shows("ipv6 route " + p6 + " blackhole") })
			r.frrHas(route+" tag 7 9", !survives)
			want := ok("my_commit")
			if style == vyostest.Incremental && !r.shows(route) {
				want = says("my_commit", 0, "% Refusing to remove a non-existent route")
			}
			r.steps(env, ok("my_delete protocols static route "+p4), want)
			settled("the route is gone", func() bool { return !r.shows(route + " tag 7 9") })
		})
	}
}

// To delete what is below a prefix and not the prefix is refused before 1.4, and leaves it empty from then on.
func TestDeleteBelowPrefix(t *testing.T) {
	for _, style := range []string{vyostest.Incremental, vyostest.RerenderStatic} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			r := standin(t, vyostest.Options{Style: style, Delay: quick, Null0: style == vyostest.Incremental})
			env := r.session("vouchbelow")
			r.steps(env, ok("my_set "+black), ok("my_commit"))
			want := ok("my_commit")
			if style == vyostest.Incremental {
				r.frrHas("ip route "+p4+" Null0", true)
				want = says("my_commit", 1, "[ protocols static ]",
					"Must add either a next-hop or blackhole or dhcp-interface for route "+p4, "", "[[protocols static]] failed", "Commit failed")
			}
			r.steps(env, ok("my_delete "+black), want, ok("existsActive protocols static route "+p4))
			r.frrHas(route, false)
		})
	}
}

// A commit whose group is killed has changed FRR and not VyOS; the next one takes it back.
func TestCommitKilled(t *testing.T) {
	r := standin(t, vyostest.Options{})
	r.system.Fault(vyostest.CommitKilled, 1)
	env := r.session("vouchkilled")
	r.steps(env, ok("my_set "+black), step{"my_commit", result{code: 137}}, no("existsActive "+black), ok("sessionChanged"))
	r.frrHas(route, true)
	if r.system.Locked() {
		t.Error("the lock outlived the commit")
	}
	r.system.OperatorCommit("set protocols static route6 " + p6 + " blackhole")
	r.frrHas(route, false)
	calls := r.system.CallsOf("my_commit")
	if calls[0].Ended || !calls[1].Ended || calls[1].Code != 0 || calls[1].GID != vyostest.Group || calls[1].Umask != 2 {
		t.Errorf("%+v", calls)
	}
}

// What changes FRR is out of reach of whoever kills the commit and all of its group.
func TestCommitGroupKilledBeforeFRR(t *testing.T) {
	r := standin(t, vyostest.Options{})
	waiting, release := r.system.HoldUp("protocols_static.py")
	env := r.session("vouchgroup")
	r.steps(env, ok("my_set "+black))
	kill, done := r.start(env, r.system.Path("/opt/vyatta/sbin/my_commit"))
	waiting()
	r.frrHas(route, false)
	kill()
	<-done
	release()
	r.await("FRR to have it", func() bool { return r.shows(route) })
	r.steps(env, no("existsActive "+black), ok("sessionChanged"))
}

// The lock is kept until all is done, hooks too; others do not wait for it.
func TestPostHookKeepsTheLock(t *testing.T) {
	r := standin(t, vyostest.Options{PostHook: time.Hour})
	env := r.session("vouchhook")
	r.steps(env, ok("my_set "+black))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.asWith(env, 0, vyostest.Group, nil, r.system.Path("/opt/vyatta/sbin/my_commit"))
	}()
	r.await("the commit to show", func() bool { return slices.Contains(r.system.Active(), black) })
	if !r.system.Locked() {
		t.Error("not locked")
	}
	other := r.session("vouchother")
	r.steps(other, ok("my_set system host-name r2"),
		says("my_commit", 1, "Configuration system temporarily locked due to another commit in progress"))
	r.system.Close()
	<-done
}

// Two sessions see each other's commits, and neither the other's edits.
func TestSessionsMerge(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	o := r.system.Operator()
	o.Edit("set protocols static route " + q4 + " next-hop 192.0.2.254")
	env := r.session("vouchmerge")
	r.steps(env, ok("my_set "+black), says(showDiff, 0, "set 'protocols' 'static' 'route' '"+p4+"' 'blackhole'"), ok("my_commit"))
	o.Commit()
	o.Exit()
	active := strings.Join(r.system.Active(), "\n")
	if !strings.Contains(active, black) || !strings.Contains(active, q4+" next-hop 192.0.2.254") {
		t.Error(active)
	}
	r.frrHas("ip route "+q4+" 192.0.2.254", true)
	r.frrHas(route, true)
}

func TestSave(t *testing.T) {
	r := standin(t, vyostest.Options{})
	saved := func() string {
		b, err := os.ReadFile(r.system.Path("/config/config.boot"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := r.vbash("save|rc"); got != (result{out: "rc 0\n"}) || !strings.Contains(saved(), "host-name") {
		t.Errorf("%+v: %s", got, saved())
	}
	r.system.Boot("")
	if got := r.vbash("save|rc"); got != (result{out: "rc 0\n"}) || strings.Contains(saved(), "host-name") {
		t.Errorf("before the boot is done: %+v: %s", got, saved())
	}
	if n := len(r.system.CallsOf("vyos-save-config.py")); n != 2 {
		t.Errorf("%d saves were recorded", n)
	}
	old := vyostest.New(t, vyostest.Options{Style: vyostest.Incremental})
	r.root, r.env = old.Root(), old.Env()
	if got := r.vbash("save|rc"); got != (result{out: "Saving configuration to '/config/config.boot'...\nDone\nrc 0\n"}) {
		t.Errorf("before 1.4: %+v", got)
	}
}

func TestCommitConfirm(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	s := r.system
	systemctl := func() result { return r.run(nil, "/usr/bin/systemctl", "is-active", "commit-confirm.timer") }
	before := s.Active()
	_, revert := s.CommitConfirm("set system host-name r9")
	if got := systemctl(); got != (result{out: "active\n"}) {
		t.Errorf("%+v", got)
	}
	s.OperatorCommit("set " + black)
	r.frrHas(route, true)
	revert()
	if got := s.Active(); !slices.Equal(got, before) {
		t.Errorf("%v", got)
	}
	r.frrHas(route, false)
	if got := systemctl(); got != (result{code: 3, out: "inactive\n"}) {
		t.Errorf("%+v", got)
	}
	confirm, _ := s.CommitConfirm("set system host-name r10")
	confirm()
	if _, err := os.Stat(s.Path(store.Timer)); err == nil {
		t.Error("the timer is there after the confirm")
	}
}

// Without the variables that VyOS's own programs get, a commit does not find its script.
func TestCommitWithoutEnvironment(t *testing.T) {
	r := standin(t, vyostest.Options{})
	env := r.session("vouchenv")
	r.steps(env, ok("my_set "+black))
	r.env = nil
	r.steps(env, says("my_commit", 1, "sh: 1: /protocols_static.py: not found", "[[protocols static]] failed", "Commit failed"))
}

func TestCollapseAndVyconf(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick, Collapse: true, Vyconf: true})
	env := r.session("vouchcollapse")
	r.steps(env, says("my_commit", 0, "No changes to commit"), ok("my_set "+black), ok("my_commit"),
		ok("my_delete protocols static route "+p4), says(showDiff, 0, "delete 'protocols' 'static'"),
		says("hold my_commit", 1, "Configuration system locked by another commit in progress"), ok("my_commit"),
		ok("existsActive protocols bgp"), no("existsActive protocols static"))
	r.frrHas(route, false)
}

// In the style that answers first one commit is rendered after another: none that is late undoes a later one.
func TestRenderedInTurn(t *testing.T) {
	r := standin(t, vyostest.Options{Style: vyostest.RerenderLate, Delay: quick, Late: time.Millisecond})
	r.system.Fault(vyostest.CommitLate, 1, "3s")
	r.system.OperatorCommit("set " + black)
	r.system.OperatorCommit("delete " + black)
	r.await("both to be rendered", func() bool {
		procs, err := os.ReadDir(r.path(store.Processes))
		return err == nil && !slices.ContainsFunc(procs, func(p os.DirEntry) bool {
			_, err := os.Readlink("/proc/" + p.Name() + "/exe")
			return err == nil
		})
	})
	r.frrHas(route, false)
}
