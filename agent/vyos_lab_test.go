package agent

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/vyos"
	"vouch/routers/vyos/vyostest"
)

// go test ./agent -run VyOS -all plays everything for every release of VyOS and every way to drive it.
var all = flag.Bool("all", false, "with VyOS: everything in every way")

// vyosRoot names in the environment of this test's own binary the VyOS that it is to be vouch on: the
// configuration has no word for where VyOS is.
const vyosRoot = "VOUCH_TEST_VYOS"

// asVouch makes this process vouch, when it was started for that, and does not come back then.
func asVouch() {
	root := os.Getenv(vyosRoot)
	if root == "" {
		return
	}
	drivers["vyos"] = func(c config.Router) routers.Router {
		o := vyosOptions(c)
		o.Root = root
		return vyos.New(o)
	}
	os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr, Commands("test")))
}

// redistributing has bgpd announce what both methods make, and tell the core which is worse.
const redistributing = ` address-family ipv4 unicast
  redistribute static route-map VOUCH
  redistribute kernel route-map VOUCH
 exit-address-family
 address-family ipv6 unicast
  redistribute static route-map VOUCH
  redistribute kernel route-map VOUCH
 exit-address-family
exit
route-map VOUCH permit 5
 match tag 666
 set metric 666
exit
route-map VOUCH permit 10
exit
`

// vyosConfig is the configuration of a vouch on VyOS; %[3]s is the way to drive it.
const vyosConfig = `[agent]
state_file = "%[1]s/state.json"
[control]
socket = "%[1]s/control.sock"
[router]
daemon = "vyos"
%[3]s
socket_dir = "%[2]s"
retry_max = "500ms"
verify_interval = "1s"
[service.web]
prefixes = ["10.53.54.1/32", "2001:db8:54::1/128"]
interval = "500ms"
fast = "100ms"
hold_down = "0s"
on_stop = "%[4]s"
[service.web.check.answers]
type = "exec"
command = ["test", "-e", "%[1]s/answers"]
timeout = "5s"
[service.web.check.upstream]
type = "exec"
on_fail = "degrade"
command = ["test", "-e", "%[1]s/upstream"]
timeout = "5s"
`

var anycast = []netip.Prefix{netip.MustParsePrefix("10.53.54.1/32"), netip.MustParsePrefix("2001:db8:54::1/128")}

// A way is one to drive a VyOS, as lines of [router].
type way struct{ name, lines string }

var (
	viaConfig = way{"config", "method = \"static\"\nvia = \"config\"\ndegraded.tag = 666"}
	viaVbash  = way{"vbash", "method = \"static\"\nvia = \"vbash\"\ndegraded.tag = 666"}
	viaKernel = way{"kernel", "method = \"kernel\"\ndegraded.metric = 666"}
)

// A router is vouch as a process on a VyOS, of which the FRR is that of a node and the rest a stand-in.
type router struct {
	*sidecar
	lab    *lab.AnycastLab
	system *vyostest.System
}

func openVyOSLab(t *testing.T) *lab.AnycastLab {
	t.Helper()
	return lab.OpenAnycast(t, lab.AnycastOptions{BGP: true, IPv6: true, NoUnbound: true, NodeConfig: redistributing, CoreConfig: "exit\nno zebra nexthop kernel enable\n"})
}

// newRouter makes one over the first node of the lab, whose service answers.
func newRouter(t *testing.T, l *lab.AnycastLab, o vyostest.Options, w way, onStop string) *router {
	t.Helper()
	o.SocketDir = l.Nodes[0].FRR.SocketDir()
	r := &router{newSidecar(t, l.Nodes[0]), l, vyostest.New(t, o)}
	must(t, os.WriteFile(r.toml, fmt.Appendf(nil, vyosConfig, r.dir, o.SocketDir, w.lines, onStop), 0o644))
	r.put("answers", true)
	r.put("upstream", true)
	return r
}

// put makes or takes away a file that a check looks for.
func (r *router) put(name string, yes bool) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if yes {
		must(r.t, os.WriteFile(path, nil, 0o644))
	} else {
		must(r.t, os.Remove(path))
	}
}

func (r *router) command(args ...string) []string {
	r.t.Helper()
	self, err := os.Executable()
	must(r.t, err)
	return append([]string{"env", vyosRoot + "=" + r.system.Root(), self, "--config", r.toml}, args...)
}

func (r *router) start() {
	r.t.Helper()
	var err error
	r.proc, err = r.Start("vouch", r.command("run")...)
	must(r.t, err)
	r.t.Cleanup(func() { _ = r.proc.Kill() })
	r.until("ready", func(n *state.Snapshot) bool { return n.Ready })
}

