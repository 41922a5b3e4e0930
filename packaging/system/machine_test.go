//go:build system

// Package system tests the Debian package on whole machines: Debian booted with systemd in the network namespaces
// of a lab, with FRR, BIRD and unbound from its own packages, and a core router that tells what really is announced.
package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers/lab"
)

// patience bounds what has no promised time of its own. It is long: the machines of CI are slow.
const patience = 90 * time.Second

// A machine is a whole Debian that was booted on a node of the lab.
type machine struct {
	t      *testing.T
	node   *lab.Node
	root   string // its file system, as seen from here
	name   string
	nspawn *exec.Cmd
	ended  chan struct{}
	leader string // the pid of its systemd
}

// boot starts a machine of that release of Debian on the node. It ends with the test.
func boot(t *testing.T, nd *lab.Node, release string) *machine {
	t.Helper()
	m := assemble(t, nd, release)
	m.poweron()
	return m
}

// assemble is boot without the start.
func assemble(t *testing.T, nd *lab.Node, release string) *machine {
	t.Helper()
	base := filepath.Join(cache(), "machine-"+release)
	if _, err := os.Stat(filepath.Join(base, "etc/vouch-lab")); err != nil {
		t.Fatalf("no machine to boot: run make test-system, which makes it: %v", err)
	}
	dir := t.TempDir()
	m := &machine{t: t, root: filepath.Join(dir, "root"), name: nd.Namespace(), node: nd}
	for _, d := range []string{"up", "work", "root"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/up,workdir=%[2]s/work", base, dir)
	must(t, syscall.Mount("overlay", m.root, "overlay", 0, layers))
	t.Cleanup(func() {
		if err := syscall.Unmount(m.root, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", m.root, err)
		}
	})
	t.Cleanup(func() {
		if m.nspawn == nil {
			return
		}
		if t.Failed() {
			journal, _ := m.try("journalctl", "-b", "--no-pager", "-n", "150")
			t.Logf("the journal of %s:\n%s", m.name, journal)
		}
		m.poweroff()
	})
	return m
}

// poweron runs systemd-nspawn in a control group of the machine's own: two machines would share one otherwise.
func (m *machine) poweron() {
	m.t.Helper()
	const alone = `for c in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
	[ -e $c/cgroup.procs ] && mkdir -p $c/$0 && echo $$ >$c/$0/cgroup.procs
done
exec "$@"`
	log, err := os.Create(filepath.Join(m.node.Dir(), "machine.log")) // the lab shows its end when the test fails
	must(m.t, err)
	defer log.Close()
	m.nspawn = exec.Command("setsid", "sh", "-c", alone, m.name, "systemd-nspawn", "-b", "-q", "-D", m.root, "--register=no", "--keep-unit",
		"--machine="+m.name, "--network-namespace-path=/run/netns/"+m.name, "--capability=all", "--console=pipe")
	m.nspawn.Stdout, m.nspawn.Stderr = log, log
	if unified(m.root) {
		m.nspawn.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	must(m.t, m.nspawn.Start())
	cmd, ended := m.nspawn, make(chan struct{})
	m.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	m.await("systemd to be up", func() (bool, error) {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.nspawn.Process.Pid))
		m.leader, _, _ = strings.Cut(string(children), " ") // one that sets it up comes before systemd
		if m.leader == "" {
			return false, errors.New("no process in it yet")
		}
		out, err := m.try("systemctl", "is-system-running")
		return strings.HasPrefix(out, "running") || strings.HasPrefix(out, "degraded"), err
	})
}

// unified says whether the systemd in root wants control groups of version 2 (256 and later).
func unified(root string) bool {
	libs, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/systemd/libsystemd-core-*.so"))
	for _, l := range libs {
		version, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(l), "libsystemd-core-"), ".")
		if n, _ := strconv.Atoi(version); n >= 256 {
			return true
		}
	}
	return false
}

// poweroff ends the machine and waits for its end. Its disk stays.
func (m *machine) poweroff() {
	_, _ = m.try("systemctl", "poweroff")
	select {
	case <-m.ended:
	case <-time.After(30 * time.Second):
		m.t.Logf("%s did not power off, and is killed", m.name)
		_ = m.nspawn.Process.Kill()
		<-m.ended
	}
	for _, c := range []string{"", "systemd", "unified"} {
		top := filepath.Join("/sys/fs/cgroup", c, m.name)
		for _, d := range []string{"payload", "supervisor", ""} {
			_ = os.Remove(filepath.Join(top, d))
		}
	}
}

// try runs a program on the machine and gives what it printed.
func (m *machine) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", m.leader, "-m", "-u", "-i", "-n", "-p", "--", "env", "-i",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER="}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// do is try for what must succeed.
func (m *machine) do(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	must(m.t, err)
	return strings.TrimSpace(out)
}

// property gives one property of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return m.do("systemctl", "show", "-P", name, unit)
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	must(m.t, os.MkdirAll(filepath.Dir(m.file(path)), 0o755))
	must(m.t, os.WriteFile(m.file(path), []byte(text), 0o644))
}

// file gives the path from here of a file on the machine.
func (m *machine) file(path string) string { return filepath.Join(m.root, path) }

// await waits for a state of the machine.
func (m *machine) await(what string, ok func() (bool, error)) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	must(m.t, lab.Wait(ctx, m.name+": "+what, 50*time.Millisecond, ok))
}

func cache() string {
	if dir := os.Getenv("VOUCH_LAB_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/vouch-lab"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
