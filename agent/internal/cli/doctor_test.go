package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
	"vouch/routers/detect"
)

// doctorReports are what the doctor may find.
var doctorReports = map[string]func() *DoctorReport{
	"well": inHealth, "ill": inNeed, "unconfigured": unconfigured, "router-away": inDark, "hostile": hostileReport,
}

func inHealth() *DoctorReport {
	return &DoctorReport{
		Time: noon, File: "/etc/vouch/vouch.toml", User: "vouch", UserFrom: "as the agent that runs",
		Daemons: []detect.Found{
			{Daemon: "frr", Running: true, Version: "8.4.4", By: "/run/frr/zebra.vty", Programs: []string{"/usr/bin/vtysh"}, Sockets: []detect.Socket{
				{Path: "/run/frr/zebra.vty", State: detect.Answers, Mode: "Srwxrwx---", Owner: "frr", Group: "frrvty"},
				{Path: "/run/frr/ospfd.vty", State: detect.Answers, Mode: "Srwxrwx---", Owner: "frr", Group: "frrvty"},
			}},
			{Daemon: "bird", Programs: []string{}, Sockets: []detect.Socket{{Path: "/run/bird/bird.ctl", State: detect.Missing, Problem: "no such socket", WayOut: "start bird"}}},
		},
		Router: &DoctorRouter{Name: "frr 8.4.4 (address on lo, ospf), found by /run/frr/zebra.vty", OK: true},
		Prefixes: []DoctorPrefix{
			{Prefix: "10.53.53.53/32", Service: "resolver", Stage: routers.Advertised, Peers: []routers.Peer{{Name: "10.0.0.1", Stage: routers.Advertised}}, Detail: "cost 10"},
			{Prefix: "fd00:53::53/128", Service: "resolver", Stage: routers.Absent},
		},
		Findings: []routers.Finding{
			{Subject: "frr", Text: `frr 8.4.4 is driven, found by /run/frr/zebra.vty: daemon = "frr" in [router]`},
			{Subject: "/run/frr/zebra.vty", Text: "answers, and vouch may connect"},
			{Severity: routers.Notice, Subject: "bird", Text: "does not run, though it is installed: /usr/sbin/bird"},
		},
	}
}

func inNeed() *DoctorReport {
	r := inHealth()
	r.Daemons[0].Sockets[1].State = detect.Stale
	r.Prefixes[0] = DoctorPrefix{Prefix: "10.53.53.53/32", Service: "resolver", Stage: routers.Selected, Degraded: true,
		Peers: []routers.Peer{{Name: "core1", Stage: routers.Advertised}, {Name: "core2", Stage: routers.Configured, Detail: "not established"}}, Detail: "core2 is not established"}
	r.Findings = append(r.Findings,
		routers.Finding{Severity: routers.Warning, Subject: "nexthop objects", Text: "a flush of nexthop objects leaves this node without a default route", WayOut: "write no zebra nexthop kernel enable into frr.conf"},
		routers.Finding{Severity: routers.Failing, Subject: "/run/frr/ospfd.vty", Text: "vouch may not connect: closed by /run/frr/ospfd.vty (Srwxrwx--- frr:frrvty)", WayOut: "usermod -aG frrvty vouch, and restart vouch"},
		routers.Finding{Severity: routers.Warning, Subject: "ospf", Text: "without a way out"})
	return r
}

func unconfigured() *DoctorReport {
	r := inHealth()
	r.Router, r.Prefixes, r.User, r.UserFrom = nil, nil, "root", "who runs this: no agent answers, and there is no user vouch"
	r.Problems = []string{"/etc/vouch/vouch.toml: cannot be read: no such file or directory, name another file, or write this one"}
	return r
}

func inDark() *DoctorReport {
	r := inHealth()
	r.Router.OK, r.Router.Error = false, "frr: /run/frr/zebra.vty: refused: zebra is not running (its socket was left behind): start it again"
	r.Findings = append(r.Findings, routers.Finding{Severity: routers.Failing, Subject: "router", Text: r.Router.Error})
	r.Prefixes[0] = DoctorPrefix{Prefix: "10.53.53.53/32", Service: "resolver", Detail: strings.TrimPrefix(r.Router.Error, "frr: ")}
	return r
}

