// Package vyostest is VyOS's configuration system for machines without one: a directory with the programs at
// the places they have on a router, with the same answers and the same traps, that changes a real FRR. What
// they do is what was seen on VyOS 1.3 and 1.4 and read in the sources of 1.2 to 1.5; the contract test of this
// package says it in a table, and runs on a router too.
package vyostest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// Styles are how a commit reaches FRR.
const (
	Incremental    = store.Incremental    // VyOS 1.2 and 1.3
	RerenderStatic = store.RerenderStatic // VyOS 1.4
	RerenderLate   = store.RerenderLate   // VyOS 1.5: after the commit has answered
)

// Group is the gid of vyattacfg in the system's own /etc/group, and Sudo that of sudo.
const (
	Group = 7104
	Sudo  = 7027
)

// A TB is the part of testing.TB that is used here.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}

// Options say what the system is like.
type Options struct {
	SocketDir string        // FRR's vty sockets
	Vtysh     string        // FRR's vtysh; empty: that of this machine
	Style     string        // empty: RerenderStatic
	Version   string        // empty: one that has the style
	Null0     bool          // routes are entered as Null0, as 1.2 and 1.3 do
	Delay     time.Duration // of a commit; 0: 200 ms
	PostHook  time.Duration // that a commit keeps the lock when all is done
	Late      time.Duration // in the style RerenderLate, from the answer to FRR; 0: 500 ms
	Active    []string      // the running configuration, such as "system host-name r1"; nil: that, BGP and an interface
	Collapse  bool          // what a delete leaves empty above goes too, up to protocols
	Vyconf    bool          // the backend of the rolling releases of 2025, which says some things in other words
	NoBoot    bool          // the system still boots: see System.Boot
	NoConfigd bool          // vyos-configd does not run the scripts of a commit. In the style RerenderStatic it does: see store.Configd
}

// A System is one stand-in. Its methods may be called concurrently.
type System struct {
	tb    TB
	store store.Store
	inner string // the root as its programs see it: empty for /
	owner *os.File
}

// New makes a system, whose programs are built at the first time in a process. It ends with the test; what is
// left of one whose process was killed the next New removes, of whatever process.
func New(tb TB, o Options) *System {
	tb.Helper()
	binary, err := build(tb.Context())
	if err != nil {
		tb.Fatalf("vyostest: %v", err)
	}
	sweep()
	root, owner, err := newRoot()
	if err != nil {
		tb.Fatalf("vyostest: %v", err)
	}
	s := &System{tb: tb, store: store.Store{Root: root}, inner: root, owner: owner}
	tb.Cleanup(s.Close)
	if err := errors.Join(s.found(o), s.install(o, binary), s.names("/usr/bin/sg", "/usr/bin/vtysh", "/usr/bin/systemctl")); err != nil {
		tb.Fatalf("vyostest: %v", err)
	}
	if o.Style == RerenderLate && o.SocketDir != "" {
		s.Rendered()
	}
	return s
}

// Install puts a system into the root of a whole machine, to be booted, that has FRR, sg, systemctl and Debian's
// unionfs-fuse of its own: there a session is mounted for real. What VyOS does at a boot is the machine's to do:
// nothing of store.TmpDir outlives one, and store.Boot is written at its end. Of the System only those methods may be
// used that run no program of it; what a whole machine mounts over its directories they do not see.
func Install(tb TB, root string, o Options) *System {
	tb.Helper()
	binary, err := build(tb.Context())
	s := &System{tb: tb, store: store.Store{Root: root}}
	if err == nil {
		err = s.install(o, binary)
	}
	s.must(err)
	return s
}

// Root is the directory that stands for /.
func (s *System) Root() string { return s.store.Root }

// Path gives a place below the root.
func (s *System) Path(p string) string { return s.store.Path(p) }

// Env is what the programs expect of the environment, beside what getSessionEnv prints.
func (s *System) Env() []string { return env(s.Root()) }

