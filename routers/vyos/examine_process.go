package vyos

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vouch/routers"
)

// examineLife looks at the agent's process, at its unit, and at what starts that.
func (s system) examineLife(u unit, method string) []routers.Finding {
	group, _ := s.group()
	found := s.examineProcess(u, group, method)
	for _, f := range u.examine(group, method) {
		if !slices.ContainsFunc(found, func(told routers.Finding) bool { return told.WayOut == f.WayOut }) {
			found = append(found, f)
		}
	}
	return append(found, s.examineBoot(u, method)...)
}

// examineProcess looks at what systemd gave to the agent and took from it, or from this process where there is none.
func (s system) examineProcess(u unit, group uint32, method string) []routers.Finding {
	pid, subject := "self", "this process"
	agent := s.agent()
	if agent != 0 {
		pid, subject = strconv.Itoa(agent), unitName
	}
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return nil
	}
	p := parseStatus(string(text))
	if method != MethodStatic {
		if agent != 0 && p.effective&(1<<unix.CAP_NET_ADMIN) == 0 {
			return []routers.Finding{noRoutes(subject)}
		}
		return nil
	}
	mounts, _ := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
	found := hardened(subject, p, string(mounts), u)
	if agent == 0 {
		return found
	}
	if uid, gid := p.uid, p.gid; uid != 0 && gid != group {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: subject, Text: mayConfigure(int(uid), int(gid), group).Error()})
	} else if uid != 0 || gid != group || p.umask != 0o002 {
		found = append(found, runsAs(subject, uid == 0, fmt.Sprintf("as user %d, with group %d and umask %04o", uid, gid, p.umask)))
	}
	if first, err := os.ReadFile("/proc/1/status"); err == nil && p.filters > parseStatus(string(first)).filters {
		found = append(found, routers.Finding{Severity: routers.Warning, Subject: subject, Text: "has filters of system calls, of which one may keep a session from being mounted", WayOut: "take SystemCallFilter=, and what makes one (systemd.exec(5)), out of the unit: contrib/vyos has one for VyOS"})
	}
	return found
}

// agent is the process of the unit, 0 when there is none. A commit that a dead agent left running is one of the unit too.
func (s system) agent() int {
	for _, dir := range []string{"sys/fs/cgroup/system.slice", "sys/fs/cgroup/systemd/system.slice"} {
		text, err := os.ReadFile(s.path(dir, unitName, "cgroup.procs"))
		if err != nil {
			continue
		}
		first := 0
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err == nil && commandOf(pid) == "vouch" {
				return pid
			}
			first = cmp.Or(first, pid)
		}
		return first
	}
	return 0
}

// view is the system as the agent sees it, whose /dev and /tmp may be others, where there is one and this process may
// look.
func (s system) view() system {
	pid := s.agent()
	seen := system{root: filepath.Join("/proc", strconv.Itoa(pid), "root", s.root)}
	if _, err := os.Stat(seen.root); pid == 0 || err != nil {
		return s
	}
	return seen
}

// A process is what /proc/PID/status says, proc_pid_status(5).
type process struct {
	uid, gid            uint32 // of the file system
	umask               uint64
	effective, bounding uint64 // capabilities
	noNew               bool
	filters             uint64 // of system calls
}

func parseStatus(text string) process {
	p := process{bounding: ^uint64(0)}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		number := func(base int) uint64 { n, _ := strconv.ParseUint(words[len(words)-1], base, 64); return n }
		switch key {
		case "Uid":
			p.uid = uint32(number(10))
		case "Gid":
			p.gid = uint32(number(10))
		case "Umask":
			p.umask = number(8)
		case "CapEff":
			p.effective = number(16)
		case "CapBnd":
			p.bounding = number(16)
		case "NoNewPrivs":
			p.noNew = number(10) == 1
		case "Seccomp_filters":
			p.filters = number(10)
		}
	}
	return p
}

// hardened judges a process and its mountinfo. What made a directory read-only its unit tells.
func hardened(subject string, p process, mounts string, u unit) []routers.Finding {
	var found []routers.Finding
	bad := func(r restriction) { found = append(found, r.finding(subject)) }
	if p.bounding&(1<<unix.CAP_SYS_ADMIN) == 0 {
		bad(unbounded)
	}
	if p.noNew && p.uid != 0 {
		bad(noNew)
	}
	for line := range strings.Lines(mounts) {
		words := strings.Fields(line)
		if len(words) < 6 {
			continue
		}
		switch {
		case strings.Contains(words[3], "systemd/inaccessible/") && slices.Contains(needed, words[4]):
			bad(hidden)
		case words[4] == "/tmp" && strings.Contains(words[3], "systemd-private-"):
			bad(ownTmp)
		case words[4] == "/opt/vyatta/config" && slices.Contains(strings.Split(words[5], ","), "ro"):
			bad(u.lockedBy())
		}
	}
	return found
}

// lockedBy is the setting that made /opt/vyatta/config read-only; of a unit that does not tell, both that may have.
func (u unit) lockedBy() restriction {
	for _, r := range []restriction{readOnly, keptFrom} {
		if r.of(u) {
			return r
		}
	}
	return restriction{setting: "ProtectSystem=strict, or ReadOnlyPaths=,", text: readOnly.text}
}
