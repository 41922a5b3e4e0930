package vyos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/frr"
)

// Where things are below the root.
const (
	cliShellAPI = "usr/bin/cli-shell-api"
	vbash       = "bin/vbash"
	sbin        = "opt/vyatta/sbin"
	lockFile    = "opt/vyatta/config/.lock"
	sessionsDir = "opt/vyatta/config/tmp"
	activeDir   = "opt/vyatta/config/active"
	bootMarker  = "tmp/vyos-config-status"
	mountsFile  = "proc/self/mounts"
	// confirmTimer is the unit that `commit-confirm` starts with systemd-run, while it is pending (VyOS 1.4, 1.5);
	// with 1.3 it is a shutdown that is planned.
	confirmTimer = "run/systemd/transient/commit-confirm.timer"
	shutdownPlan = "run/systemd/shutdown/scheduled"
	savedConfig  = "config/config.boot"
	// configdSays is where vyos-configd of VyOS 1.3 and 1.4 writes what scripts say to sessions that go by no process.
	configdSays = "tmp/vyos-configd-script-stdout"
)

// groupName is the group of those who may configure.
const groupName = "vyattacfg"

// A system is one VyOS, by the directory that is its root.
type system struct{ root string }

func (s system) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// commitVia is in the environment of all commits of vouch, for those who look at who commits.
const commitVia = "COMMIT_VIA=vouch"

// environment is what the templates of VyOS refer to; vyos-1x configsession.py.
func (s system) environment() []string {
	libexec := s.path("usr/libexec/vyos")
	env := []string{
		"vyatta_sbindir=" + s.path(sbin), "vyatta_sysconfdir=" + s.path("opt/vyatta/etc"),
		"vyatta_cfg_templates=" + s.path("opt/vyatta/share/vyatta-cfg/templates"),
		"vyos_libexec_dir=" + libexec, "vyos_conf_scripts_dir=" + libexec + "/conf_mode", "vyos_op_scripts_dir=" + libexec + "/op_mode",
		"vyos_validators_dir=" + libexec + "/validators", "vyos_completion_dir=" + libexec + "/completion",
		"vyos_bin_dir=" + s.path("usr/bin"), "vyos_sbin_dir=" + s.path("usr/sbin"),
		commitVia, "COMMIT_COMMENT=vouch",
	}
	if shim := s.shim(); shim != "" {
		env = append(env, "vyshim="+shim)
	}
	return env
}

// shim is the program that hands scripts to vyos-configd, where that is in use.
func (s system) shim() string {
	text, _ := os.ReadFile(s.path("etc/default/vyos-configd-env"))
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if v, ok := strings.CutPrefix(line, "vyshim="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// ready says why nothing may be committed now: each of these was seen to lose a configuration, or to lock its
// operators out.
func (s system) ready() (group uint32, err error) {
	group, err = s.whole()
	if err != nil {
		return 0, err
	}
	return group, mayConfigure(os.Geteuid(), os.Getegid(), group)
}

// whole is ready but for the rights of this process.
func (s system) whole() (group uint32, err error) {
	if _, err := os.Stat(s.path(bootMarker)); err != nil {
		return 0, routers.Errorf(routers.ErrUnavailable, "VyOS has not finished its boot, or this process has a /tmp of its own (PrivateTmp=): there is no %s", s.path(bootMarker))
	}
	if info, err := os.Stat(s.path("dev/fuse")); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0, routers.Errorf(routers.ErrRefused, "%s is not a device that can be used, and without it a commit erases the configuration: the unit must not have PrivateDevices= or DevicePolicy=", s.path("dev/fuse"))
	}
	return s.group()
}

// mayConfigure refuses users whom VyOS would.
func mayConfigure(uid, gid int, group uint32) error {
	if uid != 0 && gid != int(group) {
		return routers.Errorf(routers.ErrRefused, "this process is neither root nor of group %s, and could not configure VyOS: run it as root", groupName)
	}
	return nil
}

// group is the number of vyattacfg.
func (s system) group() (uint32, error) {
	f, err := os.Open(s.path("etc/group"))
	if err != nil {
		return 0, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%w", err)
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		words := strings.Split(scan.Text(), ":")
		if len(words) >= 3 && words[0] == groupName {
			id, err := strconv.ParseUint(words[2], 10, 32)
			if err == nil {
				return uint32(id), nil
			}
		}
	}
	return 0, routers.Errorf(routers.ErrRefused, "there is no group %s, without which everybody else would be locked out: is this VyOS?", groupName)
}

// unsettled says why what is committed now may be undone without a word, or that it cannot be told; empty: nothing will.
func (s system) unsettled() string {
	for _, pending := range []struct{ path, why string }{
		{confirmTimer, "a commit-confirm is pending, which takes it back with everything else unless it is confirmed: run confirm"},
		{shutdownPlan, "a reboot is planned (commit-confirm, or shutdown): run confirm, or shutdown -c"},
	} {
		switch _, err := os.Lstat(s.path(pending.path)); {
		case err == nil:
			return pending.why
		case !errors.Is(err, os.ErrNotExist):
			return "whether a commit-confirm is pending cannot be read (" + err.Error() + "): run vouch as root"
		}
	}
	return ""
}

// mounted tells whether the union of a session is mounted at dir.
func (s system) mounted(dir string) (bool, error) {
	text, err := os.ReadFile(s.path(mountsFile))
	if err != nil {
		return false, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "whether a session is mounted cannot be read: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) >= 3 && words[1] == dir && strings.HasPrefix(words[2], "fuse") {
			return true, nil
		}
	}
	return false, nil
}

