package agent

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/routers"
	"vouch/routers/detect"
)

// serviceUser is whom the unit runs vouch as.
const serviceUser = "vouch"

// whoRuns gives the user that vouch runs as, and how that is known: the running agent's own rights, or
// else those of the service's user, or else of whoever runs this.
func whoRuns(o cli.DoctorOptions) (detect.User, string) {
	if o.Agent != nil && o.Agent.PID > 0 {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.Agent.PID)); err == nil {
			if u, ok := rightsIn(string(text)); ok {
				return u, "as the agent that runs"
			}
		}
	}
	why := "no agent answers"
	if o.AgentError != nil && !errors.Is(o.AgentError, control.ErrNotRunning) {
		why = "the agent could not be asked"
	}
	if u, err := user.Lookup(serviceUser); err == nil {
		if ids, err := u.GroupIds(); err == nil {
			return detect.User{Name: u.Username, UID: number(u.Uid), GIDs: numbers(ids), Net: true}, why + "; the user of the service"
		}
	}
	if text, err := os.ReadFile("/proc/self/status"); err == nil {
		if u, ok := rightsIn(string(text)); ok {
			return u, "who runs this: " + why + ", and there is no user " + serviceUser
		}
	}
	return detect.User{Name: "?", Net: true}, "not known"
}

// powers says that the user may not change addresses, where the kernel has to let it.
func powers(rc config.Router, who detect.User) []routers.Finding {
	if rc.Daemon == "program" || rc.Method != "address" || rc.Owner == "frr" || who.Net {
		return nil
	}
	return []routers.Finding{{Severity: routers.Failing, Subject: rc.Interface, Text: who.Name + " may not put addresses on it: it runs without CAP_NET_ADMIN",
		WayOut: "run vouch by its unit, which has AmbientCapabilities=CAP_NET_ADMIN, or as root"}}
}

// dacOverride and netAdmin are the bits of CAP_DAC_OVERRIDE and CAP_NET_ADMIN (capabilities(7)).
const (
	dacOverride = 1 << 1
	netAdmin    = 1 << 12
)

// rightsIn reads /proc/PID/status (proc_pid_status(5)): the file-system ids, which are the last of the
// four, the groups and the effective capabilities.
func rightsIn(status string) (detect.User, bool) {
	var u detect.User
	seen := 0
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) == 4:
			u.UID = number(fields[3])
			seen++
		case key == "Gid" && len(fields) == 4:
			u.GIDs = append(u.GIDs, number(fields[3]))
			seen++
		case key == "Groups":
			u.GIDs = append(u.GIDs, numbers(fields)...)
		case key == "CapEff" && len(fields) == 1:
			caps, err := strconv.ParseUint(fields[0], 16, 64)
			u.Any = err == nil && caps&dacOverride != 0
			u.Net = err == nil && caps&netAdmin != 0
		}
	}
	u.Name = strconv.FormatUint(uint64(u.UID), 10)
	if known, err := user.LookupId(u.Name); err == nil {
		u.Name = known.Username
	}
	return u, seen == 2
}

func numbers(texts []string) []uint32 {
	ids := make([]uint32, len(texts))
	for i, t := range texts {
		ids[i] = number(t)
	}
	return ids
}

// nobody is the id that has no rights, for one that cannot be read (the kernel's overflow id).
const nobody = 65534

func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nobody
	}
	return uint32(n)
}
