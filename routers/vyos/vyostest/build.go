package vyostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest/store"
)

// binary is what all programs are, once it was built.
var binary struct {
	sync.Mutex
	text []byte
}

// build builds it at the first call of a process.
func build(ctx context.Context) ([]byte, error) {
	binary.Lock()
	defer binary.Unlock()
	if binary.text != nil {
		return binary.text, nil
	}
	dir, err := os.MkdirTemp("", "vyostestbuild")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out, err := command.Run(ctx, command.Spec{Path: "go", Env: append(os.Environ(), "CGO_ENABLED=0"),
		Args: []string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + "/standin", "vouch/routers/vyos/vyostest/standin"}})
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, fmt.Errorf("go build: %s", out.Stderr)
	}
	binary.text, err = os.ReadFile(dir + "/standin")
	return binary.text, err
}

// places are where the programs are.
var places = []string{
	"/usr/bin/cli-shell-api", "/opt/vyatta/sbin/my_set", "/opt/vyatta/sbin/my_delete", "/opt/vyatta/sbin/my_commit",
	"/opt/vyatta/sbin/my_discard", "/usr/libexec/vyos/vyos-save-config.py", "/usr/libexec/vyos/conf_mode/protocols_static.py",
	store.Hidden + "/expand", store.Hidden + "/hold",
}

// place writes the program once and gives it all its names.
func (s *System) place(text []byte) error {
	if err := executable(s.Path(places[0]), text); err != nil {
		return err
	}
	if err := s.names(places[1:]...); err != nil {
		return err
	}
	bash, err := command.Look("bash")
	if err != nil {
		return err
	}
	if text, err = os.ReadFile(bash); err != nil {
		return err
	}
	return executable(s.Path("/usr/bin/vbash"), text)
}

// names gives the program more names.
func (s *System) names(paths ...string) error {
	for _, p := range paths {
		if err := os.Link(s.Path(places[0]), s.Path(p)); err != nil {
			return err
		}
	}
	return nil
}

// executable writes a program. No process is started meanwhile: it would hold the file open for writing until
// it runs, and until then the kernel refuses to run the program.
func executable(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o755), f.Close())
}
