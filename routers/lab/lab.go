// Package lab builds networks of namespaces with real daemons in them: FRR, unbound, and whatever
// program a test wants to run there. Every network has its own namespaces, sockets and directories,
// so several can run at the same time, in one process or in several.
//
// A network ends with Close. When its process dies without that, the next New of any process
// removes what was left. Everything here needs root, iproute2 and network namespaces.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// base holds a directory for each network. It lies in /run as the names of the namespaces do, so
// both end with a reboot; and its path is short, as the path of a unix socket has to be.
const base = "/run/vlab"

const (
	ownerFile = "owner" // locked by the process the network belongs to, as long as that lives
	keepFile  = "keep"  // present: the network may outlive its process
)

// A Net is a network of namespaces. Its methods may be called concurrently.
type Net struct {
	id    string
	dir   string
	owner *os.File

	mu     sync.Mutex
	closed bool
	procs  []*Proc
}

// New makes an empty network: an id of its own and a directory, nothing else. It first removes the
// networks of processes that died without closing theirs; that one of them could not be removed is
// no error here.
func New(ctx context.Context) (*Net, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("lab: network namespaces need root")
	}
	_, _ = Sweep()
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	id := strings.ToLower(rand.Text()[:5])
	// A directory becomes visible to Sweep by the rename, and by then its owner file is locked.
	hidden := filepath.Join(base, "."+id)
	if err := os.Mkdir(hidden, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	owner, err := lock(filepath.Join(hidden, ownerFile), os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), os.RemoveAll(hidden))
	}
	n := &Net{id: id, dir: filepath.Join(base, id), owner: owner}
	if err := os.Rename(hidden, n.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), owner.Close(), os.RemoveAll(hidden))
	}
	return n, nil
}

// ID is the network's short name, which the names of its namespaces contain.
func (n *Net) ID() string { return n.id }

// Dir is the network's own directory. Any user may read it; Close removes it.
func (n *Net) Dir() string { return n.dir }

// Keep lets the network outlive its process: it stays until Remove. Close still removes it.
func (n *Net) Keep() error {
	if err := os.WriteFile(filepath.Join(n.dir, keepFile), nil, 0o644); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// Close ends every process in the network's namespaces, also those it did not start, and removes
// the namespaces and the directory. Closing again does nothing.
func (n *Net) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	procs := n.procs
	n.mu.Unlock()
	for _, p := range procs {
		_ = p.Signal(syscall.SIGKILL)
	}
	for _, p := range procs {
		<-p.Done()
	}
	return errors.Join(remove(n.id), n.owner.Close())
}

// add records a process, so that Close can wait for it.
func (n *Net) add(p *Proc) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("lab: the network is closed")
	}
	n.procs = append(n.procs, p)
	return nil
}

// Sweep removes the networks whose process is dead, but for those which were to be kept, and gives
// their ids.
func Sweep() ([]string, error) {
	var gone []string
	var errs []error
	for _, id := range ids() {
		if kept(id) {
			continue
		}
		switch err := Remove(id); {
		case err == nil:
			gone = append(gone, id)
		case !errors.Is(err, errAlive):
			errs = append(errs, err)
		}
	}
	return gone, errors.Join(errs...)
}

// Kept gives the ids of the networks that may outlive their process, whether or not they did yet.
func Kept() []string {
	return slices.DeleteFunc(ids(), func(id string) bool { return !kept(id) })
}

// errAlive: the network's process lives, or another one is removing it.
var errAlive = errors.New("its process is alive")

// Remove removes a network that outlived its process. One whose process is alive is left alone,
// which is an error.
func Remove(id string) error {
	dir := filepath.Join(base, id)
	owner, err := lock(filepath.Join(dir, ownerFile), 0)
	if _, gone := os.Stat(dir); gone == nil && errors.Is(err, fs.ErrNotExist) {
		return remove(id) // whoever was removing it is at the end of that, or died there; nothing is to be put in his way
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lab: network %s: %w", id, errAlive)
	}
	if err != nil {
		return fmt.Errorf("lab: network %s: %w", id, err)
	}
	return errors.Join(remove(id), owner.Close())
}

func ids() []string {
	dirs, _ := filepath.Glob(filepath.Join(base, "[^.]*"))
	for i, d := range dirs {
		dirs[i] = filepath.Base(d)
	}
	return dirs
}

func kept(id string) bool {
	_, err := os.Stat(filepath.Join(base, id, keepFile))
	return err == nil
}

// lock takes the lock that the kernel frees when the process is gone, however it went. The file is there, unless how
// has it made.
func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|how, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// remove takes away the network id: processes, namespaces, directory.
func remove(id string) error {
	names, err := filepath.Glob(filepath.Join("/run/netns", namespace(id, "*")))
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	var errs []error
	for _, path := range names {
		name := filepath.Base(path)
		if err := killAll(name); err != nil {
			errs = append(errs, err)
		}
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("lab: ip netns del %s: %w: %s", name, err, out))
		}
	}
	if err := os.RemoveAll(filepath.Join(base, id)); err != nil {
		errs = append(errs, fmt.Errorf("lab: %w", err))
	}
	return errors.Join(errs...)
}

// killAll kills every process in the namespace until there is none.
func killAll(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return Wait(ctx, "the processes in "+name+" to end", 2*time.Millisecond, func() (bool, error) {
		pids, err := pids(name)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return err == nil && len(pids) == 0, err
	})
}

// pids lists the processes in a namespace, but not this one, of which a thread may be inside.
func pids(name string) ([]int, error) {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return nil, fmt.Errorf("lab: ip netns pids %s: %w", name, err)
	}
	var list []int
	for f := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(f); err == nil && pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	return list, nil
}

func namespace(id, node string) string { return "vlab-" + id + "-" + node }
