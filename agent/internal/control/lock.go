package control

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vouch/agent/internal/owner"
)

const lockMode = 0o600 // whoever can open the file can hold the lock

// A locked is what only one agent may have.
type locked struct {
	what   string // the name, for errors
	wayOut string // for an agent that finds it taken
}

var (
	socketLock = locked{"control socket", "stop it first (systemctl stop vouch)"}
	stateLock  = locked{"state file", "stop it first (systemctl stop vouch), or give this one a [agent] state_file of its own, and prefixes that the other does not have"}
)

// takeLock locks path.lock and writes our pid there for people. The file is never removed: a lock on
// a removed file would keep nobody out. On a full disk the pid is missing, and the lock holds.
func takeLock(l locked, path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, lockMode)
	if err != nil {
		return nil, fmt.Errorf("lock the %s: %w", l.what, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, fmt.Errorf("%w (%s, %s %s): %s; nothing was changed", ErrRunning, holder(f), l.what, path, l.wayOut)
	}
	if err == nil {
		err = owner.Share(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the %s: %s: %w", l.what, name, err), f.Close())
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	return f, nil
}

// unlock does so by name: a child between fork and exec still holds the file.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// holder names the process that wrote the lock file. The text is for people and trusted for nothing.
func holder(f *os.File) string {
	b, _ := io.ReadAll(io.LimitReader(f, 16))
	if pid, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 22); err == nil && pid > 0 {
		return fmt.Sprintf("pid %d", pid)
	}
	return "pid unknown"
}
