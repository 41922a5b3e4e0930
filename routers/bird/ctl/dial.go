package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"vouch/routers"
)

// dialError says why there is no connection, and what to do about it.
func dialError(ctx context.Context, path string, err error) error {
	why := "cannot connect: " + cause(err).Error()
	switch {
	case ctx.Err() != nil:
		return routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()), "%s: had not answered yet: %w", path, context.Cause(ctx))
	case errors.Is(err, os.ErrNotExist):
		why = "no such socket: is bird started, and is this where it has its socket (bird -s)?"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "refused: bird is not running (its socket was left behind): start it again"
	case errors.Is(err, os.ErrPermission):
		why = "permission denied: " + admission(path)
	case errors.Is(err, syscall.EAGAIN):
		why = "its queue of connections is full: bird hangs or is overloaded"
	}
	return routers.Errorf(errors.Join(routers.ErrUnavailable, cause(err)), "%s: %s", path, why)
}

// admission says how to get to the socket.
func admission(path string) string {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		if text := admits(p, info); text != "" {
			return text
		}
	}
	return fmt.Sprintf("its directory is closed to us too: join the group of %s", filepath.Dir(path))
}

// admits names the group that may use what info tells of: to write to a socket, to pass a directory.
func admits(path string, info fs.FileInfo) string {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	need := fs.FileMode(0o020)
	if info.IsDir() {
		need = 0o010
	}
	if info.Mode()&need == 0 {
		return fmt.Sprintf("%s has mode %04o: give its group the right (bird makes it 0660), or become user %s",
			path, info.Mode().Perm(), userName(owner.Uid))
	}
	return fmt.Sprintf("join group %s, which may use %s", groupName(owner.Gid), path)
}

func userName(id uint32) string {
	n := strconv.FormatUint(uint64(id), 10)
	if u, err := user.LookupId(n); err == nil {
		return u.Username
	}
	return n
}

func groupName(id uint32) string {
	n := strconv.FormatUint(uint64(id), 10)
	if g, err := user.LookupGroupId(n); err == nil {
		return g.Name
	}
	return n
}

// cause is the system's own error, without the path that stands before it already.
func cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