func env(root string) []string {
	at := func(p string) string { return filepath.Join(root, p) }
	return []string{
		"vyatta_sbindir=" + at("/opt/vyatta/sbin"), "vyatta_sysconfdir=" + at("/opt/vyatta/etc"),
		"vyatta_cfg_templates=" + at("/opt/vyatta/share/vyatta-cfg/templates"),
		"vyos_libexec_dir=" + at("/usr/libexec/vyos"), "vyos_conf_scripts_dir=" + at("/usr/libexec/vyos/conf_mode"),
		"vyos_op_scripts_dir=" + at("/usr/libexec/vyos/op_mode"), "vyos_validators_dir=" + at("/usr/libexec/vyos/validators"),
		"vyos_completion_dir=" + at("/usr/libexec/vyos/completion"),
		"vyos_bin_dir=" + at("/usr/bin"), "vyos_sbin_dir=" + at("/usr/sbin"),
	}
}

// Active gives the running configuration, a line for each last node, sorted: "protocols static route
// 192.0.2.0/24 blackhole".
func (s *System) Active() []string {
	s.tb.Helper()
	t, err := s.store.Active()
	s.must(err)
	return t.Leaves()
}

// Calls gives every run of a program so far, by start. One that was killed has not Ended.
func (s *System) Calls() []store.Call {
	s.tb.Helper()
	all, err := s.store.Calls()
	s.must(err)
	return all
}

// CallsOf gives those of one verb: "my_set", "my_commit", "setupSession", "vyos-save-config.py".
func (s *System) CallsOf(verb string) []store.Call {
	s.tb.Helper()
	return slices.DeleteFunc(s.Calls(), func(c store.Call) bool { return c.Verb() != verb })
}

// Sessions gives the names of the sessions that are there, mounted or not.
func (s *System) Sessions() []string { return s.store.Sessions() }

// Mounted gives the names of those that are mounted.
func (s *System) Mounted() []string {
	return slices.DeleteFunc(s.Sessions(), func(id string) bool {
		return !store.Session{Store: s.store, ID: id}.Mounted()
	})
}

// Boot says how the boot went: "" is not yet, "0" well, "1" with errors.
func (s *System) Boot(status string) {
	s.tb.Helper()
	s.must(s.store.SetFault(store.Fault{Name: BootAbsent}))
	s.boot(status)
}

func (s *System) boot(status string) {
	s.tb.Helper()
	if status == "" {
		if err := os.Remove(s.Path(store.Boot)); !errors.Is(err, os.ErrNotExist) {
			s.must(err)
		}
		return
	}
	s.must(s.store.Write(store.Boot, status, 0o644))
}

func (s *System) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("vyostest: %v", err)
	}
}

// Rendered takes what FRR is configured with now for what VyOS has rendered, as New does: in the style RerenderLate
// a commit of routing takes all else away, of whatever daemon.
func (s *System) Rendered() {
	s.tb.Helper()
	s.must(s.store.Write(store.Rendered, s.Vtysh("show running-config"), 0o644))
}

// Close ends what still runs of the system, and removes it.
func (s *System) Close() {
	defer s.owner.Close()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		alive := s.kill()
		if !alive && os.RemoveAll(s.Root()) == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.tb.Errorf("vyostest: %s could not be removed", s.Root())
}

// kill kills what runs of the system, and says whether there was anything.
func (s *System) kill() (alive bool) {
	files, _ := filepath.Glob(s.Path(store.Processes) + "/*")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(f))
		exe, linkErr := os.Readlink(filepath.Join("/proc", filepath.Base(f), "exe"))
		if err != nil || linkErr != nil || !strings.HasPrefix(exe, s.Root()+"/") {
			continue
		}
		alive = true
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return alive
}

// found makes what a whole machine has without VyOS.
func (s *System) found(o Options) error {
	if err := s.directories(map[string]os.FileMode{"/": 0o755, "/dev": 0o755, "/etc": 0o755, "/run": 0o755, "/tmp": 0o777,
		"/proc/self": 0o777, "/usr/bin": 0o755, "/usr/sbin": 0o755}); err != nil {
		return err
	}
	links := map[string]string{"/bin": "usr/bin", "/dev/fuse": "/dev/null"}
	if o.SocketDir != "" {
		links["/run/frr"] = o.SocketDir
	}
	for path, to := range links {
		if err := os.Symlink(to, s.Path(path)); err != nil {
			return err
		}
	}
	err := errors.Join(
		s.store.Write("/etc/group", "root:x:0:\nsudo:x:"+strconv.Itoa(Sudo)+":vyos\nvyattacfg:x:"+strconv.Itoa(Group)+":vyos\n", 0o664),
		s.store.Write("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nvyos:x:1002:100::/home/vyos:/bin/vbash\n", 0o664),
		s.store.Write(store.Mounts, "overlay / overlay rw,relatime 0 0\nproc /proc proc rw 0 0\n", 0o666))
	if !o.NoBoot {
		err = errors.Join(err, s.store.Write(store.Boot, "0", 0o664))
	}
	return err
}

