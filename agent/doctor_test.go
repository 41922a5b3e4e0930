package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/detect"
	"vouch/routers/lab"
)

func TestSurvey(t *testing.T) {
	open := detect.Socket{Path: "/run/frr/zebra.vty", State: detect.Answers}
	frr := detect.Found{Daemon: "frr", Running: true, Version: "8.4.4", By: open.Path, Sockets: []detect.Socket{open}, Programs: []string{"/usr/bin/vtysh"}}
	bird := detect.Found{Daemon: "bird", Running: true, Version: "2.0.12", By: "/run/bird/bird.ctl", Sockets: []detect.Socket{{Path: "/run/bird/bird.ctl", State: detect.Answers}}}
	noFRR := detect.Found{Daemon: "frr", Sockets: []detect.Socket{{Path: open.Path, State: detect.Missing, Problem: "no such socket", WayOut: "start frr"}}}
	noBIRD := detect.Found{Daemon: "bird", Programs: []string{"/usr/sbin/bird"}, Sockets: []detect.Socket{{Path: "/run/bird/bird.ctl", State: detect.Missing}}}
	closed := map[string][]detect.Barrier{open.Path: {{Path: open.Path, Mode: "Srwxrwx---", Owner: "frr", Group: "frrvty", Member: true}}}
	vyos := frr
	vyos.Unclear = "this is VyOS"
	with := func(f detect.Found, ss ...detect.Socket) detect.Found { f.Sockets = ss; return f }
	for name, c := range map[string]struct {
		found  []detect.Found
		asked  string
		only   []string
		closed map[string][]detect.Barrier
		want   []string
	}{
		"found": {[]detect.Found{frr, noBIRD}, "auto", nil, nil, []string{
			"ok frr: frr 8.4.4 is driven, found by /run/frr/zebra.vty: the only one that runs here", "ok /run/frr/zebra.vty: answers, and vouch may connect",
			"note bird: does not run, though it is installed: /usr/sbin/bird"}},
		"named": {[]detect.Found{frr, bird}, "frr", nil, nil, []string{
			`ok frr: frr 8.4.4 is driven, found by /run/frr/zebra.vty: daemon = "frr" in [router]`, "ok /run/frr/zebra.vty: answers",
			`note bird: bird 2.0.12 runs too (/run/bird/bird.ctl), and is not driven -> set daemon = "bird" in [router]`}},
		"named, and the other one runs": {[]detect.Found{noFRR, bird}, "frr", nil, nil, []string{
			`fail frr: does not run, and is to be driven: daemon = "frr" in [router] -> start frr`, "note bird: bird 2.0.12 runs too"}},
		"two": {[]detect.Found{frr, bird}, "auto", nil, nil, []string{"note frr: frr 8.4.4 runs too", "note bird: bird 2.0.12 runs too"}},
		"two, of which the method lets one": {[]detect.Found{frr, bird}, "auto", []string{"bird"}, nil, []string{
			"ok bird: bird 2.0.12 is driven, found by /run/bird/bird.ctl: the only one that runs here and has this method", "ok /run/bird/bird.ctl: answers", "note frr: frr 8.4.4 runs too"}},
		"two, and nothing is configured": {[]detect.Found{frr, bird}, "", nil, nil, []string{
			"warn auto: more than one routing daemon runs here", "note frr: ", "note bird: "}},
		"one, and nothing is configured": {[]detect.Found{frr, noBIRD}, "", nil, nil, []string{
			`ok frr: frr 8.4.4 is driven, found by /run/frr/zebra.vty: the only one that runs here: daemon = "auto" would choose it`, "ok /run/frr/zebra.vty", "note bird"}},
		"kernel": {[]detect.Found{frr, noBIRD}, "kernel", nil, nil, []string{"note frr: frr 8.4.4 runs too", "note bird: does not run"}},
		"vyos": {[]detect.Found{vyos, bird}, "vyos", nil, nil, []string{
			`ok frr: frr 8.4.4 is driven, found by /run/frr/zebra.vty: daemon = "vyos" in [router], which it is a part of`, "ok /run/frr/zebra.vty: answers"}},
		"vyos without one of its daemons": {[]detect.Found{with(vyos, open, detect.Socket{Path: "/run/frr/bgpd.vty", State: detect.Stale, Problem: "left behind: nobody listens", WayOut: "enable bgpd in /etc/frr/daemons, and start frr"})}, "vyos", nil, nil, []string{
			"ok frr: frr 8.4.4 is driven", "ok /run/frr/zebra.vty", "warn /run/frr/bgpd.vty: left behind: nobody listens -> VyOS starts it: see journalctl -u frr"}},
		"vyos without FRR": {[]detect.Found{noFRR, noBIRD}, "vyos", nil, nil, []string{
			`fail frr: does not run, and is to be driven: daemon = "vyos" in [router], which it is a part of -> VyOS starts it`}},
		"closed": {[]detect.Found{frr}, "auto", nil, closed, []string{"ok frr",
			"fail /run/frr/zebra.vty: vouch may not connect: closed by /run/frr/zebra.vty (Srwxrwx--- frr:frrvty) -> usermod -aG frrvty vouch, and restart vouch"}},
		"closed, and not driven": {[]detect.Found{frr}, "kernel", nil, closed, []string{"note frr: frr 8.4.4 runs too (/run/frr/zebra.vty), and is not driven; vouch may not connect to it"}},
		"states": {[]detect.Found{with(frr, detect.Socket{Path: "/a", State: detect.Denied, Problem: "permission denied"}, detect.Socket{Path: "/b", State: detect.Stale, Problem: "left behind", WayOut: "start it"},
			detect.Socket{Path: "/c", State: detect.Silent, Problem: "hangs", WayOut: "restart it"}, detect.Socket{Path: "/d", State: detect.Missing, Problem: "no such socket"})}, "frr", nil, nil, []string{
			"ok frr", "note /a: vouch may connect, but not the user who runs this command, so that it was not asked -> run vouch doctor as root", "warn /b: left behind -> start it", "fail /c: hangs -> restart it"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(survey(c.found, c.asked, c.only, c.closed, detect.User{Name: "vouch"}))
			if len(got) != len(c.want) {
				t.Fatalf("got %q,\nwant %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

// lines writes findings as "severity subject: text -> way out".
func lines(fs []routers.Finding) []string {
	var out []string
	for _, f := range fs {
		word, _ := f.Severity.MarshalText()
		line := fmt.Sprintf("%s %s: %s", word, f.Subject, f.Text)
		if f.WayOut != "" {
			line += " -> " + f.WayOut
		}
		out = append(out, line)
	}
	return out
}

func TestJudge(t *testing.T) {
	p := netip.MustParsePrefix("10.53.53.53/32")
	reached := []routers.Peer{{Name: "core1", Stage: routers.Advertised}, {Name: "core2", Stage: routers.Configured}}
	for _, c := range []struct {
		o    routers.Observation
		goal routers.Stage
		want string
	}{
		{routers.Observation{Detail: "ospfd hangs"}, routers.Advertised, "fail 10.53.53.53/32: cannot be read: ospfd hangs"},
		{routers.Observation{Stage: routers.Absent}, routers.Advertised, ""},
		{routers.Observation{Stage: routers.Selected}, routers.Advertised, ""},
		{routers.Observation{Stage: routers.Absent, Broken: true, Detail: "no file"}, routers.Advertised, ""},
		{routers.Observation{Stage: routers.Advertised, Peers: reached}, routers.Advertised, "ok 10.53.53.53/32: advertised to core1"},
		{routers.Observation{Stage: routers.Advertised, Broken: true, Peers: reached, Detail: "no address"}, routers.Advertised, "warn 10.53.53.53/32: advertised, but not as it ought to be: no address"},
		{routers.Observation{Stage: routers.Configured, Broken: true, Detail: "not known"}, routers.Configured, "note 10.53.53.53/32: not known"},
	} {
		c.o.Prefix = p
		f, ok := judge(c.o, c.goal)
		if got := strings.Join(lines([]routers.Finding{f}), ""); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%+v: %q, %t, want %q", c.o, got, ok, c.want)
		}
	}
}

func TestRights(t *testing.T) {
	const text = "Name:\tvouch\nUid:\t990\t990\t990\t990\nGid:\t989\t989\t989\t988\nGroups:\t106 108 \nCapEff:\t%s\n"
	for caps, may := range map[string][2]bool{"0000000000001000": {false, true}, "0000000000000002": {true, false}, "000001ffffffffff": {true, true}} {
		u, ok := rightsIn(fmt.Sprintf(text, caps))
		want := detect.User{Name: u.Name, UID: 990, GIDs: []uint32{988, 106, 108}, Any: may[0], Net: may[1]}
		if d := cmp.Diff(want, u); d != "" || !ok || u.Name == "" {
			t.Errorf("caps %s: %t\n%s", caps, ok, d)
		}
	}
	if _, ok := rightsIn("Name:\tvouch\n"); ok {
		t.Error("nothing can be read of it, and it is known")
	}
	if u, from := whoRuns(cli.DoctorOptions{Agent: &state.Snapshot{PID: os.Getpid()}}); from != "as the agent that runs" || u.UID != uint32(os.Geteuid()) {
		t.Errorf("%+v %s", u, from)
	}
	if u, from := whoRuns(cli.DoctorOptions{}); !strings.Contains(from, "no agent answers") || u.Name == "" {
		t.Errorf("%+v %s", u, from)
	}
	if _, from := whoRuns(cli.DoctorOptions{AgentError: os.ErrPermission}); !strings.Contains(from, "the agent could not be asked") {
		t.Errorf("an agent that lets nobody ask: %s", from)
	}
	if u := numbers([]string{"x"}); u[0] != nobody {
		t.Errorf("an id that cannot be read: %v", u)
	}
}

// doctorOn examines a node with a table [router].
func doctorOn(t *testing.T, node *lab.Node, router string) *cli.DoctorReport {
	t.Helper()
	return doctorBeside(t, node, router, nil)
}

const doctorServices = `
[service.resolver]
prefixes = ["10.53.53.53/32"]

[service.resolver.check.tcp]
type = "tcp"
address = "127.0.0.1:53"
`

// The driver knows whose the prefixes are, and the doctor runs no command but to read.
func TestDoctorWithCommands(t *testing.T) {
	node, err := lab.Open(t).Node("node")
	if err != nil {
		t.Fatal(err)
	}
	r := doctorOn(t, node, `daemon = "program"
up = ["/nonexistent/up"]
down = ["sh", "-c", "touch `+node.Dir()+`/down"]
read = ["sh", "-c", "test $ANYCAST_SERVICE = resolver"]`)
	got := strings.Join(lines(r.Findings), "\n")
	if !r.Router.OK || r.Prefixes[0].Stage != routers.Advertised || r.ExitCode() != cli.ExitUnhealthy || !strings.HasPrefix(got, "fail up: cannot start /nonexistent/up") {
		t.Errorf("%+v, %+v\n%s", r.Router, r.Prefixes, got)
	}
	if _, err := os.Stat(filepath.Join(node.Dir(), "down")); err == nil {
		t.Error("the doctor withdrew something")
	}
}

// All daemons are looked for, also those that the method leaves out.
func TestLookFor(t *testing.T) {
	if fs := lookFor(t.Context(), config.Router{Method: "network"}); len(fs) != 2 {
		t.Errorf("%+v", fs)
	}
}

// On real daemons: what is found, what is driven, and what is in the way.
func TestDoctor(t *testing.T) {
	t.Parallel()
	node, err := lab.Open(t, lab.BIRDHost).Node("node")
	if err != nil {
		t.Fatal(err)
	}
	sockets := fmt.Sprintf("socket_dir = %q\nsocket = %q\n", filepath.Join(node.Dir(), "frr"), filepath.Join(node.Dir(), "bird", "bird.ctl"))
	r := doctorOn(t, node, sockets)
	if got := r.ExitCode(); got != cli.ExitNoAgent || r.Router.OK || !strings.Contains(r.Router.Error, "no routing daemon runs here") || r.Prefixes[0].Stage != routers.Unknown {
		t.Errorf("nothing runs: exit %d, %+v, %+v", got, r.Router, r.Prefixes)
	}
	if got := lines(r.Findings); slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "fail 10.53.53.53/32") }) {
		t.Errorf("the same is told of every prefix: %q", got)
	}
	f, err := node.FRR(t.Context(), "router ospf\n ospf router-id 10.0.0.1\n", "ospfd")
	if err != nil {
		t.Fatal(err)
	}
	r = doctorOn(t, node, sockets)
	if !r.Router.OK || r.Router.Name != "frr 8.4.4 (address on lo, ospf), found by "+f.SocketDir()+"/zebra.vty" || r.Prefixes[0].Stage != routers.Absent || r.Prefixes[0].Service != "resolver" {
		t.Errorf("frr runs: %+v, %+v", r.Router, r.Prefixes)
	}
	if !slices.IsSortedFunc(r.Findings, func(a, b routers.Finding) int { return int(b.Severity) - int(a.Severity) }) || len(r.Findings) < 3 {
		t.Errorf("findings: %q", lines(r.Findings))
	}
	b, err := node.BIRD(t.Context(), lab.BIRDHost, "router id 10.0.0.2;\nprotocol device { }\n")
	if err != nil {
		t.Fatal(err)
	}
	r = doctorOn(t, node, sockets)
	if got := strings.Join(lines(r.Findings), "\n"); r.Router.OK || strings.Count(got, "fail router: ") != 1 || !strings.Contains(got, "fail router: more than one routing daemon") || !strings.Contains(got, "note bird: bird 2.0.12 runs too ("+b.Socket()) {
		t.Errorf("two run: %s", got)
	}
	if err := errors.Join(f.Stop(), node.Address(t.Context(), "add", "10.53.53.53/32", "lo")); err != nil {
		t.Fatal(err)
	}
	r = doctorOn(t, node, sockets)
	if !r.Router.OK || !strings.HasPrefix(r.Router.Name, "bird 2.0.12 ") {
		t.Errorf("bird is left: %+v", r.Router)
	}
	if out, err := node.Run(t.Context(), "ip", "-o", "address", "show", "dev", "lo"); err != nil || !strings.Contains(out, "10.53.53.53") {
		t.Errorf("the doctor changed something: %s %v", out, err)
	}
}

// Without a configuration, and with one that is not valid, the daemons are looked for all the same.
func TestDoctorWithoutConfiguration(t *testing.T) {
	r := doctor(t.Context(), cli.DoctorOptions{ConfigPath: "none.toml", Problem: errors.New("none.toml:1:1: one\nnone.toml:2:1: two")})
	if len(r.Problems) != 2 || len(r.Daemons) != 2 || r.Router != nil || r.ExitCode() != cli.ExitUsage {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Daemons {
		if len(f.Sockets) == 0 {
			t.Errorf("%s: no socket is told", f.Daemon)
		}
	}
}
