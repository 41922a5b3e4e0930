//go:build system

package system

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// VyOS's life on Debian 12, which is what VyOS 1.4 is made of, with the core's view of the prefix throughout.
// The steps build on one another.
func TestVyOS(t *testing.T) {
	if !slices.Contains(releases(t), "bookworm") {
		t.Skip("VyOS 1.4 is made of bookworm, which is not among VOUCH_MACHINES")
	}
	t.Parallel()
	r := openVyOS(t, "bookworm")
	for _, step := range []struct {
		name string
		do   func(*router)
	}{
		{"a newcomer installs, configures and starts", newcomer},
		{"the resolver dies and comes back", dies},
		{"reload", reloads},
		{"restart and SIGKILL keep what is announced", restarts},
		{"another vouch is installed", replaced},
		{"the doctor sees what redistribution lacks", redistribution},
		{"FRR is restarted", forgets},
		{"reboot with a dead resolver", reboots},
		{"from method kernel to static", toStatic},
		{"method static: the resolver dies and comes back", dies},
		{"an operator edits meanwhile", edits},
		{"a commit-confirm is pending", confirms},
		{"stop in mid-commit", stops},
		{"SIGKILL in mid-commit", killed},
		{"what mounts a session is killed in mid-commit", unmounts},
		{"method static: FRR is restarted", forgets},
		{"hardened by mistake", hardens},
		{"image upgrade with a dead resolver", upgrades},
		{"by scripts of vbash: SIGKILL in mid-commit", scripts},
		{"removed as README says", removes},
	} {
		began := time.Now()
		step.do(r)
		t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
		if t.Failed() {
			t.FailNow()
		}
	}
}

// given reads a file of contrib/vyos, with the neighbours of this site.
func (r *router) given(name string) string {
	r.t.Helper()
	text, err := os.ReadFile("../../contrib/vyos/" + name)
	must(r.t, err)
	return strings.ReplaceAll(string(text), "198.51.100.1", "10.0.1.1")
}