// says runs a command of vouch and gives what it printed and its exit status.
func (r *router) says(args ...string) (string, int) {
	r.t.Helper()
	line := append([]string{"netns", "exec", r.Namespace()}, r.command(args...)...)
	cmd := exec.CommandContext(r.t.Context(), "ip", line...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// becomes waits until vouch reads all prefixes at the stage, and settled, and the core has them so, or not.
func (r *router) becomes(stage routers.Stage, degraded bool) {
	r.t.Helper()
	r.until(fmt.Sprintf("all %s, degraded %t", stage, degraded), func(n *state.Snapshot) bool {
		return len(n.Services) == 1 && !slices.ContainsFunc(n.Services[0].Prefixes, func(p state.Prefix) bool {
			return p.Stage != stage || p.Degraded != degraded || p.Broken || !p.Diverged.IsZero()
		})
	})
	r.core(stage == routers.Advertised, degraded, anycast...)
}

// core waits until the core has the prefixes, or has them not.
func (r *router) core(there, degraded bool, ps ...netip.Prefix) {
	r.t.Helper()
	for _, p := range ps {
		r.wait(fmt.Sprintf("the core to have %s: %t, degraded %t", p, there, degraded), func() error {
			med, err := r.med(p)
			if err != nil || (med >= 0) != there || there && (med == 666) != degraded {
				return fmt.Errorf("its MED is %d, %v", med, err)
			}
			return nil
		})
	}
}

// med is that of the core's path to a prefix; -1: it has none.
func (r *router) med(p netip.Prefix) (int, error) {
	text, err := r.lab.CoreFRR.Show(r.t.Context(), "bgpd", fmt.Sprintf("show bgp ipv%d unicast %s json", map[bool]int{true: 4, false: 6}[p.Addr().Is4()], p))
	if err != nil {
		return 0, err
	}
	var entry struct{ Paths []struct{ Metric int } }
	if err := json.Unmarshal([]byte(text), &entry); err != nil || len(entry.Paths) == 0 {
		return -1, err
	}
	return entry.Paths[0].Metric, nil
}

func (r *router) wait(what string, ok func() error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := lab.Wait(ctx, what, 10*time.Millisecond, func() (bool, error) { err := ok(); return err == nil, err }); err != nil {
		r.t.Fatalf("%v\nlog:\n%s", err, r.log())
	}
}

// end stops vouch, and wants nothing left of it but what on_stop keeps.
func (r *router) end() {
	r.t.Helper()
	must(r.t, r.proc.Signal(os.Interrupt))
	if err := r.proc.Err(); err != nil {
		r.t.Errorf("it ended with %v\n%s", err, r.log())
	}
	if left := r.system.Sessions(); len(left) > 0 {
		r.t.Errorf("sessions are left: %q", left)
	}
	for _, line := range []string{"protocols bgp system-as 65001", "system host-name r1"} {
		if !slices.Contains(r.system.Active(), line) {
			r.t.Errorf("the configuration has lost %q: %q", line, r.system.Active())
		}
	}
	if n := len(r.system.CallsOf("vyos-save-config.py")); n > 0 {
		r.t.Errorf("the configuration was saved %d times", n)
	}
}

// styles are how the releases of VyOS have a commit reach FRR.
var styles = []string{vyostest.Incremental, vyostest.RerenderStatic, vyostest.RerenderLate}

// TestVyOSLife: a service comes up, is degraded, dies, comes back, is drained and resumed, and goes with vouch. At
// the core a death shows while the commit has not even begun.
func TestVyOSLife(t *testing.T) {
	t.Parallel()
	l := openVyOSLab(t)
	for _, style := range styles {
		for _, w := range []way{viaConfig, viaVbash, viaKernel} {
			if w != viaConfig && style != vyostest.RerenderStatic && !*all {
				continue
			}
			t.Run(style+"/"+w.name, func(t *testing.T) {
				r := newRouter(t, l, vyostest.Options{Style: style}, w, "withdraw")
				r.life(w != viaKernel)
			})
		}
	}
}

func (r *router) life(commits bool) {
	r.start()
	r.becomes(routers.Advertised, false)
	r.put("upstream", false)
	r.becomes(routers.Advertised, true)
	r.put("upstream", true)
	r.becomes(routers.Advertised, false)
	waiting, release := r.system.HoldUp("my_commit")
	r.put("answers", false)
	if commits {
		waiting()
	}
	r.core(false, false, anycast...)
	release()
	r.becomes(routers.Absent, false)
	r.put("answers", true)
	r.becomes(routers.Advertised, false)
	for _, args := range [][]string{{"drain", "web"}, {"resume", "web"}} {
		if out, code := r.says(args...); code != 0 {
			r.t.Errorf("vouch %s exits with %d and says:\n%s", strings.Join(args, " "), code, out)
		}
		r.becomes(map[string]routers.Stage{"drain": routers.Absent, "resume": routers.Advertised}[args[0]], false)
	}
	r.end()
	r.core(false, false, anycast...)
	if left := r.system.Active(); slices.ContainsFunc(left, func(line string) bool { return strings.Contains(line, "static route") }) {
		r.t.Errorf("VyOS would announce with the next commit: %q", left)
	}
}
