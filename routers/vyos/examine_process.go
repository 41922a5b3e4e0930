package vyos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vouch/routers"
)

// unitName is the unit that the agent runs in.
const unitName = "vouch.service"

// examineProcess looks at what systemd took from the agent, or from this process where there is none.
func (s system) examineProcess() []routers.Finding {
	pid, subject := "self", "this process"
	if agent := s.agent(); agent != 0 {
		pid, subject = strconv.Itoa(agent), unitName
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return nil
	}
	mounts, _ := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
	return append(hardened(subject, string(status), string(mounts)), s.examineUnit()...)
}

// agent is the first process of the unit, 0 when there is none.
func (s system) agent() int {
	for _, dir := range []string{"sys/fs/cgroup/system.slice", "sys/fs/cgroup/systemd/system.slice"} {
		text, err := os.ReadFile(s.path(dir, unitName, "cgroup.procs"))
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if pid, err := strconv.Atoi(first); err == nil {
			return pid
		}
	}
	return 0
}

// hardened reads /proc/PID/status and mountinfo. Each of these was seen to break a commit, or worse.
func hardened(subject, status, mounts string) []routers.Finding {
	fields := map[string]string{}
	for line := range strings.Lines(status) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = strings.TrimSpace(v)
		}
	}
	root := strings.HasPrefix(fields["Uid"], "0\t")
	bounding, err := strconv.ParseUint(fields["CapBnd"], 16, 64)
	var found []routers.Finding
	bad := func(setting, text string) {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: subject, Text: text, WayOut: "take " + setting + " out of the unit: contrib/vyos has one for VyOS"})
	}
	if err == nil && bounding&(1<<unix.CAP_SYS_ADMIN) == 0 {
		bad("CapabilityBoundingSet= without CAP_SYS_ADMIN", "has no CAP_SYS_ADMIN in its bounding set, so that VyOS's programs cannot be run")
	}
	if fields["NoNewPrivs"] == "1" && !root {
		bad("NoNewPrivileges=", "may gain no privileges, so that a session cannot be mounted, and a commit would take away what it does not see")
	}
	for line := range strings.Lines(mounts) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue
		}
		if words[4] == "/tmp" && strings.Contains(words[3], "systemd-private-") {
			bad("PrivateTmp=", "has a /tmp of its own, where VyOS's boot is never finished")
		}
		if words[4] == "/opt/vyatta/config" && slices.Contains(strings.Split(words[min(5, len(words)-1)], ","), "ro") {
			bad("ProtectSystem=strict", "cannot write to /opt/vyatta/config")
		}
	}
	return found
}

// examineUnit reads the unit's own files. By default systemd kills all that a unit started, and with it the mount of
// a session in which a last withdraw is being committed.
func (s system) examineUnit() []routers.Finding {
	files := []string{}
	for _, dir := range []string{"lib/systemd/system", "usr/lib/systemd/system", "run/systemd/system", "etc/systemd/system"} {
		files = append(files, s.path(dir, unitName))
		more, _ := filepath.Glob(s.path(dir, unitName+".d", "*.conf"))
		files = append(files, more...)
	}
	mode, where := "", ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		where = file
		if filepath.Base(file) == unitName {
			mode = ""
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "KillMode="); ok {
				mode = v
			}
		}
	}
	if where == "" || mode == "process" || mode == "mixed" {
		return nil
	}
	return []routers.Finding{{Severity: routers.Warning, Subject: where, Text: fmt.Sprintf("has KillMode=%s: at a stop systemd kills a commit under way, or the mount that it works on", orDefault(mode)),
		WayOut: "set KillMode=mixed in [Service]"}}
}

func orDefault(mode string) string {
	if mode == "" {
		return "control-group, the default"
	}
	return mode
}
