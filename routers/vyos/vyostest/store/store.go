// Package store is what the stand-in keeps below its root: the places of VyOS, and behind them what its
// programs and the test tell each other. Every change is made under one lock, as there are many processes.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/routers/vyos/vyostest/tree"
)

// Styles are how a commit reaches FRR.
const (
	Incremental    = "incremental"     // 1.2 and 1.3: vtysh for each route that changed
	RerenderStatic = "rerender-static" // 1.4: all static routes are made those of the configuration
	RerenderLate   = "rerender-late"   // 1.5: the same after the commit has answered
)

// Settings are what a system is like; they do not change during its life.
type Settings struct {
	Style     string
	Vtysh     []string // the program and its first arguments
	Null0     bool     // blackholes are entered as Null0
	Delay     time.Duration
	PostHook  time.Duration
	Late      time.Duration
	GID       int // of vyattacfg
	SocketDir string
	Collapse  bool // a delete takes all with it that it leaves empty
	Vyconf    bool // the words are those of the vyconf backend
	Configd   bool // vyos-configd runs the script, and writes what it says where the session's process writes
}

// A Store is the root of one system.
type Store struct{ Root string }

// The places, as VyOS has them, and the one that VyOS does not have.
const (
	ConfigDir = "/opt/vyatta/config"
	ActiveDir = ConfigDir + "/active"
	TmpDir    = ConfigDir + "/tmp"
	LockFile  = ConfigDir + "/.lock"
	Boot      = "/tmp/vyos-config-status"
	Mounts    = "/proc/self/mounts"
	Saved     = "/opt/vyatta/etc/config/config.boot"
	Configd   = "/tmp/vyos-configd-script-stdout" // what scripts say of sessions that are no process's
	Rendered  = Hidden + "/frr.conf"              // what FRR is configured with beside the static routes; absent: only those are rendered
	Timer     = "/run/systemd/transient/commit-confirm.timer"
	Hidden    = "/var/standin"
	Processes = Hidden + "/processes" // a file for each that lives, by its number

	nodes    = ActiveDir + "/.nodes"
	settings = Hidden + "/settings"
	calls    = Hidden + "/calls"
	faults   = Hidden + "/faults"
	guard    = Hidden + "/lock"
)

// Turn is locked by who changes FRR in the style that answers first, and has the turn of the last one.
const Turn = Hidden + "/turn"

// Path gives the place below the root.
func (s Store) Path(parts ...string) string {
	return filepath.Join(append([]string{s.Root}, parts...)...)
}

// Do runs f while no other process of this system is in Do.
func (s Store) Do(f func() error) error {
	file, err := os.OpenFile(s.Path(guard), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return err
	}
	return f()
}

// Prepare makes what processes of every user write to.
func (s Store) Prepare() error {
	for _, path := range []string{guard, calls, faults, Turn} {
		if err := s.Write(path, "", 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Write replaces a file as a whole.
func (s Store) Write(path, text string, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(s.Path(path)), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), s.Path(path))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// read gives the text of a file, and nothing of one that is not there.
func (s Store) read(path string) (string, error) {
	b, err := os.ReadFile(s.Path(path))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// Settings reads them.
func (s Store) Settings() (set Settings, err error) {
	text, err := s.read(settings)
	if err != nil {
		return set, err
	}
	return set, json.Unmarshal([]byte(text), &set)
}

// SetSettings writes them.
func (s Store) SetSettings(set Settings) error {
	b, err := json.Marshal(set)
	if err != nil {
		return err
	}
	return s.Write(settings, string(b), 0o644)
}

// Active is the running configuration.
func (s Store) Active() (tree.Tree, error) {
	text, err := s.read(nodes)
	return tree.Parse(text), err
}

// SetActive replaces the running configuration. The file belongs to the group of whoever does it, as the tree
// of a commit does.
func (s Store) SetActive(t tree.Tree) error { return s.Write(nodes, t.String(), 0o664) }

// MayCommit says whether this process could write the running configuration.
func (s Store) MayCommit() bool {
	const writable = 2 // W_OK
	return syscall.Access(s.Path(nodes), writable) == nil
}

// A Fault is something that goes wrong the next times.
type Fault struct {
	Name string
	Left int // how often still; negative: always
	Args []string
}

// SetFault has a fault happen from now on; times 0 is never again, and negative always.
func (s Store) SetFault(f Fault) error {
	return s.Do(func() error {
		all, err := s.faults()
		if err != nil {
			return err
		}
		all[f.Name] = f
		return s.setFaults(all)
	})
}

// Take says whether a fault happens now, and counts it. What want refuses of its arguments is another's.
func (s Store) Take(name string, want func(args []string) bool) (args []string, happens bool) {
	_ = s.Do(func() error {
		all, err := s.faults()
		f := all[name]
		if err != nil || f.Left == 0 || want != nil && !want(f.Args) {
			return err
		}
		args, happens = f.Args, true
		if f.Left > 0 {
			f.Left--
		}
		all[name] = f
		return s.setFaults(all)
	})
	return args, happens
}

// Left says how often a fault still happens.
func (s Store) Left(name string) int {
	left := 0
	_ = s.Do(func() error {
		all, err := s.faults()
		left = all[name].Left
		return err
	})
	return left
}

func (s Store) faults() (map[string]Fault, error) {
	all := map[string]Fault{}
	text, err := s.read(faults)
	if err != nil || text == "" {
		return all, err
	}
	return all, json.Unmarshal([]byte(text), &all)
}

func (s Store) setFaults(all map[string]Fault) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.Write(faults, string(b), 0o666)
}

// A Call is one run of one of the programs.
type Call struct {
	Program  string // its path below the root, such as /opt/vyatta/sbin/my_set
	Args     []string
	Env      []string
	PID      int
	UID, GID int
	Groups   []int
	Umask    int
	Started  time.Time
	Ended    bool
	Code     int // the exit status, 139 for a crash
}

// Record adds a call, or what became of one, known by its PID and start.
func (s Store) Record(c Call) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.Do(func() error {
		file, err := os.OpenFile(s.Path(calls), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = file.Write(append(b, '\n'))
		return errors.Join(err, file.Close())
	})
}

// Calls gives all calls in the order of their start.
func (s Store) Calls() ([]Call, error) {
	var text string
	if err := s.Do(func() (err error) { text, err = s.read(calls); return err }); err != nil { // not in mid-line
		return nil, err
	}
	var all []Call
	at := map[string]int{}
	for line := range bytes.Lines([]byte(text)) {
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("calls: %w", err)
		}
		id := fmt.Sprint(c.PID, " ", c.Started.UnixNano())
		if i, ok := at[id]; ok {
			all[i] = c
			continue
		}
		at[id] = len(all)
		all = append(all, c)
	}
	return all, nil
}

// Verb is the program's name, and what it was asked where that is the first word that is no option; "showActive" is to
// show what runs, and "showConfig" what a session has.
func (c Call) Verb() string {
	name := filepath.Base(c.Program)
	if name != "cli-shell-api" {
		return name
	}
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case a == "--show-cfg1" || a == "--show-cfg2":
			i++
		case a == "showConfig" && slices.Contains(c.Args[:i], "--show-active-only"):
			return "showActive"
		case !strings.HasPrefix(a, "-"):
			return a
		}
	}
	return name
}
