package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"vouch/routers/vyos/vyostest/tree"
)

// The three directories of a session, before its name.
const (
	workPrefix   = TmpDir + "/new_config_"
	changePrefix = TmpDir + "/changes_only_"
	tmpPrefix    = TmpDir + "/tmp_"

	edits   = "/.edits"
	unsaved = "/.unsaved"
)

// A Session is what one user edits, by its name.
type Session struct {
	Store
	ID string
}

// An Edit is one change of a session.
type Edit struct {
	Delete bool
	Path   string
}

// Work is the directory where the union is mounted.
func (s Session) Work() string { return s.Path(workPrefix + s.ID) }

// Change is the directory with what was edited.
func (s Session) Change() string { return s.Path(changePrefix + s.ID) }

// Tmp is the directory of what a commit needs meanwhile.
func (s Session) Tmp() string { return s.Path(tmpPrefix + s.ID) }

// Sessions gives the names of those that have a directory to work in.
func (s Store) Sessions() []string {
	dirs, _ := filepath.Glob(s.Path(workPrefix + "*"))
	for i, d := range dirs {
		dirs[i] = strings.TrimPrefix(d, s.Path(workPrefix))
	}
	return dirs
}

// mountLine is what the kernel tells of a session's union.
func (s Session) mountLine() string {
	return "unionfs-fuse " + s.Work() + " fuse.unionfs-fuse rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other 0 0\n"
}

// Mounted says whether the running configuration shows below what was edited.
func (s Session) Mounted() bool {
	text, _ := s.read(Mounts)
	return strings.Contains(text, " "+s.Work()+" fuse")
}

// SetMounted mounts or unmounts. Nothing else is changed by it.
func (s Session) SetMounted(mounted bool) error {
	if s.Root == "" {
		return s.union(mounted)
	}
	return s.Do(func() error {
		text, err := s.read(Mounts)
		if err != nil {
			return err
		}
		text = strings.ReplaceAll(text, s.mountLine(), "")
		if mounted {
			text += s.mountLine()
		}
		return s.Write(Mounts, text, 0o666)
	})
}

// union mounts for real, by Debian's unionfs-fuse, or unmounts, at the root of a whole machine: systemd and the kernel
// do there to the mount and its process what they would do to VyOS's. As with that, nobody is told when it fails.
func (s Session) union(mounted bool) error {
	if mounted == s.Mounted() {
		return nil
	}
	if !mounted {
		return syscall.Unmount(s.Work(), 0)
	}
	args := []string{"unionfs-fuse", "-o", "cow,allow_other", s.Change() + "=RW:" + s.Path(ActiveDir) + "=RO", s.Work()}
	p, err := os.StartProcess("/usr/bin/unionfs-fuse", args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err == nil {
		_, _ = p.Wait() // it goes on by itself once all is mounted
	}
	return nil
}

// dir is where all lies that is written in the session: without the mount in the directory that it would cover.
func (s Session) dir() string {
	if s.Mounted() {
		return changePrefix + s.ID
	}
	return workPrefix + s.ID
}

// Edits gives what was edited as far as it shows.
func (s Session) Edits() ([]Edit, error) {
	text, err := s.read(s.dir() + edits)
	if err != nil || text == "" {
		return nil, err
	}
	var all []Edit
	return all, json.Unmarshal([]byte(text), &all)
}

// SetEdits replaces them.
func (s Session) SetEdits(all []Edit) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.Write(s.dir()+edits, string(b), 0o664)
}

// Changed says whether anything was edited since the last commit or discard, as far as it shows. What was set and then
// deleted again counts too: VyOS keeps a mark, and compares nothing.
func (s Session) Changed() (bool, error) {
	all, err := s.Edits()
	return len(all) > 0, err
}

// Config gives the configuration as the session sees it: the running one with its edits, or without the mount
// its edits alone.
func (s Session) Config() (tree.Tree, error) {
	config, err := tree.Tree{}, error(nil)
	if s.Mounted() {
		config, err = s.Active()
	}
	all, editsErr := s.Edits()
	for _, e := range all {
		if e.Delete {
			config.Remove(e.Path, false)
		} else {
			config.Add(e.Path)
		}
	}
	return config, errors.Join(err, editsErr)
}

// Open makes the directories and mounts. Where the directory is there it trusts that the mount is too.
func (s Session) Open(mount bool) error {
	if _, err := os.Stat(s.Work()); err == nil {
		return nil
	}
	for _, dir := range []string{s.Work(), s.Change(), s.Tmp()} {
		if err := os.MkdirAll(dir, 0o775); err != nil {
			return err
		}
	}
	if !mount {
		return nil
	}
	return s.SetMounted(true)
}

// Close unmounts and removes the directories.
func (s Session) Close() error {
	return errors.Join(s.SetMounted(false), os.RemoveAll(s.Work()), os.RemoveAll(s.Change()), os.RemoveAll(s.Tmp()))
}

// Unsaved says whether this session has committed anything since it was saved; what others have is theirs to know.
func (s Session) Unsaved() bool {
	_, err := os.Stat(s.Path(s.dir() + unsaved))
	return err == nil
}

// SetUnsaved notes it.
func (s Session) SetUnsaved(is bool) error {
	if is {
		return s.Write(s.dir()+unsaved, "", 0o664)
	}
	if err := os.Remove(s.Path(s.dir() + unsaved)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Group gives the number of a group in the system's own file, and its members.
func (s Store) Group(name string) (gid string, members []string) {
	text, _ := s.read("/etc/group")
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 4 && f[0] == name {
			return f[2], slices.DeleteFunc(strings.Split(f[3], ","), func(m string) bool { return m == "" })
		}
	}
	return "", nil
}
