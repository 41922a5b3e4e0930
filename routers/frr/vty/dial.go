package vty

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"vouch/routers"
)

// suffix ends the name of a daemon's socket.
const suffix = ".vty"

// Path is the socket of a daemon ("ospfd") below FRR's directory of sockets.
func Path(dir, daemon string) string { return filepath.Join(dir, daemon+suffix) }

// Dial connects to a daemon's socket. Its errors are of class routers.ErrUnavailable and of the
// system's (syscall.ENOENT, ECONNREFUSED, EACCES, EAGAIN), and name the way out. The caller bounds it
// by ctx, though connecting to a unix socket never waits. A daemon that is still loading is left alone, see
// Loading.
func Dial(ctx context.Context, dir, daemon string) (net.Conn, error) {
	if err := Loading(dir, daemon); err != nil {
		return nil, err
	}
	var d net.Dialer
	path := Path(dir, daemon)
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		return conn, nil
	}
	why := "cannot connect: " + cause(err).Error()
	switch {
	case ctx.Err() != nil:
		return nil, Silent(daemon, 0, context.Cause(ctx))
	case errors.Is(err, os.ErrNotExist):
		why = fmt.Sprintf("no such socket: is %s enabled in /etc/frr/daemons, and started?", daemon)
	case errors.Is(err, syscall.ECONNREFUSED):
		why = fmt.Sprintf("refused: %s is not running (its socket was left behind): start it again", daemon)
	case errors.Is(err, os.ErrPermission):
		why = "permission denied: join group frrvty (and group frr, for daemons in a path space of their own)"
	case errors.Is(err, syscall.EAGAIN):
		why = fmt.Sprintf("its queue of connections is full: %s hangs or is overloaded", daemon)
	}
	return nil, routers.Errorf(errors.Join(routers.ErrUnavailable, cause(err)), "%s: %s", path, why)
}

// cause is the system's own error, without the path that stands before it already.
func cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