// commands gives the lines of a file that are to be typed.
func (r *router) commands(name string) (lines []string) {
	r.t.Helper()
	for line := range strings.Lines(r.given(name)) {
		if strings.HasPrefix(line, "set ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

const (
	configFile = "/config/vouch.toml"
	program    = "/config/scripts/vouch/vouch"
)

// finds wants the doctor to say all of these.
func (r *router) finds(want ...string) {
	r.t.Helper()
	r.await("the doctor to say "+strings.Join(want, ", "), func() (bool, error) {
		out, _ := r.try(program, "doctor", "--config", configFile) // its status is 1 when there are failures
		lacks := func(w string) bool { return !strings.Contains(out, w) }
		return !slices.ContainsFunc(want, lacks), errors.New(out)
	})
}

const allWell = "0 failures, 0 warnings"

func newcomer(r *router) {
	out, err := exec.Command("dpkg-deb", "-x", filepath.Join(debs(r.t), "vouch-new.deb"), r.file("/root/deb")).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	must(r.t, os.CopyFS(r.file("/root/vyos"), os.DirFS("../../contrib/vyos")))
	r.do("cp", "/root/deb/usr/bin/vouch", "/root/vouch")
	r.do("/root/vyos/install", "/root/vouch")
	r.commit(r.commands("kernel-bgp.commands")...)
	r.write(configFile, r.given("kernel-bgp.toml"))
	r.do(program, "validate", "--here", "--config", configFile)
	r.finds(allWell)
	if r.there() {
		r.t.Error("announced before it was started")
	}
	r.do("/config/scripts/vouch/start")
	r.reaches(true)
	r.well()
}

// well waits until all is announced, and the doctor finds nothing.
func (r *router) well() {
	r.t.Helper()
	r.settled("advertised")
	r.finds(allWell)
	r.clean()
}

// clean wants nothing left of a session, and a configuration that is whole and was never saved by vouch.
func (r *router) clean() {
	r.t.Helper()
	r.await("no session", func() (bool, error) {
		out, err := r.try("sh", "-c", "ls /opt/vyatta/config/tmp | grep _ ; grep unionfs /proc/self/mounts; pgrep -a unionfs; true")
		return out == "", err
	})
	for _, line := range []string{"system host-name r1", "protocols bgp system-as 65001", "policy route-map ANYCAST rule 10 action permit"} {
		if !slices.Contains(r.system.Active(), line) {
			r.t.Errorf("the configuration has lost %q: %q", line, r.system.Active())
		}
	}
	if n := len(r.system.CallsOf("vyos-save-config.py")); n > 0 {
		r.t.Errorf("it was saved %d times", n)
	}
}

func dies(r *router) {
	die(r.site)
	r.well()
}

func reloads(r *router) {
	since, pid, text := time.Now(), r.pid(), r.given("kernel-bgp.toml")
	r.write(configFile, strings.Replace(text, "[service.resolver]", "[service.resolver]\nrise = 3", 1))
	r.do("systemctl", "reload", "vouch")
	r.await("the new rise to be in force", func() (bool, error) {
		out, err := r.try("vouch", "status", "--json")
		return strings.Contains(strings.ReplaceAll(out, " ", ""), `"rise":3`), err
	})
	r.write(configFile, strings.Replace(text, "[service.resolver]", "[service.resolver]\nrize = 3", 1))
	if out, err := r.try("systemctl", "reload", "vouch"); err == nil {
		r.t.Errorf("a bad configuration was reloaded: %s", out)
	}
	r.write(configFile, text)
	r.do("systemctl", "reload", "vouch")
	if now := r.pid(); now != pid {
		r.t.Errorf("the agent is %s after a reload, was %s", now, pid)
	}
	r.unmoved(since, "reload")
}

func restarts(r *router) {
	since := time.Now()
	r.do("systemctl", "restart", "vouch")
	r.well()
	before := r.restarts()
	r.do("systemctl", "kill", "-s", "KILL", "--kill-who=main", "vouch")
	r.await("a restart", func() (bool, error) {
		return r.restarts() != before && r.property("vouch", "ActiveState") == "active", nil
	})
	r.well()
	r.unmoved(since, "restart")
}

// replaced installs vouch once more, as for another version: not beside a file with mistakes, and then with no gap.
func replaced(r *router) {
	since, pid := time.Now(), r.pid()
	r.do("/root/vyos/install", "/root/vouch")
	r.write(configFile, strings.Replace(r.given("kernel-bgp.toml"), "[service.resolver]", "[service.resolver]\nrize = 3", 1))
	if out, err := r.try("/config/scripts/vouch/start"); err == nil || !strings.Contains(out, "rize") || r.pid() != pid {
		r.t.Errorf("started with a file that has mistakes: pid %s, was %s: %v", r.pid(), pid, err)
	}
	r.write(configFile, r.given("kernel-bgp.toml"))
	r.do("/config/scripts/vouch/start")
	r.await("another agent", func() (bool, error) {
		return r.pid() != pid && r.property("vouch", "ActiveState") == "active", nil
	})
	r.well()
	r.unmoved(since, "another vouch")
}

func redistribution(r *router) {
	const v4 = " protocols bgp address-family ipv4-unicast redistribute kernel"
	r.commit("delete"+v4, "set"+v4)
	r.finds("0 failures", "redistributes kernel routes without a route-map", "set protocols bgp address-family ipv4-unicast redistribute kernel route-map")
	r.commit("delete" + v4)
	r.reaches(false)
	r.finds("1 failure", "set protocols bgp address-family ipv4-unicast redistribute kernel")
	r.commit("set" + v4 + " route-map ANYCAST")
	r.reaches(true)
	r.well()
}

// forgets restarts FRR, which then has nothing at all until VyOS configures it again.
func forgets(r *router) {
	r.do("systemctl", "restart", "frr")
	r.reaches(false)
	r.await("vouch to say so", func() (bool, error) {
		out, err := r.try("vouch", "status")
		return strings.Contains(out, "DIVERGED"), err
	})
	r.do("vtysh", "-f", "/config/boot/frr.conf")
	r.reaches(true)
	r.well()
}

// rebooted switches the machine off and on with a resolver that is dead, and wants silence until that lives.
func (r *router) rebooted(again func()) {
	r.t.Helper()
	r.do("systemctl", "disable", "unbound")
	since := time.Now()
	again()
	r.await("a session with the core", func() (bool, error) {
		out, err := r.try("vtysh", "-c", "show bgp neighbors 10.0.1.1")
		return strings.Contains(out, "BGP state = Established"), err
	})
	r.settled("absent")
	gone := false
	for _, seen := range r.hops.Since(since) {
		there := slices.Contains(seen.Addrs, nodeHop)
		if gone = gone || !there; gone && there {
			r.t.Errorf("announced at boot with a dead resolver, at %s", seen.Time)
		}
	}
	r.do("systemctl", "enable", "--now", "unbound")
	r.reaches(true)
	r.well()
}

func reboots(r *router) {
	r.rebooted(func() {
		r.off()
		r.reaches(false)
		r.poweron()
		r.booted()
	})
}

func upgrades(r *router) { r.rebooted(r.upgrade) }

func removes(r *router) {
	r.do("vouch", "drain", "resolver")
	r.reaches(false)
	r.settled("absent")
	r.do("systemctl", "stop", "vouch")
	r.edit("/config/scripts/vyos-postconfig-bootup.script", func(text string) string {
		return strings.Replace(text, "/config/scripts/vouch/start\n", "", 1)
	})
	r.do("rm", "-r", "/config/scripts/vouch")
	r.clean()
	if r.configured() {
		r.t.Error("removed, and VyOS has the prefix")
	}
}
