package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirMode    = 0o755
	socketMode = 0o660
	pathMax    = 107 // bytes of sun_path, without its NUL
	// dialPatience bounds the question whether somebody else listens on the path.
	dialPatience = time.Second
)

// A socket is the listening control socket with its lock.
type socket struct {
	listener *net.UnixListener
	path     string
	own      os.FileInfo
	lock     *os.File
	once     sync.Once
	err      error
}

// listen takes path, under a lock which the kernel drops when the agent dies in whatever way.
func listen(path, group string) (*socket, error) {
	gid, err := socketGroup(group)
	if err != nil {
		return nil, err
	}
	if len(path) > pathMax {
		return nil, fmt.Errorf("control socket %s: the path has %d bytes, a unix socket's at most %d: set a shorter control.socket", path, len(path), pathMax)
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, forbidden(fmt.Errorf("control socket %s: make its directory: %w", path, err))
	}
	lock, err := takeLock(socketLock, path)
	if err != nil {
		return nil, forbidden(err)
	}
	s := &socket{path: path, lock: lock}
	if err := s.bind(gid); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket %s: %w", path, err), s.Close())
	}
	return s, nil
}

func socketGroup(group string) (int, error) {
	if group == "" {
		return os.Getegid(), nil
	}
	gid, err := groupID(group)
	if err != nil {
		return 0, fmt.Errorf("control.group: %w", err)
	}
	return gid, nil
}

func (s *socket) bind(gid int) error {
	if err := clearPath(s.path); err != nil {
		return err
	}
	l, err := listenPrivate(s.path)
	if err != nil {
		return err
	}
	s.listener = l
	if s.own, err = os.Lstat(s.path); err != nil {
		return err
	}
	if err := os.Lchown(s.path, -1, gid); err != nil {
		return fmt.Errorf("give it to group %d: %w: put the agent's user into that group (usermod -aG), or name another as control.group", gid, err)
	}
	return os.Chmod(s.path, socketMode)
}

// listenPrivate binds the path with mode 0600. Linux takes the mode from the socket's own inode, so
// that it is never wider, not even for a moment, and the process's umask is left alone.
func listenPrivate(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
			return cerr
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	ul, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listener is a %T", l), l.Close())
	}
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// clearPath removes a dead socket. Anything that is not a socket stays, and so does one on which
// some other program listens.
func clearPath(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("there is %s at this path, which is left alone: move it away or set another control.socket", kind(st.Mode()))
	}
	c, err := net.DialTimeout("unix", path, dialPatience)
	if err == nil {
		_ = c.Close()
		return errors.New("another program listens on it, which is left alone: set another control.socket")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find out whether it is in use: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the dead socket: %w", err)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "a file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	}
	return "something that is not a socket"
}

// forbidden adds the way out to the error of a user who may not write where the socket is to be.
func forbidden(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: run vouch as root, or set [control] socket (or --socket) to a path in a directory which user %s may write", err, login())
}

// mine tells whether what is at the path is still this socket.
func (s *socket) mine() bool {
	st, err := os.Lstat(s.path)
	return err == nil && os.SameFile(st, s.own)
}

// Close stops listening, removes the socket if it is still ours, and lets the lock go.
func (s *socket) Close() error {
	s.once.Do(func() {
		if s.listener != nil {
			if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
				s.err = err
			}
			if s.mine() {
				s.err = errors.Join(s.err, os.Remove(s.path))
			}
		}
		s.err = errors.Join(s.err, unlock(s.lock))
	})
	return s.err
}
