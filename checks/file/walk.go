package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// A trail is how a path is followed: each name is looked for in a directory.
type trail struct {
	steps []step
	info  fs.FileInfo // of what the path leads to, without err
	end   string      // its real path; or how far it could be followed
	err   error
}

// A step is one name that is looked for. Its directory is a real path, without links.
type step struct {
	dir, name string
	dev, ino  uint64 // of what bears the name; 0: nothing
}

// walk follows the path as the kernel does.
func walk(path string) (t trail) {
	t.end = "/"
	links := 0
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch {
		case t.info != nil && !t.info.IsDir(): // a / behind it is enough
			t.info, t.err = nil, syscall.ENOTDIR
			return t
		case name == "" || name == ".":
			continue
		case name == "..":
			t.info, t.end = nil, filepath.Dir(t.end)
			continue
		}
		dir := t.end
		t.end = filepath.Join(dir, name)
		if t.info, t.err = os.Lstat(t.end); t.err != nil {
			t.steps = append(t.steps, step{dir: dir, name: name})
			return t
		}
		dev, ino := identity(t.info)
		t.steps = append(t.steps, step{dir, name, dev, ino})
		if t.info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		links++
		var to string
		if to, t.err = os.Readlink(t.end); t.err != nil || links > maxLinks {
			t.err = linkError(t.err)
			return t
		}
		t.info, t.end = nil, dir
		if filepath.IsAbs(to) {
			t.end = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	if t.info == nil {
		t.info, t.err = os.Lstat(t.end) // the last name was "..", or a link to "/"
	}
	return t
}

// linkError gives err, or that there were too many links.
func linkError(err error) error {
	if err != nil {
		return err
	}
	return syscall.ELOOP
}

// identity tells one file from another that has taken its name.
func identity(info fs.FileInfo) (dev, ino uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino
	}
	return 0, 0
}

// same says whether both were followed over the same files.
func (t trail) same(o trail) bool { return slices.Equal(t.steps, o.steps) }
