//go:build system

package system

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// far is the interval of the checks here: what is acted on before it is over was told of by systemd or by the
// kernel.
const far = 60 * time.Second

// Units that die, loop, are reloaded and are not there, and flag files, seen by the agent as the package runs it: as
// user vouch, with all restrictions. Nothing here waits for an interval.
func TestUnitsAndFlags(t *testing.T) {
	for _, release := range releases(t) {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s := open(t, release)
			s.frr()
			must(t, s.install())
			for _, step := range []struct {
				name string
				do   func(*site)
			}{
				{"a unit that is not there", notFound},
				{"a unit dies", unitDies},
				{"a unit is reloaded", unitReloads},
				{"a unit loops", unitLoops},
				{"a flag file", flagFile},
				{"systemd is executed anew", reexec},
				{"the bus is restarted", busRestarts},
				{"one check alone", alone},
			} {
				began := time.Now()
				step.do(s)
				t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
			}
		})
	}
}

func (s *site) install() error {
	s.write("/etc/systemd/system/worker.service", `[Service]
ExecStart=/bin/sh -c 'while [ ! -e /etc/worker.broken ]; do sleep 0.2; done; exit 3'
ExecReload=/bin/sh -c 'until [ -e /run/worker.reloaded ]; do sleep 0.1; done'
Restart=on-failure
RestartSec=5s
[Unit]
StartLimitIntervalSec=0
`)
	s.do("systemctl", "daemon-reload")
	s.do("systemctl", "start", "worker")
	_, err := s.apt("install", "/root/new.deb")
	return err
}

// watched writes a configuration that hears of everything and polls next to never.
func (s *site) watched(unit string) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.file("/etc/vouch/vouch.toml"), fmt.Appendf(nil, `[router]

[service.resolver]
prefixes = ["%s"]
interval = "%s"
rise = 1
fall = 1

[service.resolver.check.unit]
type = "systemd"
unit = "%s"
timeout = "5s"

[service.resolver.check.flag]
type = "file"
path = "/run/anycast/maintenance"
exists = false
timeout = "5s"
`, vip, far, unit), 0o644))
}

// soon waits as reaches does, and fails when it took as long as an interval may.
func (s *site) soon(want bool, what string, act func()) {
	s.t.Helper()
	began := time.Now()
	act()
	acted := time.Now()
	s.reaches(want)
	took := time.Since(acted)
	if time.Since(began) > far/2 {
		s.t.Errorf("%s: the core knew after %s, and the interval is %s", what, took, far)
	}
	s.t.Logf("%s: the core knew %s later", what, took.Round(time.Millisecond))
}

