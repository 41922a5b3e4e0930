package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrRunning is of an agent that runs with this control socket, or this state file.
var ErrRunning = errors.New("another vouch runs here")

// Hold keeps agents away from the control socket at path, as one that runs does, until release is called. It does
// not listen. The error wraps ErrRunning when an agent runs.
func Hold(path string) (release func() error, err error) {
	release, err = hold(socketLock, path)
	return release, forbidden(err)
}

// HoldState does the same with the state file at path: two agents that write one file would each undo what the
// other was told, such as a drain. The error wraps ErrRunning when an agent has it; any other error says only that
// the lock could not be taken.
func HoldState(path string) (release func() error, err error) { return hold(stateLock, path) }

func hold(l locked, path string) (release func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, fmt.Errorf("%s %s: make its directory: %w", l.what, path, err)
	}
	lock, err := takeLock(l, path)
	if err != nil {
		return nil, err
	}
	return func() error { return unlock(lock) }, nil
}