// directories makes them with just these modes.
func (s *System) directories(modes map[string]os.FileMode) error {
	for dir, mode := range modes {
		if err := errors.Join(os.MkdirAll(s.Path(dir), 0o755), os.Chmod(s.Path(dir), mode)); err != nil {
			return err
		}
	}
	return nil
}

// install makes VyOS's directories, files and programs.
func (s *System) install(o Options, binary []byte) error {
	if err := s.directories(map[string]os.FileMode{
		"/opt/vyatta/etc/config": 0o775, "/opt/vyatta/etc/functions": 0o755, "/opt/vyatta/sbin": 0o755,
		"/usr/libexec/vyos/conf_mode": 0o755, "/usr/share/vyos": 0o755,
		store.ActiveDir: 0o775, store.TmpDir: 0o775, store.Hidden: 0o777, store.Processes: 0o777, filepath.Dir(store.Timer): 0o755,
	}); err != nil {
		return err
	}
	set, err := settings(o)
	if err != nil {
		return err
	}
	if err := errors.Join(s.store.SetSettings(set), s.place(binary), s.files(o), os.Symlink("opt/vyatta/etc/config", s.Path("/config"))); err != nil {
		return err
	}
	return s.own()
}

// settings fills what an option left out.
func settings(o Options) (store.Settings, error) {
	set := store.Settings{Style: o.Style, Null0: o.Null0, Delay: o.Delay, PostHook: o.PostHook, Late: o.Late, GID: Group,
		SocketDir: o.SocketDir, Collapse: o.Collapse, Vyconf: o.Vyconf, Configd: !o.NoConfigd}
	if set.Style == "" {
		set.Style = RerenderStatic
	}
	if set.Delay == 0 {
		set.Delay = 200 * time.Millisecond
	}
	if set.Late == 0 {
		set.Late = 500 * time.Millisecond
	}
	if o.Vtysh == "" {
		o.Vtysh = "vtysh"
	}
	path, err := command.Look(o.Vtysh)
	set.Vtysh = []string{path}
	return set, err
}

// versions are what has each style.
var versions = map[string]string{Incremental: "1.3.8", RerenderStatic: "1.4.3", RerenderLate: "1.5-rolling-202509150020"}

// trains are VyOS's names of its releases.
var trains = map[string]string{Incremental: "equuleus", RerenderStatic: "sagitta", RerenderLate: "circinus"}

// files writes what the programs and a driver read.
func (s *System) files(o Options) error {
	style := o.Style
	if style == "" {
		style = RerenderStatic
	}
	version := o.Version
	if version == "" {
		version = versions[style]
	}
	if o.Active == nil {
		o.Active = []string{"interfaces dummy dum0 address 198.51.100.1/32", "protocols bgp system-as 65001", "system host-name r1"}
	}
	texts := map[string]string{
		"/usr/share/vyos/version.json": `{"version": "` + version + `", "release_train": "` + trains[style] + `", "flavor": "generic"}` + "\n",
		store.LockFile:                 "",
		store.Saved:                    "",
		"/opt/vyatta/etc/functions/script-template": s.template(style),
	}
	for path, text := range texts {
		if err := s.store.Write(path, text, 0o664); err != nil {
			return err
		}
	}
	if err := s.store.Prepare(); err != nil {
		return err
	}
	active := tree.Parse(strings.Join(o.Active, "\n"))
	return errors.Join(s.store.SetActive(active),
		s.store.Write(store.Saved, active.Braces(), 0o664))
}

// own gives the configuration to the group that may change it.
func (s *System) own() error {
	return filepath.WalkDir(s.Path("/opt/vyatta"), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, -1, Group))
	})
}

// RealEnv is System.Env of a real router.
func RealEnv() []string { return env("/") }
