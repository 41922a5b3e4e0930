//go:build system

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The life of the package on one machine, as an operator of FRR would live it, with the core's view of the
// prefix throughout. The steps build on one another.
func TestLife(t *testing.T) {
	for _, release := range releases(t) {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s := open(t, release)
			s.frr()
			s.do("systemctl", "start", "unbound")
			for _, step := range []struct {
				name string
				do   func(*site)
			}{
				{"install starts nothing", install},
				{"configure and start", start},
				{"hardened", hardened},
				{"the resolver dies and comes back", die},
				{"the journal", journal},
				{"reload", reload},
				{"a slow check and a hung daemon do not trip the watchdog", slow},
				{"SIGSTOP trips the watchdog", stopped},
				{"a hung loop trips the watchdog", hung},
				{"networkd is restarted", networkd},
				{"needrestart leaves vouch alone", needrestart},
				{"upgrade with a bad configuration", upgradeBad},
				{"upgrade", upgrade},
				{"another upgrade, whatever on_stop says", upgradeWithdraws},
				{"withdraw --owned", owned},
				{"remove keeps what is announced", removeKeeps},
				{"install again", again},
				{"remove withdraws when on_stop says so", removeWithdraws},
				{"purge leaves no trace", purge},
			} {
				began := time.Now()
				step.do(s)
				t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
			}
		})
	}
}

// releases are those of Debian to boot.
func releases(t *testing.T) []string {
	t.Helper()
	names := strings.Fields(os.Getenv("VOUCH_MACHINES"))
	if len(names) == 0 {
		t.Fatal("VOUCH_MACHINES names no release of Debian, such as bookworm: run make test-system")
	}
	return names
}

