// Package owner keeps what root leaves behind usable for the agent, which runs as a user of its own.
package owner

import (
	"os"
	"path/filepath"
	"syscall"
)

// Share gives a file that root has made to the owner of its directory: a command or an agent that root starts must
// not lock the agent's user out of its own directories. For anybody else it does nothing.
func Share(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
