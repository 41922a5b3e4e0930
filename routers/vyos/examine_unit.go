package vyos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vouch/routers"
	"vouch/routers/command"
)

// unitName is the unit that the agent runs in.
const unitName = "vouch.service"

// A unit is what systemd is told of it.
type unit struct {
	file string              // that it is of; empty: there is none
	set  map[string][]string // by setting, such as KillMode, all that it was given
}

// asked are the settings that matter here, systemd.exec(5), systemd.kill(5) and systemd.resource-control(5).
var asked = []string{"LoadState", "FragmentPath", "ExecStart", "KillMode", "User", "Group", "UMask", "PrivateDevices", "DevicePolicy", "DeviceAllow",
	"PrivateTmp", "PrivateNetwork", "NoNewPrivileges", "ProtectSystem", "ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "TemporaryFileSystem", "CapabilityBoundingSet", "SystemCallFilter", "RestrictSUIDSGID"}

// unit asks systemd, which alone knows of every file that has a say, and where that does not know the unit, reads the
// files.
func (s system) unit(ctx context.Context) unit {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	out, err := command.Run(ctx, command.Spec{Path: s.path("bin/systemctl"), Args: []string{"show", "-p", strings.Join(asked, ","), unitName}})
	if u := parseUnit("[Service]\n" + string(out.Stdout)); err == nil && out.Code == 0 && u.last("LoadState") == "loaded" {
		u.file = s.path(u.last("FragmentPath"))
		return u
	}
	return s.unitOfFiles()
}

// unitOfFiles reads the unit's own files. Where systemd has none, it is the one that is put there at a boot.
func (s system) unitOfFiles() unit {
	var u unit
	var texts []string
	dirs := []string{startDir, "lib/systemd/system", "usr/lib/systemd/system", "run/systemd/system", "etc/systemd/system"}
	for _, dir := range dirs {
		if text, err := os.ReadFile(s.path(dir, unitName)); err == nil {
			u.file, texts = s.path(dir, unitName), []string{string(text)}
		}
	}
	if u.file == "" {
		return u
	}
	for _, dir := range dirs[1:] {
		more, _ := filepath.Glob(s.path(dir, unitName+".d", "*.conf"))
		for _, file := range more {
			text, _ := os.ReadFile(file)
			texts = append(texts, string(text))
		}
	}
	u.set = parseUnit(texts...).set
	return u
}

// parseUnit reads what is behind [Service] in the files of a unit. An empty setting forgets those before it, but for the
// bounding set, which is then empty.
func parseUnit(texts ...string) unit {
	u := unit{set: map[string][]string{}}
	for _, text := range texts {
		section := ""
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
			line = strings.TrimSpace(line)
			k, v, ok := strings.Cut(line, "=")
			k, v = strings.TrimSpace(k), strings.TrimSpace(v)
			switch {
			case strings.HasPrefix(line, "["):
				section = line
			case !ok || section != "[Service]" || strings.ContainsAny(line[:1], "#;"):
			case v == "" && k != "CapabilityBoundingSet":
				delete(u.set, k)
			default:
				u.set[k] = append(u.set[k], v)
			}
		}
	}
	return u
}