func notFound(s *site) {
	s.watched("wroker")
	out, err := s.try("vouch", "validate")
	if err != nil || !strings.Contains(out, "there is no such unit") || !strings.Contains(out, `did you mean "worker.service"?`) ||
		!strings.Contains(out, "vouch.toml:11:1: service.resolver.check.unit.unit") {
		s.t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.try("vouch", "validate", "--here"); err == nil {
		s.t.Errorf("accepted: %s", out)
	}
	s.watched("worker")
	if out := s.do("vouch", "validate", "--here"); strings.Contains(out, "on this machine") {
		s.t.Error(out)
	}
	s.do("systemctl", "start", "vouch")
	s.reaches(true)
	if id := s.do("stat", "-c", "%U", "/proc/"+s.pid()); id != "vouch" {
		s.t.Errorf("the agent runs as %s", id)
	}
}

func unitDies(s *site) {
	s.soon(false, "stopped", func() { s.do("systemctl", "stop", "worker") })
	s.soon(true, "started", func() { s.do("systemctl", "start", "worker") })
	since := time.Now()
	s.do("systemctl", "kill", "-s", "KILL", "worker") // systemd starts it again by itself
	s.await("the death to be told of", func() (bool, error) { return s.told(since, "SIGKILL") != "", nil })
	s.latency(since)
	s.calm()
}

// told gives what the agent has logged since then of its check of the unit, with that text in it.
func (s *site) told(since time.Time, text string) string {
	for line := range strings.Lines(s.do("journalctl", "-u", "vouch", "-q", "--no-pager", "-o", "short-unix", "--since", stamp(since), "VOUCH_CHECK=unit")) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

func stamp(t time.Time) string { return fmt.Sprintf("@%.6f", float64(t.UnixMicro())/1e6) }

// latency logs how long after systemd the agent said that the unit had died.
func (s *site) latency(since time.Time) {
	s.t.Helper()
	at := func(line string) float64 {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		f, err := strconv.ParseFloat(first, 64)
		must(s.t, err)
		return f
	}
	var died string
	for line := range strings.Lines(s.do("journalctl", "-u", "worker", "-q", "--no-pager", "-o", "short-unix", "--since", stamp(since))) {
		if strings.Contains(line, "Main process exited") {
			died = line
			break
		}
	}
	s.t.Logf("killed: the agent said so %.1f ms after systemd", 1000*(at(s.told(since, "SIGKILL"))-at(died)))
}

func unitReloads(s *site) {
	since := time.Now()
	s.do("systemctl", "--no-block", "reload", "worker")
	s.await("the reload to be under way", func() (bool, error) { return s.property("worker", "ActiveState") == "reloading", nil })
	s.do("touch", "/run/worker.reloaded")
	s.await("the reload to be done", func() (bool, error) { return s.property("worker", "ActiveState") == "active", nil })
	s.unmoved(since, "reload of the unit")
	for range 6 { // by hand as often as one likes
		s.do("systemctl", "restart", "worker")
	}
	s.calm()
}

// calm waits until the worker runs, and the prefix is announced for that.
func (s *site) calm() {
	s.t.Helper()
	s.await("the worker to run and the agent to know it", func() (bool, error) {
		out, err := s.try("vouch", "status")
		return s.property("worker", "SubState") == "running" && strings.Contains(out, "advertised") && !strings.Contains(out, "DIVERGED"), err
	})
	s.reaches(true)
}

func unitLoops(s *site) {
	s.write("/etc/systemd/system/worker.service.d/quick.conf", "[Service]\nRestartSec=100ms\n")
	s.do("systemctl", "daemon-reload")
	s.soon(false, "crash loop", func() { s.write("/etc/worker.broken", "") })
	s.await("the loop to be told of", func() (bool, error) {
		out, err := s.try("vouch", "explain", "resolver")
		return strings.Contains(out, "is in a crash loop: restarted more than 3 times within 5m0s; last: exit-code, status 3"), err
	})
	s.settled("absent")
	s.reaches(false) // of a start that seemed to be one the core may hear as late as OSPF tells of it
	must(s.t, os.Remove(s.file("/etc/worker.broken")))
	s.await("the worker to stay", func() (bool, error) { return s.property("worker", "SubState") == "running", nil })
	if s.there() {
		s.t.Error("announced though it was restarted so often")
	}
	s.soon(true, "restarted by hand", func() { s.do("systemctl", "restart", "worker") })
	s.calm()
}

func flagFile(s *site) {
	s.soon(false, "flag put", func() { s.do("sh", "-c", "mkdir -p /run/anycast && touch /run/anycast/maintenance") })
	s.soon(true, "flag removed", func() { s.do("rm", "/run/anycast/maintenance") })
	s.soon(false, "flag put again", func() { s.do("touch", "/run/anycast/maintenance") })
	s.soon(true, "directory removed", func() { s.do("rm", "-r", "/run/anycast") })
	s.calm()
}

// reexec looks whether the agent still hears of the unit.
func reexec(s *site) {
	since := time.Now()
	s.do("systemctl", "daemon-reexec")
	s.await("systemd to be back", func() (bool, error) {
		_, err := s.try("systemctl", "is-active", "worker")
		return err == nil, nil
	})
	s.unmoved(since, "daemon-reexec")
	s.soon(false, "stopped", func() { s.do("systemctl", "stop", "worker") })
	s.soon(true, "started", func() { s.do("systemctl", "start", "worker") })
	s.calm()
}

func busRestarts(s *site) {
	since := time.Now()
	s.do("systemctl", "restart", "dbus")
	s.await("the loss to be told of", func() (bool, error) { return s.told(since, "the connection to the system bus was lost") != "", nil })
	s.await("the agent to hear again", func() (bool, error) { return s.told(since, "is told of changes again") != "", nil })
	s.unmoved(since, "restart of the bus")
	s.soon(false, "stopped", func() { s.do("systemctl", "stop", "worker") })
	s.soon(true, "started", func() { s.do("systemctl", "start", "worker") })
	if n := len(s.sockets()); n > 1 {
		s.t.Errorf("the agent has %d connections to the bus", n)
	}
}

// sockets gives the agent's connections to the system bus.
func (s *site) sockets() []string {
	var found []string
	for line := range strings.Lines(s.do("busctl", "list", "--no-pager", "--no-legend")) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == s.pid() {
			found = append(found, line)
		}
	}
	return found
}

func alone(s *site) {
	out := s.do("vouch", "check", "--only", "resolver/unit", "-v")
	for _, want := range []string{"ListUnitsByNames worker.service", "ActiveState=active SubState=running"} {
		if !strings.Contains(out, want) {
			s.t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
