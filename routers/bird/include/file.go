package include

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"

	"vouch/routers"
)

// mostText bounds what is read, in bytes.
const mostText = 16 << 20

// ReadFile is os.ReadFile for regular files of up to 16 MiB. Of anything else it reads nothing, and does not wait for
// a writer as a named pipe has it.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file, but %s", path, info.Mode().Type())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if err == nil && len(text) > mostText {
		err = fmt.Errorf("%s is longer than %d MiB", path, mostText>>20)
	}
	return text, err
}

// Read gives what is in the file; nil where there is none. The error is of class routers.ErrRefused.
func Read(path string) ([]byte, error) {
	text, err := ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, routers.Errorf(errors.Join(routers.ErrRefused, err), "%w: let vouch read and write a file there", err)
	}
	return text, nil
}

// Write puts text in the place of the file, whole or not at all, also when the machine stops meanwhile: it
// is written beside it and renamed. A symbolic link stays one; mode and owner stay as they were, and those
// of a new file are the owner and group of its directory, 0644. Nil removes the file. The error is of class
// routers.ErrRefused, and then the file is as it was.
func Write(path string, text []byte) error {
	if err := write(path, text); err != nil {
		return routers.Errorf(errors.Join(routers.ErrRefused, err), "%w: the file is as it was; let vouch write to its directory", err)
	}
	return nil
}

func write(path string, text []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if target, err := os.Readlink(path); err == nil { // a link to a file that is not there yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if text == nil {
		return os.Remove(path)
	}
	mode, like := fs.FileMode(0o644), filepath.Dir(path)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		mode, like = info.Mode().Perm(), path
	}
	t, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = t.Cleanup() }()
	if err := own(t.File, like); err != nil && mode&0o004 == 0 {
		return err
	}
	if _, err := t.Write(text); err != nil {
		return err
	}
	return t.CloseAtomicallyReplace()
}

// own gives a file the owner and group of another, or else its group: BIRD must be able to read it.
func own(f *os.File, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if m, ok := mine.Sys().(*syscall.Stat_t); ok && m.Uid == st.Uid && m.Gid == st.Gid {
		return nil
	}
	if err := f.Chown(int(st.Uid), int(st.Gid)); err == nil {
		return nil
	}
	return f.Chown(-1, int(st.Gid))
}