func (s *site) apt(args ...string) (string, error) {
	return s.try(append([]string{"apt-get", "-y", "-q", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"}, args...)...)
}

func install(s *site) {
	before := s.do("vtysh", "-c", "show running-config")
	out, err := s.apt("install", "/root/old.deb")
	must(s.t, err)
	if state, _ := s.try("systemctl", "is-active", "vouch"); strings.TrimSpace(state) != "inactive" {
		s.t.Errorf("after the install the unit is %s\n%s", state, out)
	}
	if state, _ := s.try("systemctl", "is-enabled", "vouch"); strings.TrimSpace(state) != "disabled" {
		s.t.Errorf("after the install the unit is %s", state)
	}
	if s.there() {
		s.t.Error("after the install the prefix is announced")
	}
	if after := s.do("vtysh", "-c", "show running-config"); after != before {
		s.t.Errorf("the install changed FRR from\n%s\nto\n%s", before, after)
	}
	for _, f := range []string{"/usr/bin/vouch", "/etc/vouch/vouch.toml", "/usr/share/man/man1/vouch.1.gz", "/usr/share/man/man5/vouch.toml.5.gz"} {
		if _, err := os.Stat(s.file(f)); err != nil {
			s.t.Error(err)
		}
	}
}

func start(s *site) {
	s.config("", "")
	s.do("vouch", "validate")
	s.do("systemctl", "enable", "--now", "vouch")
	s.reaches(true)
	if id := s.do("stat", "-c", "%U", "/proc/"+s.pid()); id != "vouch" {
		s.t.Errorf("the agent runs as %s", id)
	}
	s.settled("advertised")
}

func hardened(s *site) {
	out := s.do("systemd-analyze", "security", "--no-pager", "vouch.service")
	var exposure float64
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "Overall exposure level for vouch.service:"); ok {
			_, err := fmt.Sscan(rest, &exposure)
			must(s.t, err)
		}
	}
	if exposure <= 0 || exposure >= 2 {
		s.t.Errorf("exposure %.1f, want below 2.0\n%s", exposure, out)
	}
	if kind := s.property("vouch", "Type"); unified(s.root) && kind != "notify-reload" {
		s.t.Errorf("Type=%s where systemd knows notify-reload", kind)
	}
}

func die(s *site) {
	s.do("systemctl", "stop", "unbound") // killed, Debian's unit would start it again within a second
	s.reaches(false)
	s.do("systemctl", "start", "unbound")
	s.reaches(true)
}

func reload(s *site) {
	since, pid := time.Now(), s.pid()
	s.config("", "rise = 3")
	s.do("systemctl", "reload", "vouch")
	s.await("the new rise to be in force", func() (bool, error) {
		out, err := s.try("vouch", "status", "--json")
		return strings.Contains(strings.ReplaceAll(out, " ", ""), `"rise":3`), err
	})
	s.config("", "rize = 3")
	if out, err := s.try("systemctl", "reload", "vouch"); err == nil {
		s.t.Errorf("a bad configuration was reloaded: %s", out)
	}
	if now := s.pid(); now != pid {
		s.t.Errorf("the agent is %s after a reload, was %s", now, pid)
	}
	s.config("", "")
	s.do("systemctl", "reload", "vouch")
	s.unmoved(since, "reload")
}

// restarts gives how often systemd has restarted the agent.
func (s *site) restarts() string { return s.property("vouch", "NRestarts") }

// restarted waits until systemd has restarted the agent and that is ready, and checks that it came within
// WatchdogSec, and that nothing was withdrawn.
func (s *site) restarted(since time.Time, before, what string) {
	s.t.Helper()
	s.await(what+": a restart", func() (bool, error) {
		return s.restarts() != before && s.property("vouch", "ActiveState") == "active", nil
	})
	const watchdogSec, grace = 30 * time.Second, 30 * time.Second // grace: systemd's abort, the new start, this machine
	if took := time.Since(since); took > watchdogSec+grace {
		s.t.Errorf("%s: the agent ran again %s later", what, took)
	}
	if !strings.Contains(s.do("journalctl", "-u", "vouch", "--since", "-2min", "--no-pager"), "atchdog") {
		s.t.Errorf("%s: the watchdog is not what restarted it", what)
	}
	s.unmoved(since, what)
}

func stopped(s *site) {
	since, before := time.Now(), s.restarts()
	s.do("kill", "-STOP", s.pid())
	s.restarted(since, before, "SIGSTOP")
}

func hung(s *site) {
	hang, err := os.ReadFile(filepath.Join(debs(s.t), "vouch-hang"))
	must(s.t, err)
	whole, err := os.ReadFile(s.file("/usr/bin/vouch"))
	must(s.t, err)
	swap := func(program []byte) {
		must(s.t, os.WriteFile(s.file("/usr/bin/vouch.new"), program, 0o755))
		must(s.t, os.Rename(s.file("/usr/bin/vouch.new"), s.file("/usr/bin/vouch")))
		s.do("systemctl", "restart", "vouch")
	}
	swap(hang)
	since, before := time.Now(), s.restarts()
	s.do("touch", "/run/vouch/hang")
	s.restarted(since, before, "hung loop")
	swap(whole)
	s.unmoved(since, "hung loop")
}

// slow makes a check that takes its whole minute and stops ospfd, and looks at a time at which systemd would long
// have acted if a loop waited for either: 8 s until it is late, and twice the 10 s between looks.
func slow(s *site) {
	s.config("", "")
	text, err := os.ReadFile(s.file("/etc/vouch/vouch.toml"))
	must(s.t, err)
	slowCheck := "\n[service.resolver.check.slow]\ntype = \"exec\"\ncommand = [\"/bin/sleep\", \"50\"]\ntimeout = \"60s\"\non_fail = \"warn\"\n"
	must(s.t, os.WriteFile(s.file("/etc/vouch/vouch.toml"), append(text, slowCheck...), 0o644))
	s.do("systemctl", "reload", "vouch")
	since, before := time.Now(), s.restarts()
	ospfd := s.do("pidof", "ospfd")
	s.do("kill", "-STOP", ospfd)
	defer func() {
		s.do("kill", "-CONT", ospfd)
		s.config("", "")
		s.do("systemctl", "reload", "vouch")
		s.reaches(true)
	}()
	s.await("the daemon to have been away for long", func() (bool, error) {
		out, err := s.try("journalctl", "-u", "vouch", "-q", "--no-pager", "--since", "@"+fmt.Sprint(since.Unix()), "-o", "cat", "VOUCH_KIND=router")
		return strings.Contains(out, "cannot be read") && time.Since(since) > 40*time.Second, err
	})
	if now := s.restarts(); now != before {
		s.t.Errorf("a slow check and a hung daemon led to a restart")
	}
}

func networkd(s *site) {
	since := time.Now()
	for file, to := range map[string]string{"50-vouch.conf": "networkd.conf.d", "51-vouch-nexthops.conf": "networkd.conf.d", "10-lo-vouch.network": "network"} {
		text, err := os.ReadFile("../../contrib/networkd/" + file)
		must(s.t, err)
		s.write("/etc/systemd/"+to+"/"+file, string(text))
	}
	s.do("systemctl", "start", "systemd-networkd")
	s.do("systemctl", "restart", "systemd-networkd")
	if out := s.do("ip", "-o", "addr", "show", "dev", "lo"); !strings.Contains(out, vip.String()) {
		s.t.Errorf("after the restart of networkd lo has:\n%s", out)
	}
	s.unmoved(since, "networkd restarted")
	s.do("systemctl", "stop", "systemd-networkd")
}

// needrestart lists vouch as a service that it would not restart by itself.
func needrestart(s *site) {
	out, err := s.try("sh", "-c", `perl -e '
		our %nrconf; our $nrconf = \%nrconf; $nrconf{override_rc} = {};
		for (sort glob "/etc/needrestart/conf.d/*.conf") { do $_; die "$_: $@" if $@ }
		for (keys %{$nrconf{override_rc}}) { print "$_ => $nrconf{override_rc}{$_}\n" if "vouch.service" =~ $_ }'`)
	must(s.t, err)
	if !strings.Contains(out, "=> 0") {
		s.t.Errorf("needrestart would restart vouch: %q", out)
	}
}

func upgradeBad(s *site) {
	since, pid := time.Now(), s.pid()
	s.config("", "rize = 3")
	out, err := s.apt("install", "/root/new.deb")
	if err != nil {
		s.t.Errorf("an upgrade beside a bad configuration fails: %v", err)
	}
	if now := s.pid(); now != pid {
		s.t.Errorf("the agent was restarted with a configuration that is not valid\n%s", out)
	}
	if !strings.Contains(out, "rize") {
		s.t.Errorf("the upgrade does not say what is wrong:\n%s", out)
	}
	s.unmoved(since, "upgrade with a bad configuration")
	s.config("", "")
	_, err = s.apt("install", "--allow-downgrades", "/root/old.deb")
	must(s.t, err)
	s.reaches(true)
}

func upgrade(s *site) {
	since, pid := time.Now(), s.pid()
	_, err := s.apt("install", "/root/new.deb")
	must(s.t, err)
	if now := s.pid(); now == pid || now == "0" {
		s.t.Errorf("after the upgrade the agent is pid %s, was %s", now, pid)
	}
	told := func(kind string) string {
		return s.do("journalctl", "-u", "vouch", "-q", "--no-pager", "-o", "cat", "--since", fmt.Sprintf("@%.6f", float64(since.UnixMicro())/1e6), "VOUCH_KIND="+kind)
	}
	s.await("the new agent to be ready", func() (bool, error) { return told("ready") != "", nil })
	starts := told("start")
	if n := strings.Count(starts, "starts on"); n != 1 {
		s.t.Errorf("the upgrade started the agent %d times:\n%s", n, starts)
	}
	s.unmoved(since, "upgrade")
}

// upgradeWithdraws installs the package once more, in the way of an upgrade, with a service that a stop withdraws.
func upgradeWithdraws(s *site) {
	s.config("", `on_stop = "withdraw"`)
	s.do("systemctl", "reload", "vouch")
	since, pid := time.Now(), s.pid()
	_, err := s.apt("install", "--reinstall", "/root/new.deb")
	must(s.t, err)
	if now := s.pid(); now == pid || now == "0" {
		s.t.Errorf("after the upgrade the agent is pid %s, was %s", now, pid)
	}
	s.settled("advertised")
	s.unmoved(since, "upgrade with on_stop = withdraw")
	s.config("", "")
	s.do("systemctl", "reload", "vouch")
}

// owned withdraws while no agent runs, and is refused beside one.
func owned(s *site) {
	if out, err := s.try("vouch", "withdraw", "--owned"); err == nil {
		s.t.Errorf("withdrawn beside an agent: %s", out)
	}
	s.do("systemctl", "kill", "-s", "KILL", "vouch")
	s.do("systemctl", "stop", "vouch") // before it is started again, or after
	if !s.there() {
		s.t.Error("the announcement went with the agent")
	}
	s.do("vouch", "withdraw", "--owned")
	s.reaches(false)
	s.do("systemctl", "start", "vouch")
	s.reaches(true)
}

func removeKeeps(s *site) {
	since := time.Now()
	_, err := s.apt("remove", "vouch")
	must(s.t, err)
	if pid := s.pid(); pid != "0" {
		s.t.Errorf("removed, and pid %s still runs", pid)
	}
	s.unmoved(since, "remove")
	if _, err := os.Stat(s.file("/etc/vouch/vouch.toml")); err != nil {
		s.t.Errorf("remove took the configuration: %v", err)
	}
}

func again(s *site) {
	since := time.Now()
	s.config("", `on_stop = "withdraw"`)
	_, err := s.apt("install", "/root/new.deb")
	must(s.t, err)
	s.do("systemctl", "start", "vouch")
	s.settled("advertised")
	s.unmoved(since, "install again")
}

func removeWithdraws(s *site) {
	_, err := s.apt("remove", "vouch")
	must(s.t, err)
	s.reaches(false)
}

func purge(s *site) {
	_, err := s.apt("purge", "vouch")
	must(s.t, err)
	for _, f := range []string{"/etc/vouch", "/var/lib/vouch", "/run/vouch", "/usr/bin/vouch", "/etc/systemd/system/vouch.service.d",
		"/etc/systemd/system/multi-user.target.wants/vouch.service", "/etc/needrestart/conf.d/vouch.conf"} {
		if _, err := os.Lstat(s.file(f)); err == nil {
			s.t.Errorf("purged, and %s is there", f)
		}
	}
	if out, err := s.try("getent", "passwd", "vouch"); err == nil {
		s.t.Errorf("purged, and the user is there: %s", out)
	}
	left := s.do("sh", "-c", "find /etc /usr /var /run -xdev -name '*vouch*' ! -path '/var/log/*' ! -path '/var/cache/*' 2>/dev/null")
	mine := slices.DeleteFunc(strings.Fields(left), func(f string) bool {
		return f == "/etc/vouch-lab" || strings.HasPrefix(f, "/etc/systemd/network") || strings.HasPrefix(f, "/var/log/")
	})
	if len(mine) > 0 {
		s.t.Errorf("purged, and left: %v", mine)
	}
	if got := strings.TrimSpace(s.do("cat", "/etc/frr/frr.conf")); got != strings.TrimSpace(nodeConf) {
		s.t.Errorf("frr.conf became\n%s", got)
	}
	if out := s.do("vtysh", "-c", "show running-config"); strings.Contains(out, "ip address") {
		s.t.Errorf("left in FRR:\n%s", out)
	}
}
