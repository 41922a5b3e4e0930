package vyostest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"vouch/routers/vyos/vyostest/store"
)

// prefix begins the name of every root, in the directory for temporary files.
const prefix = "vyostest-"

// ownerFile is locked by the process that made the system, as long as that lives.
const ownerFile = store.Hidden + "/owner"

// newRoot makes a root that belongs to this process until the file is closed. The file has its name only once it is
// locked: a sweep of another process would take it for that of a dead one.
func newRoot() (root string, owner *os.File, err error) {
	if root, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	if err = os.MkdirAll(root+store.Hidden, 0o755); err == nil {
		owner, err = os.OpenFile(root+ownerFile+".new", os.O_RDWR|os.O_CREATE, 0o644)
	}
	if err == nil {
		err = errors.Join(syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), os.Rename(owner.Name(), root+ownerFile))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(root))
	}
	return root, owner, nil
}

// sweep removes the systems of processes that died without closing theirs.
func sweep() {
	files, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*") + ownerFile)
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			s := &System{store: store.Store{Root: path[:len(path)-len(ownerFile)]}}
			s.kill()
			_ = os.RemoveAll(s.Root())
		}
		_ = f.Close()
	}
}
