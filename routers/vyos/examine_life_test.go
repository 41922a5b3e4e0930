package vyos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// put writes a file of a system.
func put(t *testing.T, s system, path, text string, mode os.FileMode) {
	t.Helper()
	file := s.path(path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func TestHardened(t *testing.T) {
	const locked = "201 1 8:1 /opt/vyatta/config /opt/vyatta/config ro,relatime - ext4 /dev/sda1 rw\n"
	const all = "Uid:\t0\t0\t0\t0\nNoNewPrivs:\t0\nCapBnd:\t000001ffffffffff\n"
	for _, c := range []struct {
		name, status, mounts string
		words                string // empty: nothing
		unit                 string
	}{
		{"plain", all, "25 1 0:20 / /tmp rw - tmpfs tmpfs rw\n", "", ""},
		{"no new privileges of root", strings.Replace(all, "Privs:\t0", "Privs:\t1", 1), "", "", ""},
		{"no new privileges", strings.NewReplacer("Privs:\t0", "Privs:\t1", "Uid:\t0\t0\t0\t0", "Uid:\t998\t998\t998\t998").Replace(all), "", "NoNewPrivileges=", ""},
		{"bounding set", strings.Replace(all, "000001ffffffffff", "0000000000003000", 1), "", "CAP_SYS_ADMIN", ""},
		{"private tmp", all, "200 1 0:20 /systemd-private-abc-vouch.service-x/tmp /tmp rw shared:1 - tmpfs tmpfs rw\n", "PrivateTmp=", ""},
		{"read-only", all, locked, "take ProtectSystem=strict, or ReadOnlyPaths=, out", ""},
		{"read-only system", all, locked, "take ProtectSystem=strict out", "ProtectSystem=strict"},
		{"read-only directory", all, locked, "take ReadOnlyPaths= out", "ReadOnlyPaths=/opt/vyatta/config"},
		{"no device", all, "202 1 0:25 /systemd/inaccessible/chr /dev/fuse ro,nosuid,noexec - tmpfs tmpfs rw\n", "take InaccessiblePaths=", ""},
		{"no directory of the configuration", all, "202 1 0:25 /systemd/inaccessible/dir /opt/vyatta/config ro,nosuid,noexec - tmpfs tmpfs rw\n", "take InaccessiblePaths=", ""},
		{"no directory of others", all, "202 1 0:25 /systemd/inaccessible/dir /root ro,nosuid,noexec - tmpfs tmpfs rw\n", "", ""},
	} {
		fs := hardened("vouch.service", parseStatus(c.status), c.mounts, parseUnit("[Service]\n"+c.unit))
		if c.words == "" && len(fs) > 0 {
			t.Errorf("%s: %s", c.name, list(fs))
		}
		if c.words != "" {
			found(t, fs, routers.Failing, "vouch.service", c.words)
		}
	}
}

// What the unit of contrib/vyos is with each setting beside it. The values are as people write them, and as systemctl
// show does.
func TestUnit(t *testing.T) {
	const own = "[Service]\nExecStart=/config/scripts/vouch/vouch run --config /config/vouch.toml\nKillMode=process\nGroup=vyattacfg\nUMask=0002\n"
	for _, c := range []struct {
		settings string
		severity routers.Severity
		words    string // empty: nothing is said
	}{
		{"", routers.Fine, ""},
		{"Group=7104\nUMask=002\n", routers.Fine, ""},
		{"KillMode=control-group\n", routers.Warning, "KillMode=control-group"},
		{"KillMode=mixed\n", routers.Warning, "KillMode=mixed"},
		{"KillMode=\n", routers.Warning, "control-group, the default"},
		{"PrivateDevices=yes\nDevicePolicy=closed\n", routers.Failing, "take PrivateDevices="},
		{"PrivateDevices=true\nPrivateDevices=no\n", routers.Fine, ""},
		{"DevicePolicy=closed\n", routers.Failing, "DevicePolicy="},
		{"DevicePolicy=strict\nDeviceAllow=/dev/fuse r\n", routers.Failing, "DevicePolicy="},
		{"DevicePolicy=closed\nDeviceAllow=/dev/null rw\nDeviceAllow=/dev/fuse rw\n", routers.Fine, ""},
		{"DeviceAllow=/dev/null rw\n", routers.Failing, "DeviceAllow="},
		{"DeviceAllow=/dev/null rw\nDeviceAllow=\n", routers.Fine, ""},
		{"PrivateTmp=1\n", routers.Failing, "PrivateTmp="},
		{"PrivateTmp=disconnected\n", routers.Failing, "PrivateTmp="},
		{"NoNewPrivileges=yes\n", routers.Fine, ""},
		{"NoNewPrivileges=yes\nUser=vouch\n", routers.Failing, "NoNewPrivileges="},
		{"ProtectSystem=full\n", routers.Fine, ""},
		{"ProtectSystem=strict\n", routers.Failing, "ProtectSystem=strict"},
		{"ReadOnlyPaths=/opt/vyatta/config\n", routers.Failing, "take ReadOnlyPaths= out"},
		{"ReadOnlyPaths=/etc -/opt/\n", routers.Failing, "take ReadOnlyPaths= out"},
		{"ReadOnlyPaths=/\nReadWritePaths=/opt/vyatta/config /run\n", routers.Fine, ""},
		{"ReadOnlyPaths=/etc /opt/vyatta/configs\n", routers.Fine, ""},
		{"InaccessiblePaths=/dev/fuse\n", routers.Failing, "take InaccessiblePaths="},
		{"InaccessiblePaths=/root -/dev\n", routers.Failing, "take InaccessiblePaths="},
		{"InaccessiblePaths=/opt/vyatta\n", routers.Failing, "take InaccessiblePaths="},
		{"InaccessiblePaths=/root /dev/kmsg\n", routers.Fine, ""},
		{"TemporaryFileSystem=/tmp:rw\n", routers.Failing, "take TemporaryFileSystem="},
		{"TemporaryFileSystem=/var/lib\n", routers.Fine, ""},
		{"CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW\n", routers.Failing, "CAP_SYS_ADMIN"},
		{"CapabilityBoundingSet=CAP_NET_ADMIN\nCapabilityBoundingSet=CAP_SYS_ADMIN\n", routers.Fine, ""},
		{"CapabilityBoundingSet=cap_chown cap_sys_admin cap_net_admin\n", routers.Fine, ""},
		{"CapabilityBoundingSet=~CAP_SYS_ADMIN CAP_SYS_PTRACE\n", routers.Failing, "CAP_SYS_ADMIN"},
		{"CapabilityBoundingSet=~CAP_SYS_PTRACE\n", routers.Fine, ""},
		{"CapabilityBoundingSet=\n", routers.Failing, "CAP_SYS_ADMIN"},
		{"SystemCallFilter=@system-service\n", routers.Failing, "SystemCallFilter="},
		{"SystemCallFilter=@system-service @mount\n", routers.Fine, ""},
		{"SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n", routers.Failing, "SystemCallFilter="},
		{"SystemCallFilter=~@mount:EPERM\n", routers.Failing, "SystemCallFilter="},
		{"SystemCallFilter=~@reboot @swap\n", routers.Fine, ""},
		{"SystemCallFilter=~@reboot\nSystemCallFilter=\n", routers.Fine, ""},
		{"RestrictSUIDSGID=yes\n", routers.Failing, "RestrictSUIDSGID="},
		{"User=vyos\n", routers.Warning, "User=vyos"},
		{"Group=\n", routers.Notice, "Group=vyattacfg"},
		{"UMask=0022\n", routers.Notice, "UMask=0002"},
		{"UMask=\n", routers.Notice, "UMask=0002"},
		{"[Unit]\nPrivateTmp=yes\n", routers.Fine, ""},
		{"# PrivateTmp=yes\n", routers.Fine, ""},
	} {
		u := parseUnit(own, "[Service]\n"+c.settings)
		u.file = "vouch.service"
		fs := u.examine(7104, MethodStatic)
		if c.words == "" && len(fs) > 0 || len(fs) > 1 && !strings.Contains(c.settings, "User=") {
			t.Errorf("%q: %s", c.settings, list(fs))
		}
		if c.words != "" {
			found(t, fs, c.severity, "vouch.service", c.words)
		}
	}
	if fs := (unit{}).examine(7104, MethodStatic); len(fs) > 0 {
		t.Errorf("without a unit: %s", list(fs))
	}
}

// Method kernel makes no commit: it needs the router's network, and the right to change it.
func TestUnitForRoutes(t *testing.T) {
	const own = "[Service]\nKillMode=control-group\n"
	for settings, words := range map[string]string{"PrivateTmp=yes\nPrivateDevices=yes\nKillMode=mixed\nCapabilityBoundingSet=CAP_NET_ADMIN\n": "", "PrivateNetwork=yes\n": "PrivateNetwork=", "CapabilityBoundingSet=CAP_NET_RAW\n": "CAP_NET_ADMIN"} {
		u := parseUnit(own, "[Service]\n"+settings)
		u.file = "vouch.service"
		fs := u.examine(7104, MethodKernel)
		if words == "" && len(fs) > 0 {
			t.Errorf("kernel, %q: %s", settings, list(fs))
		}
		if words != "" {
			found(t, fs, routers.Failing, words)
		}
	}
}

// Of the files of a unit the later place counts, and every drop-in. Before its first start there is the one that is to be
// put there. Where systemd answers, its word counts.
func TestUnitOfFiles(t *testing.T) {
	s := system{t.TempDir()}
	said := func(file, mode string) {
		t.Helper()
		if u := s.unit(t.Context()); u.file != s.path(file) || u.last("KillMode") != mode {
			t.Errorf("%q says KillMode=%s, want %s of %s", u.file, u.last("KillMode"), mode, file)
		}
	}
	if u := s.unit(t.Context()); u.file != "" {
		t.Errorf("without a unit: %+v", u)
	}
	text := func(mode string) string { return "[Service]\nKillMode=" + mode + "\n" }
	for _, dir := range []string{startDir, "lib/systemd/system", "run/systemd/system", "etc/systemd/system"} {
		put(t, s, dir+"/vouch.service", text(dir), 0o644)
		said(dir+"/vouch.service", dir)
	}
	put(t, s, "run/systemd/system/vouch.service.d/kill.conf", text("drop-in"), 0o644)
	said("etc/systemd/system/vouch.service", "drop-in")
	put(t, s, "bin/systemctl", "#!/bin/sh\n[ \"$1 $4\" = 'show vouch.service' ] || exit 1\necho LoadState=loaded\necho FragmentPath=/run/x/vouch.service\necho KillMode=none\n", 0o755)
	said("run/x/vouch.service", "none")
	put(t, s, "bin/systemctl", "#!/bin/sh\necho LoadState=not-found\necho KillMode=control-group\n", 0o755)
	said("etc/systemd/system/vouch.service", "drop-in")
}

func TestUnitNeeds(t *testing.T) {
	for _, c := range []struct{ start, program, config string }{
		{"/a/vouch run --config /b.toml", "/a/vouch", "/b.toml"},
		{"-/a/vouch run --config=/b.toml", "/a/vouch", "/b.toml"},
		{"/a/vouch run", "/a/vouch", "/etc/vouch/vouch.toml"},
		{"{ path=/a/vouch ; argv[]=/a/vouch run --config /b.toml ; ignore_errors=no ; start_time=[n/a] }", "/a/vouch", "/b.toml"},
	} {
		if got := parseUnit("[Service]\nExecStart=" + c.start).needs(); fmt.Sprint(got) != fmt.Sprint([]string{c.program, c.config}) {
			t.Errorf("%q: %q", c.start, got)
		}
	}
}

// Whether the line that starts vouch is reached.
func TestCallInScript(t *testing.T) {
	const line = "/config/scripts/vouch/start\n"
	for _, c := range []struct {
		text   string
		line   string
		behind int
	}{
		{"#!/bin/sh\n" + line, strings.TrimSpace(line), 0},
		{"#!/bin/sh\nmine\nsudo " + line, "sudo " + strings.TrimSpace(line), 0},
		{"#!/bin/sh\n# " + line, "", 0},
		{"#!/bin/sh\nmine", "", 0},
		{"", "", 0},
		{"#!/bin/sh\nmine\nexit 0\n" + line, strings.TrimSpace(line), 3},
		{"#!/bin/sh\nexit\n" + line, strings.TrimSpace(line), 2},
		{"#!/bin/sh\nexec mine\nexit 1\n" + line, strings.TrimSpace(line), 2},
		{"#!/bin/sh\nexec >/var/log/boot 2>&1\nexec 3</dev/null\n" + line, strings.TrimSpace(line), 0},
		{"#!/bin/sh\nexiting\nmine --exit\n" + line, strings.TrimSpace(line), 0},
		{"#!/bin/sh\nif false; then\n\texit 1\nfi\n" + line, strings.TrimSpace(line), 3},
		{"#!/bin/sh\nmine || exit 1\n" + line, strings.TrimSpace(line), 2},
		{"#!/bin/sh\nset -ue\n" + line, strings.TrimSpace(line), 2},
		{"#!/bin/sh\nif mine; then\n\t" + line + "fi\n", strings.TrimSpace(line), 2},
		{"#!/bin/sh\n/bin/sh " + line, "/bin/sh " + strings.TrimSpace(line), 0},
		{"#!/bin/sh\nlogger -t vouch hello\nrm -rf /var/log/vouch-old\nip route add local 192.0.2.53/32 dev lo # vouch\necho " + line, "", 0},
		{"#!/bin/vbash\nsource /opt/vyatta/etc/functions/script-template\nconfigure\ncommit\nexit\n" + line, strings.TrimSpace(line), 0},
		{"#!/bin/sh\nvbash <<'END'\nconfigure\nexit\nEND\n" + line, strings.TrimSpace(line), 0},
		{"#!/bin/sh\ncat <<<EOF\nexit\n" + line, strings.TrimSpace(line), 3},
	} {
		if got := callIn(c.text); got.line != c.line || got.behind != c.behind {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
}

// Each part of what contrib/vyos installs is missed, with both methods.
func TestExamineBoot(t *testing.T) {
	b := open(t, vyostest.Options{})
	b.delivers(both...)
	for _, c := range []struct {
		name  string
		do    func(s system)
		words []string
	}{
		{"as installed", func(system) {}, nil},
		{"started", func(s system) {
			put(t, s, "run/systemd/system/vouch.service", "[Service]\nExecStart=/config/scripts/vouch/vouch run --config /config/vouch.toml\nKillMode=process\nGroup=vyattacfg\nUMask=0002\n", 0o644)
		}, nil},
		{"boot with errors", func(s system) { put(t, s, bootMarker, "1\n", 0o644) }, []string{"errors"}},
		{"no boot script", func(s system) { b.must(os.Remove(s.path(bootScript))) }, []string{"postconfig", "install"}},
		{"no line", func(s system) { put(t, s, bootScript, "#!/bin/sh\n# vouch\n", 0o755) }, []string{"postconfig", "does not start vouch", "install"}},
		{"line in the other script", func(s system) {
			put(t, s, bootScript, "#!/bin/sh\n", 0o755)
			put(t, s, earlyBoot, "#!/bin/sh\n/config/scripts/vouch/start\n", 0o755)
		}, []string{"preconfig", "move the line"}},
		{"behind an exit", func(s system) { put(t, s, bootScript, "#!/bin/sh\nexit 0\n/config/scripts/vouch/start\n", 0o755) }, []string{"may not come to start vouch, for its line 2: `exit 0`", "before that line"}},
		{"boot script not executable", func(s system) { b.must(os.Chmod(s.path(bootScript), 0o664)) }, []string{"not executable", "chmod +x"}},
		{"start not executable", func(s system) { b.must(os.Chmod(s.path(start), 0o644)) }, []string{"scripts/vouch/start", "install"}},
		{"no start", func(s system) { b.must(os.Remove(s.path(start))) }, []string{"scripts/vouch/start", "install"}},
		{"no unit to start", func(s system) { b.must(os.Remove(s.path(startDir, unitName))) }, []string{"scripts/vouch/vouch.service", "install"}},
		{"unit in /etc", func(s system) {
			put(t, s, "etc/systemd/system/vouch.service", "[Service]\nExecStart=/config/scripts/vouch/vouch run --config /config/vouch.toml\nKillMode=process\nGroup=vyattacfg\nUMask=0002\n", 0o644)
		}, []string{"etc/systemd/system/vouch.service", "lost", "/run"}},
		{"program elsewhere", func(s system) {
			put(t, s, "run/systemd/system/vouch.service", "[Service]\nExecStart=/usr/bin/vouch run --config /config/vouch.toml\nKillMode=process\nGroup=vyattacfg\nUMask=0002\n", 0o644)
		}, []string{"/usr/bin/vouch", "lost", "ExecStart="}},
		{"configuration elsewhere", func(s system) {
			put(t, s, "run/systemd/system/vouch.service", "[Service]\nExecStart=/opt/vyatta/etc/config/scripts/vouch/vouch run\nKillMode=process\nGroup=vyattacfg\nUMask=0002\n", 0o644)
		}, []string{"/etc/vouch/vouch.toml", "lost", "/config/vouch.toml"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			own := &bench{t, b.lab, vyostest.New(t, vyostest.Options{SocketDir: b.lab.Nodes[0].FRR.SocketDir()})}
			own.install()
			c.do(system{own.system.Root()})
			for _, method := range []string{MethodKernel, MethodStatic} {
				fs := own.examine(own.router(Options{Method: method}), both)
				if c.words == nil {
					worst(t, fs, routers.Notice)
				} else {
					found(t, fs, routers.Warning, c.words...)
				}
			}
		})
	}
	s := system{b.system.Root()}
	b.install()
	for _, file := range []string{"config/vouch.toml", "config/scripts/vouch/vouch"} { // that the doctor may have been given another of
		b.must(os.Remove(s.path(file)))
		found(t, b.examine(b.router(Options{}), both), routers.Failing, "/"+file, "is not there", "vouch does not start", "vouch.service")
	}
	b.install()
	b.system.Boot("")
	found(t, b.examine(b.router(Options{}), both), routers.Warning, "vyos-config-status", "has not finished its boot")
	put(t, s, "run/systemd/system/vouch.service", "[Service]\nPrivateNetwork=yes\n", 0o644)
	found(t, b.examine(b.router(Options{}), both), routers.Failing, "PrivateNetwork=")
	put(t, s, "run/systemd/system/vouch.service", "[Service]\nPrivateDevices=yes\n", 0o644)
	found(t, b.examine(b.router(Options{Method: MethodStatic}), both), routers.Failing, "vouch.service", "PrivateDevices=")
}

// A commit that a dead agent left running is in the unit's group too.
func TestAgentOfUnit(t *testing.T) {
	s := system{t.TempDir()}
	if pid := s.agent(); pid != 0 {
		t.Errorf("without a unit: %d", pid)
	}
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "vouch", string(program), 0o755)
	agent := exec.CommandContext(t.Context(), s.path("vouch"), "600")
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	put(t, s, "sys/fs/cgroup/system.slice/vouch.service/cgroup.procs", fmt.Sprintf("%d\n%d\n", os.Getpid(), agent.Process.Pid), 0o644)
	if pid := s.agent(); pid != agent.Process.Pid {
		t.Errorf("%d, want %d", pid, agent.Process.Pid)
	}
}

// What counts is what the agent has, whatever whoever runs the doctor has.
func TestExamineAgent(t *testing.T) {
	b := open(t, vyostest.Options{})
	b.delivers(both...)
	b.install()
	r := b.router(Options{Method: MethodStatic})
	s := system{b.system.Root()}
	for _, c := range []struct {
		name, setup string
		severity    routers.Severity
		words       []string // nil: nothing is said
	}{
		{"well", "setpriv --regid 7104 --clear-groups", routers.Fine, nil},
		{"private devices", "mount -t tmpfs tmpfs $ROOT/dev; setpriv --regid 7104 --clear-groups", routers.Failing, []string{"commit", "dev/fuse", "/proc/"}},
		{"private tmp", "mount -t tmpfs tmpfs $ROOT/tmp; setpriv --regid 7104 --clear-groups", routers.Failing, []string{"commit", "PrivateTmp="}},
		{"group", "setpriv --regid 0 --clear-groups", routers.Notice, []string{"vouch.service", "group 0", "Group=vyattacfg"}},
		{"umask", "umask 022; setpriv --regid 7104 --clear-groups", routers.Notice, []string{"vouch.service", "umask 0022", "UMask=0002"}},
		{"user", "setpriv --reuid 65534 --regid 7104 --clear-groups", routers.Warning, []string{"vouch.service", "user 65534", "User="}},
		{"user and group", "setpriv --reuid 65534 --regid 65534 --clear-groups", routers.Failing, []string{"vouch.service", "neither root nor of group vyattacfg"}},
		{"no new privileges", "setpriv --reuid 65534 --regid 7104 --clear-groups --no-new-privs", routers.Failing, []string{"NoNewPrivileges="}},
		{"bounding set", "setpriv --regid 7104 --clear-groups --bounding-set -sys_admin", routers.Failing, []string{"CAP_SYS_ADMIN"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			agent := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", "umask 0002; ROOT="+s.root+"; "+
				strings.Replace(c.setup, "setpriv ", "exec setpriv ", 1)+` sh -c 'echo ready; read end'`)
			stdin, err := agent.StdinPipe()
			b.must(err)
			stdout, err := agent.StdoutPipe()
			b.must(err)
			b.must(agent.Start())
			defer func() { _ = stdin.Close(); _ = agent.Wait() }()
			if _, err := stdout.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			put(t, s, "sys/fs/cgroup/system.slice/vouch.service/cgroup.procs", fmt.Sprintln(agent.Process.Pid), 0o644)
			fs := b.examine(r, both)
			if c.words == nil {
				worst(t, fs, routers.Notice)
			} else {
				found(t, fs, c.severity, c.words...)
			}
			if c.name == "bounding set" { // its unit says the same
				put(t, s, "run/systemd/system/vouch.service", "[Service]\nCapabilityBoundingSet=CAP_NET_ADMIN\nKillMode=process\n", 0o644)
				if all := list(b.examine(r, both)); strings.Count(all, "CAP_SYS_ADMIN in its bounding set") != 1 {
					t.Errorf("told twice:\n%s", all)
				}
			}
			if c.name == "user" {
				found(t, b.examine(b.router(Options{}), both), routers.Failing, "vouch.service", "CAP_NET_ADMIN")
			}
		})
	}
}