// hostileReport is of a daemon that would write to the terminal.
func hostileReport() *DoctorReport {
	r := inHealth()
	bad := "a\x1b[2Jb\nc\td\x00"
	r.Problems, r.User, r.Router.Name, r.Router.Error, r.Router.OK = []string{bad}, bad, bad, bad, false
	r.Daemons[0].Version, r.Daemons[0].Sockets[0].Owner = bad, bad
	r.Prefixes[0].Detail, r.Prefixes[0].Peers[0].Name = bad, bad
	r.Findings = append(r.Findings, routers.Finding{Severity: routers.Failing, Subject: bad, Text: bad, WayOut: bad})
	return r
}

func TestDoctorText(t *testing.T) {
	for name, report := range doctorReports {
		t.Run(name, func(t *testing.T) {
			r := report()
			r.Sort()
			var b, coloured bytes.Buffer
			doctorText(&b, r, false)
			golden(t, "doctor-"+name, b.Bytes())
			doctorText(&coloured, r, true)
			if d := cmp.Diff(b.String(), withoutColours(coloured.String())); d != "" || coloured.Len() == b.Len() {
				t.Errorf("colours change more than colours:\n%s", d)
			}
		})
	}
}

func TestDoctorExitCode(t *testing.T) {
	for name, want := range map[string]int{"well": 0, "ill": 1, "unconfigured": 2, "router-away": 3} {
		if got := doctorReports[name]().ExitCode(); got != want {
			t.Errorf("%s: exit %d, want %d", name, got, want)
		}
	}
	r := inDark()
	r.Problems = []string{"bad"}
	if got := r.ExitCode(); got != ExitUsage {
		t.Errorf("no configuration and the router away: exit %d", got)
	}
	r = inHealth()
	r.Findings = append(r.Findings, routers.Finding{Severity: routers.Warning})
	if got := r.ExitCode(); got != ExitUnhealthy {
		t.Errorf("a warning: exit %d", got)
	}
}

func TestDoctorOrder(t *testing.T) {
	r := &DoctorReport{Time: time.Now()}
	for i, s := range []routers.Severity{routers.Fine, routers.Failing, routers.Notice, routers.Warning, routers.Failing, routers.Fine} {
		r.Findings = append(r.Findings, routers.Finding{Severity: s, Subject: string(rune('a' + i))})
	}
	r.Sort()
	var got string
	for _, f := range r.Findings {
		got += f.Subject
	}
	if got != "bedcaf" {
		t.Errorf("in order %s, want bedcaf", got)
	}
}

// What is told of a daemon that does not run is not told again by its driver.
func TestDoctorTellsADaemonOnce(t *testing.T) {
	r := inDark()
	again := routers.Finding{Severity: routers.Failing, Subject: "bird", Text: "/run/bird/bird.ctl: no such socket"}
	r.Router.Error = "bird: " + again.Text
	r.Findings = []routers.Finding{{Severity: routers.Failing, Subject: "bird", Text: "does not run"}, again, {Severity: routers.Failing, Subject: "bird", Text: "is restricted"}}
	if r.DropEcho(); len(r.Findings) != 2 || r.Findings[1].Text != "is restricted" {
		t.Errorf("%+v", r.Findings)
	}
}

// The router's error is not told beside its cause.
func TestDoctorTellsACauseOnce(t *testing.T) {
	for name, c := range map[string]struct {
		cause routers.Finding
		want  int
	}{
		"of a daemon":         {routers.Finding{Severity: routers.Failing, Subject: "zebra", Text: "zebra is not running"}, 1},
		"of its socket":       {routers.Finding{Severity: routers.Failing, Subject: "/run/frr/zebra.vty", Text: "vouch may not connect"}, 1},
		"of another socket":   {routers.Finding{Severity: routers.Failing, Subject: "/run/frr/bgpd.vty", Text: "vouch may not connect"}, 2},
		"only worth a notice": {routers.Finding{Severity: routers.Notice, Subject: "zebra", Text: "zebra is not running"}, 2},
	} {
		r := inDark()
		r.Findings = append(r.Findings[len(r.Findings)-1:], c.cause)
		if r.DropEcho(); len(r.Findings) != c.want {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}
