//go:build system

package system

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"vouch/routers/vyos/vyostest"
	"vouch/routers/vyos/vyostest/store"
)

func toStatic(r *router) {
	r.do("systemctl", "stop", "vouch")
	r.do("vouch", "withdraw", "--owned", "--config", configFile)
	r.reaches(false)
	var delete []string
	for _, family := range []string{"ipv4", "ipv6"} {
		delete = append(delete, "delete protocols bgp address-family "+family+"-unicast redistribute kernel")
	}
	r.commit(append(delete, r.commands("static-bgp.commands")...)...)
	r.write(configFile, r.given("static-bgp.toml"))
	r.do(program, "validate", "--here", "--config", configFile)
	r.finds(allWell)
	r.do("systemctl", "start", "vouch")
	r.reaches(true)
	r.well()
}

// configured tells whether VyOS's configuration announces the prefix.
func (r *router) configured() bool {
	return slices.Contains(r.system.Active(), "protocols static route "+block.String()+" blackhole")
}

// edits has an operator in configuration mode whose edits are neither taken along nor lost.
func edits(r *router) {
	const mine = "protocols static route 203.0.113.0/24 blackhole"
	r.operator("set " + mine)
	die(r.site)
	r.settled("advertised")
	if slices.Contains(r.system.Active(), mine) {
		r.t.Error("what an operator has not committed yet was committed")
	}
	r.operator("commit", "exit")
	if !slices.Contains(r.system.Active(), mine) || !r.configured() {
		r.t.Errorf("the operator's commit made %q", r.system.Active())
	}
	r.operator("delete "+mine, "commit", "exit")
	r.well()
}

// confirms has a commit-confirm pending: what is withdrawn is withdrawn, and nothing new is announced meanwhile.
func confirms(r *router) {
	r.do("systemd-run", "--on-active=600", "--unit=commit-confirm", "true")
	r.do("systemctl", "stop", "unbound")
	r.reaches(false)
	r.do("systemctl", "start", "unbound")
	r.await("vouch to say why it waits", func() (bool, error) {
		out, err := r.try("vouch", "status")
		return strings.Contains(out, "commit-confirm"), err
	})
	r.finds("commit-confirm")
	if r.there() {
		r.t.Error("announced while a commit-confirm is pending")
	}
	r.do("systemctl", "stop", "commit-confirm.timer")
	r.reaches(true)
	r.well()
}

// midCommit has a commit begin, and does something while that is at its script, which waits for it.
func (r *router) midCommit(begin, meanwhile func()) {
	r.t.Helper()
	const script, over = "protocols_static.py", "/root/over"
	must(r.t, os.RemoveAll(r.file(over)))
	must(r.t, r.store().SetFault(store.Fault{Name: vyostest.HeldUp, Left: 1, Args: []string{script, over}}))
	began := len(r.system.CallsOf(script))
	begin()
	r.await("a commit that has reached its script", func() (bool, error) { return len(r.system.CallsOf(script)) > began, nil })
	meanwhile()
	r.write(over, "")
}

func (r *router) store() store.Store { return store.Store{Root: r.root} }

// stops stops vouch while it commits a withdraw, and then an announce: neither is cut off.
func stops(r *router) {
	stop := func() {
		r.do("systemctl", "stop", "--no-block", "vouch")
		r.await("the stop to be under way", func() (bool, error) { return r.property("vouch", "ActiveState") == "deactivating", nil })
	}
	stopped := func() {
		r.await("the end of vouch", func() (bool, error) { return r.property("vouch", "ActiveState") == "inactive", nil })
	}
	r.midCommit(func() { r.do("systemctl", "stop", "unbound") }, stop)
	stopped()
	r.reaches(false)
	if r.configured() {
		r.t.Error("stopped in mid-commit, and VyOS still has what was withdrawn")
	}
	r.clean()
	r.do("systemctl", "start", "vouch")
	r.settled("absent")
	r.midCommit(func() { r.do("systemctl", "start", "unbound") }, stop)
	stopped()
	if !r.configured() {
		r.t.Error("stopped in mid-commit, and VyOS lacks what FRR has")
	}
	r.clean()
	r.do("systemctl", "start", "vouch")
	r.reaches(true)
	r.well()
}

// killed has the agent die while it commits: the commit goes on, and the next agent waits for its end, and clears up
// before it commits again.
func killed(r *router) {
	for _, unbound := range []string{"stop", "start"} {
		before := r.restarts()
		r.midCommit(func() { r.do("systemctl", unbound, "unbound") }, func() {
			r.do("systemctl", "kill", "-s", "KILL", "--kill-who=main", "vouch")
			r.await("a restart", func() (bool, error) {
				return r.restarts() != before && r.property("vouch", "ActiveState") == "active", nil
			})
		})
		r.reaches(unbound == "start")
		r.settled(map[string]string{"stop": "absent", "start": "advertised"}[unbound])
		r.await("no commit that was killed with the agent", func() (bool, error) { // the last one may be about to end
			commits := r.system.CallsOf("my_commit")
			return !slices.ContainsFunc(commits, func(c store.Call) bool { return !c.Ended }), fmt.Errorf("%+v", commits)
		})
	}
	dies(r)
}

// unmounts kills the process of a session's mount, as a machine without memory does: VyOS does not end such a session.
func unmounts(r *router) {
	r.midCommit(func() { r.do("systemctl", "stop", "unbound") }, func() { r.do("sh", "-c", "kill -KILL $(pgrep -x unionfs-fuse)") })
	r.reaches(false)
	r.settled("absent")
	r.clean()
	r.do("systemctl", "start", "unbound")
	r.reaches(true)
	r.well()
}

// hardens gives the unit the restrictions of others. vouch refuses to commit, says why, and withdraws in FRR all the same.
func hardens(r *router) {
	for _, c := range []struct{ setting, says string }{
		{"PrivateDevices=yes", "/dev/fuse"}, {"PrivateTmp=yes", "PrivateTmp="},
	} {
		r.dropIn("[Service]\n" + c.setting + "\n")
		r.finds("fail ", c.says)
		r.do("systemctl", "stop", "unbound")
		r.reaches(false)
		if !r.configured() {
			r.t.Errorf("%s: it committed", c.setting)
		}
		r.await("vouch to say why", func() (bool, error) {
			out, err := r.try("vouch", "status")
			return strings.Contains(out, c.says), err
		})
		r.clean()
		r.dropIn("")
		r.settled("absent")
		r.do("systemctl", "start", "unbound")
		r.reaches(true)
		r.well()
	}
	r.dropIn("[Service]\nKillMode=control-group\n")
	r.finds("KillMode=control-group", "set KillMode=process")
	r.dropIn("")
	r.well()
}

// dropIn gives the unit a file of settings beside it and starts it anew; empty: none.
func (r *router) dropIn(text string) {
	r.t.Helper()
	const file = "/etc/systemd/system/vouch.service.d/hard.conf"
	r.write(file, text)
	r.do("systemctl", "daemon-reload")
	r.do("systemctl", "restart", "vouch")
}

func scripts(r *router) {
	r.write(configFile, strings.Replace(r.given("static-bgp.toml"), "[router]", "[router]\nvia = \"vbash\"", 1))
	r.do("systemctl", "restart", "vouch")
	r.well()
	killed(r)
}
