package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vouch/routers/vyos/vyostest/store"
)

// speech gives what the script of a commit tells its user by, when it refuses: commit shows it under a header. But
// before 1.5 vyos-configd runs the script, and has it write by name to the file where the process writes that the
// session is named after; a commit that another reads through a pipe says no reason then.
func (c *call) speech(style string) (say func(reason string), err error) {
	if !c.Configd || style != store.RerenderStatic { // before 1.4 a template does it, which is no script of vyos-configd's
		return func(reason string) { fmt.Print(nodeHeader, "\n", reason, "\n\n") }, nil
	}
	open := c.outlet()
	f, err := open()
	if err != nil {
		return nil, err
	}
	return func(reason string) {
		if f, err := open(); err == nil { // once more, and what was in it is gone once more
			_, err = fmt.Fprintf(f, "\n%s\n\n", reason)
			_ = errors.Join(err, f.Close())
		}
	}, f.Close()
}

// outlet opens what vyos-configd writes to, as it does for each script, whether that has anything to say or not. A
// file is emptied. To a pipe leads a name like "pipe:[4711]", and a file of that name comes to be in its working
// directory, which is /. Only of a session that is named after no process, and before the boot is done, it appends, to
// a file of its own.
func (c *call) outlet() func() (*os.File, error) {
	to, err := os.Readlink(filepath.Join("/proc", c.session.ID, "fd/1"))
	if _, boot := os.Stat(c.Path(store.Boot)); err != nil || boot != nil {
		return func() (*os.File, error) {
			f, err := os.OpenFile(c.Path(store.Configd), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
			if err == nil {
				err = f.Chown(0, c.GID)
			}
			return f, err
		}
	}
	if !filepath.IsAbs(to) {
		to = c.Path("/" + to)
	}
	return func() (*os.File, error) { return os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) }
}
