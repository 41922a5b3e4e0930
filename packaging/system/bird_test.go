//go:build system

package system

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const birdConf = `router id 10.0.1.2;
protocol device { }
include "/var/lib/vouch/vouch.conf";
protocol static anycast4 { disabled RESOLVER_OFF; ipv4; route 192.0.2.53/32 blackhole; }
protocol bgp core {
	local 10.0.1.2 as 65001;
	neighbor 10.0.1.1 as 65000;
	ipv4 { import none; export where proto = "anycast4"; };
}
`

// The way that the README recommends for BIRD, with the unit's own user and its own directory.
func TestBIRD(t *testing.T) {
	for _, release := range releases(t) {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s := open(t, release)
			_, err := s.apt("install", "/root/new.deb")
			must(t, err)
			s.do("ip", "addr", "add", vip.String(), "dev", "lo")
			s.config("method = \"include\"\ninclude = \"/var/lib/vouch/vouch.conf\"", "")
			s.do("systemctl", "start", "unbound")
			s.do("systemctl", "enable", "--now", "vouch")
			s.await("the include file", func() (bool, error) {
				_, err := os.Stat(s.file("/var/lib/vouch/vouch.conf"))
				return err == nil, err
			})
			must(t, os.WriteFile(s.file("/etc/bird/bird.conf"), []byte(birdConf), 0o640))
			s.do("systemctl", "enable", "--now", "bird")
			s.reaches(true)
			if out := s.settled("advertised"); !strings.Contains(out, "bird ") {
				t.Errorf("vouch status:\n%s", out)
			}
			s.await("the doctor to find nothing, as the agent's user", func() (bool, error) {
				out, err := s.try("setpriv", "--reuid=vouch", "--regid=vouch", "--init-groups", "vouch", "doctor")
				return strings.Contains(out, "0 failures, 0 warnings"), err
			})
			die(s)
			s.do("systemctl", "restart", "bird")
			s.reaches(true)
			die(s)
			boots(s)
			bootsBad(s)
			_, err = s.apt("purge", "vouch")
			must(t, err)
		})
	}
}

// boots starts the machine again while the resolver is broken: what the file held when it was switched off
// must not be announced, not even for a moment.
func boots(s *site) {
	s.do("systemctl", "disable", "unbound")
	quiet := s.reboot()
	s.settled("absent")
	quiet("with a dead resolver")
	// A session that comes late would hide it: BIRD is not to run before vouch has put everything off in its file.
	var ready, bird int
	for unit, at := range map[string]*int{"vouch ActiveEnterTimestampMonotonic": &ready, "bird ExecMainStartTimestampMonotonic": &bird} {
		name, property, _ := strings.Cut(unit, " ")
		_, err := fmt.Sscan(s.property(name, property), at)
		must(s.t, err)
	}
	if ready == 0 || bird < ready {
		s.t.Errorf("BIRD was started at %d us, vouch was ready at %d us", bird, ready)
	}
	s.do("systemctl", "start", "unbound")
	s.reaches(true)
}

// bootsBad starts the machine again with a file that vouch refuses: nobody checks anything, so nothing is announced.
func bootsBad(s *site) {
	const include = "method = \"include\"\ninclude = \"/var/lib/vouch/vouch.conf\""
	s.config(include, "rize = 3")
	quiet := s.reboot()
	if state, _ := s.try("systemctl", "is-failed", "vouch"); strings.TrimSpace(state) != "failed" {
		s.t.Errorf("with a file that is not valid the unit is %s", state)
	}
	quiet("with a file that is not valid")
	s.config(include, "")
	s.do("systemctl", "start", "unbound", "vouch")
	s.reaches(true)
}

// reboot switches the machine off and on again, and returns once BIRD has its session. The function it gives checks
// that the prefix has not been announced since.
func (s *site) reboot() (quiet func(why string)) {
	s.t.Helper()
	s.poweroff()
	s.reaches(false)
	since := time.Now()
	s.poweron()
	s.await("BIRD's session with the core", func() (bool, error) {
		out, err := s.try("birdc", "show", "protocols", "core")
		return strings.Contains(out, "Established"), err
	})
	return func(why string) {
		s.t.Helper()
		for _, seen := range s.hops.Since(since) {
			if slices.Contains(seen.Addrs, nodeHop) {
				s.t.Errorf("announced at boot, at %s, %s", seen.Time, why)
			}
		}
		out, _ := s.try("birdc", "show", "route", "export", "core", "for", "192.0.2.53") // fails when there is none
		if strings.Contains(out, "192.0.2.53/32") {
			s.t.Errorf("given to the core %s:\n%s", why, out)
		}
	}
}
