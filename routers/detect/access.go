package detect

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A User is one whom the kernel lets connect to a socket, or not.
type User struct {
	Name string
	UID  uint32
	GIDs []uint32
	Any  bool // no file is closed to it (CAP_DAC_OVERRIDE)
	Net  bool // it may change addresses and routes (CAP_NET_ADMIN)
}

// A Barrier is what a user lacks to connect to a socket, or to replace a file: a right on the thing itself or on
// a directory above it.
type Barrier struct {
	Path, Mode, Owner, Group string
	// Member says that members of Group have the right.
	Member bool
}

// String says what is closed.
func (b Barrier) String() string {
	return fmt.Sprintf("%s (%s %s:%s)", b.Path, b.Mode, b.Owner, b.Group)
}

// Barriers gives all that keeps u from connecting to the socket, from the root down (unix(7)). What this
// process cannot see is left out, and so are access control lists.
func Barriers(path string, u User) []Barrier {
	var found []Barrier
	const pass, write = 0o1, 0o2
	for _, dir := range above(path) {
		found = barrier(found, dir, u, pass)
	}
	return barrier(found, path, u, write)
}

// above gives the directories that lead to a path, the root first.
func above(path string) []string {
	var dirs []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(dirs)
	return dirs
}

func barrier(found []Barrier, path string, u User, need fs.FileMode) []Barrier {
	info, err := os.Stat(path)
	if err != nil {
		return found
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || allows(info.Mode().Perm(), st.Uid, st.Gid, u, need) {
		return found
	}
	return append(found, Barrier{Path: path, Mode: info.Mode().String(), Owner: userName(st.Uid), Group: groupName(st.Gid),
		Member: u.UID != st.Uid && info.Mode().Perm()&(need<<3) == need<<3})
}

// allows looks at the bits of the one class that counts for u: the owner's, the group's or the others'.
func allows(perm fs.FileMode, uid, gid uint32, u User, need fs.FileMode) bool {
	switch {
	case u.Any:
		return true
	case u.UID == uid:
		need <<= 6
	case slices.Contains(u.GIDs, gid):
		need <<= 3
	}
	return perm&need == need
}

// FileBarriers gives all that keeps u from reading the file, or from putting another one in its place by renaming,
// for which the directory counts. What this process cannot see is left out, and so are access control lists.
func FileBarriers(path string, u User) []Barrier {
	var found []Barrier
	const pass, write, read = 0o1, 0o2, 0o4
	dirs := above(path)
	last := len(dirs) - 1
	for _, dir := range dirs[:last] {
		found = barrier(found, dir, u, pass)
	}
	return barrier(barrier(found, dirs[last], u, pass|write), path, u, read)
}

// Passage is the way out of barriers: the groups to join, and what no group gives. Nobody is told to join root's.
func Passage(bs []Barrier, u User) string {
	var groups, closed, roots []string
	for _, b := range bs {
		switch {
		case b.Member && b.Group == rootGroup:
			roots = append(roots, b.Path)
		case b.Member && !slices.Contains(groups, b.Group):
			groups = append(groups, b.Group)
		case !b.Member:
			closed = append(closed, b.Path)
		}
	}
	var ways []string
	if len(groups) > 0 {
		ways = append(ways, fmt.Sprintf("usermod -aG %s %s, and restart vouch", strings.Join(groups, ","), u.Name))
	}
	if len(roots) > 0 {
		ways = append(ways, "give "+strings.Join(roots, " and ")+" a group that "+u.Name+" is in, other than "+rootGroup+" (chgrp)")
	}
	if len(closed) > 0 {
		ways = append(ways, "open "+strings.Join(closed, " and ")+" to the group (chmod)")
	}
	return strings.Join(ways, "; ")
}

// rootGroup is the one of root, whose files must not be opened for the sake of one socket.
const rootGroup = "root"