// last is the value of a setting that has one; empty: the default.
func (u unit) last(setting string) string {
	all := u.set[setting]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func (u unit) yes(setting string) bool {
	return slices.Contains([]string{"yes", "true", "on", "1", "y", "t", "disconnected"}, strings.ToLower(u.last(setting)))
}

// needs are the files that the unit's command is made of: the program, and its configuration.
func (u unit) needs() []string {
	text := u.last("ExecStart")
	if text == "" {
		return nil
	}
	if _, argv, ok := strings.Cut(text, "argv[]="); ok { // as systemctl show writes it
		text, _, _ = strings.Cut(argv, " ;")
	}
	words := strings.Fields(text)
	files := []string{strings.TrimLeft(words[0], "@-:+!"), "/etc/vouch/vouch.toml"}
	for i, w := range words {
		if v, ok := strings.CutPrefix(w, "--config="); ok {
			files[1] = v
		} else if w == "--config" && i+1 < len(words) {
			files[1] = words[i+1]
		}
	}
	return files
}

// restriction is a setting that method static cannot live with, and what it does. Each was seen to break a commit, or
// worse.
type restriction struct {
	setting string
	text    string
	of      func(u unit) bool
}

// The restrictions that a process shows too.
var (
	ownTmp   = restriction{"PrivateTmp=", "has a /tmp of its own, where VyOS's boot is never finished", func(u unit) bool { return u.yes("PrivateTmp") }}
	noNew    = restriction{"NoNewPrivileges=", "may gain no privileges, so that a session cannot be mounted, and a commit would take away what it does not see", func(u unit) bool { return u.yes("NoNewPrivileges") && !u.root() }}
	readOnly = restriction{"ProtectSystem=strict", "cannot write to /opt/vyatta/config", func(u unit) bool { return u.last("ProtectSystem") == "strict" }}
	keptFrom = restriction{"ReadOnlyPaths=", "cannot write to /opt/vyatta/config", func(u unit) bool {
		return u.covers("/opt/vyatta/config", "ReadOnlyPaths") && !u.covers("/opt/vyatta/config", "ReadWritePaths")
	}}
	hidden    = restriction{"InaccessiblePaths=, or what it has of /dev/fuse, /tmp, /config and /opt/vyatta,", "has no access to what a commit needs, so that none is made", func(u unit) bool { return u.hides("InaccessiblePaths") }}
	unbounded = restriction{"CapabilityBoundingSet= without CAP_SYS_ADMIN", "has no CAP_SYS_ADMIN in its bounding set, so that VyOS's programs cannot be run", func(u unit) bool { return !u.bounded("cap_sys_admin") }}
)

var restrictions = []restriction{ownTmp, noNew, readOnly, keptFrom, hidden, unbounded,
	{"TemporaryFileSystem=, or what it has of /dev, /tmp, /config and /opt/vyatta,", "has an empty directory in the place of what a commit needs, so that none is made", func(u unit) bool { return u.hides("TemporaryFileSystem") }},
	{"PrivateDevices=", "has a /dev without fuse, so that a session is not mounted, and a commit in it would erase the router's configuration", func(u unit) bool { return u.yes("PrivateDevices") }},
	{"DevicePolicy=, or give it DeviceAllow=/dev/fuse rw,", "may not open /dev/fuse, so that a session is not mounted, and a commit in it would erase the router's configuration", func(u unit) bool { return u.shut() && !u.yes("PrivateDevices") }},
	{"SystemCallFilter=", "may not mount, which a session has to be", unit.filtered},
	{"RestrictSUIDSGID=", "cannot give a directory the group's bit, which those of a session have", func(u unit) bool { return u.yes("RestrictSUIDSGID") }},
}

func (r restriction) finding(subject string) routers.Finding {
	return routers.Finding{Severity: routers.Failing, Subject: subject, Text: r.text, WayOut: "take " + r.setting + " out of the unit: contrib/vyos has one for VyOS"}
}

func (u unit) root() bool { return slices.Contains([]string{"", "root", "0"}, u.last("User")) }

// needed is what a commit works on, and with.
var needed = []string{"/dev/fuse", "/tmp", "/config", "/opt/vyatta", "/opt/vyatta/config", "/opt/vyatta/sbin", "/opt/vyatta/etc", "/opt/vyatta/share"}

// hides tells whether a setting of paths takes something away that a commit needs.
func (u unit) hides(setting string) bool {
	return slices.ContainsFunc(needed, func(path string) bool { return u.covers(path, setting) })
}

// covers tells whether a path is in one of those of a setting.
func (u unit) covers(path, setting string) bool {
	for _, word := range strings.Fields(strings.Join(u.set[setting], " ")) {
		dir, _, _ := strings.Cut(strings.TrimLeft(word, "-+"), ":")
		if dir = strings.TrimSuffix(dir, "/"); path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// bounded tells whether a capability may be had.
func (u unit) bounded(capability string) bool {
	has := true
	for i, v := range u.set["CapabilityBoundingSet"] {
		list, not := strings.CutPrefix(strings.ToLower(v), "~")
		named := slices.Contains(strings.Fields(list), capability)
		switch {
		case not:
			has = has && !named
		case v == "":
			has = false
		default:
			has = named || has && i > 0
		}
	}
	return has
}

// shut tells of devices that are kept from the unit, and among them fuse.
func (u unit) shut() bool {
	allowed := u.set["DeviceAllow"]
	if policy := u.last("DevicePolicy"); policy != "closed" && policy != "strict" && len(allowed) == 0 {
		return false
	}
	return !slices.ContainsFunc(allowed, func(v string) bool {
		words := strings.Fields(v)
		return slices.Contains([]string{"/dev/fuse", "char-misc", "char-*"}, words[0]) && (len(words) == 1 || strings.Contains(words[1], "rw"))
	})
}

// filtered tells of a filter that mount does not pass.
func (u unit) filtered() bool {
	lists := u.set["SystemCallFilter"]
	if len(lists) == 0 {
		return false
	}
	if strings.HasPrefix(lists[0], "~") {
		return slices.ContainsFunc(lists, func(v string) bool { return strings.HasPrefix(v, "~") && namesMount(v[1:], "@privileged") })
	}
	return !slices.ContainsFunc(lists, func(v string) bool { return namesMount(v) })
}

// namesMount tells whether mount is among system calls and groups of them.
func namesMount(list string, more ...string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(w string) bool {
		w, _, _ = strings.Cut(w, ":")
		return w == "mount" || w == "@mount" || slices.Contains(more, w)
	})
}

// examine says what the unit must not have, or lacks.
func (u unit) examine(group uint32, method string) []routers.Finding {
	if u.file == "" {
		return nil
	}
	if method != MethodStatic {
		return u.examineForRoutes()
	}
	var found []routers.Finding
	for _, r := range restrictions {
		if r.of(u) {
			found = append(found, r.finding(u.file))
		}
	}
	if mode := u.last("KillMode"); mode != "process" {
		found = append(found, routers.Finding{Severity: routers.Warning, Subject: u.file, Text: fmt.Sprintf("has KillMode=%s: when vouch stops or dies, systemd kills a commit under way, which leaves FRR and the configuration apart, or the mount that it works on", orDefault(mode)),
			WayOut: "set KillMode=process in [Service]"})
	}
	mask, err := strconv.ParseUint(u.last("UMask"), 8, 16)
	if name := u.last("Group"); !u.root() || name != groupName && name != strconv.FormatUint(uint64(group), 10) || err != nil || mask != 0o002 {
		found = append(found, runsAs(u.file, u.root(), "with User="+u.last("User")+", Group="+name+" and UMask="+u.last("UMask")))
	}
	return found
}

// examineForRoutes is examine for who but changes routes of the kernel.
func (u unit) examineForRoutes() []routers.Finding {
	var found []routers.Finding
	if u.yes("PrivateNetwork") {
		found = append(found, routers.Finding{Severity: routers.Failing, Subject: u.file, Text: "has a network of its own, and its routes are not the router's", WayOut: "take PrivateNetwork= out of the unit"})
	}
	if !u.bounded("cap_net_admin") {
		found = append(found, noRoutes(u.file))
	}
	return found
}

func noRoutes(subject string) routers.Finding {
	return routers.Finding{Severity: routers.Failing, Subject: subject, Text: "has no CAP_NET_ADMIN, and may not change a route", WayOut: "run it as root, as the unit of contrib/vyos does"}
}

// runsAs judges another identity than that of VyOS's own jobs.
func runsAs(subject string, root bool, how string) routers.Finding {
	f := routers.Finding{Severity: routers.Notice, Subject: subject, Text: "runs " + how + ", not with those of VyOS's own jobs; a commit of vouch has them all the same", WayOut: "set Group=" + groupName + " and UMask=0002 in [Service]"}
	if !root {
		f.Severity, f.Text = routers.Warning, "runs "+how+", and VyOS ends the sessions of any user but root when he configures by hand; without sudo his commits fail"
		f.WayOut = "run it as root: leave User= out of [Service], and set Group=" + groupName + " and UMask=0002"
	}
	return f
}

func orDefault(mode string) string {
	if mode == "" {
		return "control-group, the default"
	}
	return mode
}