// holder gives the process that holds the lock of all commits, 0 for nobody. Nothing is changed by asking.
func (s system) holder() (pid int, err error) {
	f, err := os.Open(s.path(lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%w", err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, routers.Errorf(routers.ErrUnavailable, "%s: %w", s.path(lockFile), err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}

// committer is the holder, as far as that can be read.
func (s system) committer() int {
	pid, _ := s.holder()
	return pid
}

// staticd says that the daemon which keeps static routes is gone, or hangs. VyOS would go on for long, with the lock of
// all commits, and tell of it in a traceback, or not at all.
func staticd(ctx context.Context, source *frr.Source) error {
	err := source.Staticd(ctx)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, err), "staticd of VyOS's FRR does not run (%s), and nothing was committed: watchfrr starts it again; if it does not, see journalctl -u frr", err)
	case hangs(err), errors.Is(err, unix.EAGAIN):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, err), "nothing was committed, as staticd of VyOS's FRR hangs: watchfrr starts it anew; if it does not, see journalctl -u frr: %w", err)
	}
	return nil // it may well do what it is told
}

// hangs tells of an error that is of a daemon which does not answer.
func hangs(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// lockedBy is the error of a lock that a process holds, which is as old as the process at most.
func (s system) lockedBy(pid int) error {
	since := ""
	if began, err := started(pid); err == nil {
		since = " since " + began.Format(time.TimeOnly)
	}
	return routers.Errorf(routers.ErrBusy, "VyOS's configuration is locked by pid %d (%s)%s, and nothing was committed; the lock is %s", pid, commandOf(pid), since, s.path(lockFile))
}

// started is when a process began; proc(5), field 22 of stat, in hundredths of a second since the boot.
func started(pid int) (time.Time, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, err
	}
	age := time.Duration(now.Nano()) - time.Duration(ticks)*10*time.Millisecond
	return time.Now().Add(-age), nil
}

// release is VyOS's version, such as "1.4.3", empty when it cannot be told.
func (s system) release() string {
	text, err := os.ReadFile(s.path("usr/share/vyos/version.json"))
	if err == nil {
		var v struct {
			Version string `json:"version"`
		}
		if json.Unmarshal(text, &v) == nil && v.Version != "" {
			return v.Version
		}
	}
	text, _ = os.ReadFile(s.path("opt/vyatta/etc/version")) // 1.2: "Version: VyOS 1.2.9"
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Version:"); ok {
			return strings.TrimPrefix(strings.TrimSpace(v), "VyOS ")
		}
	}
	return ""
}

// nameOf is what a process is, such as "my_commit, pid 123".
func nameOf(pid int) string { return fmt.Sprintf("%s, pid %d", commandOf(pid), pid) }

func commandOf(pid int) string {
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return cmp.Or(strings.TrimSpace(string(comm)), "a process")
}
