package detect

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Socket is one place where a daemon may listen, and what came of asking there.
type Socket struct {
	Path    string `json:"path"`
	State   State  `json:"state"`
	Problem string `json:"problem,omitempty"` // empty: it answers
	WayOut  string `json:"way_out,omitempty"`
	// Mode, Owner and Group are those of the file; empty: it is not there, or cannot be seen.
	Mode  string `json:"mode,omitempty"`
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`

	uid, gid uint32
	perm     fs.FileMode
	file     fileID
}

// A fileID tells one file from another, and from one that took its place.
type fileID struct {
	device, inode uint64
	changed       syscall.Timespec
}

// A State is how a socket was found.
type State string

// The states of a socket.
const (
	Answers State = "answers"
	Silent  State = "silent" // it takes connections, and no answer comes: the daemon hangs
	Denied  State = "denied" // somebody listens, and this process may not connect
	Stale   State = "stale"  // nobody listens: a dead daemon left it behind
	Missing State = "missing"
)

// live says whether somebody listens there.
func (s Socket) live() bool { return s.State == Answers || s.State == Silent || s.State == Denied }

// An asker makes the daemon behind a connection say its version.
type asker func(ctx context.Context, conn net.Conn) (version string, err error)

// probe looks at one socket and asks for the version there. how says how a daemon that is not there is
// started.
func probe(ctx context.Context, path string, heard listening, how string, ask asker) (Socket, string) {
	s := stat(path)
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		s.refused(err, heard, how)
		return s, ""
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	version, err := ask(ctx, conn)
	if err != nil {
		s.State, s.Problem, s.WayOut = Silent, "takes connections and does not answer as it should (hung?): "+err.Error(), "see what the daemon does; restart it if it hangs"
		return s, ""
	}
	s.State = Answers
	return s, version
}

// refused notes why there is no connection.
func (s *Socket) refused(err error, heard listening, how string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.State, s.Problem, s.WayOut = Missing, "no such socket", how
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrPermission) && !heard.certain(s.Path):
		s.State, s.Problem, s.WayOut = Stale, "left behind: nobody listens", how
	case errors.Is(err, fs.ErrPermission):
		s.State, s.Problem, s.WayOut = Denied, "permission denied", s.joining()
	case errors.Is(err, syscall.EAGAIN):
		s.State, s.Problem, s.WayOut = Silent, "its queue of connections is full: the daemon hangs or is overloaded", "see what the daemon does; restart it if it hangs"
	default:
		s.State, s.Problem, s.WayOut = Missing, "cannot connect: "+cause(err), "correct the path in [router]"
	}
}

// cause is the system's own error, without the path that is told already.
func cause(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// joining is the way to be let in.
func (s Socket) joining() string {
	if s.Group == "" || s.Group == rootGroup || s.perm&0o060 != 0o060 {
		return "let the user that vouch runs as write to it, and enter the directories above it"
	}
	return "add the user that vouch runs as to group " + s.Group + " (usermod -aG " + s.Group + " USER), and restart vouch"
}

// stat looks at the file.
func stat(path string) Socket {
	s := Socket{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		return s
	}
	s.perm, s.Mode = info.Mode().Perm(), info.Mode().String()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.uid, s.gid, s.file = st.Uid, st.Gid, fileID{uint64(st.Dev), st.Ino, st.Ctim}
		s.Owner, s.Group = userName(st.Uid), groupName(st.Gid)
	}
	return s
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// abreast does f for 0 to n-1 at once and waits for all.
func abreast(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// listening are the paths of the unix sockets that somebody listens on, which anybody may know: in the network
// namespace of the thread that read them. They are without symbolic links, as the kernel has them as they were
// given: Debian's FRR binds to /var/run/frr. Nil: they could not be read.
type listening map[string]bool

// readListening reads the kernel's table of unix sockets (proc_pid_net(5)): Num RefCount Protocol Flags
// Type St Inode Path.
func readListening() listening {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil
	}
	defer f.Close()
	l := listening{}
	const acceptsConnections = "00010000"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 8 && fields[3] == acceptsConnections {
			l[unlinked(fields[7])] = true
		}
	}
	return l
}

// unlinked is the path of a socket whose directory is given without symbolic links.
func unlinked(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// on says whether somebody is known to listen there.
func (l listening) on(path string) bool { return l[unlinked(path)] }

// certain says whether somebody listens there, as far as that can be told without connecting. Where the
// table could not be read the worse is taken to be so: somebody does, whom this process may not ask.
func (l listening) certain(path string) bool { return l == nil || l.on(path) }
